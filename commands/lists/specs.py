"""The syntax of the list commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import KEY, MANY_KEYS, block, double, integer, key, many, oneof, optional, string, token

if TYPE_CHECKING:
    from ..spec.grammar import History, Tree

_LEFT_OR_RIGHT = (token("LEFT"), token("RIGHT"))
_WHERE = oneof("where", *_LEFT_OR_RIGHT)
_COUNT = optional(integer("count", "COUNT"))
_SOURCE = key("source")
_DESTINATION = key("destination", spec=1)
_FROM_AND_TO = (oneof("wherefrom", *_LEFT_OR_RIGHT), oneof("whereto", *_LEFT_OR_RIGHT))
_TIMEOUT = double("timeout")
_HOW_MANY = optional(
    block(
        "how-many",
        oneof("selector", integer("count", "COUNT"), integer("exactly", "EXACTLY")),
        oneof("ordering", token("OBO"), token("BULK")),
    )
)

_MANY_ELEMENTS: History = (("2.4.0", "Takes several elements."),)
_MANY_ELEMENTS_X: History = (("4.0.0", "Takes several elements."),)
_POP_COUNT: History = (("6.2.0", "Added count."),)
_DOUBLE_TIMEOUT: History = (("6.0.0", "The timeout is a double instead of an integer."),)

LPUSH: Tree = (KEY, many(string("element")))
RPUSH: Tree = LPUSH
LPUSHX: Tree = LPUSH
RPUSHX: Tree = LPUSH
LPUSH_HISTORY = RPUSH_HISTORY = _MANY_ELEMENTS
LPUSHX_HISTORY = RPUSHX_HISTORY = _MANY_ELEMENTS_X
LPOP: Tree = (KEY, optional(integer("count", since="6.2.0")))
RPOP: Tree = LPOP
LPOP_HISTORY = RPOP_HISTORY = _POP_COUNT
LLEN: Tree = (KEY,)
LRANGE: Tree = (KEY, integer("start"), integer("stop"))
LINDEX: Tree = (KEY, integer("index"))
LSET: Tree = (KEY, integer("index"), string("element"))
LINSERT: Tree = (
    KEY,
    oneof("where", token("BEFORE"), token("AFTER")),
    string("pivot"),
    string("element"),
)
LREM: Tree = (KEY, integer("count"), string("element"))
LTRIM: Tree = (KEY, integer("start"), integer("stop"))
LPOS: Tree = (
    KEY,
    string("element"),
    optional(integer("rank", "RANK")),
    optional(integer("num-matches", "COUNT")),
    optional(integer("len", "MAXLEN")),
)
LMOVE: Tree = (_SOURCE, _DESTINATION, *_FROM_AND_TO)
RPOPLPUSH: Tree = (_SOURCE, _DESTINATION)
LMOVEM: Tree = (*LMOVE, _HOW_MANY)
LMPOP: Tree = (integer("numkeys"), MANY_KEYS, _WHERE, _COUNT)
BLPOP: Tree = (MANY_KEYS, _TIMEOUT)
BRPOP: Tree = BLPOP
BLPOP_HISTORY = BRPOP_HISTORY = _DOUBLE_TIMEOUT
BLMOVE: Tree = (*LMOVE, _TIMEOUT)
BLMOVEM: Tree = (*BLMOVE, _HOW_MANY)
BRPOPLPUSH: Tree = (*RPOPLPUSH, _TIMEOUT)
BRPOPLPUSH_HISTORY = _DOUBLE_TIMEOUT
BLMPOP: Tree = (_TIMEOUT, *LMPOP)
