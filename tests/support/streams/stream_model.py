"""A plain, slow model of one stream with its groups: dicts and lists, written from the rules alone.

IDs are pairs (ms, seq). Every method is a command and gives its reply as hiredis would decode it; an error is given by
its first word. Nothing here is shared with the server's own storage.
"""

from typing import Any

MOST = (1 << 63) - 1
MAX = ((1 << 64) - 1, (1 << 64) - 1)
NODE_ENTRIES = 3  # entries of one macro node, deleted ones included

Id = tuple[int, int]


def text(number: Id) -> bytes:
    return b"%d-%d" % number


class Pending:
    """One delivered entry; it has no owner if `owner` is None."""

    def __init__(self, owner: bytes | None, time: int, count: int) -> None:
        self.owner = owner
        self.time = time
        self.count = count


class GroupModel:
    def __init__(self, last: Id, read: int | None) -> None:
        self.last = last
        self.read = read
        self.consumers: dict[bytes, list[int]] = {}  # [seen, active]
        self.pel: dict[Id, Pending] = {}
        self.turn: list[Id] = []  # in the order in which they would be claimed: without owner, then by time

    def put(self, number: Id, owner: bytes | None, time: int, count: int) -> None:
        self.drop(number)
        self.pel[number] = Pending(owner, time, count)
        at = len(self.turn)
        while at and self._before(number, self.turn[at - 1]):
            at -= 1
        self.turn.insert(at, number)

    def _before(self, one: Id, other: Id) -> bool:
        a, b = self.pel[one], self.pel[other]
        if a.owner is None or b.owner is None:
            return a.owner is None and b.owner is not None
        return a.time < b.time

    def drop(self, number: Id) -> bool:
        if self.pel.pop(number, None) is None:
            return False
        self.turn.remove(number)
        return True

    def see(self, consumer: bytes, now: int) -> None:
        self.consumers.setdefault(consumer, [now, -1])[0] = now


