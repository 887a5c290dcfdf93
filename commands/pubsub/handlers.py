"""Publish/subscribe: the registry of channels, patterns and shard channels, and its commands.

Messages are push messages in RESP3 and plain arrays in RESP2, by the protocol of each receiver. The reply of
(UN)SUBSCRIBE is the concatenated acknowledgements, one per channel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ...protocol import replies
from ...protocol.errors import ReplyError, wrong_subcommand_arguments
from ...protocol.globs import matcher
from ..spec.command import handles
from ..spec.usage import help_lines, help_reply
from . import specs
from .registry import SUBSCRIPTION_BYTES, PubSub

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..runtime.client import Client

    # Dicts serve as sets that keep their order: clients are served in the order they subscribed.
    Subscribers: TypeAlias = dict[bytes, dict[Client, None]]


def _acknowledge(client: Client, kind: bytes, name: bytes | None, count: int) -> bytes:
    shown = replies.null(client.resp) if name is None else replies.bulk(name)
    return replies.push_header(3, client.resp) + replies.bulk(kind) + shown + replies.integer(count)


def _answer(client: Client, items: list[bytes]) -> bytes | None:
    """Return the acknowledgements as the reply; CLIENT REPLY OFF and SKIP do not suppress them."""
    client.update_state()
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
            client.names_bytes += len(name) + SUBSCRIPTION_BYTES
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
            client.server.part(PubSub).drop(registry, name, client)
        items.append(_acknowledge(client, kind, name, count()))
    if not items:
        items.append(_acknowledge(client, kind, None, count()))
    return _answer(client, items)


@handles(specs.SUBSCRIBE)
def subscribe(client: Client, args: list[bytes]) -> bytes | None:
    """Reply ``[subscribe, channel, count]`` per channel; the count includes patterns."""
    return _subscribe(
        client,
        b"subscribe",
        args,
        client.server.part(PubSub).channels,
        client.channels,
        lambda: client.subscriptions,
    )


@handles(specs.UNSUBSCRIBE)
def unsubscribe(client: Client, args: list[bytes]) -> bytes | None:
    """Reply ``[unsubscribe, channel, count]`` per channel; with a null channel if there was none."""
    return _unsubscribe(
        client,
        b"unsubscribe",
        args,
        client.server.part(PubSub).channels,
        client.channels,
        lambda: client.subscriptions,
    )


@handles(specs.PSUBSCRIBE)
def psubscribe(client: Client, args: list[bytes]) -> bytes | None:
    """Reply ``[psubscribe, pattern, count]`` per pattern."""
    return _subscribe(
        client,
        b"psubscribe",
        args,
        client.server.part(PubSub).patterns,
        client.patterns,
        lambda: client.subscriptions,
    )


@handles(specs.PUNSUBSCRIBE)
def punsubscribe(client: Client, args: list[bytes]) -> bytes | None:
    """Reply ``[punsubscribe, pattern, count]`` per pattern; with a null pattern if there was none."""
    return _unsubscribe(
        client,
        b"punsubscribe",
        args,
        client.server.part(PubSub).patterns,
        client.patterns,
        lambda: client.subscriptions,
    )


@handles(specs.SSUBSCRIBE)
def ssubscribe(client: Client, args: list[bytes]) -> bytes | None:
    """Reply ``[ssubscribe, channel, count]`` per channel; shard channels are counted separately."""
    if client.in_exec:
        raise ReplyError(b"ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client")
    own = client.shard_channels
    return _subscribe(
        client, b"ssubscribe", args, client.server.part(PubSub).shard_channels, own, own.__len__
    )


@handles(specs.SUNSUBSCRIBE)
def sunsubscribe(client: Client, args: list[bytes]) -> bytes | None:
    """Reply ``[sunsubscribe, channel, count]`` per channel; with a null channel if there was none."""
    own = client.shard_channels
    return _unsubscribe(
        client, b"sunsubscribe", args, client.server.part(PubSub).shard_channels, own, own.__len__
    )


@handles(specs.PUBLISH)
def publish(client: Client, args: list[bytes]) -> bytes:
    """Reply with the number of deliveries; a client counts once per matching channel and pattern."""
    client.server.propagation.add_for_replicas(client.db.index, args)
    return replies.integer(client.server.part(PubSub).publish(args[1], args[2]))


@handles(specs.SPUBLISH)
def spublish(client: Client, args: list[bytes]) -> bytes:
    """Reply with the number of clients that received the message."""
    client.server.propagation.add_for_replicas(client.db.index, args)
    return replies.integer(client.server.part(PubSub).publish_sharded(args[1], args[2]))


def _active(registry: Subscribers, args: list[bytes]) -> bytes:
    if len(args) > 3:
        raise wrong_subcommand_arguments(args)
    if len(args) == 2:
        return replies.bulk_array(registry)
    return replies.bulk_array(filter(matcher(args[2]), registry))


def _counts(registry: Subscribers, names: list[bytes]) -> bytes:
    pairs = [replies.bulk(name) + replies.integer(len(registry.get(name, ()))) for name in names]
    return replies.array_header(2 * len(pairs)) + b"".join(pairs)


@handles(specs.PUBSUB_CHANNELS)
def pubsub_channels(client: Client, args: list[bytes]) -> bytes:
    """Reply with the names, oldest subscription first."""
    return _active(client.server.part(PubSub).channels, args)


@handles(specs.PUBSUB_NUMPAT)
def pubsub_numpat(client: Client, args: list[bytes]) -> bytes:
    """Reply with the number of patterns."""
    del args
    return replies.integer(len(client.server.part(PubSub).patterns))


@handles(specs.PUBSUB_NUMSUB)
def pubsub_numsub(client: Client, args: list[bytes]) -> bytes:
    """Reply with a flat array (in both protocols) of name and count; pattern subscribers do not count."""
    return _counts(client.server.part(PubSub).channels, args[2:])


@handles(specs.PUBSUB_SHARDCHANNELS)
def pubsub_shardchannels(client: Client, args: list[bytes]) -> bytes:
    """Reply with the names, oldest subscription first."""
    return _active(client.server.part(PubSub).shard_channels, args)


@handles(specs.PUBSUB_SHARDNUMSUB)
def pubsub_shardnumsub(client: Client, args: list[bytes]) -> bytes:
    """Reply with a flat array of name and count."""
    return _counts(client.server.part(PubSub).shard_channels, args[2:])


@handles(specs.PUBSUB_HELP)
def pubsub_help(client: Client, args: list[bytes]) -> bytes:
    """Answer the lines of help."""
    del args
    return help_reply(help_lines("pubsub"), client.server.compat)
