"""The report about a server that pytest shows after a failed test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from .log import escaped
from .recording import RecordingError
from .server import Server

_COMMANDS: Final = 30
_STREAMS: Final = 10
_PENDING: Final = 5
_LOG_LINES: Final = 20
_WIDTH: Final = 200
# Commands that client libraries send on each connection.
_GREETINGS: Final = ("CLIENT SETINFO", "CLIENT MAINT_NOTIFICATIONS", "HELLO")


def describe(server: Server, logged: int) -> str:
    """Describe a server's faults, commands, streams and log; name the parts that it can no longer provide.

    ``logged``: the number of lines in its log when the test began.
    """
    lines = [f"server {server.url}"]
    for part in (_faults, _commands, _streams):
        lines += _said(part, server)
    log = server.log.text(logged).splitlines()
    lines += ["log:", *log[-_LOG_LINES:]] if log else []
    shown = "\n".join(line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…" for line in lines)
    return escaped(shown)  # names may be any bytes


def _said(part: Callable[[Server], Iterator[str]], server: Server) -> list[str]:
    import hiredis

    lines: list[str] = []
    try:
        lines.extend(part(server))
    except (OSError, RuntimeError, LookupError, hiredis.ReplyError) as error:
        # A server that has ended must not hide the failure of the test.
        lines.append(f"  (the server does not say more: {error})")
    return lines


def _faults(server: Server) -> Iterator[str]:
    lines = []
    for fault in server.made_faults:
        try:
            count, hits = fault.count, fault.hits
        except RuntimeError as error:  # a reset or a restart has ended it
            lines.append(f"  {error}")
            continue
        names = dict.fromkeys(each.client or f"id={each.client_id}" for each in hits)
        lines += [f"  {fault.options}: {count} times, {', '.join(names)}"] if count else []
    if lines:
        yield "faults that hit:"
        yield from lines


def _commands(server: Server) -> Iterator[str]:
    if server.watched is None:
        return
    try:
        seen = server.watched.of()
    except RecordingError as error:
        yield f"commands: {error}"
        return
    last = [each for each in seen if not any(map(each.is_a, _GREETINGS))][-_COMMANDS:]
    if last:
        yield f"the last {len(last)} commands by client:"
    clients = dict.fromkeys((each.client_id, each.client) for each in last)
    for number, name in clients:
        yield f"  {name or 'a client without a name'} (id={number})"
        for each in last:
            if (each.client_id, each.client) == (number, name):
                yield f"    {each}"


def _streams(server: Server) -> Iterator[str]:
    names = server.streams()
    for name in names[:_STREAMS]:
        stream = server.stream(name)
        yield f"stream {name}: {stream.length} entries"
        for group in stream.groups:
            lag = "unknown" if group.lag is None else group.lag
            yield f"  group {group.name}: {len(group.pending)} pending, lag {lag}"
            yield from (f"    {each}" for each in group.pending[:_PENDING])
            if len(group.pending) > _PENDING:
                yield f"    … and {len(group.pending) - _PENDING} more"
    if len(names) > _STREAMS:
        yield f"… and {len(names) - _STREAMS} more streams"
