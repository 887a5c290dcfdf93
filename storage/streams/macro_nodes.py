"""The macro nodes in which Redis would store a stream: only counters, because clients can observe node borders.

Approximate trimming removes whole nodes only, and XINFO STREAM returns their number, so the borders are visible.
The position of a border depends on the exact size of Redis' packed form (listpack). It is computed only on demand:
until then entries are *pending* here, which has nothing to do with a PEL. To *account* for them is to compute their
nodes, a chunk at a time, in the order in which they were added and under the limits of that time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise, repeat
from operator import add, attrgetter
from typing import Final, TypeAlias

import hiredis

from ...protocol.canonical import LENGTHS
from ..freeing import Freeable
from ..listpack_sizes import element_size, integer_size
from .chunk import AnyChunk, Chunk, opened
from .ids import MAX_ID, MAX_U64, signed
from .rax_nodes import shared_bytes, tree_size

# For each entry: its field names, the bytes of its values in a listpack, and their plain bytes.
_Measured: TypeAlias = tuple[Iterable[list[bytes]], list[int], list[int]]

FAR: Final = 32  # chunks that can be accounted for without a noticeable delay
_NODE_BYTES_CAP: Final = 1 << 30
_EMPTY_NODE_BYTES: Final = 7

# Size of an entry's flags, and of the master entry's terminator, which are small integers.
_SMALL_INTEGER_BYTES: Final = 2

_LONG: Final = 2 << 10  # entry size in bytes from which parsing is faster than a search for line ends
_REMEMBERED: Final = 1 << 14  # words
_REMEMBERED_BYTES: Final = 12  # longer words seldom recur


class Node:
    """One macro node."""

    __slots__ = (
        "count_size", "deleted", "empty_size", "fields", "first_id", "last_id", "live", "names_payload",
        "size",
    )  # fmt: skip

    # The field names of its first entry; entries with the same names are stored without them.
    fields: list[bytes]
    names_payload: int  # bytes of those names, counted as for the limit
    count_size: int  # bytes of the element count that closes such an entry
    empty_size: int  # ``size`` before its first entry

    def __init__(self, stream_id: int, fields: list[bytes], before: Node | None) -> None:
        # Its first and last entry, deleted ones included.
        self.first_id = stream_id
        self.last_id = stream_id
        # The numbers of its entries.
        self.live = 0
        self.deleted = 0
        # Field names usually repeat: equal names are neither stored nor measured twice.
        if before is None or before.fields != fields:
            self.fields = fields
            self.names_payload = sum(map(len, fields))
            self.count_size = integer_size(len(fields) + 3)
            self.empty_size = (
                _EMPTY_NODE_BYTES
                + integer_size(len(fields))
                + sum(map(element_size, fields))
                + _SMALL_INTEGER_BYTES
            )
        else:
            self.fields = before.fields
            self.names_payload, self.count_size = before.names_payload, before.count_size
            self.empty_size = before.empty_size
        # Bytes in Redis, without the elements for ``live`` and ``deleted``, whose own width varies.
        self.size = self.empty_size

    def like(self, first_id: int, last_id: int, live: int, size: int) -> Node:
        """Return a node with the same field names, other entries and no deleted entry."""
        twin = self.copy()
        twin.first_id = first_id
        twin.last_id = last_id
        twin.live = live
        twin.deleted = 0
        twin.size = size
        return twin

    def id_size(self, ms: int, seq: int) -> int:
        """Return the bytes of an entry's flags and of its ID, which is stored relative to the node's first ID."""
        ms -= self.first_id >> 64
        seq -= self.first_id & MAX_U64
        if 0 <= seq <= 127 and 0 <= ms < 32768:
            return 6 if ms <= 127 else 7 if ms <= 4095 else 8
        return _SMALL_INTEGER_BYTES + integer_size(signed(ms)) + integer_size(signed(seq))

    def copy(self) -> Node:
        """Return an independent copy."""
        twin = Node.__new__(Node)
        twin.first_id = self.first_id
        twin.last_id = self.last_id
        twin.live = self.live
        twin.deleted = self.deleted
        twin.fields = self.fields
        twin.names_payload = self.names_payload
        twin.count_size = self.count_size
        twin.size = self.size
        twin.empty_size = self.empty_size
        return twin


class MacroNodes(Freeable):
    """The nodes of one stream, as far as they are known.

    Invariants: ``known`` is in ID order and covers exactly the entries (deleted ones too) up to the ID
    ``accounted``. No entry above it was ever deleted, because deleting accounts for it first. Only the last known node can still
    gain entries, so its counters may change only when nothing is pending.
    """

    __slots__ = ("_chunks", "_firsts", "_tree", "accounted", "known", "max_bytes", "max_entries", "shared")

    def __init__(self, chunks: list[AnyChunk], firsts: list[int], max_bytes: int, max_entries: int) -> None:
        self._chunks = chunks  # the stream's own, which it changes
        self._firsts = firsts
        # The limits for new entries.
        self.max_bytes = max_bytes
        self.max_entries = max_entries
        self.accounted = -1  # the last ID that they hold
        self.known: list[Node] = []  # the nodes accounted for so far; only the methods change it
        # For each node but the first, how many bytes its first ID shares with the previous node's (``rax_nodes``).
        self.shared = bytearray()
        # The size of the tree, and the number of keys for which it was computed.
        self._tree: tuple[int, int] | None = None

    def parts(self) -> Iterable[object]:
        """Return the containers of the nodes, for lazyfree."""
        return self.known, self._chunks, self._firsts

    # All of them

    def all(self) -> list[Node]:
        """Return all nodes, read only; removing entries changes nodes, and drops empty ones."""
        self.account_all()
        return self.known[:]

    @property
    def count(self) -> int:
        """The number of macro nodes that Redis would have (XINFO's radix-tree-keys)."""
        self.account_all()
        return len(self.known)

    @property
    def tree_size(self) -> int:
        """The number of nodes of the radix tree in which Redis would keep the macro nodes."""
        self.account_all()
        keys = len(self.known)
        if self._tree is None or self._tree[0] != keys:
            self._tree = keys, tree_size(self.shared) if keys else 1
        return self._tree[1]

    @property
    def first_id(self) -> int:
        """The ID of the first entry in the first node, a deleted one included; MAX_ID if there is no node."""
        if self.known:
            return self.known[0].first_id
        return opened(self._chunks[0]).id_at(0) if self._chunks else MAX_ID

    # Deciding whether a command must wait

    @property
    def is_behind(self) -> bool:
        """Whether the nodes of more than ``FAR`` chunks are still to be computed.

        If so, the server calls ``account_some`` in the background.
        """
        return self.is_far_at(len(self._chunks))

    def is_far(self, stream_id: int) -> bool:
        """Return True if the nodes of more than ``FAR`` chunks must be computed to reach an entry's node."""
        return self.is_far_at(bisect_right(self._firsts, stream_id))

    def is_far_at(self, chunk: int) -> bool:
        """Return True if the nodes of more than ``FAR`` of the first ``chunk`` chunks must still be computed."""
        return chunk > FAR and chunk - len(self._chunks) + self._pending() > FAR

    # Keeping up with the stream

    def clear(self) -> None:
        """Forget all nodes after the removal of all entries."""
        self.known = []
        self.shared = bytearray()
        self._tree = None

    def forget_first(self, number: int) -> None:
        """Forget the first ``number`` nodes after the removal of all entries in them."""
        del self.known[:number]
        del self.shared[:number]
        self._tree = None

    def go_back(self, last_id: int) -> None:
        """Prepare for XSETID to a smaller ID: the IDs of new entries may repeat those of deleted ones.

        All are greater than ``last_id``.
        """
        if last_id < self.accounted:
            self.accounted = last_id
            if self.known:
                self.known[-1].last_id = min(self.known[-1].last_id, last_id)

    def adopt(self, nodes: list[Node]) -> None:
        """Use the nodes of a loaded file, which hold all entries of the stream."""
        self.known = nodes
        self._tree = None
        self.shared = bytearray(shared_bytes(one.first_id, other.first_id) for one, other in pairwise(nodes))
        self.accounted = nodes[-1].last_id if nodes else -1

    def account_until(self, stream_id: int) -> None:
        """Compute nodes until the one with this ID is complete, or no entry is left."""
        known = self.known
        if known and known[-1].first_id > stream_id:
            return
        for chunk in self._pending_chunks():
            self._account(chunk)
            if known[-1].first_id > stream_id:
                return

    def account_first(self) -> None:
        """Compute nodes until the first one is complete, or no entry is left."""
        known = self.known
        if len(known) > 1:
            return
        for chunk in self._pending_chunks():
            self._account(chunk)
            if len(known) > 1:
                return

    def account_all(self) -> None:
        """Compute the nodes of all entries."""
        sizes = _Sizes()
        for chunk in self._pending_chunks():
            self._account(chunk, sizes)

    def account_some(self) -> bool:
        """Compute the nodes of one more chunk; return False if at most one is left, which may be growing."""
        pending = self._pending()
        if pending > 1:
            self._account(self._chunks[-pending])
        return pending > 2

    def account_towards(self, index: int) -> bool:
        """Compute the nodes of one more chunk, unless those of the chunk at ``index`` are known.

        Return False if they are.

        Return False if it is not.
        """
        if self._pending() < len(self._chunks) - index:
            return False
        self.account_some()
        return True

    def _pending(self) -> int:
        """Return the number of chunks with entries that are not accounted for."""
        chunks = self._chunks
        index = bisect_right(self._firsts, self.accounted)
        if index:
            chunk = chunks[index - 1]
            # Packed chunks are already accounted for.
            if type(chunk) is Chunk and chunk.ms[-1] << 64 | chunk.seq[-1] > self.accounted:
                index -= 1
        return len(chunks) - index

    def _pending_chunks(self) -> list[AnyChunk]:
        return self._chunks[len(self._chunks) - self._pending() :]

    def remove(self, stream_id: int) -> None:
        """Count the deletion of an entry in its node; drop the node if no live entry is left.

        The entry's node must be known.
        """
        index = bisect_right(self.known, stream_id, key=attrgetter("first_id")) - 1
        node = self.known[index]
        node.live -= 1
        node.deleted += 1
        if not node.live:
            self._tree = None
            del self.known[index]
            if 0 < index < len(self.shared):
                self.shared[index - 1] = min(self.shared[index - 1 : index + 1])
            if self.shared:
                del self.shared[min(index, len(self.shared) - 1)]

    def copy(self, chunks: list[AnyChunk], firsts: list[int]) -> MacroNodes:
        """Return independent counters for a copy of the stream with these chunks."""
        twin = MacroNodes(chunks, firsts, self.max_bytes, self.max_entries)
        twin.accounted = self.accounted
        twin.known = [node.copy() for node in self.known]
        twin.shared = self.shared[:]
        return twin

    def _account(self, pending: AnyChunk, sizes: _Sizes | None = None) -> None:
        """Assign the pending entries of a chunk to nodes; ``sizes`` saves work when many chunks follow each other."""
        chunk = pending if type(pending) is Chunk else opened(pending)
        accounted = self.accounted
        start = chunk.position(accounted + 1) if chunk.ms[0] << 64 <= accounted else 0
        max_bytes = self.max_bytes
        if not 0 < max_bytes <= _NODE_BYTES_CAP:
            max_bytes = _NODE_BYTES_CAP
        max_entries = self.max_entries or 1 << 62
        known = self.known
        node = known[-1] if known else Node(0, [], None)
        live, deleted, used = node.live, node.deleted, node.size
        first_ms, first_seq = node.first_id >> 64, node.first_id & MAX_U64
        # The number of entries up to which the counters that close a node take four bytes.
        plain = min(max_entries, 128) - deleted if known else 0
        last_names: list[bytes] | None = None
        common = names_payload = 0
        measured = zip(
            *_measure(chunk, start, sizes or _Sizes()), chunk.ms[start:], chunk.seq[start:], strict=True
        )
        for position, (names, size, payload, ms, seq) in enumerate(measured, start):
            if names is not last_names:
                last_names = names
                alike = names == node.fields
                common = node.count_size if alike else _names_size(names)
                names_payload = node.names_payload if alike else sum(map(len, names))
            is_full, counters = False, 4
            if live >= plain:
                is_full = not known or live + deleted >= max_entries
                if not is_full:
                    counters = integer_size(live) + integer_size(deleted)
            if is_full or used + names_payload + payload + counters >= max_bytes:
                if position > start:
                    before = chunk.ms[position - 1] << 64 | chunk.seq[position - 1]
                    node.live, node.size, node.last_id = live, used, before
                node = Node(ms << 64 | seq, names, node)
                if known:
                    self.shared.append(shared_bytes(known[-1].first_id, node.first_id))
                known.append(node)
                live, deleted, used = 0, 0, node.size
                first_ms, first_seq = ms, seq
                plain = min(max_entries, 128)
                common, names_payload = node.count_size, node.names_payload
            later, further = ms - first_ms, seq - first_seq
            # The usual cases of id_size, inlined: an entry takes 1.1 us here, and 1.3 without this.
            if later <= 127 and -4096 <= further <= 127:
                used += size + common + (6 if further >= 0 else 7)
            else:
                used += size + common + node.id_size(ms, seq)
            live += 1
        node.live, node.size = live, used
        node.last_id = self.accounted = ms << 64 | seq


def _measure(chunk: Chunk, start: int, sizes: _Sizes) -> _Measured:
    """Measure each entry of a chunk from a position on."""
    number = len(chunk.ms) - start
    data = bytes(chunk.data[chunk.offsets[start] :])
    found = _measure_columns(data, number, sizes) if len(data) < number * _LONG else None
    return found or _measure_each(data, number, sizes)


def _measure_each(data: bytes, number: int, sizes: _Sizes) -> _Measured:
    """Measure entries of any form for ``_measure``, one by one."""
    reader = hiredis.Reader()
    reader.feed(data)
    entries: list[list[bytes]] = [reader.gets()[1] for _ in range(number)]
    values = [words[1::2] for words in entries]
    return (
        [words[::2] for words in entries],
        [sum(map(sizes.of, some)) for some in values],
        [sum(map(len, some)) for some in values],
    )


def _measure_columns(data: bytes, number: int, sizes: _Sizes) -> _Measured | None:
    """Measure entries for ``_measure`` if all have the same field names, and no value has a line end; else return None.

    Then each entry has the same number of lines, and every word is at its expected line. The headers prove this word by
    word: each states the length of the line after it, so an entry's first line is where the previous entry ended.
    """
    # Without this a first SAVE of entries with three fields takes 1.15 times as long (medians of 7 pairs: 1.15, 1.16 and
    # 1.12), and XADD with ``MAXLEN ~``, 16 at a time, 1.04 times (processor time, 2026-11-29).
    lines = data.split(b"\r\n")
    step, odd = divmod(len(lines) - 1, number)
    if odd or step < 8 or lines[3::step].count(b"*%d" % (step // 2 - 2)) != number:
        return None
    total, payload = [0] * number, [0] * number
    for at in range(5, step, 4):
        name = lines[at]
        if lines[at::step].count(name) != number or lines[at - 1 :: step].count(b"$%d" % len(name)) != number:
            return None
        values = lines[at + 2 :: step]
        lengths = list(map(len, values))
        if list(map(LENGTHS.get, lines[at + 1 :: step])) != lengths:
            return None
        payload = list(map(add, payload, lengths))
        # Integers begin with a digit or "-" and sort before ":"; most text does not.
        total = list(
            map(
                add,
                total,
                [
                    size + 2 if size < 64 and value >= b":" else sizes.of(value)
                    for value, size in zip(values, lengths, strict=True)
                ],
            )
        )
    return repeat(lines[5:step:4], number), total, payload


def _names_size(names: list[bytes]) -> int:
    """Return the bytes of the names and counts of an entry whose names differ from its node's."""
    number = len(names)
    return integer_size(number) + integer_size(2 * number + 4) + sum(map(element_size, names))


class _Sizes(dict[bytes, int]):
    """A cache of ``element_size`` by word, because words in streams often repeat."""

    __slots__ = ()

    def of(self, word: bytes) -> int:
        """Return ``element_size`` of a word, from the cache if the word is short: hashing reads all of a long one."""
        return self[word] if len(word) < _REMEMBERED_BYTES else element_size(word)

    def __missing__(self, word: bytes) -> int:
        size = element_size(word)
        if len(self) < _REMEMBERED:
            self[word] = size
        return size
