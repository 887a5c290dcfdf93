"""The syntax of the publish/subscribe commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import NONE, many, optional, pattern, string

if TYPE_CHECKING:
    from ..spec.grammar import Tree

SUBSCRIBE: Tree = (many(string("channel")),)
UNSUBSCRIBE: Tree = (optional(many(string("channel"))),)
PSUBSCRIBE: Tree = (many(pattern()),)
PUNSUBSCRIBE: Tree = (optional(many(pattern())),)
SSUBSCRIBE: Tree = (many(string("shardchannel")),)
SUNSUBSCRIBE: Tree = (optional(many(string("shardchannel"))),)
PUBLISH: Tree = (string("channel"), string("message"))
SPUBLISH: Tree = (string("shardchannel"), string("message"))

PUBSUB: Tree = NONE
PUBSUB_CHANNELS: Tree = (optional(pattern()),)
PUBSUB_NUMPAT: Tree = NONE
PUBSUB_NUMSUB: Tree = (optional(many(string("channel"))),)
PUBSUB_SHARDCHANNELS: Tree = (optional(pattern()),)
PUBSUB_SHARDNUMSUB: Tree = (optional(many(string("shardchannel"))),)
PUBSUB_HELP: Tree = NONE
