"""What Valkey and redis-server 7.0 answer or append, turned into what Redis 8 does: lags, and XGROUP SETID after reads."""

import re

from support.masks import change_at
from support.wire import Node

READ_CLAIM = re.compile(rb"XCLAIM (\S+) (\S+) \S+ 0 (\S+) TIME \S+ RETRYCOUNT 1 FORCE JUSTID LASTID \3")


def fields_of(node: Node) -> dict[bytes, Node]:
    """A map, or a flat array of names and values, as a dict."""
    children = node.children or ()
    return {name.value: value for name, value in zip(children[::2], children[1::2], strict=True)}


def id_of(node: Node) -> tuple[int, int]:
    ms, _, seq = node.value.partition(b"-")
    return int(ms), int(seq)


def lag_in_redis_8(stream: dict[bytes, Node], group: dict[bytes, Node]) -> int | None:
    """Compute the lag as Redis 8.0 does; Valkey 9.1 and Redis 7.0 treat deleted entries differently."""
    length, added = int(stream[b"length"].value), int(stream[b"entries-added"].value)
    last, first = id_of(stream[b"last-generated-id"]), id_of(stream[b"recorded-first-entry-id"])
    max_deleted, delivered = id_of(stream[b"max-deleted-entry-id"]), id_of(group[b"last-delivered-id"])
    if added == 0 or length == 0:
        return 0
    if delivered < first and max_deleted < first:
        return length
    tombstones_ahead = max_deleted != (0, 0) and max_deleted >= delivered
    if not group[b"entries-read"].is_null and not tombstones_ahead:
        return added - int(group[b"entries-read"].value)
    if delivered != (0, 0) and delivered < max_deleted:
        return None
    if delivered == last:
        return 0
    if delivered < last and max_deleted < first and delivered == first:
        return length - 1
    return None


def full_in_redis_8(full: Node) -> Node:
    """An XINFO STREAM FULL reply with the lags of Redis 8.0."""
    if full.kind == "-":
        return full
    stream = fields_of(full)

    def with_lag(group: Node) -> Node:
        lag = lag_in_redis_8(stream, fields_of(group))
        null = Node("_", b"") if full.kind == "%" else Node("$", b"-1")
        return change_at(group, "lag", lambda _: null if lag is None else Node(":", b"%d" % lag))

    return change_at(full, "groups.*", with_lag)


def without_setid_of_reads(effects: list[bytes]) -> list[bytes]:
    """The effects as 7.0 writes them: only since 7.4 XREADGROUP's XCLAIMs are followed by XGROUP SETID.

    The counter of the other XGROUP SETIDs is 7.0's own as well (lag fixes), so it is not compared.
    """
    out: list[bytes] = []
    for effect in effects:
        claim = READ_CLAIM.fullmatch(out[-1]) if out else None
        if claim and effect.startswith(b"XGROUP SETID %s %s %s ENTRIESREAD " % claim.groups()):
            continue
        has_counter = effect.startswith(b"XGROUP SETID ") and b" ENTRIESREAD " in effect
        out.append(effect.rpartition(b" ")[0] if has_counter else effect)
    if len(out) == 3 and out[0] == b"MULTI" and out[2] == b"EXEC":
        return out[1:2]
    return out


def without_tree(reply: Node) -> Node:
    """XINFO STREAM without `radix-tree-nodes`: Redis 8 leaves nodes behind when entries are deleted."""
    return change_at(reply, "radix-tree-nodes", lambda node: node.with_value(b"<nodes>"))
