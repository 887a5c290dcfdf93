"""One failover: choose a replica, promote it, make the others follow it. Events are published in Redis' order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from .state import Master, Replica

if TYPE_CHECKING:
    from .monitor import Monitor

_PAUSE: Final = 0.01  # seconds between two INFO until a step is done
_DRAINING: Final = 1.0  # seconds in which replicas may still read what their dead master sent


class _AbortedError(Exception):
    """The failover ends without a new master; the text is the event."""


class Failover:
    """One failover by this sentinel: the steps from the choice of a replica to the new master."""

    def __init__(self, monitor: Monitor, master: Master) -> None:
        self._monitor = monitor
        self._master = master
        self._limit = master.settings.failover_timeout / 1000

    async def run(self) -> None:
        """Run the failover to its end; without a suitable replica, or after ``failover-timeout``, publish why it is aborted."""
        monitor, master = self._monitor, self._master
        try:
            await self._run()
        except _AbortedError as event:
            monitor.publish(f"{event}", f"{master}")
        finally:
            master.failover_state, master.forced, master.promoted = "none", False, None
            for replica in master.replicas.values():
                replica.promoted, replica.turning = False, ""
        monitor.consider(monitor.sentinel.masters.get(master.settings.name, master))

    async def _run(self) -> None:
        monitor, master, sentinel = self._monitor, self._master, self._monitor.sentinel
        master.failover_began = monitor.now
        sentinel.epoch += 1
        epoch = sentinel.epoch
        monitor.publish("+new-epoch", f"{epoch}")
        monitor.publish("+try-failover", f"{master}")
        sentinel.vote(master, epoch, sentinel.my_id)
        monitor.publish("+elected-leader", f"{master}")
        self._enter("select_slave", "+failover-state-select-slave", master)
        chosen = await self._select()
        monitor.publish("+selected-slave", f"{chosen}")
        chosen.promoted = True
        self._enter("send_slaveof_noone", "+failover-state-send-slaveof-noone", chosen)
        await self._promote(chosen)
        master.promoted = chosen
        master.config_epoch = epoch
        monitor.publish("+promoted-slave", f"{chosen}")
        self._enter("reconf_slaves", "+failover-state-reconf-slaves", master)
        await self._turn_others(chosen)
        self._enter("update_config", "+failover-end", master)
        monitor.switch(master, chosen, epoch)

    def _enter(self, state: str, event: str, subject: Master | Replica) -> None:
        self._master.failover_state = state
        self._monitor.publish(event, f"{subject}")

    async def _select(self) -> Replica:
        monitor, master = self._monitor, self._master
        replicas = list(master.replicas.values())
        answers = await asyncio.gather(*[monitor.watch_of(replica).refresh() for replica in replicas])
        answered = [replica for replica, has_answered in zip(replicas, answers, strict=True) if has_answered]
        if master.is_down and monitor.watch_of(master).refused:
            # The master's connections are closed, but its last bytes may still be in transit.
            await self._wait(_DRAINING, lambda: not any(each.link_up for each in monitor.candidates(master)))
        found = [replica for replica in monitor.candidates(master) if replica in answered]
        if not found:
            raise _AbortedError("-failover-abort-no-good-slave")
        return found[0]

    async def _promote(self, chosen: Replica) -> None:
        monitor = self._monitor
        deadline = monitor.now + self._limit
        while not await monitor.watch_of(chosen).make_follow(b"NO", b"ONE"):
            if monitor.now > deadline or chosen.is_down:
                raise _AbortedError("-failover-abort-slave-timeout")
            await asyncio.sleep(_PAUSE)
        self._enter("wait_promotion", "+failover-state-wait-promotion", chosen)
        if not await self._wait(self._limit, lambda: chosen.role == "master"):
            raise _AbortedError("-failover-abort-slave-timeout")

    async def _turn_others(self, chosen: Replica) -> None:
        """Make the other replicas follow, ``parallel-syncs`` of them at a time; replicas that are down follow later."""
        monitor, master = self._monitor, self._master
        others = [replica for replica in master.replicas.values() if replica is not chosen]
        deadline = monitor.now + self._limit
        while True:
            for replica in others:
                await self._turn_on(replica, chosen)
            if all(replica.turning == "done" or replica.is_down for replica in others):
                return
            if monitor.now > deadline:
                monitor.publish("+failover-end-for-timeout", f"{master}")
                return
            await asyncio.sleep(_PAUSE)

    async def _turn_on(self, replica: Replica, chosen: Replica) -> None:
        """Advance one replica by the steps that it can take now."""
        monitor, master = self._monitor, self._master
        watch = monitor.watch_of(replica)
        if not replica.turning:
            busy = sum(each.turning in {"sent", "inprog"} for each in master.replicas.values())
            if busy >= master.settings.parallel_syncs:
                return
            if not await watch.make_follow(chosen.host.encode(), b"%d" % chosen.port):
                return
            self._advance(replica, "sent")
        if replica.turning == "done" or not await watch.refresh():
            return
        follows = (replica.master_host, replica.master_port) == (chosen.host, chosen.port)
        if replica.turning == "sent" and follows:
            self._advance(replica, "inprog")
        if replica.turning == "inprog" and follows and replica.link_up:
            self._advance(replica, "done")

    def _advance(self, replica: Replica, step: str) -> None:
        replica.turning = step
        self._monitor.publish(f"+slave-reconf-{step}", f"{replica}")

    async def _wait(self, seconds: float, is_done: Callable[[], bool]) -> bool:
        """Poll the replicas until ``is_done`` returns True; return False if it does not in time."""
        monitor, master = self._monitor, self._master
        deadline = monitor.now + seconds
        while not is_done():
            if monitor.now > deadline:
                return False
            await asyncio.sleep(_PAUSE)
            watches = [monitor.watch_of(each) for each in master.replicas.values() if not each.is_down]
            await asyncio.gather(*[watch.refresh() for watch in watches])
        return True
