"""INFO, ROLE and PUBLISH of a server in sentinel mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ....commands.pubsub import specs as pubsub
from ....commands.runtime.client import Client
from ....commands.spec.command import handles
from ....protocol import replies
from ....protocol.errors import ReplyError
from ...admin import specs as admin
from ...admin.info import SECTIONS, info_text
from ...replication.commands import specs as replication
from ...server import Server

if TYPE_CHECKING:
    from ..state import Sentinel


def state_of(server: Server) -> Sentinel:
    """Return the state of the sentinel; call this only in sentinel mode."""
    assert server.sentinel is not None
    return server.sentinel.sentinel


def _sentinel(server: Server) -> Iterator[tuple[str, object]]:
    masters = state_of(server).masters.values()
    yield "sentinel_masters", len(masters)
    yield "sentinel_tilt", 0
    yield "sentinel_tilt_since_seconds", -1
    if server.compat.knows("8.0"):
        yield "sentinel_total_tilt", 0
    yield "sentinel_running_scripts", 0
    yield "sentinel_scripts_queue_length", 0
    yield "sentinel_simulate_failure_flags", 0
    for number, master in enumerate(masters):
        status = "odown" if master.is_agreed_down else "sdown" if master.is_down else "ok"
        place = f"name={master.name},status={status},address={master.host}:{master.port}"
        yield f"master{number}", f"{place},slaves={len(master.replicas)},sentinels=1"


_SECTIONS: Final = {
    **{name: SECTIONS[name] for name in ("server", "clients", "stats", "cpu")},
    "sentinel": ("Sentinel", _sentinel),
}


@handles(admin.INFO, in_sentinel=True)
def info(client: Client, args: list[bytes]) -> bytes:
    """INFO in sentinel mode: reply with the requested sections, out of those that a sentinel has."""
    names = [word.lower().decode("latin-1") for word in args[1:]]
    return replies.verbatim(info_text(client.server, names, _SECTIONS), client.resp)


@handles(replication.ROLE, in_sentinel=True)
def role(client: Client, _args: list[bytes]) -> bytes:
    """Reply ``["sentinel", [name …]]``."""
    names = replies.bulk_array(state_of(client.server).masters)
    return replies.array([replies.bulk(b"sentinel"), names])


@handles(pubsub.PUBLISH, in_sentinel=True)
def publish(_client: Client, _args: list[bytes]) -> bytes:
    """Refuse: Redis Sentinels use this to talk to each other, and this one works alone."""
    raise ReplyError(b"ERR Only HELLO messages are accepted by Sentinel instances.")
