"""The list commands: one record each."""

from __future__ import annotations

from ..spec.command import Family
from ..spec.grammar import KEY, MANY_KEYS, block, double, integer, key, many, oneof, optional, string, token
from ..spec.key_specs import DELETES, INSERTS, INSPECTS, READS, TAKES, UPDATES, KeySpec, at

family = Family(
    __package__,
    "list",
    categories="list",
    modules={
        "blocking": "blmove blmpop blpop brpop brpoplpush",
        "elements": "lindex linsert llen lmpop lpop lpos lpush lpushx lrange lrem lset ltrim rpop rpush rpushx",
        "lmovem": "blmovem lmovem",
        "moves": "lmove rpoplpush",
    },
)

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
_LPUSH_ARGUMENTS = (KEY, many(string("element")))
_LPOP_ARGUMENTS = (KEY, optional(integer("count", since="6.2.0")))
_LMOVE_ARGUMENTS = (_SOURCE, _DESTINATION, *_FROM_AND_TO)
_RPOPLPUSH_ARGUMENTS = (_SOURCE, _DESTINATION)
_LMPOP_ARGUMENTS = (integer("numkeys"), MANY_KEYS, _WHERE, _COUNT)
_BLPOP_ARGUMENTS = (MANY_KEYS, _TIMEOUT)
_BLMOVE_ARGUMENTS = (*_LMOVE_ARGUMENTS, _TIMEOUT)
_PUSH_COST = "O(N); N: elements given"

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

BLPOP = family.write("BLPOP", arity=-3, flags="blocking", keys=(at(1, "RW access delete", last=-2),),
    since="2.0.0",
    summary="Takes the first element of the first list that exists; waits for one if none does.",
    complexity="O(K); K: keys given",
    arguments=_BLPOP_ARGUMENTS,
    history={"6.0.0": "The timeout is a double instead of an integer."})

BRPOP = family.write("BRPOP", arity=-3, flags="blocking", keys=(at(1, "RW access delete", last=-2),),
    since="2.0.0",
    summary="Takes the last element of the first list that exists; waits for one if none does.",
    complexity="O(K); K: keys given",
    arguments=_BLPOP_ARGUMENTS,
    history={"6.0.0": "The timeout is a double instead of an integer."})

BLMOVE = family.write("BLMOVE", arity=6, flags="denyoom blocking",
    keys=(at(1, "RW access delete"), at(2, "RW insert")), since="6.2.0",
    summary="Moves an element from one list to another and returns it; waits for one if there is none.",
    arguments=_BLMOVE_ARGUMENTS)

BRPOPLPUSH = family.write("BRPOPLPUSH", arity=4, flags="denyoom blocking",
    keys=(at(1, "RW access delete"), at(2, "RW insert")), since="2.2.0", doc_flags="deprecated",
    deprecated_since="6.2.0", replaced_by="`BLMOVE` with the `RIGHT` and `LEFT` arguments",
    summary="Moves the last element of a list to the start of another; waits for one if there is none.",
    arguments=(*_RPOPLPUSH_ARGUMENTS, _TIMEOUT),
    history={"6.0.0": "The timeout is a double instead of an integer."})

BLMPOP = family.write("BLMPOP", arity=-5, flags="blocking movablekeys",
    keys=(KeySpec(("RW", "access", "delete"), ("index", 2), ("keynum", 0, 1, 1)),), since="7.0.0",
    summary="Takes elements from the first list that exists; waits for one if none does.",
    complexity="O(K+N); K: keys given, N: elements returned",
    arguments=(_TIMEOUT, *_LMPOP_ARGUMENTS))

LPUSH = family.write("LPUSH", arity=-3, flags="denyoom fast", keys=INSERTS, since="1.0.0",
    summary="Adds elements at the start of a list; creates the list if it is missing.",
    complexity=_PUSH_COST,
    arguments=_LPUSH_ARGUMENTS,
    history={"2.4.0": "Takes several elements."})

RPUSH = family.write("RPUSH", arity=-3, flags="denyoom fast", keys=INSERTS, since="1.0.0",
    summary="Adds elements at the end of a list; creates the list if it is missing.",
    complexity=_PUSH_COST,
    arguments=_LPUSH_ARGUMENTS,
    history={"2.4.0": "Takes several elements."})

LPUSHX = family.write("LPUSHX", arity=-3, flags="denyoom fast", keys=INSERTS, since="2.2.0",
    summary="Adds elements at the start of an existing list.",
    complexity=_PUSH_COST,
    arguments=_LPUSH_ARGUMENTS,
    history={"4.0.0": "Takes several elements."})

RPUSHX = family.write("RPUSHX", arity=-3, flags="denyoom fast", keys=INSERTS, since="2.2.0",
    summary="Adds elements at the end of an existing list.",
    complexity=_PUSH_COST,
    arguments=_LPUSH_ARGUMENTS,
    history={"4.0.0": "Takes several elements."})

