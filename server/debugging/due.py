"""Decide whether there is data for a blocked command, before the command re-runs and takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...commands.streams.read_options import parse_options
from ...storage.groups.claiming import may_claim
from ...storage.streams.ids import parse
from ...storage.streams.stream import Stream

if TYPE_CHECKING:
    from ...commands.streams.read_options import ReadOptions
    from ..execution.blocking import Waiter


def is_due(waiter: Waiter) -> bool:
    """Return True if a blocked command would reply now if it re-ran, with data or an error."""
    values = [waiter.db.peek(key) for key in waiter.keys]
    if waiter.wants is not Stream:
        return any(type(value) is waiter.wants for value in values)
    grouped = waiter.on_missing
    options = parse_options(waiter.client, waiter.argv, grouped=grouped)
    if grouped:
        return any(_is_due_to_group(value, waiter, options) for value in values)
    words = waiter.argv[options.first_key :]
    wanted = zip(words[: options.keys], words[options.keys :], strict=True)
    return any(
        type(value) is Stream and value.last_id > parse(after)
        for key, after in wanted
        if after != b"+" and (value := waiter.db.peek(key)) is not None
    )


def _is_due_to_group(value: object, waiter: Waiter, options: ReadOptions) -> bool:
    if type(value) is not Stream:
        return True  # the stream is gone: an error
    group = value.groups.get(options.group or b"")
    if group is None or group.last_id < value.last_id:
        return True
    claim = None if options.budget is None else options.budget.claim
    if claim is None:
        return False
    latest = waiter.client.server.clock.now - claim
    return may_claim(group, value, latest)
