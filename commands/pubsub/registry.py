"""The subscribers of channels and patterns, and the delivery of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from ...protocol import replies
from ...protocol.globs import Matcher, matcher
from ...storage.keyspace import notifications as events
from ..runtime.client import Client

if TYPE_CHECKING:
    from ..runtime.context import Server

    # Dicts serve as sets that keep their order: clients are served in the order they subscribed.
    Subscribers: TypeAlias = dict[bytes, dict[Client, None]]

SUBSCRIPTION_BYTES: Final = 168  # of a subscription, without its name and its place in the client's list
_FIELD_CHANNELS: Final = (
    events.SUBKEYSPACE | events.SUBKEYEVENT | events.SUBKEYSPACEITEM | events.SUBKEYSPACEEVENT
)


class PubSub:
    """The subscriptions of a server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        # The subscribers by name; a name without subscribers is not kept.
        self.channels: Subscribers = {}
        self.patterns: Subscribers = {}
        self.shard_channels: Subscribers = {}
        self._matchers: dict[bytes, Matcher] = {}

    def publish(self, channel: bytes, message: bytes) -> int:
        """Send a message to subscribers of a channel and of matching patterns; return the number of deliveries."""
        receivers = 0
        there = self.channels.get(channel)
        if there:
            _deliver(there, (b"message", channel, message))
            receivers += len(there)
        if self.patterns:
            matchers = self._matchers
            for pattern, clients in self.patterns.items():
                fits = matchers.get(pattern)
                if fits is None:
                    fits = matchers[pattern] = matcher(pattern)
                if fits(channel):
                    _deliver(clients, (b"pmessage", pattern, channel, message))
                    receivers += len(clients)
        return receivers

    def publish_sharded(self, channel: bytes, message: bytes) -> int:
        """Send a message to the subscribers of a shard channel; return the number of these clients."""
        there = self.shard_channels.get(channel)
        if not there:
            return 0
        _deliver(there, (b"smessage", channel, message))
        return len(there)

    def publish_event(self, db_index: int, event: bytes, key_name: bytes, fields: Sequence[bytes]) -> None:
        """Publish a keyspace notification on the channels that notify-keyspace-events enables (K, E; S, T, I, V).

        This is the hook ``Keyspace.on_event``; its caller has checked the class of the event.
        """
        if not self.channels and not self.patterns:
            return
        mask = self.server.keyspace.notify_mask
        if mask & events.KEYSPACE:
            self.publish(b"__keyspace@%d__:%b" % (db_index, key_name), event)
        if mask & events.KEYEVENT:
            self.publish(b"__keyevent@%d__:%b" % (db_index, event), key_name)
        if fields and mask & _FIELD_CHANNELS:
            self._publish_fields(mask, db_index, event, key_name, fields)

    def _publish_fields(
        self, mask: int, db_index: int, event: bytes, key_name: bytes, fields: Sequence[bytes]
    ) -> None:
        """Publish the fields, listed as ``2:f1,2:f2``; not per item if the key has a newline in its name."""
        listed = b",".join([b"%d:%b" % (len(field), field) for field in fields])
        if mask & events.SUBKEYSPACE:
            self.publish(b"__subkeyspace@%d__:%b" % (db_index, key_name), b"%b|%b" % (event, listed))
        if mask & events.SUBKEYEVENT:
            message = b"%d:%b|%b" % (len(key_name), key_name, listed)
            self.publish(b"__subkeyevent@%d__:%b" % (db_index, event), message)
        if mask & events.SUBKEYSPACEITEM and b"\n" not in key_name:
            for field in fields:
                self.publish(b"__subkeyspaceitem@%d__:%b\n%b" % (db_index, key_name, field), event)
        if mask & events.SUBKEYSPACEEVENT:
            self.publish(b"__subkeyspaceevent@%d__:%b|%b" % (db_index, event, key_name), listed)

    def end_shard_channel(self, name: bytes) -> None:
        """Unsubscribe all clients from a shard channel and send them ``sunsubscribe``: another node serves it now."""
        for client in self.shard_channels.pop(name, {}):
            client.shard_channels.remove(name)
            client.names_bytes -= len(name) + SUBSCRIPTION_BYTES
            count = replies.integer(len(client.shard_channels))
            header = replies.push_header(3, client.resp)
            client.send(header + replies.bulk(b"sunsubscribe") + replies.bulk(name) + count)
            client.update_state()

    def remove(self, client: Client) -> None:
        """End all subscriptions of a client without a message to it (for a closed client, or RESET)."""
        for registry, names in (
            (self.channels, client.channels),
            (self.patterns, client.patterns),
            (self.shard_channels, client.shard_channels),
        ):
            for name in names:
                self.drop(registry, name, client)
            names.clear()

    def drop(self, registry: Subscribers, name: bytes, client: Client) -> None:
        """Remove a client from the subscribers of a channel or pattern; the client's own list is not changed."""
        there = registry[name]
        del there[client]
        client.names_bytes -= len(name) + SUBSCRIPTION_BYTES
        if not there:
            del registry[name]
            if registry is self.patterns:
                self._matchers.pop(name, None)


def _deliver(clients: dict[Client, None], words: Sequence[bytes]) -> None:
    body = b"".join([replies.bulk(word) for word in words])
    size = len(words)
    for client in clients:
        client.send(replies.push_header(size, client.resp) + body)
