"""XCLAIM records of a file whose entries are acknowledged soon behind them, without making them pending in between.

Workers that read and acknowledge leave little else in a file: an XCLAIM of an entry (from Redis 8 on with an XGROUP SETID,
in MULTI and EXEC), and later its XACK. They are settled under this contract:

1. A run has only such records, all of one group of one stream, whose IDs are canonical. It ends before anything else.
2. An entry that is claimed and then acknowledged is not pending afterwards, whatever it was before. So both records are
   left out. The group moves as far as by the claims. Their consumers are seen, even by claims that find nothing, as since
   7.2, and active as by them.
3. What is left of the run does not concern these entries: acknowledgements of others come first, then the claims that no
   XACK follows, and the last SETID. These run as any records.
4. Data and replies do not show which way the records took: ``tests/server/persistence/test_settled_claims.py``.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from ...storage.streams.stream import Stream

if TYPE_CHECKING:
    from ...commands.runtime.client import Client
    from ...storage.groups.group import Group

_FEWEST: Final = 4  # claims that are settled; for fewer the walk does not pay
_SOON: Final = 16  # claims in a row, from which on it looks ahead for an XACK
_MOST_OPEN: Final = 256  # claims without an XACK, where the walk ends: reads of more are joined as runs
_WORDS: Final = frozenset((b"XCLAIM", b"XACK", b"XGROUP", b"MULTI", b"EXEC"))
_DIGITS: Final = 19  # of a number that surely fits 64 bits
_ZERO: Final = ord("0")
_CLAIM: Final = 14  # words
_CLAIM_TERMS: Final = [b"TIME", b"RETRYCOUNT", b"FORCE", b"JUSTID", b"LASTID"]
_SET_ID: Final = 7  # words
_BRACKETS: Final = ([b"MULTI"], [b"EXEC"])


class SettledClaims:
    """Settles the claims of one batch, and remembers how far it has looked in vain."""

    def __init__(self, client: Client, batch: list[list[bytes]]) -> None:
        self._client = client
        self._batch = batch
        self._in_vain = 0

    def settle(self, at: int) -> tuple[list[list[bytes]], int] | None:
        """Settle the claims of a run that begins with the XCLAIM at a place in the batch.

        Returns:
            The records of the run that are still to be run, and how many the run has. None, with nothing changed, if it is
            not worth while.
        """
        batch = self._batch
        # The shortest run is known before the walk: others come between claims where entries are read as they come.
        if (
            at < self._in_vain
            or len(batch[at]) != _CLAIM
            or not _WORDS.issuperset([argv[0] for argv in batch[at : at + 2 * _FEWEST]])
        ):
            return None
        key, name = batch[at][1:3]
        server, db = self._client.server, self._client.db
        stream = db.entries.get(key)
        group = stream.groups.get(name) if type(stream) is Stream else None
        if (
            type(stream) is not Stream
            or group is None
            or group.pending_cleanup is not None
            or key in db.expires
            or server.propagation.active
            or not server.compat.creates_consumer_on_empty_read
        ):
            return None
        run = _Run(group, key, name)
        run.walk(batch, at)
        if run.claims < _FEWEST:
            # Where claims are many and acknowledgements far, the rest of the batch is no better.
            self._in_vain = len(batch) if len(run.open) >= _SOON else at + run.number
            return None
        db.read(key)  # an access
        db.keyspace.hits += run.claims + run.acks - 1
        run.apply(stream, db.keyspace.now)
        return run.rest(), run.number


class _Run:
    """The records of a run.

    Attributes:
        number: how many there are.
        settled: the IDs whose claims are settled, by the names of the consumers.
        claims, acks: how many XCLAIM and XACK are left out.
        open: the other claims by the words of their IDs, in their order.
    """

    def __init__(self, group: Group, key: bytes, name: bytes) -> None:
        self.number = 0
        self.claims = 0
        self.acks = 0
        self.settled: dict[bytes, list[int]] = {name: [] for name in group.members}
        self.open: dict[bytes, tuple[int, list[bytes]]] = {}
        self._group = group
        self._claim = [b"XCLAIM", key, name]
        self._terms: list[bytes] = []  # of the last claim: those of a read of many are the same
        self._ack = [b"XACK", key, name]
        self._set_id = [b"XGROUP", b"SETID", key, name]
        self._acks: list[list[bytes]] = []  # of entries that the run has not claimed
        self._last_set: list[bytes] | None = None
        self._last_id = group.last_id  # as the run leaves it

    def walk(self, batch: list[list[bytes]], at: int) -> None:
        """Gather the records from a place on."""
        waiting, settled, ack = self.open, self.settled, self._ack
        for index, argv in enumerate(islice(batch, at, None), at):
            words = len(argv)
            if words == _CLAIM and argv[0] == b"XCLAIM":
                if len(waiting) >= _SOON and (
                    len(waiting) >= _MOST_OPEN or not (self.claims or self._is_near(batch, index))
                ):
                    return
                if not self._takes(argv):
                    return
            elif words > 3 and argv[:3] == ack:
                if words == 4 and (found := waiting.pop(argv[3], None)) is not None:
                    # As below.
                    settled[found[1][3]].append(found[0])
                    self.claims += 1
                    self.acks += 1
                elif not self._settles(argv):
                    return
            elif argv not in _BRACKETS and not self._moves(argv):
                return
            self.number += 1

    def _is_near(self, batch: list[list[bytes]], at: int) -> bool:
        """Whether an XACK of the group stands a little further on."""
        return self._ack in [argv[:3] for argv in islice(batch, at, at + _MOST_OPEN)]

    def _settles(self, argv: list[bytes]) -> bool:
        """Settle the claims that an XACK ends, unless a word of it is no canonical ID."""
        waiting, settled = self.open, self.settled
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

    def _takes(self, argv: list[bytes]) -> bool:
        """Add a record if it is an XCLAIM of an entry that belongs to the run."""
        word, last = argv[5], argv[13]
        if argv[:3] != self._claim or argv[4] != b"0" or argv[3] not in self.settled or word in self.open:
            return False
        terms = argv[6:13]
        if terms != self._terms:
            time, count = terms[1], terms[3]
            if [terms[0], terms[2], *terms[4:]] != _CLAIM_TERMS or not (
                _is_number(time) and _is_number(count)
            ):
                return False
            self._terms = terms
        number = _number(word)
        last_id = number if last == word else _number(last)
        if number < 0 or last_id < 0:
            return False
        if last_id > self._last_id:
            if self._last_set is not None:
                return False  # that SETID, which runs at the end, would set it back
            self._last_id = last_id
        self.open[word] = number, argv
        return True

    def _moves(self, argv: list[bytes]) -> bool:
        """Note a record if it is the XGROUP SETID behind a read."""
        if len(argv) != _SET_ID or argv[:4] != self._set_id or argv[5] != b"ENTRIESREAD":
            return False
        number, read = _number(argv[4]), argv[6]
        if number < 0 or not _is_number(read):
            return False
        self._last_set, self._last_id = argv, number
        return True

    def apply(self, stream: Stream, now: int) -> None:
        """Do what the claims that are settled and their acknowledgements do together."""
        group = self._group
        numbers: list[int] = []
        for name, own in self.settled.items():
            if not own:
                continue
            consumer = group.consumers[name]
            consumer.seen_ms = now
            # Each entry is looked up: one that cannot be read, in a damaged base, ends the load.
            if True in list(map(stream.contains, own)):
                consumer.active_ms = now
            numbers += own
        if min(numbers) <= group.pel.highest:
            group.acknowledge(numbers)
        group.last_id = max(group.last_id, self._last_id)

    def rest(self) -> list[list[bytes]]:
        """What is still to be run, in an order that leaves what the run leaves."""
        last_set = [] if self._last_set is None else [self._last_set]
        return [*self._acks, *[argv for _, argv in self.open.values()], *last_set]


def _is_number(word: bytes) -> bool:
    """Whether this is a number that commands accept, and that surely fits 63 bits."""
    return word.isdigit() and len(word) < _DIGITS and (word[0] != _ZERO or word == b"0")


def _number(word: bytes) -> int:
    """An ID; -1 unless the word is its canonical text, of numbers that surely fit 64 bits."""
    ms, _, seq = word.partition(b"-")
    if (
        not (ms.isdigit() and seq.isdigit() and len(ms) <= _DIGITS >= len(seq))
        or (ms[0] == _ZERO and ms != b"0")
        or (seq[0] == _ZERO and seq != b"0")
    ):
        return -1
    return int(ms) << 64 | int(seq)
