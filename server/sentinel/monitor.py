"""The sentinel of a server: it watches other servers and acts on what it finds."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..server import Server
from .failover import Failover
from .state import Instance, Master, Replica, Sentinel
from .watch import Watch

if TYPE_CHECKING:
    from ..config.sentinel_settings import MasterSettings, SentinelSettings


class Monitor:
    """Watches masters and their replicas, and starts failovers. It works alone: its own vote decides.

    A `Watch` of each server decides SDOWN; this class decides ODOWN.
    """

    def __init__(self, server: Server, settings: SentinelSettings) -> None:
        self.sentinel = Sentinel(self, settings, secrets.token_hex(20))  # the state that the commands show
        self._server = server
        self._watches: dict[Instance, Watch] = {}
        self._failovers: dict[Master, asyncio.Task[None]] = {}
        self._retries: dict[Master, asyncio.TimerHandle] = {}

    def start(self) -> None:
        """Begin to monitor the masters that the configuration names."""
        self._server.log.notice(f"Sentinel ID is {self.sentinel.my_id}")
        for settings in self.sentinel.settings.masters.values():
            self.watch(settings)

    def stop(self) -> None:
        """End all monitoring and failovers."""
        for master in list(self.sentinel.masters.values()):
            self._drop(master)

    # For commands

    @property
    def now(self) -> float:
        """The event loop's time in seconds, by which the sentinel measures."""
        return self._server.loop.time()

    def publish(self, event: str, text: str) -> None:
        """Publish ``text`` on the Pub/Sub channel named like the event (``+sdown``), and log it."""
        self._server.log.warning(f"{event} {text}")
        message = text.encode("utf-8", "surrogateescape")
        self._server.pubsub.publish(event.encode(), message)

    def watch(self, settings: MasterSettings) -> None:
        """Add a master with its known replicas, and begin to monitor them."""
        master = Master(settings, self.now)
        self.sentinel.masters[settings.name] = master
        self.publish("+monitor", f"{master} quorum {settings.quorum}")
        self._watches[master] = Watch(self, master, master)
        for host, port in settings.known_replicas:
            self._add_replica(master, host, port)

    def forget(self, master: Master) -> None:
        """Stop monitoring a master and remove its settings."""
        self._drop(master)
        del self.sentinel.masters[master.settings.name], self.sentinel.settings.masters[master.settings.name]
        self.publish("-monitor", f"{master}")

    def reset(self, master: Master) -> None:
        """Monitor a master from scratch; only its settings and its configuration epoch stay."""
        self._drop(master)
        again = self.sentinel.masters[master.settings.name] = Master(master.settings, self.now)
        again.config_epoch = master.config_epoch
        self._watches[again] = Watch(self, again, again)
        self.publish("+reset-master", f"{again}")

    def fail_over(self, master: Master) -> None:
        """Start a failover, whatever state the master is in."""
        master.failover_state = "wait_start"
        task = self._server.loop.create_task(Failover(self, master).run())
        self._failovers[master] = task
        task.add_done_callback(lambda _: self._failovers.pop(master, None))

    # For watches

    def note_down(self, master: Master, instance: Instance) -> None:
        """Mark a server as down and publish that; a master with a quorum of 1 may then fail over."""
        if instance.is_down:
            return
        instance.is_down, instance.down_since = True, self.now
        self.publish("+sdown", f"{instance}")
        if instance is master and master.settings.quorum == 1:
            master.is_agreed_down = True
            self.publish("+odown", f"{master} #quorum 1/1")
            self.consider(master)

    def note_up(self, master: Master, instance: Instance) -> None:
        """Mark a server as no longer down, and publish that."""
        if not instance.is_down:
            return
        instance.is_down = False
        self.publish("-sdown", f"{instance}")
        if instance is master and master.is_agreed_down:
            master.is_agreed_down = False
            self.publish("-odown", f"{master}")

    def note_info(self, master: Master, instance: Instance, text: bytes) -> None:
        """Record the fields of a server's INFO, and begin to monitor replicas that it newly names."""
        first = instance.info_at is None
        instance.info, instance.info_at = text, self.now
        lines = text.decode("utf-8", "surrogateescape").split("\r\n")
        fields = {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}
        run_id = fields.get("run_id", "")
        if instance.run_id and instance.run_id != run_id:
            self.publish("+reboot", f"{instance}")
        instance.run_id = run_id
        role = fields.get("role", instance.role)
        if role != instance.role:
            instance.role, instance.role_since = role, self.now
            sign = "+" if (role == "master") == (instance is master) else "-"
            self.publish(f"{sign}role-change", f"{instance} new reported role is {role}")
        if isinstance(instance, Replica):
            _read_replica(instance, fields)
        elif role == "master":
            for line in (
                value for name, value in fields.items() if name.startswith("slave") and "ip=" in value
            ):
                place = dict(word.split("=", 1) for word in line.split(","))
                self._add_replica(master, place["ip"], int(place["port"]))
            if first:
                for replica in master.replicas.values():
                    self._watches[replica].hurry()

    def is_settled(self, master: Master, instance: Instance) -> bool:
        """Return True if a server has the role that it should have, so that INFO and PING may be sent less often."""
        if not isinstance(instance, Replica):
            return instance.role == "master"
        place = instance.master_host, instance.master_port
        return instance.role == "slave" and instance.link_up and place == (master.host, master.port)

    async def correct(self, master: Master, instance: Instance) -> None:
        """If a replica follows another server, or none, make it follow its master, provided that this is up."""
        if not isinstance(instance, Replica) or master.failover_state != "none" or instance.info_at is None:
            return
        if master.is_down or master.role != "master" or master.info_at is None:
            return
        is_master = instance.role == "master"
        place = instance.master_host, instance.master_port
        if not is_master and place == (master.host, master.port):
            return
        watch = self._watches[instance]
        if await watch.make_follow(master.host.encode(), b"%d" % master.port):
            self.publish("+convert-to-slave" if is_master else "+fix-slave-config", f"{instance}")
            await watch.refresh()

    # For failovers

    def consider(self, master: Master) -> None:
        """Start a failover if the master is down, but not within twice ``failover-timeout`` after the last one began."""
        if not master.is_agreed_down or master.failover_state != "none" or master in self._retries:
            return
        if master.failover_began is not None:
            wait = master.failover_began + master.settings.failover_timeout / 500 - self.now
            if wait > 0:
                self._retries[master] = self._server.loop.call_later(wait, self._retry, master)
                return
        self.fail_over(master)

    def _retry(self, master: Master) -> None:
        del self._retries[master]
        self.consider(master)

    def watch_of(self, instance: Instance) -> Watch:
        """Return the ``Watch`` that monitors a server."""
        return self._watches[instance]

    def candidates(self, master: Master) -> list[Replica]:
        """Return the replicas that can be promoted: by priority, then by offset, the best first."""
        # A replica that lost its connection long before the master went down lacks too much data.
        limit = 10 * master.settings.down_after
        if master.is_down:
            limit += int((self.now - master.down_since) * 1000)
        fit = [
            replica
            for replica in master.replicas.values()
            if not replica.is_down
            and replica.connected
            and replica.info_at is not None
            and replica.role == "slave"
            and replica.priority
            and replica.link_down_milliseconds <= limit
        ]
        return sorted(fit, key=lambda replica: (replica.priority, -replica.offset, replica.run_id))

    def switch(self, master: Master, promoted: Replica, epoch: int) -> None:
        """After a failover, monitor the promoted replica as the master and the old master as its replica."""
        settings = master.settings
        self._drop(master)
        self.publish("+switch-master", f"{master.words} {promoted.host} {promoted.port}")
        settings.host, settings.port = promoted.host, promoted.port
        successor = self.sentinel.masters[settings.name] = Master(settings, self.now)
        successor.config_epoch = epoch
        successor.leader, successor.leader_epoch = master.leader, master.leader_epoch
        successor.run_id = promoted.run_id
        self._watches[successor] = Watch(self, successor, successor)
        for replica in master.replicas.values():
            if replica is not promoted:
                self._add_replica(successor, replica.host, replica.port)
        self._add_replica(successor, master.host, master.port)

    # Helpers

    def _add_replica(self, master: Master, host: str, port: int) -> None:
        replica = Replica(master, host, port, self.now)
        if replica.address in master.replicas or (host, port) == (master.host, master.port):
            return
        master.replicas[replica.address] = replica
        self.publish("+slave", f"{replica}")
        self._watches[replica] = Watch(self, master, replica)

    def _drop(self, master: Master) -> None:
        """End a master's watches, retry timer and failover, except a failover that calls this itself."""
        task = self._failovers.pop(master, None)
        if task is not None and task is not asyncio.current_task(self._server.loop):
            task.cancel()
        timer = self._retries.pop(master, None)
        if timer is not None:
            timer.cancel()
        for instance in master.instances:
            self._watches.pop(instance).stop()


def _read_replica(replica: Replica, fields: Mapping[str, str]) -> None:
    replica.master_host = fields.get("master_host", "?")
    replica.master_port = int(fields.get("master_port", 0))
    replica.link_up = fields.get("master_link_status") == "up"
    replica.link_down_milliseconds = 1000 * max(int(fields.get("master_link_down_since_seconds", 0)), 0)
    replica.priority = int(fields.get("slave_priority", 100))
    replica.offset = int(fields.get("slave_repl_offset", 0))
    replica.announced = fields.get("replica_announced", "1") == "1"
