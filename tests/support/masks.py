"""Masks: the positions of a reply that no two servers share, written out consistently.

A mask is `kind:path`. Kinds:

    ms    a time or an age: a number that is not negative becomes `<ms>`; -1 (never) stays
    id    a value the server made up (an automatic stream ID, a client ID): the n-th one seen becomes
          `<id:n>`, in this reply and in every later one
    sec   seconds left: a number above 0 is rounded up to tens, as a busy machine loses some between two commands;
          above a million it is what is left until a date, which may be at any second of ten: to 100,000
    sort  the elements stand in an order of the server's own (KEYS, a RESP3 set)
    own   a text that each server has in words of its own becomes `<own>`
    lines only the lines of a text that begin with the prefix behind the colon (`lines:keyspace_`)
    words only the words of a text that begin with a prefix behind the colon (`words:flags=,db=`)
    seen  a line that MONITOR sent: without its time, and the address of the client

A path goes down from the reply: `0` an index, `*` every element, a word the value beside that word, in a
map or in a flat array. `.` alone is the whole reply: `ms:groups.*.pending.*.2`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from support.wire import Node


def positions(node: Node, segment: str) -> list[int]:
    """The children that one segment of a path names."""
    children = node.children or ()
    if segment == "*":
        # Each value of a map, each element of anything else.
        return list(range(1, len(children), 2)) if node.kind == "%" else list(range(len(children)))
    if segment.isdigit():
        return [int(segment)] if int(segment) < len(children) else []
    word = segment.encode()
    return [
        at + 1
        for at in range(0, len(children) - 1, 2)
        if children[at].children is None and children[at].value == word
    ]


def change_at(node: Node, path: str, change: Callable[[Node], Node]) -> Node:
    """The tree with `change` applied to every node the path names."""
    if path in {"", "."}:
        return change(node)
    segment, _, rest = path.partition(".")
    if node.children is None:
        return node
    children = list(node.children)
    for at in positions(node, segment):
        children[at] = change_at(children[at], rest, change)
    return replace(node, children=tuple(children))


def hide_time(node: Node) -> Node:
    return node if node.is_null or node.value.startswith(b"-") else node.with_value(b"<ms>")


def round_seconds(node: Node) -> Node:
    if node.children is not None:
        return replace(node, children=tuple(map(round_seconds, node.children)))
    if node.is_null or not node.value.isdigit():
        return node
    seconds = int(node.value)
    unit = 10 if seconds <= 1_000_000 else 100_000
    return node.with_value(b"%d" % (-(-seconds // unit) * unit))


def sort_elements(node: Node) -> Node:
    return replace(node, children=tuple(sorted(node.children or (), key=lambda child: child.encode())))


def hide_origin(node: Node) -> Node:
    return node.with_value(re.sub(rb"^[\d.]+ \[(\d+) [^]]+\]", rb"<ms> [\1 <address>]", node.value))


def hide_words(node: Node) -> Node:
    return node if node.is_null else node.with_value(b"<own>")


def keep_lines(node: Node, beginning: str) -> Node:
    lines = [line for line in node.value.splitlines() if line.startswith(beginning.encode())]
    return node.with_value(b"\n".join(lines))


def keep_words(node: Node, beginnings: str) -> Node:
    kept = tuple(beginnings.encode().split(b","))
    return node.with_value(b" ".join(word for word in node.value.split() if word.startswith(kept)))


@dataclass
class Masks:
    """The automatic IDs one server has shown so far in one script."""

    seen: dict[bytes, int] = field(default_factory=dict)

    def learn(self, node: Node) -> Node:
        if node.children is None and not node.is_null and node.kind in "$+:":
            self.seen.setdefault(node.value, len(self.seen) + 1)
        return node

    def _hide_known(self, node: Node) -> Node:
        if node.children is not None:
            return replace(node, children=tuple(map(self._hide_known, node.children)))
        # Short values (a client ID such as 7) would hide unrelated numbers: only long ones are followed.
        number = self.seen.get(node.value) if len(node.value) > 10 and not node.is_null else None
        return node if number is None else node.with_value(b"<id:%d>" % number)

    def apply(self, reply: Node, masks: list[str]) -> Node:
        """The reply with its masked positions written out."""
        for mask in masks:
            kind, _, path = mask.partition(":")
            if kind == "id":
                reply = change_at(reply, path, self.learn)
                reply = change_at(
                    reply,
                    path,
                    # An error or a null stays: a version may lack the command.
                    lambda node: (
                        node.with_value(b"<id:%d>" % self.seen[node.value])
                        if node.value in self.seen
                        else node
                    ),
                )
            elif kind == "ms":
                reply = change_at(reply, path, hide_time)
            elif kind == "sec":
                reply = change_at(reply, path, round_seconds)
            elif kind == "sort":
                reply = change_at(reply, path, sort_elements)
            elif kind == "own":
                reply = change_at(reply, path, hide_words)
            elif kind == "seen":
                reply = change_at(reply, path, hide_origin)
            elif kind == "lines":
                reply = keep_lines(reply, path)
            elif kind == "words":
                reply = keep_words(reply, path)
            else:
                raise ValueError(f"unknown mask {mask!r}")
        return self._hide_known(reply)

    def fill_in(self, text: str) -> str:
        """`{n}` in a command is this server's own n-th automatic ID."""
        for value, number in self.seen.items():
            text = text.replace(f"{{{number}}}", value.decode())
        return text
