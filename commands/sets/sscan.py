"""Iterate over sets: SSCAN."""

from __future__ import annotations

from ...storage.collections.set import Set
from ..keys.element_scan import EMPTY, ScanOptions, page
from ..keys.scan import parse_cursor
from ..runtime.client import Client
from ..spec.command import handles
from . import specs


@handles(specs.SSCAN)
def sscan(client: Client, args: list[bytes]) -> bytes:
    """Reply ``[next cursor, [members]]``; COUNT is the number of members to examine, MATCH filters them."""
    cursor = parse_cursor(client, args[2])
    members = client.read_value(args[1], Set)
    if members is None:
        return EMPTY
    options = ScanOptions(args, novalues=False if client.server.compat.knows("7.4") else None)
    cursor, found = members.page(cursor, options.count)
    if options.matches is not None:
        found = list(filter(options.matches, found))
    return page(cursor, found)
