"""DEBUG AOF-HISTORY: show the history of one stream entry in the server's own append-only file.

::

    DEBUG AOF-HISTORY key id [cursor]

Like SCAN, it replies after a bounded part of the file, so that other clients are served between two parts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from time import perf_counter
from typing import Final

from ....commands.runtime.client import Client
from ....protocol import replies
from ....protocol.errors import ReplyError
from ....storage.aof.piece import Position, Record, begins_with_data, read_piece
from ....storage.loading import AofError
from ....storage.streams.ids import InvalidID, parse

_NO_FILE: Final = b"ERR DEBUG AOF-HISTORY needs appendonly yes: there is no append-only file"
_CURSOR: Final = re.compile(rb"(\d{1,18}):(\d{1,18}):(\d{1,9}):(\d{1,19})")
_TURN: Final = 0.004  # seconds after which a reply ends with the current piece
_MOST_PIECES: Final = 64  # pieces in one reply
_MOST_WORDS: Final = 64  # words of a command in the reply
_WHOLE_KEY: Final = frozenset({b"RENAME", b"RENAMENX", b"MOVE", b"RESTORE", b"SET"})


def aof_history(client: Client, args: list[bytes]) -> bytes:
    """Show the commands in a part of the file that concern an entry in the client's database, oldest first.

    The reply is ``[cursor, left, base, commands]``. The cursor continues after this part. ``left`` is the number of bytes
    that follow in the file; at 0 the cursor shows later additions. ``base`` is 1 if the file begins with data (from a
    rewrite, or older), whose history the file does not contain. Each command is ``[time, words]``. The time is that of the
    last annotation before it in milliseconds (aof-timestamp-enabled), or null. Only the first 64 words of a long command are
    shown, and only the first bytes of long words.

    The commands shown are XADD, XCLAIM (also the form of deliveries), XACK, XNACK, XACKDEL, XDEL and XDELEX with this ID; XADD
    and XTRIM with a MINID above it; XGROUP DESTROY and DELCONSUMER of the key; and any that removes or replaces the key.
    XGROUP SETID, which follows each XREADGROUP and names no entry, is not shown.

    Raises ReplyError: there is no file, or it is damaged in this part; or the ID or the cursor is invalid.
    """
    aof = client.server.persistence.aof
    key, entry_id = args[2], parse(args[3])
    if aof is None or aof.is_detached:
        raise ReplyError(
            _NO_FILE if aof is None else b"ERR The first rewrite of the append-only file is not over"
        )
    position = Position()
    if len(args) == 5:
        given = _CURSOR.fullmatch(args[4])
        if given is None:
            raise ReplyError(b"ERR invalid cursor")
        position = Position(*map(int, given.groups()))
    aof.write()
    database, longest, until = client.db.index, max(1024, len(key)), perf_counter() + _TURN
    found: list[Record] = []
    try:
        base = begins_with_data(aof.directory, aof.manifest)
        for _ in range(_MOST_PIECES):
            records, position, left = read_piece(aof.directory, aof.manifest, position, longest)
            found += [
                record
                for record in records
                if _concerns(record.words, key, entry_id, same=record.database == database)
            ]
            if not left or perf_counter() > until:
                break
    except (AofError, OSError) as error:
        raise ReplyError(b"ERR %b" % str(error).encode()) from error
    cursor = b"%d:%d:%d:%d" % (position.seq, position.offset, position.database, position.time)
    commands = [(record.time or None, record.words[:_MOST_WORDS]) for record in found]
    return replies.plain((cursor, left, base, commands), client.resp)


def _concerns(words: list[bytes], key: bytes, entry_id: int, *, same: bool) -> bool:
    """Return True if a command concerns an entry or its key; ``same``: it ran in the same database."""
    name = words[0].upper()
    if name in {b"FLUSHALL", b"SWAPDB"}:
        return True
    if not same or len(words) < 2:
        return name == b"FLUSHDB" and same
    if name in {b"DEL", b"UNLINK"}:
        return key in words[1:]
    if name == b"XGROUP":
        fewest = {b"DESTROY": 4, b"DELCONSUMER": 5}.get(words[1].upper())
        return words[2:3] == [key] and fewest is not None and len(words) >= fewest
    if words[1] != key:
        return name in {b"RENAME", b"RENAMENX", b"COPY"} and words[2:3] == [key]
    if name in _WHOLE_KEY:
        return True
    if name in {b"XADD", b"XTRIM"}:
        return _adds_or_trims(words, entry_id)
    return entry_id in map(_number, _ids(name, words))


def _ids(name: bytes, words: list[bytes]) -> Sequence[bytes]:
    if name == b"XDEL":
        return words[2:]
    if name == b"XACK":
        return words[3:]
    if name == b"XCLAIM":  # stop at options, because the value of TIME may look like an ID
        return list(takewhile(lambda word: word[:1].isdigit(), words[5:]))
    if name in {b"XNACK", b"XACKDEL", b"XDELEX"}:
        upper = [word.upper() for word in words[: 6 if name == b"XNACK" else 5]]
        at = upper.index(b"IDS", 2) if b"IDS" in upper[2:] else len(words)
        return words[at + 2 :]
    return ()


def _adds_or_trims(words: list[bytes], entry_id: int) -> bool:
    at = 2
    while at < len(words):
        word = words[at].upper()
        if word in {b"MAXLEN", b"MINID"}:
            at += 1 + (words[at + 1 : at + 2] in ([b"="], [b"~"]))
            least = _number(words[at]) if word == b"MINID" and at < len(words) else None
            if least is not None and least > entry_id:
                return True
            at += 1
        elif word in {b"NOMKSTREAM", b"KEEPREF", b"DELREF", b"ACKED"}:
            at += 1
        elif word in {b"LIMIT", b"IDMPAUTO"}:
            at += 2
        elif word == b"IDMP":
            at += 3
        else:
            return words[0].upper() == b"XADD" and _number(word) == entry_id
    return False


def _number(word: bytes) -> int | None:
    """Return an ID as a number; None if it is invalid."""
    try:
        return parse(word)
    except InvalidID:
        return None
