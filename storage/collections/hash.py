"""Hashes: fields with values, some of which may expire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final, Self

from .base import OBJECT_BYTES, SLOT_BYTES, Collection
from .deadlines import Deadlines
from .scan_order import ScanOrder

if TYPE_CHECKING:
    from .encoding_limits import Limits

LISTPACK: Final = b"listpack"
LISTPACK_WITH_TIMES: Final = b"listpackex"
TABLE: Final = b"hashtable"
_PAIRS_AT_ONCE: Final = 64  # in one HMSET of a rewritten AOF
_SAMPLE: Final = 64


class Hash(Collection):
    """A map of fields to values."""

    OWN_BYTES: ClassVar[int] = 150
    ELEMENT_BYTES: ClassVar[int] = 2 * OBJECT_BYTES + SLOT_BYTES
    __slots__ = ("_order", "fields", "times")

    def __init__(self) -> None:
        self.encoding = LISTPACK
        # The values by field, in the order in which the fields arrived. Expired fields are included until they are
        # deleted (``storage/keyspace/field_expiry``). Read only; the methods change it.
        self.fields: dict[bytes, bytes] = {}
        self.times: Deadlines | None = None  # the expiry of fields; None if no field has one
        self._order: ScanOrder | None = None  # created by the first walk

    def __len__(self) -> int:
        return len(self.fields)

    def set(self, field: bytes, value: bytes, limits: Limits, *, keep_time: bool = False) -> bool:
        """Set a field and clear its expiry unless ``keep_time``; return True if it is new."""
        fields = self.fields
        new = field not in fields
        fields[field] = value
        if new:
            if self._order is not None:
                self._order.add(field)
        elif self.times is not None and not keep_time:
            self.persist(field)
        if self.encoding is not TABLE and (
            len(fields) > limits.hash_max_listpack_entries
            or len(value) > limits.hash_max_listpack_value
            or len(field) > limits.hash_max_listpack_value
        ):
            self.encoding = TABLE
        return new

    def expect(self, count: int, limits: Limits) -> None:
        """Convert a listpack to a table if it cannot hold ``count`` fields; commands call it before they set that many."""
        if count > limits.hash_max_listpack_entries:
            self.encoding = TABLE

    def discard(self, field: bytes) -> bool:
        """Remove a field; return False if it does not exist."""
        fields, times = self.fields, self.times
        if field not in fields:
            return False
        if times is not None:
            times.forget(field)
        # No call between the two, so no exception can leave the time of a field that is gone.
        del fields[field]
        if times is not None and not times.when:
            self.times = None
        if self._order is not None:
            order, self._order = self._order, None  # if this fails, the next walk creates a new one
            order.remove(field)
            self._order = order
        return True

    def expire(self, field: bytes, when: int) -> None:
        """Set the expiry of an existing field, in Unix milliseconds."""
        if self.times is None:
            self.times = Deadlines()
            self.prepare_times()
        self.times.set(field, when)

    def prepare_times(self) -> None:
        """Convert a listpack to the encoding with expiries, as Redis does even if no named field exists."""
        if self.encoding is LISTPACK:
            self.encoding = LISTPACK_WITH_TIMES

    def persist(self, field: bytes) -> bool:
        """Remove the expiry of a field; return False if it had none."""
        times = self.times
        if times is None or not times.forget(field):
            return False
        if not times:
            self.times = None
        return True

    def order(self) -> ScanOrder:
        """Return the order of fields for HSCAN and random fields; the first call creates it."""
        if self._order is None:
            self._order = ScanOrder(self.fields)
        return self._order

    # The interface of collections

    def copy(self) -> Self:
        """Return an independent copy, without the order for HSCAN."""
        twin = type(self)()
        twin.encoding = self.encoding
        twin.fields = dict(self.fields)
        twin.times = None if self.times is None else self.times.copy()
        return twin

    def choose_encoding(self, limits: Limits) -> None:
        """Choose the encoding by size. A table may become a listpack, which commands never do."""
        longest = limits.hash_max_listpack_value
        if len(self.fields) > limits.hash_max_listpack_entries or any(
            len(field) > longest or len(value) > longest for field, value in self.fields.items()
        ):
            self.encoding = TABLE
        else:
            self.encoding = LISTPACK if self.times is None else LISTPACK_WITH_TIMES

    def commands(self, key: bytes) -> Iterator[tuple[bytes, ...]]:
        """Yield HMSET commands of up to 64 fields; if fields expire, one per field, with HPEXPIREAT."""
        pairs = iter(self.fields.items())
        if self.times is None:
            while some := list(islice(pairs, _PAIRS_AT_ONCE)):
                yield b"HMSET", key, *_flat(some)
            return
        for field, value in pairs:
            yield b"HMSET", key, field, value
            when = self.times.when.get(field)
            if when is not None:
                yield b"HPEXPIREAT", key, b"%d" % when, b"FIELDS", b"1", field

    def parts(self) -> Iterable[object]:
        """Return the containers of the fields, expiries and scan order."""
        return self.fields, self.times, self._order

    def digest_parts(self) -> Iterator[bytes]:
        """Yield the sorted fields with their values and expiries."""
        when = {} if self.times is None else self.times.when
        for field in sorted(self.fields):
            yield field
            yield self.fields[field]
            if field in when:
                yield b"%d" % when[field]

    def make_whole(self) -> None:
        """Repair the hash after an interrupted change: remove the expiries of fields that do not exist."""
        if self.times is not None:
            for field in self.times.when.keys() - self.fields.keys():
                self.times.forget(field)
            if not self.times:
                self.times = None

    @property
    def payload_bytes(self) -> int:
        """Bytes of fields and values, without the expiries."""
        count = len(self.fields)
        sample = list(islice(self.fields.items(), _SAMPLE))
        measured = sum(len(field) + len(value) for field, value in sample)
        return measured * count // len(sample) if count > _SAMPLE else measured


def _flat(pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[bytes]:
    for field, value in pairs:
        yield field
        yield value
