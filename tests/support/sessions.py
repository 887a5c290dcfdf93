"""What a test of kept connections does to a session, and what a client can see of it, for both kinds of redis-py clients."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import redis

_VERSION = tuple(map(int, redis.__version__.split(".")[:2]))
RESP3 = {"protocol": 3} if _VERSION >= (5, 0) else {}
# The options of clients.
WAYS = [{}, RESP3 and {"protocol": 2}, {"db": 3, "client_name": "me", "decode_responses": True} | RESP3]
# A connection is taken out of a pool with these: before 5.3 redis-py wanted to know for which command.
TAKING = ("_",) if _VERSION < (5, 3) else ()


def _sends(*words: str | int) -> Callable[[Any], Any]:
    return lambda client: client.execute_command(*words)


ACTS: dict[str, Callable[[Any], Any]] = {
    "data": lambda c: c.set("k", "v"),
    "select": _sends("SELECT", 5),
    "name": lambda c: c.client_setname("other"),
    "information": _sends("CLIENT", "SETINFO", "LIB-NAME", "other"),
    "resp2": _sends("HELLO", 2),
    "resp3": _sends("HELLO", 3),
    "multi": _sends("MULTI"),
    "watch": _sends("WATCH", "k"),
    "tracking": _sends("CLIENT", "TRACKING", "ON"),
    "no evict": lambda c: c.client_no_evict("ON"),
    "no touch": lambda c: c.client_no_touch("ON"),
    "reset": _sends("RESET"),
    "readonly": _sends("READONLY"),
    "control": _sends("DEBUG", "CONTROL"),
    "kill": lambda c: c.client_kill_filter(_type="normal", skipme=False),
    "disconnect": lambda c: c.connection_pool.disconnect(),
    "no clients": lambda c: c.config_set("maxclients", 1),
    "a password": lambda c: c.config_set("requirepass", "secret"),
}
# All that a client can see of its session and of the clients of its server, in this order.
LOOKS: dict[str, Callable[[Any], Any]] = {
    "info": lambda c: c.client_info(),
    "list": lambda c: c.client_list(),
    "name": lambda c: c.client_getname(),
    "user": lambda c: c.acl_whoami(),
    "redirect": lambda c: c.client_getredir(),
    "tracking": lambda c: c.client_trackinginfo(),
    "clients": lambda c: c.info("clients"),
    "stats": lambda c: c.info("stats"),
    "calls": lambda c: c.info("commandstats"),
    "pubsub": lambda c: c.pubsub_channels(),
    "hash": _sends("HGETALL", "h"),
    "exec": lambda c: c.pipeline().get("k").execute(),
    "size": lambda c: c.dbsize(),
    "errors": lambda c: c.info("errorstats"),
}
# The reply of HELLO has the ID, with more digits each time.
_MOVING = {"id", "addr", "laddr", "fd", "age", "idle", "tot-mem", "tot-net-out"}
_STATS = {"total_connections_received", "total_commands_processed", "total_net_input_bytes"}


def comparable(replies: Mapping[str, Any], recording: Iterable[Any]) -> dict[str, Any]:
    """Return the replies to LOOKS, and what was recorded meanwhile, without what differs for each new client."""
    found = dict(replies)
    found["stats"] = {name: value for name, value in found["stats"].items() if name in _STATS}
    found["calls"] = {name: value["calls"] for name, value in found["calls"].items()}
    found["info"] = {name: value for name, value in found["info"].items() if name not in _MOVING}
    found["list"] = [{k: v for k, v in each.items() if k not in _MOVING} for each in found["list"]]
    found["recorded"] = [(each.words, each.database, each.client) for each in recording]
    return found