LPOP = family.write("LPOP", arity=-2, flags="fast", keys=TAKES, since="1.0.0",
    summary="Takes the first elements of a list away and returns them.",
    complexity="O(N); N: elements returned",
    arguments=_LPOP_ARGUMENTS,
    history={"6.2.0": "Added count."})

RPOP = family.write("RPOP", arity=-2, flags="fast", keys=TAKES, since="1.0.0",
    summary="Takes the last elements of a list away and returns them.",
    complexity="O(N); N: elements returned",
    arguments=_LPOP_ARGUMENTS,
    history={"6.2.0": "Added count."})

LLEN = family.read("LLEN", arity=2, flags="fast", keys=INSPECTS, since="1.0.0",
    summary="Returns the number of elements in a list.",
    arguments=(KEY,))

LRANGE = family.read("LRANGE", arity=4, keys=READS, since="1.0.0",
    summary="Returns the elements of a list from one index to another.",
    complexity="O(S+N); S: elements between the start and the nearer end, N: elements returned",
    arguments=(KEY, integer("start"), integer("stop")))

LINDEX = family.read("LINDEX", arity=3, keys=READS, since="1.0.0",
    summary="Returns the element at an index of a list.",
    complexity="O(N); N: elements between the index and the nearer end",
    arguments=(KEY, integer("index")))

LSET = family.write("LSET", arity=4, flags="denyoom", keys=UPDATES, since="1.0.0",
    summary="Replaces the element at an index of a list.",
    complexity="O(N); N: elements between the index and the nearer end",
    arguments=(KEY, integer("index"), string("element")))

LINSERT = family.write("LINSERT", arity=5, flags="denyoom", keys=INSERTS, since="2.2.0",
    summary="Adds an element to a list, before or after a given one.",
    complexity="O(N); N: elements before the pivot",
    arguments=(KEY, oneof("where", token("BEFORE"), token("AFTER")), string("pivot"), string("element")))

LREM = family.write("LREM", arity=4, keys=DELETES, since="1.0.0",
    summary="Removes elements that are equal to one from a list.",
    complexity="O(N); N: elements of the list",
    arguments=(KEY, integer("count"), string("element")))

LTRIM = family.write("LTRIM", arity=4, keys=DELETES, since="1.0.0",
    summary="Removes all elements of a list outside a range of indices.",
    complexity="O(N); N: elements removed",
    arguments=(KEY, integer("start"), integer("stop")))

LPOS = family.read("LPOS", arity=-3, keys=READS, since="6.0.6",
    summary="Returns the indices of elements of a list that are equal to one.",
    complexity="O(N); N: elements compared, at most MAXLEN",
    arguments=(KEY, string("element"), optional(integer("rank", "RANK")),
        optional(integer("num-matches", "COUNT")), optional(integer("len", "MAXLEN"))))

LMOVEM = family.write("LMOVEM", arity=-5, flags="denyoom",
    keys=(at(1, "RW access delete"), at(2, "RW insert")), since="8.10.0",
    summary="Takes elements from one end of a list, puts them at one end of another and returns them.",
    complexity="O(N); N: elements moved",
    arguments=(*_LMOVE_ARGUMENTS, _HOW_MANY))

BLMOVEM = family.write("BLMOVEM", arity=-6, flags="denyoom blocking",
    keys=(at(1, "RW access delete"), at(2, "RW insert")), since="8.10.0",
    summary="Moves elements from one list to another and returns them; waits until there are enough.",
    complexity="O(N); N: elements moved",
    arguments=(*_BLMOVE_ARGUMENTS, _HOW_MANY))

LMOVE = family.write("LMOVE", arity=5, flags="denyoom", keys=(at(1, "RW access delete"), at(2, "RW insert")),
    since="6.2.0",
    summary="Takes an element from one end of a list, puts it at one end of another and returns it.",
    arguments=_LMOVE_ARGUMENTS)

RPOPLPUSH = family.write("RPOPLPUSH", arity=3, flags="denyoom",
    keys=(at(1, "RW access delete"), at(2, "RW insert")), since="1.2.0", doc_flags="deprecated",
    deprecated_since="6.2.0", replaced_by="`LMOVE` with the `RIGHT` and `LEFT` arguments",
    summary="Moves the last element of a list to the start of another and returns it.",
    arguments=_RPOPLPUSH_ARGUMENTS)

LMPOP = family.write("LMPOP", arity=-4, flags="movablekeys",
    keys=(KeySpec(("RW", "access", "delete"), ("index", 1), ("keynum", 0, 1, 1)),), since="7.0.0",
    summary="Takes elements from one end of the first list that exists and returns them.",
    complexity="O(K+N); K: keys given, N: elements returned",
    arguments=_LMPOP_ARGUMENTS)

# fmt: on
