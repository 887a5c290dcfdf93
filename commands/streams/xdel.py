"""Delete entries by ID: XDEL, and XDELEX and XACKDEL, which also deal with the groups' references."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.groups.references import forget, holders, is_referenced
from ...storage.keyspace import notifications as events
from ...storage.streams import ids as stream_id
from ...storage.streams.stream import Stream
from ..runtime.arguments import Arguments, parse_integer
from ..runtime.client import Client
from ..runtime.downgrades import needs_downgrade
from ..spec.command import handles
from ..spec.versions import POLICIES_SINCE
from . import specs
from .deferral import require_group, require_groups, require_nodes
from .trim_options import POLICIES, downgraded_deletion

BAD_NUMBER: Final = b"ERR Number of IDs must be a positive integer"
TOO_FEW: Final = b"ERR The `numids` parameter must match the number of arguments"
IDS_NEEDED: Final = b"ERR IDS option is required"

# The results for an ID.
_NOT_FOUND: Final = -1
_DELETED: Final = 1
_STILL_NEEDED: Final = 2


def _policy_and_ids(args: list[bytes], at: int) -> tuple[bytes, list[bytes]]:
    """Parse [KEEPREF | DELREF | ACKED] and IDS numids id … in any order; the last IDS wins."""
    policy: bytes | None = None
    ids: list[bytes] | None = None
    options = Arguments(args, at)
    while options:
        word = options.option()
        if word in POLICIES and policy is None:
            policy = word
        elif word == b"IDS" and options:
            number = parse_integer(options.next(), BAD_NUMBER)
            if number < 1:
                raise ReplyError(BAD_NUMBER)
            if number > options.remaining:
                raise ReplyError(TOO_FEW)
            ids = [options.next() for _ in range(number)]
        else:
            raise ReplyError(SYNTAX)
    if ids is None:
        raise ReplyError(IDS_NEEDED)
    return policy or b"KEEPREF", ids


def _integers(numbers: list[int]) -> bytes:
    return replies.array([replies.integer(number) for number in numbers])


def _finish(
    client: Client,
    args: list[bytes],
    deleted: list[bytes],
    changed: int,
    held: list[tuple[bytes, list[bytes]]] | None,
    *,
    forgot: bool = False,
) -> None:
    """Notify, count and propagate a removal.

    Args:
        changed: the number of changes to count: entries or acknowledgements.
        held: the removed references by group; None if no replica needs them.
        forgot: references were removed, with or without an entry.
    """
    keyspace = client.db.keyspace
    if deleted:
        client.db.modified(args[1])
        keyspace.notify(events.STREAM, b"xdel", args[1], client.db)
    if changed or forgot:
        client.db.changed(args[1], changed)
        client.propagate_with_downgrade(
            args, None if held is None else downgraded_deletion(args[1], held, deleted)
        )


@handles(specs.XDELEX)
def xdelex(client: Client, args: list[bytes]) -> bytes:
    """Delete entries and treat references in PELs by the policy. Reply per ID 1 if deleted, -1 if not found.

    With ACKED, an entry that a group still needs stays, and the reply is 2, even if no such entry exists.
    """
    name = args[1]
    stream = client.write_value(name, Stream)
    policy, words = _policy_and_ids(args, 2)
    if stream is None:
        return _integers([_NOT_FOUND] * len(words))
    numbers = list(map(stream_id.parse, words))
    require_nodes(client, stream, are_far=stream.macro_nodes.is_far(max(numbers)))
    if policy != b"KEEPREF":
        require_groups(client, stream)
    held = None
    if needs_downgrade(client, POLICIES_SINCE):
        held = holders(stream, numbers) if policy == b"DELREF" else []
    found = [_delete(stream, policy, number) for number in numbers]
    deleted = [
        stream_id.encode(number)
        for number, (result, _) in zip(numbers, found, strict=True)
        if result == _DELETED
    ]
    _finish(client, args, deleted, len(deleted), held, forgot=any(references for _, references in found))
    return _integers([result for result, _ in found])


def _delete(stream: Stream, policy: bytes, number: int) -> tuple[int, int]:
    """Delete one entry by the policy; return the result and the number of removed references."""
    if policy == b"ACKED" and is_referenced(stream, number):
        return _STILL_NEEDED, 0
    references = forget(stream, [number]) if policy == b"DELREF" else 0
    return (_DELETED if stream.delete(number) else _NOT_FOUND), references


@handles(specs.XACKDEL)
def xackdel(client: Client, args: list[bytes]) -> bytes:
    """Acknowledge entries and delete them by the policy. Reply per ID 1 if that is done, -1 if it was not pending.

    With ACKED, an entry that another group still needs stays, and the reply is 2.
    """
    name = args[1]
    stream = client.read_value(name, Stream)  # looked up for reading: a hit, or a miss with its event
    policy, words = _policy_and_ids(args, 3)
    group = None if stream is None else stream.groups.get(args[2])
    if stream is None or group is None:
        return _integers([_NOT_FOUND] * len(words))
    numbers = list(map(stream_id.parse, words))
    require_nodes(client, stream, are_far=stream.macro_nodes.is_far(max(numbers)))
    require_group(client, group)
    if policy != b"KEEPREF":
        require_groups(client, stream)
    held = None
    if needs_downgrade(client, POLICIES_SINCE):
        pending = [number for number in numbers if group.pel.at(number) is not None]
        if policy == b"DELREF":
            held = holders(stream, pending)
        else:
            held = [(args[2], list(dict.fromkeys(map(stream_id.encode, pending))))]
    results: list[int] = []
    deleted: list[bytes] = []
    changed = 0
    for number in numbers:
        if not group.pel.acknowledge((stream_id.encode(number),)):
            results.append(_NOT_FOUND)
            continue
        changed += 1
        if policy == b"ACKED" and is_referenced(stream, number):
            results.append(_STILL_NEEDED)
            continue
        if policy == b"DELREF":
            forget(stream, [number])
        if stream.delete(number):
            deleted.append(stream_id.encode(number))
        results.append(_DELETED)
    _finish(client, args, deleted, changed, held)
    return _integers(results)


@handles(specs.XDEL)
def xdel(client: Client, args: list[bytes]) -> bytes:
    """Delete entries by ID and reply with their number; they stay in the PELs of groups."""
    name = args[1]
    stream = client.write_value(name, Stream)
    if stream is None:
        return replies.ZERO
    ids = list(map(stream_id.parse, args[2:]))
    require_nodes(client, stream, are_far=stream.macro_nodes.is_far(max(ids)))
    deleted = sum(map(stream.delete, ids))
    if deleted:
        db = client.db
        db.modified(name)
        db.keyspace.notify(events.STREAM, b"xdel", name, db)
        db.keyspace.dirty += deleted
        client.propagate(args)
    return replies.integer(deleted)
