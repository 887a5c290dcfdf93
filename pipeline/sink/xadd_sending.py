"""Send packed XADD commands, and check the replies: refused ids (``oldIds``) and confirmations (``wait``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ..error_tokens import LabelledError
from ..redis import ids
from ..redis.connection import Connection, ServerError
from .options import SinkOptions
from .xadd_encoding import Chunk

DIRECT_ROWS: Final = 1000
_OLD_ID: Final = "equal or smaller than the target stream top item"
_OUT_OF_ORDER: Final = (
    "the id is below the stream's last one and there is no such entry: ids must ascend (sort the rows, in one "
    "partition), or say oldIds=skip"
)
_SHOWN: Final = 3


class SinkError(LabelledError, RuntimeError):
    """Rows could not be written; the text names rows and the server's errors."""

    label = "NOT_WRITTEN"


def send(connection: Connection, options: SinkOptions, chunks: Iterable[Chunk]) -> None:
    """Write rows from a task, without a transaction; after a broken connection, send commands without a reply again.

    With ``idmp`` the server drops the rows that it already has; with ``at-least-once`` they may be written twice.

    Raises:
        SinkError: the server replied with an error.
        ConnectionLost: the server stays unreachable.
    """
    if options.delivery == "idmp":
        refuse_without_idmp(connection)
    has_sent = False
    if options.wait:
        # WAIT covers only the writes of its own connection; on another connection it would wait for nothing.
        connection.hold()
    for chunk in chunks:
        if options.stream is None and options.endpoint.kind == "cluster":
            replies = connection.pipeline(chunk.commands(), repeatable=True)
        else:
            names = ["XADD"] * chunk.rows
            replies = connection.exchange(chunk.data, names, repeatable=True, key=options.stream or b"")
        check(connection, options, chunk, replies)
        has_sent = True
    if options.wait and has_sent:
        for server in connection.written():
            check_wait(options, server.pipeline(options.wait_commands))


def refuse_without_idmp(connection: Connection) -> None:
    """Check that the server supports XADD's IDMP, by a command of the same version.

    Raises SinkError: the server does not know it.
    """
    if connection.call("COMMAND", "INFO", "XCFGSET")[0] is None:
        raise SinkError(
            f"delivery=idmp needs XADD IDMP (Redis 8.6 or Rillet), which the server at {connection.endpoint} does not have: "
            "use delivery=exactly-once"
        )


def check(connection: Connection, options: SinkOptions, chunk: Chunk, replies: Sequence[Any]) -> None:
    """Check that each XADD succeeded.

    Raises SinkError: an XADD failed. Explicit ids that exist already are no error.
    """
    failed = [(row, reply) for row, reply in enumerate(replies) if isinstance(reply, ServerError)]
    if not failed:
        return
    commands = chunk.commands()
    wrong = [(commands[row], reply.words) for row, reply in failed if _OLD_ID not in reply.words]
    old = [commands[row] for row, reply in failed if _OLD_ID in reply.words]
    if old and not wrong and options.old_ids == "check":
        missing = _not_there(connection, options, old)
        wrong = [(words, _OUT_OF_ORDER) for words in missing]
    elif old and options.id_column is None:
        wrong += [(words, _OLD_ID) for words in old]
    if wrong:
        raise SinkError(_failure_text(wrong, chunk.rows))


def check_wait(options: SinkOptions, replies: Sequence[Any]) -> None:
    """Check the replies of ``options.wait_commands`` (WAIT, WAITAOF).

    Raises SinkError: the confirmations did not come in time; the rows are in the server all the same.
    """
    for (name, number, *_), reply in zip(options.wait_commands, replies, strict=True):
        if isinstance(reply, ServerError):
            raise SinkError(f"the server refused {name} (option 'wait'): {reply.words}")
        if name == "WAIT" and reply < number:
            missing = f"{reply} of {number} replicas have"
        elif name == "WAITAOF" and reply[0] < 1:
            missing = "the server's append-only file does not have"
        else:
            continue
        raise SinkError(
            f"{missing} what was written, after {options.wait_timeout_ms} ms (options 'wait' and 'waitTimeoutMs'): it is in the "
            "server, but the batch is not done"
        )


def _not_there(connection: Connection, options: SinkOptions, old: Sequence[list[bytes]]) -> list[list[bytes]]:
    """Return the rows refused as old that were never written: not in the stream, nor below its first entry."""
    at = 2 + len(options.trim)
    firsts = {words[1]: _first(connection, words[1]) for words in old}
    found = connection.pipeline([("XRANGE", words[1], words[at], words[at]) for words in old])
    missing = []
    for words, reply in zip(old, found, strict=True):
        first = firsts[words[1]]
        trimmed = first is None or (words[at].replace(b"-", b"").isdigit() and ids.parse(words[at]) < first)
        if not trimmed and (isinstance(reply, ServerError) or not reply):
            missing.append(words)
    return missing


def _first(connection: Connection, stream: bytes) -> int | None:
    entries = connection.call("XRANGE", stream, "-", "+", "COUNT", 1)
    return ids.parse(entries[0][0]) if entries else None


def _failure_text(wrong: Sequence[tuple[list[bytes], str]], rows: int) -> str:
    lines = [
        f"{text} [{b' '.join(words[:8]).decode(errors='backslashreplace')[:120]}]"
        for words, text in wrong[:_SHOWN]
    ]
    more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    return f"{len(wrong)} of {rows} XADD failed: {'; '.join(lines)}{more}"
