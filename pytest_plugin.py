"""Rillet's pytest fixtures. The plugin is always active and light to import: the server is loaded on first use.

``rillet_server``: a ``rillet.testing.Server``, reset before the test; shared by tests of the same configuration.
``rillet``: a redis-py client on that server.
``rillet_async``: a ``redis.asyncio`` client on it (pytest-asyncio, or the plugin of anyio).
``rillet_factory``: starts servers for one test.
``rillet_session_server``: the server that tests without a marker share, for fixtures of a wider scope.

The marker ``rillet`` and the ini option ``rillet`` configure them; ``--rillet-url`` runs the tests on another server.
"""

from __future__ import annotations

import contextlib
import os
import sys
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    import redis
    import redis.asyncio

    from . import testing


class _AsCompiled:
    """Finds Rillet's own modules without pytest's assertion rewriting.

    pytest recompiles each module of a package with a plugin, to explain its asserts. For the server's 310 modules that took
    1.0 s of the first run after an installation (2026-11-29), and in CI every run is the first.
    """

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # Python's finder lists each folder, and stats it again for each of its modules: 2 ms of a first test.
        if path and name.startswith(f"{__package__}."):
            place = f"{path[0]}{os.sep}{name.rpartition('.')[2]}"
            for file, folders in ((f"{place}.py", None), (f"{place}{os.sep}__init__.py", [place])):
                if os.path.isfile(file):  # noqa: PTH113 - a Path takes three times as long
                    loader = SourceFileLoader(name, file)
                    return spec_from_file_location(name, loader=loader, submodule_search_locations=folders)
        return None


sys.meta_path.insert(0, _AsCompiled)

_TOLD: Final = frozenset({"rillet_server", "rillet"})  # fixtures that learn their test from the hook
_request: Final[list[pytest.FixtureRequest]] = []  # of the one that is set up


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini options and ``--rillet-url``."""
    parser.addini(
        "rillet",
        "options of all Rillet servers and clients, one a line: compat_version=7.2, decode_responses=yes",
        type="linelist",
    )
    parser.addini(
        "rillet_report",
        "record the last commands of each test with a Rillet server, and show them with its state if it fails",
        type="bool",
        default=True,
    )
    parser.getgroup("rillet").addoption(
        "--rillet-seed",
        type=int,
        metavar="N",
        help="run each test of rillet.testing.simulation at this seed only",
    )
    parser.getgroup("rillet").addoption(
        "--rillet-url",
        metavar="URL",
        help="run the tests of Rillet's fixtures on this Redis or Valkey; its data is removed before each test",
    )
    parser.getgroup("rillet").addoption(
        "--rillet-flush",
        action="store_true",
        help="let --rillet-url name a server or a database that holds data, and remove that data",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "rillet(**options): directives of the Rillet server and options of the redis-py client of this test",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tell the simulation module which test runs, and at which seed."""
    used = sys.modules.get(f"{__package__}.testing.simulating.decorator")
    if used is not None:
        used.begin_test(
            item.nodeid,
            item.config.getoption("rillet_seed"),
            is_verbose=item.config.get_verbosity() > 1,
            say=_sayer(item.config),
        )


def _sayer(config: pytest.Config) -> Callable[[str], None] | None:
    """Return a function that prints a line during a test; None in a pytest-xdist worker, which has no terminal."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    if terminal is None or hasattr(config, "workerinput"):
        return None

    def say(line: str) -> None:
        with contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled():
            terminal.ensure_newline()
            terminal.write_line(line)

    return say


def pytest_sessionstart(session: pytest.Session) -> None:
    """Check the server of ``--rillet-url`` before any test runs."""
    if session.config.getoption("rillet_url") and not hasattr(session.config, "workerinput"):
        from .testing.fixtures import check_url

        check_url(session.config)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    """Tell this plugin's fixtures their request; reset the session server for fixtures of a wider scope.

    For a parameter ``request``, pytest creates and inspects a function twice, which takes 26 us of each test.
    """
    if fixturedef.scope == "function":
        if fixturedef.argname in _TOLD:
            _request[:] = (request,)
    else:
        used = sys.modules.get(f"{__package__}.testing.fixtures")
        if used is not None:
            used.begin_wide(fixturedef, request)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add a section about its servers to the report of a failed test."""
    report = yield
    used = sys.modules.get(f"{__package__}.testing.fixtures")
    if report.failed and used is not None:
        used.add_section(item, report)
    return report


