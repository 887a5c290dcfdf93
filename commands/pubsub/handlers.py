"""Publish/subscribe: the registry of channels, patterns and shard channels, and its commands.

Messages are push messages in RESP3 and plain arrays in RESP2, by the protocol of each receiver. The reply of
(UN)SUBSCRIBE is the concatenated acknowledgements, one per channel.
"""

from __future__ import annotations

from typing import TypeAlias

from ...protocol import replies
from ...protocol.errors import ReplyError, wrong_subcommand_arguments
from ...protocol.globs import matcher
from ..runtime.client import Client
from ..spec.command import handles
from ..spec.usage import help_of
from . import specs
from .registry import SUBSCRIPTION_BYTES

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


def _registry(client: Client, kind: str) -> tuple[Subscribers, set[bytes]]:
    """Return the subscribers by name of one kind, and the client's own names."""
    pubsub = client.server.pubsub
    if kind == "patterns":
        return pubsub.patterns, client.patterns
    if kind == "shard channels":
        return pubsub.shard_channels, client.shard_channels
    return pubsub.channels, client.channels


def _count(client: Client, kind: str) -> int:
    return len(client.shard_channels) if kind == "shard channels" else client.subscriptions


@handles(specs.SUBSCRIBE, kind="channels", event=b"subscribe")
@handles(specs.PSUBSCRIBE, kind="patterns", event=b"psubscribe")
@handles(specs.SSUBSCRIBE, kind="shard channels", event=b"ssubscribe")
def subscribe(client: Client, args: list[bytes], *, kind: str, event: bytes) -> bytes | None:
    """Subscribe to channels, patterns or shard channels; reply ``[event, name, count]`` for each.

    The count includes the client's channels and patterns, or only its shard channels.
    """
    if kind == "shard channels" and client.in_exec:
        raise ReplyError(b"ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client")
    registry, own = _registry(client, kind)
    items = []
    for name in args[1:]:
        if name not in own:
            own.add(name)
            registry.setdefault(name, {})[client] = None
            client.names_bytes += len(name) + SUBSCRIPTION_BYTES
        items.append(_acknowledge(client, event, name, _count(client, kind)))
    return _answer(client, items)


@handles(specs.UNSUBSCRIBE, kind="channels", event=b"unsubscribe")
@handles(specs.PUNSUBSCRIBE, kind="patterns", event=b"punsubscribe")
@handles(specs.SUNSUBSCRIBE, kind="shard channels", event=b"sunsubscribe")
def unsubscribe(client: Client, args: list[bytes], *, kind: str, event: bytes) -> bytes | None:
    """End the named subscriptions, or all without names; reply like SUBSCRIBE, with a null name if there was none."""
    registry, own = _registry(client, kind)
    items = []
    for name in args[1:] or sorted(own):
        if name in own:
            own.remove(name)
            client.server.pubsub.drop(registry, name, client)
        items.append(_acknowledge(client, event, name, _count(client, kind)))
    if not items:
        items.append(_acknowledge(client, event, None, _count(client, kind)))
    return _answer(client, items)


@handles(specs.PUBLISH)
def publish(client: Client, args: list[bytes]) -> bytes:
    """Send a message to a channel; reply with the number of deliveries.

    A client counts once for each matching channel and pattern.
    """
    client.server.propagation.add_for_replicas(client.db.index, args)
    return replies.integer(client.server.pubsub.publish(args[1], args[2]))


@handles(specs.SPUBLISH)
def spublish(client: Client, args: list[bytes]) -> bytes:
    """Send a message to a shard channel; reply with the number of its subscribers."""
    client.server.propagation.add_for_replicas(client.db.index, args)
    return replies.integer(client.server.pubsub.publish_sharded(args[1], args[2]))


@handles(specs.PUBSUB_CHANNELS, kind="channels")
@handles(specs.PUBSUB_SHARDCHANNELS, kind="shard channels")
def pubsub_channels(client: Client, args: list[bytes], *, kind: str) -> bytes:
    """Reply with the names of channels that have subscribers and match a glob, in the order of their first subscription."""
    if len(args) > 3:
        raise wrong_subcommand_arguments(args)
    registry, _ = _registry(client, kind)
    return replies.bulk_array(registry if len(args) == 2 else filter(matcher(args[2]), registry))


@handles(specs.PUBSUB_NUMSUB, kind="channels")
@handles(specs.PUBSUB_SHARDNUMSUB, kind="shard channels")
def pubsub_numsub(client: Client, args: list[bytes], *, kind: str) -> bytes:
    """Reply with name and number of subscribers for each channel, as a flat array; pattern subscribers do not count."""
    registry, _ = _registry(client, kind)
    pairs = [replies.bulk(name) + replies.integer(len(registry.get(name, ()))) for name in args[2:]]
    return replies.array_header(2 * len(pairs)) + b"".join(pairs)


@handles(specs.PUBSUB_NUMPAT)
def pubsub_numpat(client: Client, _args: list[bytes]) -> bytes:
    """Reply with the number of different patterns that clients subscribe to."""
    return replies.integer(len(client.server.pubsub.patterns))


handles(specs.PUBSUB_HELP, container="pubsub")(help_of)