class StreamModel:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000
        self.entries: dict[Id, list[bytes]] = {}
        self.nodes: list[list[list[Any]]] = []  # of [id, alive]
        self.last: Id = (0, 0)
        self.max_deleted: Id = (0, 0)
        self.added = 0
        self.groups: dict[bytes, GroupModel] = {}

    # Entries

    def _append(self, number: Id, fields: list[bytes]) -> None:
        if not self.nodes or len(self.nodes[-1]) >= NODE_ENTRIES:
            self.nodes.append([])
        self.nodes[-1].append([number, True])
        self.entries[number] = fields
        self.last = number
        self.added += 1

    def _remove(self, number: Id) -> bool:
        if number not in self.entries:
            return False
        del self.entries[number]
        for node in self.nodes:
            for item in node:
                if item[0] == number:
                    item[1] = False
        self.nodes = [node for node in self.nodes if any(alive for _, alive in node)]
        return True

    def _delete(self, number: Id) -> bool:
        if not self._remove(number):
            return False
        self.max_deleted = max(self.max_deleted, number)
        return True

    @property
    def first(self) -> Id:
        return min(self.entries, default=(0, 0))

    def _referenced(self, number: Id) -> bool:
        return any(group.last < number or number in group.pel for group in self.groups.values())

    def _forget(self, number: Id) -> int:
        return sum(group.drop(number) for group in self.groups.values())

    def xadd(self, number: Id, fields: list[bytes], trim: dict[str, Any] | None) -> Any:
        if number <= self.last:
            return "ERR"
        self._append(number, fields)
        if trim:
            self._trim(**trim)
        return text(number)

    def _trim(self, strategy: str, threshold: Any, approximate: bool, limit: int, policy: str) -> int:
        removed = 0

        def take(number: Id) -> int:
            if policy == "ACKED" and self._referenced(number):
                return 0
            self._remove(number)
            if policy == "DELREF":
                self._forget(number)
            return 1

        def is_reached(number: Id) -> bool:
            return len(self.entries) <= threshold if strategy == "MAXLEN" else number >= threshold

        if not approximate:
            for number in sorted(self.entries):
                if is_reached(number):
                    break
                removed += take(number)
            return removed
        for node in list(self.nodes):
            live = [number for number, alive in node if alive]
            if limit and removed + len(live) > limit:
                break
            if policy in {"DELREF", "ACKED"}:  # such a trim looks into the last node, too
                removed += sum([take(number) for number in live if not is_reached(number)])
                continue
            if strategy == "MAXLEN" and len(self.entries) - len(live) < threshold:
                break
            if strategy == "MINID" and node[-1][0] >= threshold:
                break
            removed += sum([take(number) for number in live])
        return removed

    def xtrim(self, **trim: Any) -> int:
        return self._trim(**trim)

    def xdel(self, ids: list[Id]) -> int:
        return sum([self._delete(number) for number in ids])

    def xdelex(self, policy: str, ids: list[Id]) -> list[int]:
        results = []
        for number in ids:
            if policy == "ACKED" and self._referenced(number):
                results.append(2)
                continue
            if policy == "DELREF":
                self._forget(number)
            results.append(1 if self._delete(number) else -1)
        return results

    # Groups

    def xgroup_create(self, name: bytes, last: Id) -> Any:
        if name in self.groups:
            return "BUSYGROUP"
        self.groups[name] = GroupModel(last, None)
        return b"OK"

    def xgroup_setid(self, name: bytes, last: Id, read: int | None) -> Any:
        if name not in self.groups:
            return "NOGROUP"
        group = self.groups[name]
        group.last = last
        group.read = None if read is None else min(read, self.added)
        return b"OK"

    def xgroup_destroy(self, name: bytes) -> int:
        return int(self.groups.pop(name, None) is not None)

    def xgroup_createconsumer(self, name: bytes, consumer: bytes) -> Any:
        if name not in self.groups:
            return "NOGROUP"
        new = consumer not in self.groups[name].consumers
        if new:
            self.groups[name].see(consumer, self.now)
        return int(new)

    def xgroup_delconsumer(self, name: bytes, consumer: bytes) -> Any:
        if name not in self.groups:
            return "NOGROUP"
        group = self.groups[name]
        if consumer not in group.consumers:
            return 0
        del group.consumers[consumer]
        mine = [number for number, entry in group.pel.items() if entry.owner == consumer]
        return sum([group.drop(number) for number in mine])

    def xack(self, name: bytes, ids: list[Id]) -> int:
        if name not in self.groups:
            return 0
        return sum([self.groups[name].drop(number) for number in ids])

    def xackdel(self, name: bytes, policy: str, ids: list[Id]) -> list[int]:
        if name not in self.groups:
            return [-1] * len(ids)
        results = []
        for number in ids:
            if not self.groups[name].drop(number):
                results.append(-1)
            elif policy == "ACKED" and self._referenced(number):
                results.append(2)
            else:
                if policy == "DELREF":
                    self._forget(number)
                self._delete(number)
                results.append(1)
        return results

    def xnack(self, name: bytes, mode: str, ids: list[Id], retry: int | None, force: bool) -> Any:
        if name not in self.groups:
            return "NOGROUP"
        group = self.groups[name]
        done = 0
        for number in ids:
            entry = group.pel.get(number)
            if entry is None and not (force and number in self.entries):
                continue
            count = 0 if entry is None else entry.count
            if retry is not None:
                count = retry
            elif mode == "SILENT":
                count = max(count - 1, 0)
            elif mode == "FATAL":
                count = MOST
            group.put(number, None, 0, count)
            done += 1
        return done

    def xclaim(
        self,
        name: bytes,
        consumer: bytes,
        min_idle: int,
        ids: list[Id],
        *,
        idle: int | None,
        retry: int | None,
        force: bool,
        just_id: bool,
        last: Id | None,
    ) -> Any:
        if name not in self.groups:
            return "NOGROUP"
        group = self.groups[name]
        if last is not None:
            group.last = max(group.last, last)
        group.see(consumer, self.now)
        found = []
        for number in ids:
            entry = group.pel.get(number)
            if number not in self.entries:
                group.drop(number)
                continue
            if entry is None and not force:
                continue
            if entry is not None and entry.owner is not None and self.now - entry.time < min_idle:
                continue
            count = 1 if entry is None else entry.count
            if retry is not None:
                count = retry
            elif not just_id:
                count = min(count + 1, MOST)
            group.put(number, consumer, self.now - (idle or 0), count)
            group.consumers[consumer][1] = self.now
            found.append(text(number) if just_id else self._item(number))
        return found

    def xautoclaim(
        self, name: bytes, consumer: bytes, min_idle: int, start: Id, count: int, just_id: bool
    ) -> Any:
        if name not in self.groups:
            return "NOGROUP"
        group = self.groups[name]
        group.see(consumer, self.now)
        waiting = sorted(number for number in group.pel if number >= start)
        found, gone = [], []
        budget = count * 10
        while waiting and count and budget:
            number = waiting.pop(0)
            budget -= 1
            entry = group.pel[number]
            if number not in self.entries:
                group.drop(number)
                gone.append(text(number))
            elif entry.owner is not None and self.now - entry.time < min_idle:
                continue
            else:
                times = entry.count if just_id else min(entry.count + 1, MOST)
                group.put(number, consumer, self.now, times)
                group.consumers[consumer][1] = self.now
                found.append(text(number) if just_id else self._item(number))
            count -= 1
        return [text(waiting[0]) if waiting else b"0-0", found, gone]

    def _item(self, number: Id) -> list[Any]:
        return [text(number), self.entries[number]]

    # Reading; sizes are those of the encoded entries

    def xreadgroup(
        self,
        name: bytes,
        consumer: bytes,
        after: Id | None,
        *,
        count: int | None,
        max_count: int | None,
        max_size: int | None,
        claim: int | None,
        no_ack: bool,
    ) -> Any:
        if name not in self.groups:
            return "NOGROUP"
        group = self.groups[name]
        group.see(consumer, self.now)
        most = min([number for number in (count, max_count) if number is not None], default=1 << 62)
        items: list[Any] = []
        size = encoded_size([b"s"])  # the pair of key and entries begins with the key

        def full() -> bool:
            return len(items) >= most or (max_size is not None and size >= max_size)

        if after is not None:
            for number in sorted(group.pel):
                if number <= after or group.pel[number].owner != consumer:
                    continue
                if full():
                    break
                items.append(self._item(number) if number in self.entries else [text(number), None])
                size += encoded_size(items[-1])
                if number in self.entries:
                    group.put(number, consumer, self.now, min(group.pel[number].count + 1, MOST))
            return [[b"s", items]]
        if claim is not None:
            for number in list(group.turn):
                entry = group.pel[number]
                if full() or (entry.owner is not None and self.now - entry.time < claim):
                    break
                if number not in self.entries:
                    continue
                since = self.now if entry.owner is None else self.now - entry.time
                items.append([*self._item(number), since, entry.count])
                size += encoded_size(items[-1])
                group.put(number, consumer, self.now, min(entry.count + 1, MOST))
                group.consumers[consumer][1] = self.now
        for number in sorted(number for number in self.entries if number > group.last):
            if full():
                break
            items.append(self._item(number) if claim is None else [*self._item(number), 0, 0])
            size += encoded_size(items[-1])
            self._advance(group, number)
            if not no_ack:
                group.put(number, consumer, self.now, 1)
                group.consumers[consumer][1] = self.now
        return [[b"s", items]] if items else None

    # Counters

    def _tombstone_from(self, number: Id) -> bool:
        return bool(self.entries) and self.max_deleted != (0, 0) and self.max_deleted >= number

    def _estimate(self, number: Id) -> int | None:
        if not self.added:
            return 0
        if not self.entries and number <= self.last:
            return self.added
        if number != (0, 0) and number < self.max_deleted:
            return None
        if number == self.last:
            return self.added
        if number > self.last:
            return None
        if self.max_deleted == (0, 0) or self.max_deleted < self.first:
            if number < self.first:
                return self.added - len(self.entries)
            if number == self.first:
                return self.added - len(self.entries) + 1
        return None

    def _advance(self, group: GroupModel, number: Id) -> None:
        if group.read is not None and group.last >= self.first and not self._tombstone_from(group.last):
            group.read += 1
        elif self.added:
            group.read = self._estimate(number)
        group.last = number

    def _lag(self, group: GroupModel) -> int | None:
        if not self.added or not self.entries:
            return 0
        if group.last < self.first and self.max_deleted < self.first:
            return len(self.entries)
        if group.read is not None and not self._tombstone_from(group.last):
            return self.added - group.read
        estimate = self._estimate(group.last)
        return None if estimate is None else self.added - estimate

    # Looking

    def xpending(self, name: bytes, idle: int, consumer: bytes | None) -> Any:
        if name not in self.groups:
            return "NOGROUP"
        group = self.groups[name]
        if consumer is not None and consumer not in group.consumers:
            return []
        return [
            [
                text(number),
                entry.owner or b"",
                -1 if entry.owner is None else self.now - entry.time,
                entry.count,
            ]
            for number, entry in sorted(group.pel.items())
            if (consumer is None or entry.owner == consumer)
            and (entry.owner is None or self.now - entry.time >= idle)
        ]

    def full(self) -> dict[bytes, Any]:
        """XINFO STREAM FULL COUNT 0, of the fields that are of interest here."""
        return {
            b"length": len(self.entries),
            b"radix-tree-keys": len(self.nodes),
            b"last-generated-id": text(self.last),
            b"max-deleted-entry-id": text(self.max_deleted),
            b"entries-added": self.added,
            b"recorded-first-entry-id": text(self.first),
            b"entries": [self._item(number) for number in sorted(self.entries)],
            b"groups": [self._full_group(name, self.groups[name]) for name in sorted(self.groups)],
        }

    def _full_group(self, name: bytes, group: GroupModel) -> dict[bytes, Any]:
        return {
            b"name": name,
            b"last-delivered-id": text(group.last),
            b"entries-read": group.read,
            b"lag": self._lag(group),
            b"pel-count": len(group.pel),
            b"nacked-count": sum(entry.owner is None for entry in group.pel.values()),
            b"pending": [
                [text(number), entry.owner or b"", entry.time, entry.count]
                for number, entry in sorted(group.pel.items())
            ],
            b"consumers": [
                {
                    b"name": consumer,
                    b"seen-time": seen,
                    b"active-time": active,
                    b"pel-count": sum(entry.owner == consumer for entry in group.pel.values()),
                    b"pending": [
                        [text(number), entry.time, entry.count]
                        for number, entry in sorted(group.pel.items())
                        if entry.owner == consumer
                    ],
                }
                for consumer, (seen, active) in sorted(group.consumers.items())
            ],
        }


def encoded_size(item: Any) -> int:
    """Bytes of a value in RESP2."""
    if item is None:
        return 5
    if isinstance(item, int):
        return len(b":%d\r\n" % item)
    if isinstance(item, bytes):
        return len(b"$%d\r\n" % len(item)) + len(item) + 2
    return len(b"*%d\r\n" % len(item)) + sum(map(encoded_size, item))
