"""Takes out of a reply what no two servers share: times, ages, the order of hash tables, ids of clients."""

import re
from dataclasses import replace

from differential.anything import LATER_MS, LATER_S, UNORDERED, Words
from support.left_out import LEFT_OUT
from support.masks import change_at, sort_elements
from support.wire import Node

# Times of this century in seconds or milliseconds, and automatic ids of streams.
NOW = re.compile(rb"1[5-9]\d{8}(\d{3}(-\d+)?)?")
# A time in an effect: 13 digits, an automatic id also with its sequence.
TIME = re.compile(rb"\d{13}(-\d+)?|1[5-9]\d{8}")
AGES = {b"idle", b"inactive", b"seen-time", b"active-time"}
# What is left of a time: two servers are asked one after the other.
REMAINING = {"pttl", "ttl", "hpttl", "httl"}
EXPIRING = {"pexpiretime", "expiretime", "hpexpiretime", "hexpiretime"}
# Absolute times that commands name are compared as they are.
STANDING = {LATER_MS.encode(), LATER_S.encode()}
# What CLIENT LIST shows that two servers share; of the other fields the names are compared.
SHARED = {
    b"name", b"db", b"sub", b"psub", b"ssub", b"multi", b"watch", b"flags", b"user", b"resp", b"lib-name", b"lib-ver",
    b"cmd",
}  # fmt: skip


def hide(node: Node, words: Words) -> Node:
    """A reply without what no two servers share: times, ages, the order of hash tables."""
    name = words[0].lower() if words else ""
    sub = words[1].lower() if len(words) > 1 else ""
    if name in {"client", "hello", "acl", "config", "function", "dump", "pubsub"}:
        return hide_of_servers(node, name, sub)
    if name in {"unsubscribe", "punsubscribe", "sunsubscribe"} and len(words) == 1:
        return _sorted_names(node)
    if name in REMAINING:
        return _hide_numbers(node, at_least=0)
    if name in EXPIRING:
        return _hide_numbers(node, at_least=10**9)
    if name == "object" and sub == "encoding":  # hash-templates, room-for-times
        plain = {
            b"template-listpack": b"listpack",
            b"template-array": b"hashtable",
            b"listpackex": b"listpack",
        }
        return node if node.is_null else node.with_value(plain.get(node.value, node.value))
    if name == "object":
        return _hide_numbers(node, at_least={"refcount": 1, "idletime": 0}.get(sub, 10**30))  # refcounts
    if name in {"sort", "sort_ro"} and "BY" in {word.upper() for word in words}:
        return _sorted_deep(node)  # elements of equal weight
    if name in UNORDERED:
        has_pairs = name in {"hgetall", "hscan", "zscan"} and "NOVALUES" not in {
            word.upper() for word in words
        }
        node = _sorted_pairs(node) if has_pairs else _sorted_deep(node)
    if name in {"xpending", "xreadgroup"}:
        node = _hide_idle(node, name)
    return _hide_now(without_tree(node) if name == "xinfo" else node)


def without_tree(reply: Node) -> Node:
    """XINFO STREAM without `radix-tree-nodes`: Redis 8 leaves nodes behind when entries are deleted."""
    return change_at(reply, "radix-tree-nodes", lambda node: node.with_value(b"<nodes>"))


def _hide_now(node: Node) -> Node:
    if node.children is None:
        return node.with_value(b"<now>") if node.kind in ":$" and NOW.fullmatch(node.value) else node
    children = list(map(_hide_now, node.children))
    for at, child in enumerate(children[:-1]):
        if child.children is None and child.value in AGES and children[at + 1].kind == ":":
            value = children[at + 1]
            children[at + 1] = value if value.value == b"-1" else value.with_value(b"<age>")
    return replace(node, children=tuple(children))


def _hide_numbers(node: Node, at_least: int) -> Node:
    if node.children is not None:
        return replace(node, children=tuple(_hide_numbers(child, at_least) for child in node.children))
    if node.kind != ":" or node.value in STANDING or int(node.value) < at_least:
        return node
    return node.with_value(b"<time>")


def _sorted_deep(node: Node) -> Node:
    if node.children is None:
        return node
    inner = replace(node, children=tuple(map(_sorted_deep, node.children)))
    return sort_elements(inner)


