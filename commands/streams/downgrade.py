"""What replicas are told that know no newer stream commands: the nearest older forms.

They hold the same entries and the same pending entries afterwards. What a producer may send twice is not remembered
there. XNACK, XCFGSET and XIDMPRECORD have no older form and are sent as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...storage.streams.ids import encode, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...storage.streams.stream import Stream
    from .trim_options import AddOrTrim


def deletion(
    name: bytes, held: Iterable[tuple[bytes, list[bytes]]], deleted: list[bytes]
) -> list[Sequence[bytes]]:
    """XDELEX or XACKDEL: XACK for each group, then XDEL.

    Args:
        name: the key.
        held: the groups that lose references, and which.
        deleted: ids of the entries that went.
    """
    told: list[Sequence[bytes]] = [(b"XACK", name, group, *texts) for group, texts in held if texts]
    if deleted:
        told.append((b"XDEL", name, *deleted))
    return told


def add_or_trim(words: list[bytes], options: AddOrTrim, stream: Stream) -> list[Sequence[bytes]]:
    """XADD or XTRIM without policy and producer, and what those did.

    Args:
        words: the command as it is propagated, its ID and threshold final.
        options: of the command that ran.
        stream: after it.
    """
    verb, name = words[:2]
    told: list[Sequence[bytes]] = []
    trimming: list[bytes] = []
    by_policy = options.policy == b"ACKED" and stream.groups
    if options.strategy is not None and not by_policy:
        trimming = [options.strategy, b"=", words[options.threshold_at]]
    if options.id_at < len(words):
        told.append([verb, name, *trimming, *words[options.id_at :]])
    elif trimming:
        told.append([verb, name, *trimming])
    told += deletion(name, options.held, [])
    if by_policy and options.removed:
        if not stream.length:
            told.append((b"XTRIM", name, b"MAXLEN", b"=", b"0"))
        elif parse(options.removed[-1]) < stream.first_id:
            told.append((b"XTRIM", name, b"MINID", b"=", encode(stream.first_id)))
        else:
            told.append((b"XDEL", name, *options.removed))
    return told
