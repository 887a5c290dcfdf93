"""Sets: members, each once.

A dict keeps them in order of arrival, which is the order of Redis' listpacks; a set of integers only is read in numeric
order, as an intset is. For random members and SSCAN, a large set gets a second structure at the first request; a small
set is simply listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from random import randrange, sample
from typing import TYPE_CHECKING, ClassVar, Final

from .base import Collection
from .scan_order import ScanOrder

if TYPE_CHECKING:
    from .encoding_limits import Limits

INTSET: Final = b"intset"
LISTPACK: Final = b"listpack"
HASHTABLE: Final = b"hashtable"
_INTEGER: Final = re.compile(rb"(?:0|-?[1-9][0-9]{0,18})\Z")
_A_COMMAND: Final = 64  # members in one SADD of a rewritten AOF
_SAMPLE: Final = 32


def is_integer(word: bytes) -> bool:
    """Return True if an intset could hold the word: a 64-bit integer, spelled as Redis spells it."""
    return _INTEGER.match(word) is not None and -(1 << 63) <= int(word) < 1 << 63


class Set(Collection):
    """Members without a defined order."""

    OWN_BYTES: ClassVar[int] = 200
    __slots__ = ("_order", "members")

    def __init__(self, members: Iterable[bytes] = (), encoding: bytes = HASHTABLE) -> None:
        self.encoding = encoding
        # Read only (its keys work like a set); ``add`` and ``discard`` change it.
        self.members: dict[bytes, None] = dict.fromkeys(members)
        self._order: ScanOrder | None = None

    @classmethod
    def for_first(cls, member: bytes, count: int, limits: Limits) -> Set:
        """Return an empty set in Redis' initial encoding for ``count`` members, the first of which is ``member``."""
        if count <= limits.set_max_intset_entries and is_integer(member):
            return cls(encoding=INTSET)
        return cls(encoding=LISTPACK if count <= limits.set_max_listpack_entries else HASHTABLE)

    @classmethod
    def encoding_of(cls, gathered: Iterable[bytes], limits: Limits) -> bytes:
        """Return the encoding of a set that started as an empty intset and got these members one by one, in this order."""
        trial = cls(encoding=INTSET)
        for member in gathered:
            trial.add(member, limits)
            if trial.encoding is HASHTABLE:
                break  # it never converts back
        return trial.encoding

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the members in Redis' order, if Redis has a defined one."""
        return iter(sorted(self.members, key=int) if self.encoding is INTSET else self.members)

    # Changes

    def add(self, member: bytes, limits: Limits) -> bool:
        """Add a member; return False if it is present already."""
        members = self.members
        if member in members:
            return False
        if self.encoding is not HASHTABLE:
            self._make_room(member, limits)
        members[member] = None
        if self._order is not None:
            self._order.add(member)
        return True

    def _make_room(self, member: bytes, limits: Limits) -> None:
        """Convert a compact encoding that cannot hold one more member, ``member``."""
        count = len(self.members)
        if self.encoding is INTSET:
            if is_integer(member):
                if count >= limits.set_max_intset_entries:
                    self._become(HASHTABLE)
                return
            longest = max(len(min(self.members, key=int)), len(max(self.members, key=int))) if count else 0
        else:
            longest = 0
        fits = count < limits.set_max_listpack_entries and (
            max(longest, len(member)) <= limits.set_max_listpack_value
        )
        self._become(LISTPACK if fits else HASHTABLE)

    def _become(self, encoding: bytes) -> None:
        if self.encoding is INTSET:
            # From now on the order is that of arrival.
            ordered = sorted(self.members, key=int)
            self.members.clear()
            self.members.update(dict.fromkeys(ordered))
        self.encoding = encoding

    def expect(self, count: int, limits: Limits) -> None:
        """Convert a compact encoding to a hash table if it cannot hold ``count`` members.

        Commands call it before they add that many members, even present ones, as Redis does.
        """
        if (self.encoding is LISTPACK and count > limits.set_max_listpack_entries) or (
            self.encoding is INTSET and count > limits.set_max_intset_entries
        ):
            self._become(HASHTABLE)

    def discard(self, member: bytes) -> bool:
        """Remove a member from the set; return False if it is not present."""
        members = self.members
        if member not in members:
            return False
        del members[member]
        if self._order is not None:
            self._order.remove(member)
        return True

    # Random choice and iteration

    def random(self) -> bytes:
        """Return a uniformly random member; there must be one."""
        if self.encoding is HASHTABLE:
            return self._ordered().random()
        return next(islice(self.members, randrange(len(self.members)), None))  # noqa: S311 - no secret

    def sample(self, count: int) -> list[bytes]:
        """Return ``count`` different members at random; there must be at least as many."""
        if self.encoding is HASHTABLE and count * 8 < len(self.members):
            order = self._ordered()
            found: dict[bytes, None] = {}
            while len(found) < count:
                found[order.random()] = None
            return list(found)
        return sample(list(self.members), count)

    def page(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return the next page of an SSCAN, like ``ScanOrder.page``; a compact set is one page."""
        if self.encoding is HASHTABLE:
            return self._ordered().page(cursor, count)
        return 0, list(self)

    def _ordered(self) -> ScanOrder:
        if self._order is None:
            self._order = ScanOrder(self.members)
        return self._order

    # The interface of collections

    def copy(self) -> Set:
        """Return a copy that shares no mutable state."""
        return Set(self.members, self.encoding)

    def choose_encoding(self, limits: Limits) -> None:
        """Choose the encoding by size, as for a loaded set.

        An intset or listpack that is too large becomes a hash table; a hash table becomes an intset or listpack if it
        fits.
        """
        count = len(self.members)
        if self.encoding is INTSET:
            compact = count <= limits.set_max_intset_entries
        elif self.encoding is LISTPACK:
            compact = count <= limits.set_max_listpack_entries
        elif count <= limits.set_max_intset_entries and all(map(is_integer, self.members)):
            self.encoding = INTSET
            compact = True
        else:
            compact = count <= limits.set_max_listpack_entries and (
                max(map(len, self.members), default=0) <= limits.set_max_listpack_value
            )
            if compact:
                self.encoding = LISTPACK
        if not compact:
            self._become(HASHTABLE)
        self._order = None

    def commands(self, key: bytes) -> Iterator[tuple[bytes, ...]]:
        """Yield ``SADD key member ...`` with up to 64 members each."""
        members = iter(self)
        while some := tuple(islice(members, _A_COMMAND)):
            yield (b"SADD", key, *some)

    def parts(self) -> Iterable[object]:
        """Return the containers of the members and of the scan order."""
        return self.members, self._order

    def digest_parts(self) -> Iterator[bytes]:
        """Yield the members, sorted."""
        return iter(sorted(self.members))

    @property
    def payload_bytes(self) -> int:
        """Estimated bytes of the members and of their slots in the dict and, if there is one, in the scan order."""
        size = len(self.members)
        some = list(islice(self.members, _SAMPLE))
        members = sum([len(member) + 33 for member in some]) * size // max(len(some), 1)
        return members + size * (56 if self._order is None else 64)