def _sorted_pairs(node: Node) -> Node:
    """Names with their values: pairs in a flat array, or in the second element of a scan's reply."""
    children = node.children or ()
    if len(children) == 2 and children[1].children is not None:
        return replace(node, children=(children[0], _sorted_pairs(children[1])))
    if len(children) % 2:
        return node
    pairs = sorted(zip(children[::2], children[1::2], strict=True), key=lambda pair: pair[0].encode())
    return replace(node, children=tuple(part for pair in pairs for part in pair))


def _sorted_names(node: Node) -> Node:
    """What a client left: the names are in the order of a hash table, the counts are not."""
    each = [part for part in node.children or () if len(part.children or ()) == 3]
    if len(each) < 2:
        return node
    names = sorted((part.children[1] for part in each), key=str)
    children = tuple(
        replace(part, children=(part.children[0], name, part.children[2]))
        for part, name in zip(each, names, strict=True)
    )
    return replace(node, children=children)


def _hide_idle(node: Node, name: str) -> Node:
    """XPENDING's third column, and the one of XREADGROUP CLAIM: [id, fields, idle, deliveries]."""
    if node.children is None:
        return node
    children = tuple(_hide_idle(child, name) for child in node.children)
    kinds = [child.kind for child in children]
    if len(children) == 4 and kinds[2:] == [":", ":"]:
        children = (*children[:2], children[2].with_value(b"<age>"), children[3])
    return replace(node, children=children)


def hide_of_servers(node: Node, name: str, sub: str) -> Node:
    """A reply about the server or its clients without their ids, ages and sizes."""
    if node.kind == "-":
        return node.with_value(re.sub(rb"'\d+'", b"'<id>'", node.value))
    if node.kind == "+":  # OK, QUEUED
        return node
    if name == "pubsub":
        return _sorted_deep(node) if sub in {"channels", "shardchannels"} else node
    if name == "dump":
        return node if node.is_null else node.with_value(b"<payload>")
    if name == "function":
        if sub == "dump":
            return node if node.is_null else node.with_value(b"<payload>")
        return _sorted_deep(node) if sub == "list" else node
    if name == "hello":
        return change_at(
            change_at(node, "id", _hide_id), "modules", lambda each: replace(each, header=b"0", children=())
        )
    if name == "config":
        return _sorted_pairs(node) if sub == "get" else node
    if name == "acl":
        return _hide_of_acl(node, sub)
    if sub in {"list", "info"}:
        # Redis turns the list of its clients round and round while it looks after them.
        lines = node.value.removeprefix(b"txt:").splitlines()
        return node.with_value(b"\n".join(sorted(map(_hide_client, lines))))
    if sub in {"id", "getredir"}:
        return _hide_id(node)
    return change_at(node, "redirect", _hide_id)


def hide_of_message(node: Node) -> Node:
    """A message without the id of the client that it names."""
    if node.children and node.children[0].value == b"tracking-redir-broken":
        return replace(node, children=tuple(map(_hide_id, node.children)))
    return node


def _hide_of_acl(node: Node, sub: str) -> Node:
    if sub == "log":
        for field in ("age-seconds", "entry-id", "timestamp-created", "timestamp-last-updated"):
            node = change_at(node, f"*.{field}", lambda each: each.with_value(b"<number>"))
        return change_at(node, "*.client-info", lambda each: each.with_value(_hide_client(each.value)))
    if sub == "cat":  # commands-left-out
        served = [each for each in node.children or () if not LEFT_OUT.match(each.value.decode())]
        return _sorted_deep(replace(node, header=b"%d" % len(served), children=tuple(served)))
    return node


def _hide_id(node: Node) -> Node:
    """The number of a client; 0 and -1 mean none."""
    return node if node.kind != ":" or node.value in {b"0", b"-1"} else node.with_value(b"<id>")


def _hide_client(line: bytes) -> bytes:
    pairs = [field.partition(b"=") for field in line.split(b" ")]
    if re.search(rb" flags=\w*d", line):  # watched-after-flush
        pairs = [(name, "", b"") if name == b"watch" else (name, same, value) for name, same, value in pairs]
    return b" ".join(name + b"=" + (value if name in SHARED else b"") for name, _, value in pairs)
