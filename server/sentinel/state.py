"""The state of the servers that a sentinel monitors.

Times are seconds of the event loop's clock. ``server/sentinel`` keeps this up to date; the commands show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..config.sentinel_settings import MasterSettings, SentinelSettings
    from .monitor import Monitor


class Instance:
    """A server that the sentinel monitors."""

    def __init__(self, host: str, port: int, now: float, role: str) -> None:
        self.host = host
        self.port = port
        self.run_id = ""  # from its INFO; empty before the first one
        # It has not answered for ``down-after-milliseconds`` (``+sdown``), since ``down_since``.
        self.is_down = False
        self.down_since = 0.0
        self.connected = False
        self.pending = 0  # number of commands that were sent but not answered yet
        self.pinged: float | None = None  # when the oldest unanswered PING was sent; None if there is none
        # ``last_ok``: when it last answered PING as a working server does; ``last_reply``: when it last answered PING
        # at all.
        self.last_ok = self.last_reply = now
        self.info = b""  # its last INFO, received at ``info_at``
        self.info_at: float | None = None
        self.role = role  # ``master`` or ``slave``, as it reports itself, since ``role_since``
        self.role_since = now

    @property
    def address(self) -> str:
        """Host and port, such as ``127.0.0.1:6379``; an IPv6 address is in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Replica(Instance):
    """A replica of a master."""

    def __init__(self, master: Master, host: str, port: int, now: float) -> None:
        super().__init__(host, port, now, "slave")
        self.master = master
        self.promoted = False  # the running failover has chosen it as the new master
        # How far a failover has made it follow the new master: empty, ``sent``, ``inprog`` or ``done``.
        self.turning = ""
        # From its INFO.
        self.master_host, self.master_port = "?", 0
        self.link_up = False
        self.link_down_milliseconds = 0
        self.priority = 100
        self.offset = 0
        self.announced = True

    def __str__(self) -> str:
        """Return its name in events."""
        return f"slave {self.address} {self.host} {self.port} @ {self.master.words}"


class Master(Instance):
    """A master and its replicas."""

    def __init__(self, settings: MasterSettings, now: float) -> None:
        super().__init__(settings.host, settings.port, now, "master")
        self.settings = settings
        self.replicas: dict[str, Replica] = {}  # by address, in the order in which they were found
        self.config_epoch = settings.config_epoch
        self.leader, self.leader_epoch = "", settings.leader_epoch
        self.is_agreed_down = False  # enough sentinels consider it down (``+odown``)
        # ``none``, or the step of the failover; ``forced``: SENTINEL FAILOVER started it.
        self.failover_state = "none"
        self.forced = False
        self.failover_began: float | None = None  # when the last failover began; None if there was none
        self.promoted: Replica | None = None  # the replica that became the master, until the failover ends

    @property
    def name(self) -> str:
        """The name from the configuration, as text."""
        return self.settings.name.decode("utf-8", "surrogateescape")

    @property
    def words(self) -> str:
        """Name, host and port as events show them: ``mymaster 127.0.0.1 6379``."""
        return f"{self.name} {self.host} {self.port}"

    def __str__(self) -> str:
        """Return its name in events."""
        return f"master {self.words}"

    @property
    def current(self) -> Instance:
        """The server that clients should use: this master, or the replica that was promoted already."""
        return self.promoted or self

    @property
    def instances(self) -> Iterator[Instance]:
        """The master and its replicas."""
        yield self
        yield from self.replicas.values()


class Sentinel:
    """The state of a sentinel."""

    def __init__(self, monitor: Monitor, settings: SentinelSettings, my_id: str) -> None:
        self.monitor = monitor  # watches the servers and keeps this state up to date
        self.settings = settings
        self.my_id = settings.my_id or my_id  # 40 hexadecimal digits
        self.epoch = settings.epoch  # the epoch of the last failover that it knows
        self.masters: dict[bytes, Master] = {}

    def vote(self, master: Master, epoch: int, candidate: str) -> None:
        """Vote for ``candidate`` as the leader of a failover, unless this sentinel voted in this epoch or a later one."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.monitor.publish("+new-epoch", f"{epoch}")
        if master.leader_epoch < epoch and self.epoch <= epoch:
            master.leader, master.leader_epoch = candidate, epoch
            self.monitor.publish("+vote-for-leader", f"{candidate} {epoch}")
