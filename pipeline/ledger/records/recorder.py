"""Turn records into rows: the events that one command of an append-only file means on its own.

``arrow_batches`` converts the rows to Arrow; ``schema`` describes the events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from ....storage.streams.ids import InvalidID, parse
from .. import schema as on
from ..errors import LedgerError
from ..spelling import spell_name

if TYPE_CHECKING:
    from ..schema import Row

    Handler = Callable[[list[bytes]], None]

_POLICIES: Final = frozenset({b"KEEPREF", b"DELREF", b"ACKED"})

# Commands after which keys hold no stream, whatever they held, and where these keys are among the words.
_GONE: Final = {
    **dict.fromkeys(
        (b"SET SETEX PSETEX GETSET SUNIONSTORE SINTERSTORE SDIFFSTORE "
         b"ZUNIONSTORE ZINTERSTORE ZDIFFSTORE ZRANGESTORE GEOSEARCHSTORE").split(), slice(1, 2),
    ),
    b"BITOP": slice(2, 3),
    b"DEL": slice(1, None), b"UNLINK": slice(1, None),
    b"MSET": slice(1, None, 2), b"MSETNX": slice(1, None, 2),
}  # fmt: skip
_parse_last: Final = lru_cache(1 << 10)(parse)  # the XCLAIMs of one XREADGROUP have the same LASTID
_STORE_OPTION: Final = (b"SORT", b"GEORADIUS", b"GEORADIUSBYMEMBER")


class Recorder:
    """Converts commands to rows, one by one, in file order.

    It is the specification of the meaning of commands; ``sorter`` returns the same rows, faster.
    """

    def __init__(self, db: int = 0, clock: int | None = None) -> None:
        self.db = db  # the selected database
        self.clock = clock  # Unix milliseconds of the last annotation, None before the first
        self.in_transaction = False  # whether a MULTI is open
        self._handlers = dict(self.handlers())
        self.empty()

    def empty(self) -> None:
        """Drop the rows collected so far; keep the database, the clock and the transaction."""
        # The rows, with their ordinals.
        self.rows: list[Row] = []
        self.rows_at: list[int] = []
        self._add = self.rows.append

    def knows(self, name: bytes) -> bool:
        """Return True if commands with this name (upper case) may affect streams."""
        return name in self._handlers

    def take(self, command: list[bytes], ordinal: int) -> None:
        """Add the rows of a command that may affect streams.

        Raises LedgerError: it cannot be understood; the ledger would be wrong.
        """
        before = len(self.rows)
        try:
            self._handlers[command[0].upper()](command)
        except (AttributeError, LookupError, TypeError, ValueError, InvalidID) as error:
            raise LedgerError(f"not a record that a server writes: {_shown(command)}") from error
        made = len(self.rows) - before
        if made > on.RECORD:
            raise LedgerError(f"a record with more than {on.RECORD} rows: {_shown(command)}")
        self.rows_at += range(ordinal, ordinal + made)

    def _put(
        self,
        event: int,
        stream: bytes | None,
        group: bytes | None = None,
        entry_id: bytes | None = None,
        consumer: bytes | None = None,
        *,
        count: bytes | None = None,
        last: bytes | None = None,
        detail: bytes | None = None,
    ) -> None:
        self._add((self.db, stream, group, entry_id, consumer, event, None, count, last, self.clock, detail))

    # XCLAIM key group consumer 0 id TIME ms RETRYCOUNT n FORCE JUSTID LASTID id
    def _xclaim(self, words: list[bytes]) -> None:
        _, key, group, consumer, _, entry_id = words[:6]
        options = _options(words, 6, {b"TIME": 1, b"RETRYCOUNT": 1, b"FORCE": 0, b"JUSTID": 0, b"LASTID": 1})
        at, count, last = (options.get(name) for name in (b"TIME", b"RETRYCOUNT", b"LASTID"))
        event = claim_event(entry_id, last, count)
        self._add((self.db, key, group, entry_id, consumer, event, at, count, last, self.clock, None))

    # XADD key [NOMKSTREAM] [policy] [IDMP pid iid | IDMPAUTO pid] [MAXLEN|MINID [=] threshold [LIMIT n]] id field value …
    def _xadd(self, words: list[bytes]) -> None:
        place, trim, is_repeated = self._limits(words, 2)
        entry_id = words[place]
        if b"*" in entry_id:
            if is_repeated:
                return  # what this producer had sent before
            raise ValueError(entry_id)
        key = words[1]
        self._add(
            (
                self.db, key, None, entry_id, None, on.ADDED,
                entry_id.partition(b"-")[0], None, None, self.clock, None,
            )
        )  # fmt: skip
        self._trim(key, trim)

    # XTRIM key MAXLEN|MINID [=] threshold [LIMIT n] [policy]
    def _xtrim(self, words: list[bytes]) -> None:
        _, trim, _ = self._limits(words, 2)
        self._trim(words[1], trim)

    def _trim(self, key: bytes, trim: dict[bytes, bytes]) -> None:
        if trim:
            self._put(
                on.TRIMMED,
                key,
                count=trim.get(b"MAXLEN"),
                last=trim.get(b"MINID"),
                detail=trim.get(b"policy"),
            )

    @staticmethod
    def _limits(words: list[bytes], place: int) -> tuple[int, dict[bytes, bytes], bool]:
        """Parse options up to the id (or the end): return its index, the limit and policy, and whether IDMP is used."""
        limit: dict[bytes, bytes] = {}
        policy: bytes | None = None
        is_idempotent = False
        while place < len(words):
            option = words[place].upper()
            if option in {b"MAXLEN", b"MINID"}:
                place += 1
                # Servers resolve "~" before they write such files.
                if words[place] in {b"=", b"~"}:
                    place += 1
                limit[option] = words[place]
            elif option == b"LIMIT":
                place += 1
            elif option in _POLICIES:
                policy = option
            elif option in {b"IDMP", b"IDMPAUTO"}:
                is_idempotent = True
                place += 2 if option == b"IDMP" else 1
            elif option != b"NOMKSTREAM":
                break
            place += 1
        if limit and policy:
            limit[b"policy"] = policy
        return place, limit, is_idempotent

    # XACK key group id …, XDEL key id …
    # XACKDEL key group [policy] IDS n id …, XDELEX key [policy] IDS n id …
    def _each(self, event: int, *, has_policy: bool) -> Handler:
        """Return the handler of commands that acknowledge or delete entries."""
        first = 3 if event == on.ACKED else 2

        def handler(words: list[bytes]) -> None:
            ids, policy = words[first:], None
            if has_policy:
                options = _options(words, first, {b"IDS": None, **dict.fromkeys(_POLICIES, 0)})
                ids = options[b"IDS"]
                policy = next((each for each in _POLICIES if each in options), b"KEEPREF")
            for entry_id in ids:
                self._put(event, words[1], words[2] if first == 3 else None, entry_id, detail=policy)

        return handler

    # XNACK key group SILENT|FAIL|FATAL IDS n id … [RETRYCOUNT n] [FORCE]
    def _xnack(self, words: list[bytes]) -> None:
        options = _options(words, 4, {b"IDS": None, b"RETRYCOUNT": 1, b"FORCE": 0})
        mode = words[3].upper() + b" FORCE" * (b"FORCE" in options)
        for entry_id in options[b"IDS"]:
            self._put(on.NACKED, words[1], words[2], entry_id, count=options.get(b"RETRYCOUNT"), detail=mode)

    # XGROUP CREATE|SETID|DESTROY|CREATECONSUMER|DELCONSUMER key group …
    def _xgroup(self, words: list[bytes]) -> None:
        what, key, group = words[1].upper(), words[2], words[3]
        if what in {b"CREATE", b"SETID"}:
            count = None
            for place in range(5, len(words) - 1):
                if words[place].upper() == b"ENTRIESREAD":
                    count = words[place + 1]
            event = on.GROUP_CREATED if what == b"CREATE" else on.GROUP_SET
            self._put(event, key, group, count=count, last=words[4])
        elif what == b"DESTROY":
            self._put(on.GROUP_DESTROYED, key, group)
        elif what == b"CREATECONSUMER":
            self._put(on.CONSUMER_CREATED, key, group, None, words[4])
        elif what == b"DELCONSUMER":
            self._put(on.CONSUMER_DELETED, key, group, None, words[4])

    # XSETID key id [ENTRIESADDED n] [MAXDELETEDID id]
    def _xsetid(self, words: list[bytes]) -> None:
        options = {name.upper(): value for name, value in zip(words[3::2], words[4::2], strict=False)}
        self._put(on.STREAM_SET, words[1], count=options.get(b"ENTRIESADDED"), last=words[2])

    def _gone(self, keys: slice) -> Handler:
        """Return the handler of commands after which keys hold no stream."""

        def handler(words: list[bytes]) -> None:
            for key in words[keys]:
                self._put(on.KEY_DELETED, key)

        return handler

    # MSETEX numkeys key value … [options]
    def _msetex(self, words: list[bytes]) -> None:
        for key in words[2 : 2 + 2 * int(words[1]) : 2]:
            self._put(on.KEY_DELETED, key)

    # SORT key … STORE destination, GEORADIUS key … STORE|STOREDIST destination
    def _store(self, words: list[bytes]) -> None:
        for option, value in pairwise(words[2:]):
            if option.upper() in {b"STORE", b"STOREDIST"}:
                self._put(on.KEY_DELETED, value)

    def _flushdb(self, _words: list[bytes]) -> None:
        self._put(on.KEY_DELETED, None)

    def _flushall(self, _words: list[bytes]) -> None:
        self._add((None, None, None, None, None, on.KEY_DELETED, None, None, None, self.clock, None))

    # RENAME key newkey, RENAMENX key newkey
    def _rename(self, words: list[bytes]) -> None:
        _, source, target = words
        if source != target:
            self._put(on.KEY_COPIED, target, detail=_place(self.db, source))
            self._put(on.KEY_DELETED, source)

    # MOVE key db
    def _move(self, words: list[bytes]) -> None:
        _, key, target = words
        here, self.db = self.db, int(target)
        self._put(on.KEY_COPIED, key, detail=_place(here, key))
        self.db = here
        self._put(on.KEY_DELETED, key)

    # COPY source destination [DB n] [REPLACE]
    def _copy(self, words: list[bytes]) -> None:
        here = there = self.db
        for place in range(3, len(words) - 1):
            if words[place].upper() == b"DB":
                there = int(words[place + 1])
        self.db = there
        self._put(on.KEY_COPIED, words[2], detail=_place(here, words[1]))
        self.db = here

    # SWAPDB index index
    def _swapdb(self, words: list[bytes]) -> None:
        here, self.db = self.db, int(words[1])
        self._put(on.DATABASES_SWAPPED, None, detail=b"%d" % int(words[2]))
        self.db = here

    # RESTORE key ttl payload [REPLACE] [ABSTTL] …
    def _restore(self, words: list[bytes]) -> None:
        from .rdb_rows import restored_stream, stream_rows

        key = words[1]
        self._put(on.KEY_DELETED, key)
        if (stream := restored_stream(words[3])) is not None:
            self.rows += stream_rows(self.db, key, self.clock, stream)

    # SELECT index
    def _select(self, words: list[bytes]) -> None:
        self.db = int(words[1])

    def _multi(self, _words: list[bytes]) -> None:
        self.in_transaction = True

    def _exec(self, _words: list[bytes]) -> None:
        self.in_transaction = False

    def handlers(self) -> Iterator[tuple[bytes, Handler]]:
        """Yield the handlers by command name; commands without one do not affect streams."""
        for name in (
            b"XCLAIM XADD XTRIM XNACK XGROUP XSETID MSETEX FLUSHDB FLUSHALL RENAME MOVE "
            b"COPY SWAPDB RESTORE SELECT MULTI EXEC"
        ).split():
            yield name, getattr(self, f"_{name.decode().lower()}")
        for event, name, with_policy in (
            (on.ACKED, b"XACK", b"XACKDEL"), (on.DELETED, b"XDEL", b"XDELEX"),
        ):  # fmt: skip
            yield name, self._each(event, has_policy=False)
            yield with_policy, self._each(event, has_policy=True)
        yield b"RENAMENX", self._rename
        yield b"RESTORE-ASKING", self._restore
        for name in _STORE_OPTION:
            yield name, self._store
        for name, keys in _GONE.items():
            yield name, self._gone(keys)


def claim_event(entry_id: bytes, last: bytes | None, count: bytes | None) -> int:
    """Return the event of an XCLAIM: "delivered" if the entry is new to the group and its count is 1, else "claimed".

    ``last`` is its LASTID and ``count`` its RETRYCOUNT; None if the command does not have them.

    Raises InvalidID: a word is not an id.
    """
    first = count == b"1" and (last is None or parse(entry_id) >= _parse_last(last))
    return on.DELIVERED if first else on.CLAIMED


def _options(words: list[bytes], place: int, known: dict[bytes, int | None]) -> dict[bytes, Any]:
    """Parse the options of a command to its end.

    Args:
        place: where they begin.
        known: by name, whether a word follows (1), none (0), or a number and so many words (None).
    """
    found: dict[bytes, Any] = {}
    while place < len(words):
        name = words[place].upper()
        follows = known[name]
        place += 1
        if follows is None:
            count = int(words[place])
            found[name] = words[place + 1 : place + 1 + count]
            place += 1 + count
        else:
            found[name] = words[place] if follows else name
            place += follows
    return found


def _place(db: int, key: bytes) -> bytes:
    return b"%d %b" % (db, spell_name(key).encode())


def _shown(command: list[Any]) -> str:
    words = (
        word.decode(errors="backslashreplace") if isinstance(word, bytes) else repr(word)
        for word in command[:8]
    )
    text = " ".join(words)[:200]
    return text if len(command) <= 8 else f"{text} …"
