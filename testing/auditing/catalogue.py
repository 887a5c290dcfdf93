"""The promises of a stream consumer, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from . import fleet, losing, outages, working
from .bench import Bench


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise of a consumer or a producer, with the experiment that tries it."""

    name: str  # the name, which users give on the command line and to ``audit``
    story: str  # a few words for tables
    # Returns a sentence about what was observed if the promise is kept; else raises ``Broken`` or ``NotTried``.
    experiment: Callable[[Bench], str]
    durable: bool = False  # whether it needs a server that keeps its data over a restart


_EVERY: Final = (
    Promise("works", "a message is delivered, worked and acknowledged", working.works),
    Promise("backlog", "messages from before its start are done, too", working.backlog),
    Promise("crash", "it dies in the middle and comes back under its name", losing.crash),
    Promise(
        "crash-elsewhere", "it dies in the middle, and another consumer takes over", losing.crash_elsewhere
    ),
    Promise("delivery-lost", "XREADGROUP ran, and its reply was lost", losing.delivery_lost),
    Promise("ack-lost", "the acknowledgement was lost", losing.ack_lost),
    Promise("works-before-ack", "it acknowledges after the work", working.works_before_ack),
    Promise("long-job", "no other consumer takes a message that is in work", fleet.long_job),
    Promise("idle-claim", "stuck messages are claimed even if no new ones arrive", losing.idle_claim),
    Promise("poison", "messages after a bad one are processed", working.poison),
    Promise("poison-capped", "a bad message is given up after some deliveries", working.poison_capped),
    Promise("deleted", "a pending entry was deleted", losing.deleted),
    Promise("failover", "READONLY, then a new master", outages.failover),
    Promise("restart", "the server goes and comes back, with its data", outages.restart, durable=True),
    Promise("cut", "connections are reset while it waits", outages.cut),
    Promise("flushed", "the group is gone", outages.flushed),
    Promise("shutdown", "SIGTERM ends it, and its messages are done or stay pending", fleet.shutdown),
    Promise("consumers", "names of dead consumers do not pile up", fleet.consumers),
    Promise("retention", "acknowledged entries do not stay", fleet.retention),
    Promise("scripts", "its scripts are gone (SCRIPT FLUSH)", outages.scripts),
    Promise("fair", "two workers share", fleet.fair),
)
PROMISES: Final = {each.name: each for each in _EVERY}
