"""CLUSTER's subcommands that describe a node, its slots and its cluster; READONLY, READWRITE and ASKING."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final

from ....commands.runtime.arguments import parse_integer
from ....commands.runtime.client import Client
from ....commands.spec.command import handles
from ....commands.spec.usage import help_of
from ....protocol import replies
from ....protocol.errors import ReplyError
from ....protocol.key_slots import SLOTS, key_slot
from .. import views
from . import specs

if TYPE_CHECKING:
    from ..membership import Membership
    from ..topology import Node

DISABLED: Final = b"ERR This instance has cluster support disabled"


def place_of(client: Client) -> tuple[Membership, Node]:
    """Return the server's cluster membership, and the node that the server is.

    Raises ReplyError: the server is not a node of a cluster.
    """
    place = client.server.cluster
    if place.node is None:
        raise ReplyError(DISABLED)
    return place, place.node


def known_node(place: Membership, word: bytes) -> Node:
    """Return the cluster node with the ID ``word``; raise ReplyError if there is none."""
    node = place.topology.find(word.decode("latin-1"))
    if node is None:
        raise ReplyError(b"ERR Unknown node %b" % word)
    return node


# Modes of a client


@handles(specs.READONLY, reads_replica=True)
@handles(specs.READWRITE, reads_replica=False)
def readonly(client: Client, _args: list[bytes], *, reads_replica: bool) -> bytes:
    """READONLY, READWRITE: let the client read from this node while it is a replica, or redirect it to masters; reply OK."""
    place_of(client)
    client.reads_replica = reads_replica
    return replies.OK


@handles(specs.ASKING)
def asking(client: Client, _args: list[bytes]) -> bytes:
    """Let the client's next command use a slot that this node is importing; reply OK."""
    place_of(client)
    client.asking = True
    return replies.OK


# Views


@handles(specs.CLUSTER_SLOTS, view=views.slots_reply)
@handles(specs.CLUSTER_SHARDS, view=views.shards_reply)
@handles(specs.CLUSTER_LINKS, view=views.links_reply)
def cluster_slots(client: Client, _args: list[bytes], *, view: Callable[[Membership, int], bytes]) -> bytes:
    """Reply with the array that ``view`` makes for CLUSTER SLOTS, SHARDS or LINKS; see ``server/cluster/views``."""
    return view(place_of(client)[0], client.resp)


@handles(specs.CLUSTER_NODES, text=views.nodes_text)
@handles(specs.CLUSTER_INFO, text=views.info_text)
def cluster_nodes(client: Client, _args: list[bytes], *, text: Callable[[Membership], str]) -> bytes:
    """Reply with the text that ``text`` makes for CLUSTER NODES or CLUSTER INFO; see ``server/cluster/views``."""
    return replies.verbatim(text(place_of(client)[0]).encode(), client.resp)


@handles(specs.CLUSTER_MYID)
def cluster_myid(client: Client, _args: list[bytes]) -> bytes:
    """Reply with the ID of this node."""
    return replies.bulk(place_of(client)[1].id.encode())


@handles(specs.CLUSTER_MYSHARDID)
def cluster_myshardid(client: Client, _args: list[bytes]) -> bytes:
    """Reply with the ID of this node's shard."""
    return replies.bulk(place_of(client)[1].shard.id.encode())


@handles(specs.CLUSTER_REPLICAS, specs.CLUSTER_SLAVES)
def cluster_replicas(client: Client, args: list[bytes]) -> bytes:
    """Reply with a line as in CLUSTER NODES for each replica of a master."""
    place, _ = place_of(client)
    node = known_node(place, args[2])
    if not node.is_master:
        raise ReplyError(b"ERR The specified node is not a master")
    return replies.bulk_array(views.node_line(place, replica).encode() for replica in node.shard.replicas)


@handles(specs.CLUSTER_COUNT_FAILURE_REPORTS)
def cluster_count_failure_reports(client: Client, args: list[bytes]) -> bytes:
    """Reply with 0: all nodes learn of a failure at once, so no node reports it."""
    place, _ = place_of(client)
    known_node(place, args[2])
    return replies.ZERO


@handles(specs.CLUSTER_HELP)
def cluster_help(client: Client, args: list[bytes]) -> bytes:
    """Reply with the subcommands, one or two lines each."""
    place_of(client)
    return help_of(client, args, container="cluster")


# Keys of a slot


@handles(specs.CLUSTER_KEYSLOT)
def cluster_keyslot(client: Client, args: list[bytes]) -> bytes:
    """Reply with the hash slot of a key, 0 to 16383."""
    place_of(client)
    return replies.integer(key_slot(args[2]))


@handles(specs.CLUSTER_COUNTKEYSINSLOT)
def cluster_countkeysinslot(client: Client, args: list[bytes]) -> bytes:
    """Reply with the number of keys of a slot that are on this node."""
    place, _ = place_of(client)
    slot = parse_integer(args[2])
    if not 0 <= slot < SLOTS:
        raise ReplyError(b"ERR Invalid slot")
    return replies.integer(sum(1 for _ in place.keys_in(slot)))


@handles(specs.CLUSTER_GETKEYSINSLOT)
def cluster_getkeysinslot(client: Client, args: list[bytes]) -> bytes:
    """Reply with at most ``count`` of this node's keys in a slot."""
    place, _ = place_of(client)
    slot, count = parse_integer(args[2]), parse_integer(args[3])
    if not 0 <= slot < SLOTS or count < 0:
        raise ReplyError(b"ERR Invalid slot or number of keys")
    return replies.bulk_array(list(islice(place.keys_in(slot), count)))
