"""The publish/subscribe commands: one record each."""

from __future__ import annotations

from ..spec.command import Family
from ..spec.grammar import many, optional, pattern, string
from ..spec.key_specs import at

family = Family(__package__, "pubsub")

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

SUBSCRIBE = family.command("SUBSCRIBE", arity=-2, flags="denyoom pubsub noscript loading stale",
    since="2.0.0",
    summary="Subscribes to channels.",
    complexity="O(N); N: channels given",
    arguments=(many(string("channel")),))

UNSUBSCRIBE = family.command("UNSUBSCRIBE", arity=-1, flags="pubsub noscript loading stale", since="2.0.0",
    summary="Stops listening to channels, to all without an argument.",
    complexity="O(N); N: channels given",
    arguments=(optional(many(string("channel"))),))

PSUBSCRIBE = family.command("PSUBSCRIBE", arity=-2, flags="denyoom pubsub noscript loading stale",
    since="2.0.0",
    summary="Subscribes to the channels that match patterns.",
    complexity="O(N); N: patterns given",
    arguments=(many(pattern()),))

PUNSUBSCRIBE = family.command("PUNSUBSCRIBE", arity=-1, flags="pubsub noscript loading stale", since="2.0.0",
    summary="Stops listening to patterns, to all without an argument.",
    complexity="O(N); N: patterns given",
    arguments=(optional(many(pattern())),))

SSUBSCRIBE = family.command("SSUBSCRIBE", arity=-2, flags="denyoom pubsub noscript loading stale",
    keys=(at(1, "not_key", last=-1),), since="7.0.0",
    summary="Subscribes to shard channels.",
    complexity="O(N); N: shard channels given",
    arguments=(many(string("shardchannel")),))

SUNSUBSCRIBE = family.command("SUNSUBSCRIBE", arity=-1, flags="pubsub noscript loading stale",
    keys=(at(1, "not_key", last=-1),), since="7.0.0",
    summary="Stops listening to shard channels, to all without an argument.",
    complexity="O(N); N: shard channels given",
    arguments=(optional(many(string("shardchannel"))),))

PUBLISH = family.command("PUBLISH", arity=3, flags="pubsub loading stale fast may_replicate", since="2.0.0",
    summary="Sends a message to a channel.",
    complexity="O(N+P); N: subscribers of the channel, P: patterns of all clients",
    arguments=(string("channel"), string("message")))

SPUBLISH = family.command("SPUBLISH", arity=3, flags="pubsub loading stale fast may_replicate", keys=(at(1, "not_key"),),
    since="7.0.0",
    summary="Sends a message to a shard channel.",
    complexity="O(N); N: subscribers of the shard channel",
    arguments=(string("shardchannel"), string("message")))

PUBSUB = family.container("PUBSUB", since="2.8.0",
    summary="Describes channels and their subscribers.")

PUBSUB_CHANNELS = family.command("PUBSUB|CHANNELS", arity=-2, flags="pubsub loading stale", since="2.8.0",
    summary="Lists the channels that have subscribers.",
    complexity="O(N); N: active channels",
    arguments=(optional(pattern()),))

PUBSUB_NUMPAT = family.command("PUBSUB|NUMPAT", arity=2, flags="pubsub loading stale", since="2.8.0",
    summary="Counts the different patterns that clients listen to.")

PUBSUB_NUMSUB = family.command("PUBSUB|NUMSUB", arity=-2, flags="pubsub loading stale", since="2.8.0",
    summary="Counts the subscribers of channels.",
    complexity="O(N); N: channels given",
    arguments=(optional(many(string("channel"))),))

PUBSUB_SHARDCHANNELS = family.command("PUBSUB|SHARDCHANNELS", arity=-2, flags="pubsub loading stale",
    since="7.0.0",
    summary="Lists the shard channels that have subscribers.",
    complexity="O(N); N: active shard channels",
    arguments=(optional(pattern()),))

PUBSUB_SHARDNUMSUB = family.command("PUBSUB|SHARDNUMSUB", arity=-2, flags="pubsub loading stale",
    since="7.0.0",
    summary="Counts the subscribers of shard channels.",
    complexity="O(N); N: shard channels given",
    arguments=(optional(many(string("shardchannel"))),))

PUBSUB_HELP = family.help("PUBSUB", since="6.2.0")

# fmt: on
