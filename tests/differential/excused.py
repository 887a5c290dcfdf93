"""THE list of version differences: where real servers differ, what each says, and which one is right.

A line of a script names its excuse after `##`. The comparison fails unless the line is in need of it, and
unless the servers say what is stated here. `says` holds whole replies in the notation of `str(Node)`
(support/wire.py) where one text holds for both protocols; `right` is whose reply Rillet must give:
"redis7", "valkey", or "8.0" (then `says["8.0"]`). A line may add `8.0:<path>=<value>`: Redis 8.0 answers as
the right server does, except for the value there.

The rules are those of Redis 8.0; valkey stands for what is true since 7.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from support.masks import change_at
from support.wire import Node


@dataclass(frozen=True)
class Excuse:
    """One difference: the rule that explains it, whose reply is right, who says what."""

    rule: str
    right: str
    says: dict[str, str] = field(default_factory=dict)
    protocols: tuple[int, ...] = (2, 3)


INVALID_ID = "-ERR Invalid stream ID specified as stream command argument"
NO_KEY = "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option"
NO_SETINFO = "-ERR unknown subcommand 'SETINFO'. Try CLIENT HELP."
NO_WITHSCORE = "-ERR wrong number of arguments for '%s' command"

EXCUSES: dict[str, Excuse] = {
    # Scripts.
    "script-errors": Excuse("Valkey's errors of scripts name no SHA1, and its table is `server`", "redis7"),
    # Consumers.
    "consumers-since-7.2": Excuse(
        "since 7.2: the consumer exists after a read or claim of nothing; XINFO CONSUMERS shows `inactive`",
        "valkey",
    ),
    "full-since-7.2": Excuse("since 7.2: XINFO STREAM FULL shows `active-time`", "valkey"),
    "consumers-of-empty-reads": Excuse(
        "since 7.2: XREADGROUP makes its consumer though it reads nothing", "valkey"
    ),
    "consumers-of-empty-claims": Excuse(
        "since 7.2: XCLAIM makes its consumer though it claims nothing", "valkey"
    ),
    # Counters.
    "lag-fixes": Excuse(
        "since 7.4 and 8.0: a group behind all deletions lags by the length, one of an empty stream by nothing (#13338, #13473, #13958)",
        "valkey",
    ),
    # Ids.
    "partial-id-exhausted": Excuse(
        "`ms-*` with its sequence exhausted is an id that is too small",
        "valkey",
        {
            "redis7": "-ERR Elements are too large to be stored",
            "valkey": "-ERR The ID specified in XADD is equal or smaller than the target stream top item",
        },
    ),
    "xsetid-below-max-deleted": Excuse(
        "an empty stream's last id may not fall below its max-deleted-entry-id",
        "valkey",
        {
            "redis7": "+OK",
            "valkey": "-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
        },
    ),
    # Bitmaps.
    "bit-range-of-missing-count": Excuse(
        "since 7.2: the range is looked at before the key",
        "valkey",
        {"redis7": ":0", "valkey": "-ERR value is not an integer or out of range"},
    ),
    "bit-range-of-missing-count-syntax": Excuse(
        "since 7.2: the range is looked at before the key",
        "valkey",
        {"redis7": ":0", "valkey": "-ERR syntax error"},
    ),
    "bit-range-of-missing-position": Excuse(
        "since 7.2: the range is looked at before the key",
        "valkey",
        {"redis7": ":0", "valkey": "-ERR value is not an integer or out of range"},
    ),
    # XREAD.
    "unbalanced-xread": Excuse(
        "the text names the command and, since 7.4, `+`",
        "8.0",
        {
            "redis7": "-ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
            "valkey": "-ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified.",
            "8.0": "-ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified.",
        },
    ),
    "unbalanced-xreadgroup": Excuse(
        "the text names the command",
        "valkey",
        {
            "redis7": "-ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
            "valkey": "-ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.",
        },
    ),
    "plus-in-xreadgroup": Excuse(
        "`+` is refused as `$` is, with its own text", "valkey", {"redis7": INVALID_ID}
    ),
    "xread-plus": Excuse("`+` is the last entry (7.4)", "valkey", {"redis7": INVALID_ID}),
    "xread-plus-after-delete": Excuse(
        "`+` is the last existing entry, where valkey takes the last generated id",
        "8.0",
        {
            "redis7": INVALID_ID,
            "8.0": '*[*[$"s" *[*[$"1-0" *[$"f" $"v"]]]]]',
            "8.0 resp3": '%[$"s" *[*[$"1-0" *[$"f" $"v"]]]]',
        },
    ),
    "block-overflow": Excuse(
        "a timeout that overflows the clock is an error; 7.0 waited",
        "valkey",
        {"redis7": "silent b''", "valkey": r"silent b'-ERR timeout is out of range\r\n'"},
    ),
    # Blocking.
    "unblocked-by-del": Excuse(
        "since 7.2: a blocked command is executed again, so it fails as it would now",
        "valkey",
        {"redis7": "-UNBLOCKED the stream key no longer exists", "valkey": NO_KEY},
    ),
    "unblocked-by-set": Excuse(
        "since 7.2: a blocked command is executed again, so it fails as it would now",
        "valkey",
        {
            "redis7": "-UNBLOCKED the stream key no longer exists",
            "valkey": "-WRONGTYPE Operation against a key holding the wrong kind of value",
        },
    ),
    "unblocked-by-destroy": Excuse(
        "since 7.2: a blocked command is executed again, so it fails as it would now",
        "valkey",
        {
            "redis7": "-NOGROUP the consumer group this client was blocked on no longer exists",
            "valkey": NO_KEY,
        },
    ),
    "reexecuted-read": Excuse("since 7.2: a blocked read is executed again, all its keys", "valkey"),
    "nothing-left-to-read": Excuse("6.4, 14: a reader woken for nothing blocks again", "valkey"),
    "push-to-oneself": Excuse(
        "since 7.2 a push caused by one's own command comes behind its reply", "valkey"
    ),
    # Help and texts.
    "help-since-7.2": Excuse("the help's last line is `Print this help.`", "valkey"),
    "acl-texts": Excuse("server 3.6: since 7.2 the refusal names the user", "valkey"),
    "hello": Excuse("server 4.1: Redis' name; no module is told", "redis7"),
    "hello-noauth": Excuse("server 4.1: the text says <proto>", "valkey"),
    "no-unauthenticated-errors": Excuse(
        "server 3: unknown command and arity are told before the missing authentication",
        "redis7",
        {"valkey": "-NOAUTH Authentication required."},
    ),
    # Client.
    "client-setinfo": Excuse("server 5: CLIENT SETINFO (7.2)", "valkey", {"redis7": NO_SETINFO}),
    "client-no-touch": Excuse(
        "server 5: CLIENT NO-TOUCH (7.2)",
        "valkey",
        {"redis7": "-ERR unknown subcommand 'NO-TOUCH'. Try CLIENT HELP.", "valkey": "+OK"},
    ),
    "client-list-id": Excuse(
        "server 5: the text for a bad client id in LIST",
        "redis7",
        {"redis7": "-ERR Invalid client ID", "valkey": "-ERR syntax error"},
    ),
    "client-kill-id": Excuse(
        "server 5: the text for a bad client id in KILL",
        "redis7",
        {"redis7": "-ERR client-id should be greater than 0", "valkey": "-ERR syntax error"},
    ),
    # What Valkey changed for itself.
    "valkey-no-multi": Excuse(
        "server 9: MULTI and WATCH inside MULTI are errors that spoil nothing", "redis7"
    ),
    "valkey-flags": Excuse("server 6: flags that only Valkey has", "redis7"),
    "valkey-subcommands": Excuse(
        "server 6: in RESP3 an empty list of subcommands is a set in Redis", "redis7", protocols=(3,)
    ),
    "valkey-readonly": Excuse(
        "server 11: READONLY and READWRITE need a cluster",
        "redis7",
        {"redis7": "-ERR This instance has cluster support disabled", "valkey": "+OK"},
    ),
    "valkey-lua-module": Excuse("server 11: Valkey's Lua is a module", "redis7", {"redis7": "*[]"}),
    "valkey-embstr": Excuse(
        "strings above 44 bytes are raw in Redis", "redis7", {"redis7": '$"raw"', "valkey": '$"embstr"'}
    ),
    "valkey-expired-event": Excuse(
        "EXPIRE with a past time tells `del` in Redis, `expired` in Valkey", "redis7"
    ),
    "valkey-quotes": Excuse(
        "server 2.1: a closing quote must be followed by whitespace",
        "redis7",
        {"redis7": "-ERR Protocol error: unbalanced quotes in request", "valkey": '$"abcd"'},
    ),
    "valkey-crlf": Excuse("server 2.1: the CRLF behind a bulk is skipped unseen", "redis7"),
    # Lists.
    "compact-lists": Excuse(
        "a small list is a listpack since 7.2; in 7.0 every list was a quicklist",
        "valkey",
        {"redis7": '$"quicklist"', "valkey": '$"listpack"'},
    ),
    "list-counts": Excuse(
        "LREM refuses the least integer since 7.2, for it has no opposite",
        "valkey",
        {
            "redis7": ":0",
            "valkey": "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        },
    ),
    "list-rank": Excuse(
        "LPOS refuses the least integer as RANK since 7.2, for it has no opposite",
        "valkey",
        {
            "redis7": ":5",
            "valkey": "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        },
    ),
    "timeout-overflow": Excuse(
        "a timeout that overflows the clock is out of range since 7.2",
        "valkey",
        {"redis7": "-ERR timeout is negative", "valkey": "-ERR timeout is out of range"},
    ),
    "reexecuted-pop": Excuse(
        "since 7.2: a blocked command is executed again, all its keys in their order", "valkey"
    ),
    "valkey-sort-numbers": Excuse(
        "SORT reads numbers as C does (white space before, hexadecimal, nothing at all is 0); Valkey has its own reader",
        "redis7",
    ),
    "valkey-geo-member": Excuse(
        "the text for a member that is to be the center and is missing",
        "redis7",
        {
            "redis7": "-ERR could not decode requested zset member",
            "valkey": "-ERR member nope does not exist",
        },
    ),
    "valkey-polygon": Excuse("Valkey searches polygons, and its text tells so", "redis7"),
    "valkey-idle-trim": Excuse(
        "an LTRIM that removes nothing touches the key for WATCH; not in Valkey",
        "redis7",
    ),
    # Keys.
    "scan-unknown-type": Excuse(
        "server 10: SCAN refuses a type it does not know",
        "valkey",
        {"redis7": '*[$"0" *[]]', "valkey": "-ERR unknown type name 'foo'"},
    ),
    "getkeys-arity": Excuse(
        "server 6: COMMAND GETKEYS takes a command of one word",
        "valkey",
        {"redis7": "-ERR wrong number of arguments for 'command|getkeys' command"},
    ),
    # Sets and sorted sets.
    "small-sets": Excuse(
        "small sets are listpacks (7.2)", "valkey", {"redis7": '$"hashtable"', "valkey": '$"listpack"'}
    ),
    "withscore": Excuse("ZRANK WITHSCORE (7.2)", "valkey", {"redis7": NO_WITHSCORE % "zrank"}),
    "withscore-reverse": Excuse("ZREVRANK WITHSCORE (7.2)", "valkey", {"redis7": NO_WITHSCORE % "zrevrank"}),
    "shortest-scores": Excuse("scores have the fewest digits that tell them from others (7.2)", "valkey"),
}


# Rillet that answers as 7.2 is compared with Valkey, which left Redis between 7.2 and 7.4. In these lines Valkey has
# its own mind (or what Redis brought with 7.4), and Rillet says what redis-server 7.0 does. As 7.0, it is redis-server
# 7.0 byte by byte, without any excuse.
NOT_AS_VALKEY: dict[str, str] = {
    "script-errors": "Valkey's own words",
    "hello": "Valkey's own name, version and module",
    "no-unauthenticated-errors": "Valkey checks the password first",
    "client-list-id": "Valkey's own text",
    "client-kill-id": "Valkey's own text",
    "valkey-no-multi": "Valkey has a flag no_multi; the commands spoil the transaction",
    "valkey-flags": "Valkey's own flags",
    "valkey-subcommands": "Valkey sends an empty array",
    "valkey-readonly": "Valkey serves READONLY without a cluster",
    "valkey-lua-module": "Valkey's Lua is a module",
    "valkey-embstr": "Valkey's own limit",
    "valkey-expired-event": "Valkey's own event",
    "valkey-idle-trim": "Valkey's own idea",
    "valkey-geo-member": "Valkey's own text",
    "valkey-polygon": "Valkey's own option",
    "valkey-sort-numbers": "Valkey's own reader",
    "valkey-quotes": "Valkey's own parser",
    "valkey-crlf": "Valkey's own parser",
    "xread-plus": "since 7.4, and Valkey took it over",
    "xread-plus-after-delete": "since 7.4, and Valkey took it over",
}

# Differences in generated runs: transformations of what valkey says into what Redis 8.0 says.


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


# Differences of what is appended to the AOF.


@dataclass(frozen=True)
class Effects:
    """What valkey appends for a line of a script, and what Redis 8.0 does."""

    rule: str
    valkey: tuple[bytes, ...]
    redis_8: tuple[bytes, ...]


NESTED = "server 9: MULTI and WATCH inside MULTI are errors that spoil nothing; in Valkey they do"
PAST = "a SET with a past time is written as it is in Redis, the deletion when the key is met"

# By the name that a line of a script gives as `aof:<name>`.
EFFECTS: dict[str, Effects] = {
    "multi-in-multi": Effects(NESTED, (), (b"SET a 6",)),
    "watch-in-multi": Effects(NESTED, (), (b"SET a 1",)),
    "restored-in-the-past": Effects(
        "lazyfree-lazy-server-del is off by default in Redis, on in Valkey", (b"UNLINK k",), (b"DEL k",)
    ),
    "popped-whole": Effects(
        "lazyfree-lazy-server-del is off by default in Redis, on in Valkey", (b"UNLINK one",), (b"DEL one",)
    ),
    "popped-whole-s": Effects(
        "lazyfree-lazy-server-del is off by default in Redis, on in Valkey", (b"UNLINK s",), (b"DEL s",)
    ),
    "set-in-the-past": Effects(PAST, (b"DEL k",), (b"SET k v PXAT 1", b"DEL k")),
    "set-in-the-past-again": Effects(PAST, (), (b"SET k v PXAT 1000", b"DEL k")),
}

READ_CLAIM = re.compile(rb"XCLAIM (\S+) (\S+) \S+ 0 (\S+) TIME \S+ RETRYCOUNT 1 FORCE JUSTID LASTID \3")


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
