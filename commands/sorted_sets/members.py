"""Members of sorted sets: set and get scores, get ranks, remove, choose at random, scan."""

from __future__ import annotations

from functools import partial
from math import isnan
from random import randrange
from typing import Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, WRONG_TYPE, ReplyError, wrong_arity
from ...storage.collections.sorted_set import LISTPACK, SKIPLIST, SortedSet
from ...storage.keyspace import notifications as events
from ..keys.element_scan import EMPTY, ScanOptions, page
from ..keys.scan import parse_cursor
from ..runtime.arguments import INT64_MAX, INT64_MIN, parse_double, parse_integer
from ..runtime.client import Client
from ..runtime.repetitions import OUT_OF_RANGE, repeated
from ..spec.command import handles
from . import specs
from .scores import (
    encode_item,
    encode_items,
    encode_score,
    encoded_items,
    score_text_7_0,
    score_text_in_listpack,
)

_OPTIONS: Final = frozenset((b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"))
_NO_OPTIONS: Final[frozenset[bytes]] = frozenset()
_INCREMENT: Final = frozenset((b"INCR",))
_NX_AND_XX: Final = b"ERR XX and NX options at the same time are not compatible"
_GT_AND_LT: Final = b"ERR GT, LT, and/or NX options at the same time are not compatible"
_ONE_PAIR: Final = b"ERR INCR option supports a single increment-element pair"
_NAN: Final = b"ERR resulting score is not a number (NaN)"
_NOT_A_RANGE: Final = (
    b"ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
)


@handles(specs.ZADD)
def zadd(client: Client, args: list[bytes]) -> bytes:
    """Add members or change their scores; reply with the number of new members, or with CH also of changed ones.

    With INCR, add to one score and reply with it, null if a condition failed.
    """
    position = 2
    options = _NO_OPTIONS
    while position < len(args) and (option := args[position].upper()) in _OPTIONS:
        options |= {option}
        position += 1
    return _add(client, args, position, options)


@handles(specs.ZINCRBY)
def zincrby(client: Client, args: list[bytes]) -> bytes:
    """Add to the score of a member of a sorted set; reply with the new score."""
    if args[2].upper() in _OPTIONS:
        raise ReplyError(SYNTAX)
    return _add(client, args, 2, _INCREMENT)


def _add(client: Client, args: list[bytes], position: int, options: frozenset[bytes]) -> bytes:
    """Run ZADD from the first score on."""
    pairs, odd = divmod(len(args) - position, 2)
    if odd or not pairs:
        raise ReplyError(SYNTAX)
    if options:
        _check(options, pairs)
    rounds = client.server.compat.rounds_scores
    amounts = [parse_double(args[at], rounds=rounds) for at in range(position, len(args), 2)]
    name = args[1]
    db = client.db
    keyspace = db.keyspace
    value = db.write(name)
    increments = b"INCR" in options
    if value is None:
        if b"XX" in options:
            return replies.null(client.resp) if increments else replies.ZERO
        value = SortedSet()
        db.add(name, value)
    elif type(value) is not SortedSet:
        raise ReplyError(WRONG_TYPE)
    members = args[position + 1 :: 2]
    if value.encoding is LISTPACK and (options or pairs > 1):
        compat = client.server.compat
        if compat.prepares_sorted_sets:
            value.expect(members, keyspace.limits, lengths=compat.prepares_for_long_members)
    scores = value.scores
    added = updated = 0
    reply = b""
    for amount, member in zip(amounts, members, strict=True):
        before = scores.get(member)
        score = amount if before is None or not increments else before + amount
        if isnan(score) and b"NX" not in options:
            raise ReplyError(_NAN)
        if options and _is_stopped(options, before, score):
            reply = replies.null(client.resp)
            continue
        if before is None:
            value.put(member, score, keyspace.limits)
            added += 1
        elif before != score:
            value.put(member, score, keyspace.limits)
            updated += 1
        if increments:
            reply = encode_score(client, score)
    if added or updated:
        db.modified(name)
        if keyspace.notify_mask:
            keyspace.notify(events.ZSET, b"zincr" if increments else b"zadd", name, db)
        keyspace.dirty += added + updated
        client.propagate(args)
    return reply if increments else replies.integer(added + updated if b"CH" in options else added)


def _check(options: frozenset[bytes], pairs: int) -> None:
    has_nx, has_gt, has_lt = b"NX" in options, b"GT" in options, b"LT" in options
    if has_nx and b"XX" in options:
        raise ReplyError(_NX_AND_XX)
    if has_gt + has_lt + has_nx > 1:
        raise ReplyError(_GT_AND_LT)
    if b"INCR" in options and pairs > 1:
        raise ReplyError(_ONE_PAIR)


def _is_stopped(options: frozenset[bytes], before: float | None, score: float) -> bool:
    """Return True if a condition forbids this score for a member."""
    if before is None:
        return b"XX" in options
    if b"NX" in options:
        return True
    return (b"GT" in options and score <= before) or (b"LT" in options and score >= before)


def after_removal(
    client: Client, name: bytes, value: SortedSet, event: bytes, count: int, *, event_first: bool = True
) -> None:
    """After ``count`` members were removed, send the event, delete the key of an empty sorted set and count the changes.

    Clients that track the key hear of the change after the events, or before them.
    """
    db = client.db
    if not value:
        db.remove(name)
    db.announce(name, events.ZSET, event, event_first=event_first)
    db.keyspace.dirty += count


@handles(specs.ZREM)
def zrem(client: Client, args: list[bytes]) -> bytes:
    """Remove members from a sorted set; reply with the number of removed ones."""
    value = client.write_value(args[1], SortedSet)
    if value is None:
        return replies.ZERO
    removed = sum([value.discard(member) for member in args[2:]])
    if removed:
        after_removal(client, args[1], value, b"zrem", removed)
        client.propagate(args)
    return replies.integer(removed)


@handles(specs.ZCARD)
def zcard(client: Client, args: list[bytes]) -> bytes:
    """Reply with the number of members of a sorted set; 0 for a missing key."""
    value = client.read_value(args[1], SortedSet)
    return replies.ZERO if value is None else replies.integer(len(value))


@handles(specs.ZSCORE)
def zscore(client: Client, args: list[bytes]) -> bytes:
    """Reply with the score of a member as a double, or null if there is no such member."""
    value = client.read_value(args[1], SortedSet)
    score = None if value is None else value.scores.get(args[2])
    return replies.null(client.resp) if score is None else encode_score(client, score)


@handles(specs.ZMSCORE)
def zmscore(client: Client, args: list[bytes]) -> bytes:
    """Reply with an array of the scores of the named members, null for a missing member."""
    value = client.read_value(args[1], SortedSet)
    scores = {} if value is None else value.scores
    null = replies.null(client.resp)
    found = map(scores.get, args[2:])
    return replies.array([null if score is None else encode_score(client, score) for score in found])


@handles(specs.ZRANK, reverse=False)
@handles(specs.ZREVRANK, reverse=True)
def zrank(client: Client, args: list[bytes], *, reverse: bool) -> bytes:
    """Reply with the rank of a member, null if it is missing; WITHSCORE adds the score.

    The lowest score has rank 0; for ZREVRANK the highest.
    """
    with_score = len(args) > 3
    if len(args) > (4 if client.server.compat.knows("7.2") else 3):
        raise wrong_arity(args[0].lower().decode())
    if with_score and args[3].upper() != b"WITHSCORE":
        raise ReplyError(SYNTAX)
    resp = client.resp
    value = client.read_value(args[1], SortedSet)
    rank = None if value is None else value.rank(args[2])
    if value is None or rank is None:
        return replies.null_array(resp) if with_score else replies.null(resp)
    place = replies.integer(len(value) - 1 - rank if reverse else rank)
    return b"*2\r\n" + place + encode_score(client, value.scores[args[2]]) if with_score else place


@handles(specs.ZRANDMEMBER)
def zrandmember(client: Client, args: list[bytes]) -> bytes:
    """Reply with a random member of a sorted set or null; with a count, with several distinct ones.

    With a negative count members may repeat.
    """
    if len(args) == 2:
        value = client.read_value(args[1], SortedSet)
        if value is None:
            return replies.null(client.resp)
        return replies.bulk(value.order[randrange(len(value))][1])  # noqa: S311 - no secret
    count = parse_integer(args[2])
    if count == INT64_MIN:
        raise ReplyError(_NOT_A_RANGE)
    with_scores = len(args) > 3
    if len(args) > 4 or (with_scores and args[3].upper() != b"WITHSCORES"):
        raise ReplyError(SYNTAX)
    if with_scores and abs(count) > INT64_MAX // 2:
        raise ReplyError(OUT_OF_RANGE)
    value = client.read_value(args[1], SortedSet)
    if value is None or not count:
        return replies.EMPTY_ARRAY
    if count > 0:
        return encode_items(client, value.sample(count), with_scores=with_scores)
    order, size = value.order, len(value)
    chosen = repeated(
        client,
        -count,
        size,
        lambda: encode_item(client, order[randrange(size)], with_score=with_scores),  # noqa: S311 - no secret
        lambda: [encode_item(client, item, with_score=with_scores) for item in order],
    )
    return encoded_items(client, chosen, with_scores=with_scores)


@handles(specs.ZSCAN)
def zscan(client: Client, args: list[bytes]) -> bytes:
    """Reply ``[next cursor, [member, score ...]]``; COUNT is the number to examine, MATCH filters them."""
    cursor = parse_cursor(client, args[2])
    value = client.read_value(args[1], SortedSet)
    if value is None:
        return EMPTY
    options = ScanOptions(args, novalues=False if client.server.compat.knows("7.4") else None)
    cursor, found = value.page(cursor, options.count)
    if options.matches is not None:
        found = list(filter(options.matches, found))
    # Here Redis formats the scores of a skiplist in its old way; a listpack stores whole numbers as integers.
    spell = score_text_7_0 if value.encoding is SKIPLIST else partial(score_text_in_listpack, client)
    scores = value.scores
    return page(cursor, [word for member in found for word in (member, spell(scores[member]))])
