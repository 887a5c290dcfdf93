"""The implementation of the fixtures in ``pytest_plugin.py``; loaded when a test first uses one."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import pytest

from .control import ControlError
from .options import Options, parse, split
from .pool import Pool
from .process import StartError
from .server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis
    import redis.asyncio

    from .remote import RemoteRillet

MARKER: Final = "rillet"
# The servers of a test, each with the number of log lines before the test.
SERVERS: Final[pytest.StashKey[list[tuple[Server, int]]]] = pytest.StashKey()
_USED: Final[set[Server | RemoteRillet]] = set()  # servers that tests used since the last wider fixture
_OF_SESSION: Final[pytest.StashKey[Options]] = pytest.StashKey()
_SERVERS: Final[pytest.StashKey[Pool | RemoteRillet]] = pytest.StashKey()


def _servers_of(session: pytest.Session) -> Pool | RemoteRillet:
    """Return the session's pool of servers, or the server of ``--rillet-url``.

    It is no fixture, because a fixture that another one requests costs each test 25 us, even if it is cached.
    """
    found = session.stash.get(_SERVERS, None)
    if found is None:
        url = session.config.getoption("rillet_url")
        with contextlib.ExitStack() as stack:
            if url:
                from .remote import RemoteRillet

                found = stack.enter_context(RemoteRillet(url))
                stack.callback(found.reset)
            else:
                found = stack.enter_context(Pool())
            session.stash[_SERVERS] = found
            session.addfinalizer(stack.pop_all().close)
    return found


def session_server(session: pytest.Session) -> Server | RemoteRillet:
    """Return the server that tests without markers use: its options are those of the ini file."""
    servers = _servers_of(session)
    return servers.get(_of_session(session.config).server) if isinstance(servers, Pool) else servers


def begin_wide(fixture: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    """Reset the session's server before a class, module or session fixture that uses it.

    Reset it only if a test has used it since the last such fixture. Otherwise its data comes from another wider
    fixture, and is kept.
    """
    if fixture.argname == "rillet_session_server" or not _USED:
        return
    names, seen = list(fixture.argnames), set[str]()
    while names:
        name = names.pop()
        if name == "rillet_session_server":
            server = session_server(request.session)
            if server in _USED:
                _USED.clear()
                server.reset()
            return
        if name not in seen and name != "request":
            seen.add(name)
            names += request._get_active_fixturedef(name).argnames  # noqa: SLF001 - pytest has no other way


def server_of_test(item: pytest.Item) -> Iterator[Server | RemoteRillet]:
    """Yield the freshly reset server that a test's markers and the ini option configure."""
    server = _server_of_test(item)
    yield server
    server.check_faults()


def _server_of_test(item: pytest.Item) -> Server | RemoteRillet:
    options, servers = options_of(item), _servers_of(item.session)
    if not isinstance(servers, Pool):
        own = sorted(split(_marked(item)).server)
        if own:
            pytest.skip(f"needs a Rillet with {', '.join(own)}, and --rillet-url names a server that runs")
        servers.reset()
        _USED.add(servers)
        return servers
    server = servers.find(options.server)
    _USED.add(server)
    _note(item, server)
    if item.config.getini("rillet_report"):
        server.made_faults.clear()
        server.watch_from_reset()
    try:
        server.reset()
    except ControlError:
        if server.running:
            raise
        server.start()  # a test has ended it
        server.reset()
    return server


def client(item: pytest.Item, server: Server | RemoteRillet) -> Iterator[redis.Redis]:
    """Yield the redis-py client of a test; its ``rillet_server`` may be a fixture of the user's own."""
    with server.client_of_test(**options_of(item).client) as connected:
        yield connected


def async_client(item: pytest.Item, server: Server | RemoteRillet) -> redis.asyncio.Redis:
    """Return the asynchronous client of the server's test."""
    return server.async_client(**options_of(item).client)


def factory(item: pytest.Item) -> Iterator[Callable[..., Server]]:
    """Yield a function that starts servers, and stop all of them at the end of the test."""
    if item.config.getoption("rillet_url"):
        pytest.skip("starts Rillet servers of its own, and --rillet-url names a server that runs")
    defaults = _of_session(item.config).server
    with contextlib.ExitStack() as stack:

        def start(**options: Any) -> Server:
            """Start a server; ``options`` are those of ``rillet.testing.Server`` and override the ini option."""
            server = Server(**defaults | options)
            stack.callback(server.stop)
            _note(item, server)
            server.start()
            if item.config.getini("rillet_report"):
                server.watch()
            return server

        yield start


def add_section(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add a section about a failed test's servers to its report, unless the ini option ``rillet_report`` is off."""
    if item.config.getini("rillet_report"):
        for server, logged in item.stash.get(SERVERS, ()):
            from .report import describe

            report.sections.append(("Rillet", describe(server, logged)))


def options_of(item: pytest.Item) -> Options:
    """Return a test's options: those of the ini file, overridden by its markers; the closest marker wins."""
    marked = _marked(item)
    return _split(_ini(item.config) | marked) if marked else _of_session(item.config)


def check_url(config: pytest.Config) -> None:
    """Refuse a ``--rillet-url`` server that cannot be reached, is shared by pytest-xdist workers, or holds data.

    Raises:
        pytest.UsageError: with the reason.
    """
    url = config.getoption("rillet_url")
    if (config.getoption("numprocesses", None) or 0) > 1:
        raise pytest.UsageError("--rillet-url: the workers of pytest-xdist would share one server; use -n 0")
    import hiredis

    from .remote import RemoteRillet

    try:
        with RemoteRillet(url) as remote:
            empty = config.getoption("rillet_flush") or remote.is_empty()
    except (StartError, ControlError, hiredis.ReplyError, ValueError) as error:
        raise pytest.UsageError(f"--rillet-url {url}: {error}") from None
    if not empty:
        raise pytest.UsageError(
            f"--rillet-url {url}: it holds data, and all of it would be removed before each test. If this is "
            "the right server, say --rillet-flush or empty it yourself; or name a database of its own: /5 after the port."
        )


def _note(item: pytest.Item, server: Server) -> None:
    item.stash.setdefault(SERVERS, []).append((server, server.log.count))


def _of_session(config: pytest.Config) -> Options:
    found = config.stash.get(_OF_SESSION, None)
    if found is None:
        found = config.stash[_OF_SESSION] = _split(_ini(config))
    return found


def _ini(config: pytest.Config) -> dict[str, Any]:
    try:
        return parse(config.getini("rillet"))
    except ValueError as error:
        raise pytest.UsageError(f"ini option rillet: {error}") from None


def _marked(item: pytest.Item) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError(f"@pytest.mark.rillet takes options by name: {marker.args!r}")
        options |= marker.kwargs
    return options


def _split(options: dict[str, Any]) -> Options:
    try:
        return split(options)
    except ValueError as error:
        raise pytest.UsageError(f"rillet: {error}") from None
