"""Whether the streams of a group are still those that were read, and whether the group is where it was.

A position of group mode is what was there when a batch was gathered: the last id that the group had delivered, how many
entries that were, and the stream as it was seen. `source.judgement` judges streams by it. What was trimmed or deleted
in the meantime is no loss here, for others read and tidy up, too; of entries that were pending with us it shows when they are taken.

A group that was moved back delivers again what it had delivered: that may be a failover to a replica that had all entries
but not all deliveries, or someone's XGROUP SETID. Nothing is lost then, so it is said and no more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..redis import ids
from ..redis.stream_state import fetch_states
from ..source.judgement import What, check_entries, describe, reconcile
from ..source.look import StreamLook
from ..source.losses import LOG, report_loss
from ..source.positions import Position, StreamSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..redis.stream_state import StreamState
    from .member import Member


def judge(
    member: Member, positions: Mapping[str, Position], *, fail: bool, page: int
) -> tuple[dict[str, Position | None], set[str]]:
    """Compare streams with the positions that were taken in them.

    Args:
        member: whose group it is.
        positions: by stream.
        fail: option failOnDataLoss.
        page: entries in one reply, where they have to be counted.

    Returns:
        The positions as streams are now that are not as they were, None of those that were deleted; and the streams that
        have another history, or none: what was delivered before is not to be acknowledged there.

    Raises:
        DataLossError: a stream has another history, or was deleted with entries that were not delivered, and ``fail`` is set.
    """
    connection = member.connection
    states = fetch_states(connection, positions)
    # Entries that others removed are none of ours to count.
    uncounted = {name: replace(at, added=None) for name, at in positions.items()}
    answers = check_entries(connection, uncounted, states)
    changed: dict[str, Position | None] = {}
    broken: set[str] = set()
    facts = member.all_facts([name for name, now in states.items() if now is not None])
    for name, at in positions.items():
        now = states[name]
        look = StreamLook(connection, name, now, answers, page)
        verdict = reconcile(at if now is None else uncounted[name], now, look)
        if verdict.is_another_history:
            verdict = reconcile(at, now, look)
        if verdict.is_loss:
            what, _ = describe(name, at, now, verdict)
            report_loss(what, fail=fail, otherwise="goes on with what the group delivers, perhaps again")
        if verdict.what is What.DELETED:
            changed[name] = None
            broken.add(name)
            continue
        row = facts.get(name)
        is_behind = row is not None and ids.parse(row[b"last-delivered-id"]) < at.id
        if verdict.is_another_history:
            broken.add(name)
        elif is_behind:
            assert row is not None
            LOG.warning(
                "group %r of stream %r was moved back from %s to %s, as by a failover or XGROUP SETID: entries in between "
                "are delivered again",
                member.group, name, ids.text(at.id), row[b"last-delivered-id"].decode(),
            )  # fmt: skip
        if verdict.is_another_history or is_behind:
            changed[name] = _position(now, row) or verdict.position
    return changed, broken


def take_positions(member: Member, streams: Iterable[str]) -> dict[str, Position]:
    """Return where streams and group are now; without streams that are none, or that the group does not read."""
    states = fetch_states(member.connection, streams)
    facts = member.all_facts([name for name, now in states.items() if now is not None])
    found = {name: _position(states[name], row) for name, row in facts.items()}
    return {name: at for name, at in found.items() if at is not None}


def _position(now: StreamState | None, row: Mapping[bytes, object] | None) -> Position | None:
    if now is None or row is None:
        return None
    delivered, lag = row[b"last-delivered-id"], row.get(b"lag")
    assert isinstance(delivered, bytes)
    added = max(now.added - lag, 0) if now.added is not None and isinstance(lag, int) else None
    return Position(ids.parse(delivered), added, snapshot=StreamSnapshot.of(now))
