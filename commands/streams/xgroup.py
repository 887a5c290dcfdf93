"""XGROUP: consumer groups and their consumers."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import ReplyError, shown, wrong_subcommand_arguments
from ...storage.groups.group import Group
from ...storage.keyspace import notifications as events
from ...storage.streams.ids import parse, parse_bound
from ...storage.streams.stream import Stream
from ..runtime.arguments import parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from ..spec.usage import help_reply
from . import specs
from .deferral import removes_in_steps, require_group, require_order

KEY_NEEDED: Final = (
    b"ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM "
    b"option to create an empty stream automatically."
)
_HELP: Final = (
    b"XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    b"CREATE <key> <groupname> <id|$> [option]", b"    Create a new consumer group. Options are:",
    b"    * MKSTREAM", b"      Create the empty stream if it does not exist.",
    b"    * ENTRIESREAD entries_read", b"      Set the group's entries_read counter (internal use).",
    b"CREATECONSUMER <key> <groupname> <consumer>", b"    Create a new consumer in the specified group.",
    b"DELCONSUMER <key> <groupname> <consumer>", b"    Remove the specified consumer.",
    b"DESTROY <key> <groupname>", b"    Remove the specified group.",
    b"SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
    b"    Set the current group ID and entries_read counter.", b"HELP", b"    Print this help.",
)  # fmt: skip


def no_consumer_group(key_name: bytes, group: bytes) -> ReplyError:
    """Return the error NOGROUP for a group that an existing stream lacks."""
    return ReplyError(
        b"NOGROUP No such consumer group '%b' for key name '%b'" % (shown(group), shown(key_name))
    )


def _options(args: list[bytes]) -> tuple[bool, int | None]:
    """Parse [MKSTREAM] [ENTRIESREAD n] at the end of CREATE and SETID (SETID has no MKSTREAM)."""
    make_stream = False
    entries_read: int | None = None
    at = 5
    while at < len(args):
        word = args[at].upper()
        if word == b"MKSTREAM" and args[1].upper() == b"CREATE":
            make_stream = True
        elif word == b"ENTRIESREAD" and at + 1 < len(args):
            at += 1
            number = parse_integer(args[at])
            if number < -1:
                raise ReplyError(b"ERR value for ENTRIESREAD must be positive or -1")
            entries_read = None if number == -1 else number
        else:
            raise wrong_subcommand_arguments(args)
        at += 1
    return make_stream, entries_read


def _refuse_more(args: list[bytes], most: int) -> None:
    """Refuse more than ``most`` words (repeated options); call this after the key was looked up."""
    if len(args) > most:
        raise wrong_subcommand_arguments(args)


def _capped(client: Client, stream: Stream, entries_read: int | None) -> int | None:
    """Return ENTRIESREAD, capped at the number of entries ever added where the version caps it."""
    if entries_read is None or not client.server.compat.caps_entries_read:
        return entries_read
    return min(entries_read, stream.entries_added)


def _existing(client: Client, args: list[bytes]) -> Stream:
    stream = client.write_value(args[2], Stream)
    if stream is None:
        raise ReplyError(KEY_NEEDED)
    return stream


def _group(client: Client, stream: Stream, args: list[bytes]) -> Group:
    group = stream.groups.get(args[3])
    if group is None:
        raise no_consumer_group(args[2], args[3])
    require_group(client, group)
    return group


def _changed(client: Client, args: list[bytes], event: bytes) -> None:
    """Apply the effects of every subcommand: count one change, send one event, propagate the command as sent."""
    keyspace = client.server.keyspace
    client.db.changed(args[2])
    keyspace.notify(events.STREAM, event, args[2], client.db)
    client.propagate(args)


@handles(specs.XGROUP_CREATE)
def xgroup_create(client: Client, args: list[bytes]) -> bytes:
    """Create a group and reply OK; BUSYGROUP if the name is taken. ``$`` is the stream's last ID."""
    make_stream, entries_read = _options(args)
    stream = client.write_value(args[2], Stream)
    if stream is None and not make_stream:
        raise ReplyError(KEY_NEEDED)
    _refuse_more(args, 8)
    newest = 0 if stream is None else stream.last_id
    last_id = newest if args[4] == b"$" else parse(args[4])
    if stream is None:
        stream = Stream()
        client.db.add(args[2], stream)
        client.db.modified(args[2])
    elif args[3] in stream.groups:
        raise ReplyError(b"BUSYGROUP Consumer Group name already exists")
    stream.groups[args[3]] = Group(last_id, _capped(client, stream, entries_read))
    _changed(client, args, b"xgroup-create")
    return replies.OK


