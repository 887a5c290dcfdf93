"""Publish/subscribe: the registry of channels, patterns and shard channels, and its commands.

Messages are push messages in RESP3 and plain arrays in RESP2; each receiver gets its own form. Acknowledgements
of (UN)SUBSCRIBE are the command's reply, one item per channel, joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from ...protocol import replies
from ...protocol.errors import ReplyError, wrong_subcommand_arguments
from ...protocol.globs import matcher
from ..spec.command import command, container
from ..spec.key_specs import key
from ..spec.usage import help_lines
from . import specs as syntax
from .registry import PubSub, drop

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..runtime.client import Client

    # Dicts serve as sets that keep their order: clients are served in the order they subscribed.
    Subscribers: TypeAlias = dict[bytes, dict[Client, None]]

_FLAGS: Final = "pubsub noscript loading stale"


_SHARD_KEYS: Final = (key(1, "not_key", last=-1),)


def _acknowledge(client: Client, kind: bytes, name: bytes | None, count: int) -> bytes:
    shown = replies.null(client.resp) if name is None else replies.bulk(name)
    return replies.push_header(3, client.resp) + replies.bulk(kind) + shown + replies.integer(count)


def _answer(client: Client, items: list[bytes]) -> bytes | None:
    """The acknowledgements as the reply; CLIENT REPLY OFF and SKIP do not hold them back."""
    client.update_plain()
    if client.reply_mode == "on":
        return b"".join(items)
    client.send(b"".join(items))
    return None


def _subscribe(
    client: Client,
    kind: bytes,
    args: list[bytes],
    registry: Subscribers,
    own: set[bytes],
    count: Callable[[], int],
) -> bytes | None:
    items = []
    for name in args[1:]:
        if name not in own:
            own.add(name)
            registry.setdefault(name, {})[client] = None
        items.append(_acknowledge(client, kind, name, count()))
    return _answer(client, items)


def _unsubscribe(
    client: Client,
    kind: bytes,
    args: list[bytes],
    registry: Subscribers,
    own: set[bytes],
    count: Callable[[], int],
) -> bytes | None:
    items = []
    for name in args[1:] or sorted(own):
        if name in own:
            own.remove(name)
            drop(registry, name, client)
        items.append(_acknowledge(client, kind, name, count()))
    if not items:
        items.append(_acknowledge(client, kind, None, count()))
    return _answer(client, items)


# SUBSCRIBE channel [channel ...]
@command(
    "SUBSCRIBE",
    arity=-2,
    flags=f"{_FLAGS} denyoom",
    since="2.0.0",
    group="pubsub",
    complexity="O(N) where N is the number of channels to subscribe to.",
    summary="Listens for messages published to channels.",
    arguments=syntax.SUBSCRIBE,
)
def subscribe(client: Client, args: list[bytes]) -> bytes | None:
    """Answer ``[subscribe, channel, count]`` per channel; the count includes patterns."""
    return _subscribe(
        client,
        b"subscribe",
        args,
        client.server.part(PubSub).channels,
        client.channels,
        lambda: client.subscriptions,
    )


# UNSUBSCRIBE [channel [channel ...]]
@command(
    "UNSUBSCRIBE",
    arity=-1,
    flags=_FLAGS,
    since="2.0.0",
    group="pubsub",
    complexity="O(N) where N is the number of clients already subscribed to a channel.",
    summary="Stops listening to channels, to all without an argument.",
    arguments=syntax.UNSUBSCRIBE,
)
def unsubscribe(client: Client, args: list[bytes]) -> bytes | None:
    """Answer ``[unsubscribe, channel, count]`` per channel; with a null channel if there was none."""
    return _unsubscribe(
        client,
        b"unsubscribe",
        args,
        client.server.part(PubSub).channels,
        client.channels,
        lambda: client.subscriptions,
    )


# PSUBSCRIBE pattern [pattern ...]
@command(
    "PSUBSCRIBE",
    arity=-2,
    flags=f"{_FLAGS} denyoom",
    since="2.0.0",
    group="pubsub",
    complexity="O(N) where N is the number of patterns the client is already subscribed to.",
    summary="Listens for messages published to channels that match patterns.",
    arguments=syntax.PSUBSCRIBE,
)
def psubscribe(client: Client, args: list[bytes]) -> bytes | None:
    """Answer ``[psubscribe, pattern, count]`` per pattern."""
    return _subscribe(
        client,
        b"psubscribe",
        args,
        client.server.part(PubSub).patterns,
        client.patterns,
        lambda: client.subscriptions,
    )


# PUNSUBSCRIBE [pattern [pattern ...]]
@command(
    "PUNSUBSCRIBE",
    arity=-1,
    flags=_FLAGS,
    since="2.0.0",
    group="pubsub",
    complexity="O(N+M) where N is the number of patterns the client is already subscribed and M is the number of "
    "total patterns subscribed in the system (by any client).",
    summary="Stops listening to patterns, to all without an argument.",
    arguments=syntax.PUNSUBSCRIBE,
)
def punsubscribe(client: Client, args: list[bytes]) -> bytes | None:
    """Answer ``[punsubscribe, pattern, count]`` per pattern; with a null pattern if there was none."""
    return _unsubscribe(
        client,
        b"punsubscribe",
        args,
        client.server.part(PubSub).patterns,
        client.patterns,
        lambda: client.subscriptions,
    )


# SSUBSCRIBE shardchannel [shardchannel ...]
@command(
    "SSUBSCRIBE",
    arity=-2,
    flags=f"{_FLAGS} denyoom",
    keys=_SHARD_KEYS,
    since="7.0.0",
    group="pubsub",
    complexity="O(N) where N is the number of shard channels to subscribe to.",
    summary="Listens for messages published to shard channels.",
    arguments=syntax.SSUBSCRIBE,
)
def ssubscribe(client: Client, args: list[bytes]) -> bytes | None:
    """Answer ``[ssubscribe, channel, count]`` per channel; shard channels are counted apart."""
    if client.in_exec:
        raise ReplyError(b"ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client")
    own = client.shard_channels
    return _subscribe(
        client, b"ssubscribe", args, client.server.part(PubSub).shard_channels, own, own.__len__
    )


# SUNSUBSCRIBE [shardchannel [shardchannel ...]]
@command(
    "SUNSUBSCRIBE",
    arity=-1,
    flags=_FLAGS,
    keys=_SHARD_KEYS,
    since="7.0.0",
    group="pubsub",
    complexity="O(N) where N is the number of clients already subscribed to a shard channel.",
    summary="Stops listening to shard channels, to all without an argument.",
    arguments=syntax.SUNSUBSCRIBE,
)
def sunsubscribe(client: Client, args: list[bytes]) -> bytes | None:
    """Answer ``[sunsubscribe, channel, count]`` per channel; with a null channel if there was none."""
    own = client.shard_channels
    return _unsubscribe(
        client, b"sunsubscribe", args, client.server.part(PubSub).shard_channels, own, own.__len__
    )


# PUBLISH channel message
@command(
    "PUBLISH",
    arity=3,
    flags="pubsub loading stale fast",
    since="2.0.0",
    group="pubsub",
    complexity="O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number "
    "of subscribed patterns (by any client).",
    summary="Sends a message to a channel.",
    arguments=syntax.PUBLISH,
)
def publish(client: Client, args: list[bytes]) -> bytes:
    """Answer how many times the message was received; a client counts once per channel and pattern."""
    client.server.propagation.add_for_replicas(client.db.index, args)
    return replies.integer(client.server.part(PubSub).publish(args[1], args[2]))


# SPUBLISH shardchannel message
@command(
    "SPUBLISH",
    arity=3,
    flags="pubsub loading stale fast",
    keys=(key(1, "not_key"),),
    since="7.0.0",
    group="pubsub",
    complexity="O(N) where N is the number of clients subscribed to the receiving shard channel.",
    summary="Sends a message to a shard channel.",
    arguments=syntax.SPUBLISH,
)
def spublish(client: Client, args: list[bytes]) -> bytes:
    """Answer how many clients received the message."""
    client.server.propagation.add_for_replicas(client.db.index, args)
    return replies.integer(client.server.part(PubSub).publish_sharded(args[1], args[2]))


container("PUBSUB", since="2.8.0", group="pubsub", summary="Tells about channels and their subscribers.")


def _active(registry: Subscribers, args: list[bytes]) -> bytes:
    if len(args) > 3:
        raise wrong_subcommand_arguments(args)
    if len(args) == 2:
        return replies.bulk_array(registry)
    return replies.bulk_array(filter(matcher(args[2]), registry))


def _counts(registry: Subscribers, names: list[bytes]) -> bytes:
    pairs = [replies.bulk(name) + replies.integer(len(registry.get(name, ()))) for name in names]
    return replies.array_header(2 * len(pairs)) + b"".join(pairs)


# PUBSUB CHANNELS [pattern]
@command(
    "PUBSUB|CHANNELS",
    arity=-2,
    flags="pubsub loading stale",
    since="2.8.0",
    group="pubsub",
    complexity="O(N) where N is the number of active channels, and assuming constant time pattern matching "
    "(relatively short channels and patterns)",
    summary="Lists the channels that have subscribers.",
    arguments=syntax.PUBSUB_CHANNELS,
)
def pubsub_channels(client: Client, args: list[bytes]) -> bytes:
    """Answer the names, oldest subscription first."""
    return _active(client.server.part(PubSub).channels, args)


# PUBSUB NUMPAT
@command(
    "PUBSUB|NUMPAT",
    arity=2,
    flags="pubsub loading stale",
    since="2.8.0",
    group="pubsub",
    complexity="O(1)",
    summary="Counts the different patterns that clients listen to.",
    arguments=syntax.PUBSUB_NUMPAT,
)
def pubsub_numpat(client: Client, args: list[bytes]) -> bytes:
    """Answer the number of patterns."""
    del args
    return replies.integer(len(client.server.part(PubSub).patterns))


# PUBSUB NUMSUB [channel [channel ...]]
@command(
    "PUBSUB|NUMSUB",
    arity=-2,
    flags="pubsub loading stale",
    since="2.8.0",
    group="pubsub",
    complexity="O(N) for the NUMSUB subcommand, where N is the number of requested channels",
    summary="Counts the subscribers of channels.",
    arguments=syntax.PUBSUB_NUMSUB,
)
def pubsub_numsub(client: Client, args: list[bytes]) -> bytes:
    """Answer a flat array (in both protocols) of name and count; pattern subscribers do not count."""
    return _counts(client.server.part(PubSub).channels, args[2:])


# PUBSUB SHARDCHANNELS [pattern]
@command(
    "PUBSUB|SHARDCHANNELS",
    arity=-2,
    flags="pubsub loading stale",
    since="7.0.0",
    group="pubsub",
    complexity="O(N) where N is the number of active shard channels, and assuming constant time pattern matching "
    "(relatively short shard channels).",
    summary="Lists the shard channels that have subscribers.",
    arguments=syntax.PUBSUB_SHARDCHANNELS,
)
def pubsub_shardchannels(client: Client, args: list[bytes]) -> bytes:
    """Answer the names, oldest subscription first."""
    return _active(client.server.part(PubSub).shard_channels, args)


# PUBSUB SHARDNUMSUB [shardchannel [shardchannel ...]]
@command(
    "PUBSUB|SHARDNUMSUB",
    arity=-2,
    flags="pubsub loading stale",
    since="7.0.0",
    group="pubsub",
    complexity="O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard channels",
    summary="Counts the subscribers of shard channels.",
    arguments=syntax.PUBSUB_SHARDNUMSUB,
)
def pubsub_shardnumsub(client: Client, args: list[bytes]) -> bytes:
    """Answer a flat array of name and count."""
    return _counts(client.server.part(PubSub).shard_channels, args[2:])


# PUBSUB HELP
@command(
    "PUBSUB|HELP",
    arity=2,
    flags="loading stale",
    since="6.2.0",
    group="pubsub",
    complexity="O(1)",
    summary="Tells what the subcommands do.",
    arguments=syntax.PUBSUB_HELP,
)
def pubsub_help(client: Client, args: list[bytes]) -> bytes:
    """Answer the lines of help."""
    del client, args
    return replies.simple_array(help_lines("pubsub"))
