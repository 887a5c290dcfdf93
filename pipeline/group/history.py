"""Check that the streams of a group still have the history that was read, and that the group has not moved.

A position of group mode holds the facts of the moment when a batch was gathered: the group's last delivered id, the
number of entries delivered, and the state of the stream. `source.loss_detection` judges streams by it. Entries that were
trimmed or deleted in the meantime count as no loss here, because other consumers read and delete, too; for entries
that were pending with us, the loss shows when they are taken.

A group that was moved back delivers entries again: after a failover to a replica that had all entries but not all
deliveries, or after an XGROUP SETID. Nothing is lost then, so it is only logged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..redis import ids
from ..redis.stream_state import StreamState, fetch_states
from ..source.entry_lookup import EntryLookup
from ..source.loss_detection import What, check_entries, describe, reconcile
from ..source.losses import LOG, report_loss
from ..source.positions import Position, StreamSnapshot
from .member import Member


def judge(
    member: Member, positions: Mapping[str, Position], *, fail: bool, page: int
) -> tuple[dict[str, Position | None], set[str]]:
    """Compare the present state of streams with the positions that were taken in them.

    Return the new positions of streams that have changed (None for deleted ones), and the streams with another
    history or none: do not acknowledge there what was delivered before.
    Raises DataLossError: a stream has another history, or was deleted with undelivered entries, and ``fail`` is set.
    ``page``: entries per reply when entries must be counted.
    """
    connection = member.connection
    states = fetch_states(connection, positions)
    # Entries that other consumers removed are not counted.
    uncounted = {name: replace(at, added=None) for name, at in positions.items()}
    answers = check_entries(connection, uncounted, states)
    changed: dict[str, Position | None] = {}
    broken: set[str] = set()
    facts = member.all_facts([name for name, now in states.items() if now is not None])
    for name, at in positions.items():
        now = states[name]
        lookup = EntryLookup(connection, name, now, answers, page)
        verdict = reconcile(at if now is None else uncounted[name], now, lookup)
        if verdict.is_another_history:
            verdict = reconcile(at, now, lookup)
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
    """Return the current position of the group in each stream; leave out keys without a stream or without the group."""
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
