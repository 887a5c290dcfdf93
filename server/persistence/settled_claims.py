"""Load XCLAIM records that an XACK follows soon after, without making their entries pending in between.

Workers that read and acknowledge leave little else in a file: the XADD of an entry, its XCLAIM (from Redis 8 on with an
XGROUP SETID, in MULTI and EXEC), and later its XACK. Such an entry is called *settled*. The contract:

1. A *run* is a sequence of such records, for any streams and groups of one database, with canonical IDs. Any other record
   ends it, for example an XADD with options or without a new ID, or a claim of an entry that is not added yet.
2. An entry that is claimed and then acknowledged is not pending afterwards, whatever it was before. So both records are
   skipped. The group's last ID moves as the claims would move it. Since 7.2 a claim updates the consumer's seen-time even
   when it claims nothing; the active-time changes only when it claims something.
3. The XADDs of each stream run first, together: no other record of a run refers to an entry that is added after it. An
   ENTRIESREAD that counts such an entry ends the run.
4. The other records do not concern settled entries. For each group they run in this order: acknowledgements of other
   entries, the claims that no XACK follows, and the last SETID. These and the XADDs run like other records.
5. Settling does not change the data or any reply: ``tests/server/persistence/test_settled_claims.py``.

A file of entries that are read and acknowledged loads in 0.40 to 0.67 of the time that it takes without settling. That is
1.05 to 1.4 times the time of Redis instead of 1.6 to 3.4 (``benchmarks/loading.py --quick``, 2026-11-27). With entries of
three fields a workers' file of Redis 8.10.2 takes 0.55 of the time if they read ten at a time, 0.33 if they read one
(2026-11-28).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice
from typing import Final

from ...commands.runtime.client import Client
from ...storage.groups.group import Group
from ...storage.streams.ids import encode
from ...storage.streams.stream import Stream

_FEWEST: Final = 4  # settled claims; with fewer, the walk costs more than it saves
_SOON: Final = 16  # claims without an XACK, from which on the walk looks ahead for one
_MOST_OPEN: Final = 256  # claims without an XACK, at which the walk ends: ``join_claims`` takes larger reads
_WORDS: Final = frozenset((b"XADD", b"XCLAIM", b"XACK", b"XGROUP", b"MULTI", b"EXEC"))
_DIGITS: Final = 19  # a number with this many digits surely fits 64 bits
_ZERO: Final = ord("0")
_CLAIM: Final = 14  # words
_CLAIM_TERMS: Final = [b"TIME", b"RETRYCOUNT", b"FORCE", b"JUSTID", b"LASTID"]
_SET_ID: Final = 7  # words
_BRACKETS: Final = ([b"MULTI"], [b"EXEC"])


class SettledClaims:
    """Loads XCLAIM records that an XACK follows in the same batch, without making their entries pending.

    Args:
        client: runs the commands of the file.
        batch: successive commands of the append-only file.
        replay: runs commands normally.
    """

    def __init__(
        self, client: Client, batch: list[list[bytes]], replay: Callable[[list[list[bytes]]], None]
    ) -> None:
        self._client = client
        self._batch = batch
        self._replay = replay
        self._in_vain = 0

    def settle(self, at: int) -> int:
        """Apply the run of records that begins with the XCLAIM at ``batch[at]``, if it is long enough to save time.

        Return the number of records applied; 0, with nothing changed, if fewer than `_FEWEST` of its claims have
        their XACK in it.
        """
        batch = self._batch
        server, db = self._client.server, self._client.db
        # Check the shortest possible run before the walk: where entries are read as they arrive, other records lie between claims.
        if (
            at < self._in_vain
            or len(batch[at]) != _CLAIM
            or not _WORDS.issuperset([argv[0] for argv in batch[at : at + 2 * _FEWEST]])
            or server.propagation.active
            or not server.compat.creates_consumer_on_empty_read
        ):
            return 0
        run = _Run(self._client)
        run.walk(batch, at)
        groups, adds = run.groups.values(), run.adds
        if sum([group.claims for group in groups]) < _FEWEST or (
            sum(map(len, chain.from_iterable(adds))) > server.tuning.entry_bytes  # one of them may fail
        ):
            # If many claims are open because their XACKs are far away, the rest of the batch is no better.
            is_far = any(len(group.open) >= _SOON for group in groups)
            self._in_vain = len(batch) if is_far else at + run.number
            return 0
        if adds:
            self._replay(adds)
        for group in groups:
            if group.claims:
                db.read(group.key)  # an access; the next line counts the other lookups
                db.look(group.key, times=group.claims + group.acks - 1)
                group.apply(db.keyspace.now)
        self._replay([argv for group in groups for argv in group.rest()])  # which has nothing to settle
        return run.number


class _Additions:
    """The entries that a run adds to a stream."""

    __slots__ = ("last_id", "last_word", "records", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.records: list[list[bytes]] = []
        self.last_id = stream.last_id  # the last ID of the stream after the records read so far
        self.last_word: bytes | None = None  # this ID as written in its XADD, if that XADD is in the run

    def takes(self, argv: list[bytes]) -> bool:
        """Add an XADD that is certain to succeed; return False for any other."""
        word = argv[2]
        number = _number(word)
        if number <= self.last_id or not len(argv) & 1:
            return False
        self.last_id, self.last_word = number, word
        self.records.append(argv)
        return True

    def number(self, word: bytes) -> int:
        """Return the ID of an entry that may exist already; -1 if its XADD comes later, or if the word is not canonical."""
        if word == self.last_word:
            return self.last_id
        number = _number(word)
        return number if number <= self.last_id else -1

    @property
    def entries_added(self) -> int:
        """The number of entries ever added to the stream so far."""
        return self.stream.entries_added + len(self.records)


class _Run:
    """The records of a run."""

    def __init__(self, client: Client) -> None:
        self.number = 0
        # The records of each group, by key and group name.
        self.groups: dict[tuple[bytes, bytes], _Deliveries] = {}
        self._streams: dict[bytes, _Additions] = {}
        self._db = client.db

    @property
    def adds(self) -> list[list[bytes]]:
        """The XADDs, stream by stream."""
        return [argv for each in self._streams.values() for argv in each.records]

    def walk(self, batch: list[list[bytes]], at: int) -> None:
        """Collect the records from ``at`` on."""
        groups, streams = self.groups, self._streams
        for index, argv in enumerate(islice(batch, at, None), at):
            words = len(argv)
            if words > 4 and argv[0] == b"XADD":
                stream = streams.get(argv[1]) or self._stream(argv[1])
                if stream is None or not stream.takes(argv):
                    return
            elif words == _CLAIM and argv[0] == b"XCLAIM":
                group = groups.get((argv[1], argv[2])) or self._group(argv[1], argv[2])
                if group is None or not group.takes(argv, batch, index):
                    return
            elif words > 3 and argv[0] == b"XACK":
                group = groups.get((argv[1], argv[2])) or self._group(argv[1], argv[2])
                if group is None or not group.settles(argv):
                    return
            elif argv not in _BRACKETS:
                if words != _SET_ID or argv[:2] != [b"XGROUP", b"SETID"]:
                    return
                group = groups.get((argv[2], argv[3])) or self._group(argv[2], argv[3])
                if group is None or not group.moves(argv):
                    return
            self.number += 1

    def _stream(self, key: bytes) -> _Additions | None:
        """Begin to collect for a stream; return None if there is none or it has an expiry."""
        db = self._db
        stream = db.entries.get(key)
        if type(stream) is not Stream or key in db.expires:
            return None
        self._streams[key] = additions = _Additions(stream)
        return additions

    def _group(self, key: bytes, name: bytes) -> _Deliveries | None:
        """Begin to collect for a group; return None if there is none or it cannot be changed now."""
        stream = self._streams.get(key) or self._stream(key)
        group = None if stream is None else stream.stream.groups.get(name)
        if stream is None or group is None or group.work is not None:
            return None
        self.groups[key, name] = deliveries = _Deliveries(stream, group, key, name)
        return deliveries


class _Deliveries:
    """The records of a run that concern one group."""

    def __init__(self, stream: _Additions, group: Group, key: bytes, name: bytes) -> None:
        self.key = key
        # How many XCLAIM and XACK are skipped.
        self.claims = 0
        self.acks = 0
        # The IDs whose claims are settled, by consumer name.
        self.settled: dict[bytes, list[int]] = {name: [] for name in group.consumers}
        # The other claims by their IDs as written, in order.
        self.open: dict[bytes, tuple[int, list[bytes]]] = {}
        self._stream = stream
        self._group = group
        self._terms: list[bytes] = []  # of the last claim: all claims of one read have the same
        self._ack = [b"XACK", key, name]
        self._acks: list[list[bytes]] = []  # of entries that the run has not claimed
        self._last_set: list[bytes] | None = None
        self._last_id = group.last_id  # as the run leaves it

    def settles(self, argv: list[bytes]) -> bool:
        """Settle the claims that an XACK ends; return False if it has an ID that is not canonical."""
        waiting, settled = self.open, self.settled
        if len(argv) == 4 and (found := waiting.pop(argv[3], None)) is not None:
            # The most common case of the loop below.
            settled[found[1][3]].append(found[0])
            self.claims += 1
            self.acks += 1
            return True
        others: list[bytes] = []
        words = argv[3:]
        if not all(word in waiting or _number(word) >= 0 for word in words):
            return False
        for word in words:
            found = waiting.pop(word, None)
            if found is None:
                others.append(word)
            else:
                settled[found[1][3]].append(found[0])
                self.claims += 1
        if others:
            self._acks.append([*self._ack, *others])
        else:
            self.acks += 1
        return True

    def takes(self, argv: list[bytes], batch: list[list[bytes]], at: int) -> bool:
        """Add the XCLAIM at ``at`` in the batch to the run; return False if it cannot belong to it."""
        word, last, waiting = argv[5], argv[13], self.open
        if len(waiting) >= _SOON and (
            len(waiting) >= _MOST_OPEN or not (self.claims or self._is_near(batch, at))
        ):
            return False
        if argv[4] != b"0" or argv[3] not in self.settled or word in waiting:
            return False
        terms = argv[6:13]
        if terms != self._terms:
            time, count = terms[1], terms[3]
            if [terms[0], terms[2], *terms[4:]] != _CLAIM_TERMS or not (
                _is_number(time) and _is_number(count)
            ):
                return False
            self._terms = terms
        number = self._stream.number(word)
        last_id = number if last == word else _number(last)
        if number < 0 or last_id < 0:
            return False
        if last_id > self._last_id:
            if self._last_set is not None:
                return False  # the SETID, which runs at the end, would move the group back
            self._last_id = last_id
        waiting[word] = number, argv
        return True

    def _is_near(self, batch: list[list[bytes]], at: int) -> bool:
        """Return True if an XACK of the group follows a little later."""
        return self._ack in [argv[:3] for argv in islice(batch, at, at + _MOST_OPEN)]

    def moves(self, argv: list[bytes]) -> bool:
        """Add an XGROUP SETID in the form that reads leave; return False for another form."""
        number, read = _number(argv[4]), argv[6]
        if (
            argv[5] != b"ENTRIESREAD"
            or number < 0
            or not _is_number(read)
            or int(read) > self._stream.entries_added
        ):
            return False
        self._last_set, self._last_id = argv, number
        return True

    def apply(self, now: int) -> None:
        """Apply the joint effect of the settled claims and their acknowledgements."""
        group, stream = self._group, self._stream.stream
        numbers: list[int] = []
        for name, own in self.settled.items():
            if not own:
                continue
            consumer = group.consumers[name]
            consumer.see(now)
            # Look up every entry: one that cannot be read, because the base is damaged, ends the load.
            if True in list(map(stream.contains, own)):
                consumer.receive(now)
            numbers += own
        group.pel.acknowledge(map(encode, numbers))
        group.last_id = max(group.last_id, self._last_id)

    def rest(self) -> list[list[bytes]]:
        """Return the records that are still to run, in an order that has the same result as the run."""
        last_set = [] if self._last_set is None else [self._last_set]
        return [*self._acks, *[argv for _, argv in self.open.values()], *last_set]


def _is_number(word: bytes) -> bool:
    """Return True for a number that commands accept and that surely fits 63 bits."""
    return word.isdigit() and len(word) < _DIGITS and (word[0] != _ZERO or word == b"0")


def _number(word: bytes) -> int:
    """Return the ID; -1 unless the word is its canonical text, with numbers that surely fit 64 bits."""
    ms, _, seq = word.partition(b"-")
    if (
        not (ms.isdigit() and seq.isdigit() and len(ms) <= _DIGITS >= len(seq))
        or (ms[0] == _ZERO and ms != b"0")
        or (seq[0] == _ZERO and seq != b"0")
    ):
        return -1
    return int(ms) << 64 | int(seq)
