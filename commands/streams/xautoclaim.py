"""XAUTOCLAIM: a scan of the pending entries list that claims what was idle long enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.groups.pel_pages import blocks_of, first_of, number_of, one_by_one, texts_of
from ...storage.streams import ids as stream_id
from ...storage.streams.chunk import texts_in
from ...storage.streams.stream import Stream
from ..runtime.arguments import INT64_MAX, parse_integer
from ..spec.command import handles
from . import specs
from .deferral import require_group
from .group_propagation import ClaimRecords, new_consumer, no_such_group
from .ids import parse_start
from .xclaim import Claim, ClaimOptions, Window

if TYPE_CHECKING:
    from collections.abc import Collection

    from ...storage.groups.group import Group
    from ...storage.groups.pel_pages import Places
    from ..runtime.client import Client

_SCAN_FACTOR: Final = 10  # XAUTOCLAIM looks at COUNT times so many entries


_SCAN_COUNT: Final = 100


@handles(specs.XAUTOCLAIM)
def xautoclaim(client: Client, args: list[bytes]) -> bytes:
    """Walk the PEL from ``start`` and claim what is idle; answers [where to go on, entries, ids that were gone]."""
    min_idle = parse_integer(args[4], b"ERR Invalid min-idle-time argument for XAUTOCLAIM")
    start = parse_start(args[5])
    now = client.server.keyspace.now
    options = ClaimOptions(now)
    count = _SCAN_COUNT
    at = 6
    while at < len(args):
        word = args[at].upper()
        if word == b"COUNT" and at + 1 < len(args):
            at += 1
            count = parse_integer(args[at], b"ERR COUNT must be > 0")
            if not 0 < count <= INT64_MAX // 16:
                raise ReplyError(b"ERR COUNT must be > 0")
        elif word == b"JUSTID":
            options.just_id = True
        else:
            raise ReplyError(SYNTAX)
        at += 1
    stream = client.read_value(args[1], Stream)
    group = None if stream is None else stream.groups.get(args[2])
    if stream is None or group is None:
        raise no_such_group(args[1], args[2])
    require_group(client, group)

    consumer = group.consumers.get(args[3])
    if consumer is None:
        consumer = new_consumer(client, args[1], group, args[3])
    consumer.seen_ms = now
    latest = now - min_idle if min_idle > 0 else INT64_MAX
    window = _whole_window(stream, group, start, count, latest) or _scan(stream, group, start, count, latest)
    number, gone = len(window), window.gone
    records = None
    if client.server.propagation.active and (number or gone):
        records = ClaimRecords(client, args[1], args[2], group.last_id)
    if options.just_id:
        items = [b"$%d\r\n%b\r\n" % (len(text), text) for text in window.ids()]
    else:
        items = window.entries if window.entries is not None else _entries(stream, window.found)
    Claim(stream, group, consumer, options, records).walk(window)  # no place is good any more
    if number:
        consumer.active_ms = now
    client.server.keyspace.dirty += number + len(gone)
    return b"*3\r\n$%d\r\n%b\r\n%b%b%b" % (
        len(window.cursor),
        window.cursor,
        replies.array_header(number),
        b"".join(items),
        replies.bulk_array(gone) if gone else replies.EMPTY_ARRAY,
    )


def _whole_window(stream: Stream, group: Group, start: int, count: int, latest: int) -> Window | None:
    """As ``_scan``, if nothing that it would meet is gone or too young; else None."""
    places = group.pending(start, count=count)
    blocks = blocks_of(places)
    if not places or any(block.ms > latest for block in set(blocks)):
        return None
    (page, positions), (last_page, last_positions) = places[0], places[-1]
    pieces, raw, last = stream.take_after(page.number(positions[0]) - 1, len(blocks))
    if group.pel.match(pieces) == places:
        entries = [raw]
    else:
        entries = _entries(stream, places)
        if len(entries) < len(blocks):
            return None
        last = last_page.number(last_positions[-1])
    window = Window()
    window.found, window.entries = places, entries
    window.cursor = next(iter(texts_of(group.pending(last + 1, count=1))), b"0-0")
    return window


def _scan(stream: Stream, group: Group, start: int, count: int, latest: int) -> Window:
    """Look at up to COUNT * 10 entries from ``start``, until COUNT of them are claimable or gone."""
    window = Window()
    budget = count * _SCAN_FACTOR
    step = count
    while True:
        places = group.pending(start, count=step + 1)
        blocks = blocks_of(places)
        following = None
        if len(blocks) > step:
            page, positions = places[-1]
            following = page.text(positions[-1])
            places = first_of(places, step)
        is_any_old = any(block.ms <= latest for block in set(blocks))
        texts: list[bytes] = []
        if is_any_old or not _are_all_there(stream, group, places):
            texts = texts_of(places)
        missing = _missing(stream, texts)
        for at, (text, place) in enumerate(zip(texts, one_by_one(places), strict=False), 1):
            if text in missing:
                window.gone.append(text)
            elif blocks_of([place])[0].ms <= latest:
                window.found.append(place)
            else:
                continue
            window.met.append(place)
            if len(window.met) == count:
                window.cursor = (texts[at] if at < len(texts) else following) or b"0-0"
                return window
        budget -= step
        if following is None or not budget:
            window.cursor = following or b"0-0"
            return window
        start = stream_id.parse(following)
        step = min(step * 4, budget)


def _are_all_there(stream: Stream, group: Group, places: Places) -> bool:
    """Whether no message of these entries is gone; False if that is not told at a glance."""
    if not places:
        return True
    pieces, _, _ = stream.take_after(places[0][0].number(places[0][1][0]) - 1, number_of(places))
    return group.pel.match(pieces) == places


def _missing(stream: Stream, ids: list[bytes]) -> Collection[bytes]:
    """Which of these ids, ascending, are no longer in the stream."""
    if not ids:
        return ()
    pieces, entries, reached = stream.take_after(stream_id.parse(ids[0]) - 1, len(ids))
    texts = texts_in(pieces, entries)
    if texts == ids:
        return ()
    missing = set(ids).difference(texts)
    if reached < stream_id.parse(ids[-1]):
        missing = {text for text in missing if not stream.contains(stream_id.parse(text))}
    return missing


def _entries(stream: Stream, places: Places) -> list[bytes]:
    """Those of these entries that are in the stream, encoded."""
    found = [stream.entry(page.number(at), page.ms, at) for page, positions in places for at in positions]
    return [entry for entry in found if entry is not None]