def _fixtures() -> ModuleType:
    """Return the module that implements the fixtures."""
    name = f"{__package__}.testing.fixtures"
    if name not in sys.modules:
        from .storage.gc_pause import gc_paused

        with gc_paused():  # an import creates no garbage
            import_module(name)
    return sys.modules[name]


@pytest.fixture(scope="session")
def rillet_session_server(request: pytest.FixtureRequest) -> Any:
    """The server that tests without a marker share, for fixtures of a session or a module that load data.

    It is reset before such a fixture, whatever earlier tests have left.
    """
    return _fixtures().session_server(request.session)


@pytest.fixture
def rillet_server() -> Iterator[Any]:
    """A freshly reset ``rillet.testing.Server``, as the marker and the ini option ``rillet`` configure it."""
    yield from _fixtures().server_of_test(_request.pop().node)


@pytest.fixture
def rillet(rillet_server: testing.Server) -> Iterator[redis.Redis]:
    """A redis-py client on a freshly reset server."""
    yield from _fixtures().client(_request.pop().node, rillet_server)


@pytest.fixture
def rillet_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., testing.Server]]:
    """A function that starts a ``rillet.testing.Server``; all of them are stopped at the end of the test."""
    yield from _fixtures().factory(request.node)


@pytest.fixture
def rillet_async(request: pytest.FixtureRequest) -> redis.asyncio.Redis:
    """A ``redis.asyncio`` client on a freshly reset server."""
    # Each plugin must run the coroutine in the test's loop, and only one of them may see it.
    by_anyio = "anyio_backend" in request.fixturenames
    if not by_anyio and not request.config.pluginmanager.hasplugin("asyncio"):
        pytest.fail(
            "rillet_async needs a plugin that runs async tests: pip install pytest-asyncio, or mark the test with "
            "pytest.mark.anyio (pip install anyio)",
            pytrace=False,
        )
    if by_anyio and "trio" in str(request.getfixturevalue("anyio_backend")):
        pytest.fail(
            "redis.asyncio does not run in trio: let anyio_backend be 'asyncio' in this test", pytrace=False
        )
    name = _BY_ANYIO if by_anyio else f"{_BY_ASYNCIO}{_loop_scope(request.node)}"
    client: redis.asyncio.Redis = request.getfixturevalue(name)
    return client


_BY_ANYIO: Final = "_rillet_async_by_anyio"
_BY_ASYNCIO: Final = "_rillet_async_by_asyncio"  # followed by the scope of the loop; "": as the ini file says


def _loop_scope(item: pytest.Item) -> str:
    """Return the scope of the event loop in which pytest-asyncio runs a test; "" if unknown."""
    marker = item.get_closest_marker("asyncio")
    if marker is None or not _LOOP_SCOPES:
        return ""
    default = item.config.getini("asyncio_default_test_loop_scope")
    return str(marker.kwargs.get("loop_scope") or marker.kwargs.get("scope") or default)


def _make_async() -> Callable[..., AsyncIterator[redis.asyncio.Redis]]:
    """Return a new function for a fixture; pytest-asyncio keeps the scope of its loop as an attribute."""

    async def lend_client(
        request: pytest.FixtureRequest, rillet_server: testing.Server
    ) -> AsyncIterator[redis.asyncio.Redis]:
        from .testing.clients import close

        client = _fixtures().async_client(request.node, rillet_server)
        try:
            yield client
        finally:
            await close(client)

    return lend_client


_rillet_async_by_anyio = pytest.fixture(name=_BY_ANYIO)(_make_async())
_LOOP_SCOPES: tuple[Literal["function", "class", "module", "package", "session"], ...] = ()

try:
    import pytest_asyncio
except ImportError:
    pass  # rillet_async says what is missing
else:
    _rillet_async_by_asyncio = pytest_asyncio.fixture(name=_BY_ASYNCIO)(_make_async())
    # Older versions have no ini option with the scope of the tests.
    if int(pytest_asyncio.__version__.partition(".")[0]) >= 1:
        _LOOP_SCOPES = ("function", "class", "module", "package", "session")
    for _scope in _LOOP_SCOPES:
        globals()[f"_rillet_async_in_{_scope}"] = pytest_asyncio.fixture(
            name=f"{_BY_ASYNCIO}{_scope}", loop_scope=_scope
        )(_make_async())