@handles(specs.XGROUP_SETID)
def xgroup_setid(client: Client, args: list[bytes]) -> bytes:
    """Set the group's last delivered ID and reply OK; pending entries stay.

    Without ENTRIESREAD the entries-read counter becomes unknown.
    """
    _, entries_read = _options(args)
    stream = _existing(client, args)
    group = _group(client, stream, args)
    _refuse_more(args, 7)
    group.last_id = stream.last_id if args[4] == b"$" else parse_bound(args[4])
    group.entries_read = _capped(client, stream, entries_read)
    _changed(client, args, b"xgroup-setid")
    return replies.OK


@handles(specs.XGROUP_DESTROY)
def xgroup_destroy(client: Client, args: list[bytes]) -> bytes:
    """Remove a group; reply 1, or 0 if it is missing. Clients blocked on it get an error."""
    stream = _existing(client, args)
    group = stream.groups.pop(args[3], None)
    if group is None:
        return replies.ZERO
    client.db.keyspace.lazyfree.free_later(group)
    _changed(client, args, b"xgroup-destroy")
    client.db.signal_ready(args[2])
    return replies.ONE


@handles(specs.XGROUP_CREATECONSUMER)
def xgroup_createconsumer(client: Client, args: list[bytes]) -> bytes:
    """Create a consumer; reply 1, or 0 if it exists."""
    group = _group(client, _existing(client, args), args)
    if args[4] in group.consumers:
        client.db.changed(args[2], 0)  # as in Redis, this restarts the LRM clock of the key
        return replies.ZERO
    group.create_consumer(args[4], client.server.keyspace.now)
    _changed(client, args, b"xgroup-createconsumer")
    return replies.ONE


@handles(specs.XGROUP_DELCONSUMER)
def xgroup_delconsumer(client: Client, args: list[bytes]) -> bytes:
    """Remove a consumer with its pending entries; reply with their number."""
    stream = _existing(client, args)
    group = _group(client, stream, args)
    consumer = group.consumers.get(args[4])
    if consumer is None:
        return replies.ZERO
    dropped = consumer.pending
    if dropped:
        require_order(client, group, consumer)
    if dropped and dropped == len(group.pel):
        _replace(args, stream, group)
        client.db.keyspace.lazyfree.free_later(group)
    elif removes_in_steps(client, dropped):
        client.server.background_jobs.run_soon(group.delete_consumer_later(consumer))
    else:
        group.delete_consumer(consumer)
    _changed(client, args, b"xgroup-delconsumer")
    return replies.integer(dropped)


def _replace(args: list[bytes], stream: Stream, group: Group) -> None:
    """Delete a consumer that owns all pending entries: replace the group, so that lazyfree can free the old one."""
    stream.groups[args[3]] = fresh = Group(group.last_id, group.entries_read)
    for consumer in group.consumers.values():
        if consumer.name != args[4]:
            fresh.create_consumer(consumer.name, consumer.seen_ms, consumer.active_ms)


@handles(specs.XGROUP_HELP)
def xgroup_help(client: Client, _args: list[bytes]) -> bytes:
    """Reply with the lines of XGROUP HELP."""
    return help_reply(_HELP, client.server.compat)
