"""The settings of a sentinel, from sentinel.conf, SENTINEL MONITOR and SENTINEL SET."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Final

NO_SUCH_MASTER: Final = "No such master with specified name."
_NO_SCRIPTS: Final = "A sentinel of Rillet runs no scripts"
_ALONE: Final = "A sentinel of Rillet works alone"
_UNSUPPORTED: Final = {
    b"notification-script": _NO_SCRIPTS,
    b"client-reconfig-script": _NO_SCRIPTS,
    b"rename-command": "Renamed commands are not supported by Rillet",
    b"known-sentinel": _ALONE,
    b"resolve-hostnames": "A sentinel of Rillet monitors addresses, not names",
    b"announce-hostnames": "A sentinel of Rillet monitors addresses, not names",
}
_RUN_ID: Final = re.compile(rb"[0-9a-f]{40}")


@dataclass
class MasterSettings:
    """The settings for one monitored master; times are in milliseconds."""

    name: bytes
    host: str
    port: int
    quorum: int
    down_after: int = 30_000  # the time without an answer after which the master counts as down
    # The limit for each step of a failover; a failed failover is retried after twice this time.
    failover_timeout: int = 180_000
    parallel_syncs: int = 1  # the number of replicas that are switched to the new master at a time
    auth_user: bytes = b""
    auth_pass: bytes = b""
    config_epoch: int = 0
    leader_epoch: int = 0
    # Host and port of replicas to monitor before the master names them.
    known_replicas: list[tuple[str, int]] = field(default_factory=list)

    def set(self, option: bytes, value: bytes) -> None:
        """Change one option, such as ``down-after-milliseconds``, named in lower case.

        Raises:
            KeyError: there is no such option.
            ValueError: the value is invalid for this option.
        """
        attribute = _OPTIONS[option]
        if attribute in {"auth_user", "auth_pass"}:
            setattr(self, attribute, value)
            return
        number = int(value)
        if number <= 0:
            raise ValueError(value)
        setattr(self, attribute, number)


_OPTIONS: Final = {
    b"down-after-milliseconds": "down_after",
    b"failover-timeout": "failover_timeout",
    b"parallel-syncs": "parallel_syncs",
    b"quorum": "quorum",
    b"auth-user": "auth_user",
    b"auth-pass": "auth_pass",
}


@dataclass
class SentinelSettings:
    """The settings that sentinel.conf contains."""

    masters: dict[bytes, MasterSettings] = field(default_factory=dict)
    my_id: str = ""  # 40 hexadecimal digits; empty for a random ID
    epoch: int = 0
    # A server whose port refuses connections counts as down at once. A Redis Sentinel always waits
    # ``down-after-milliseconds``; this option is Rillet's own.
    down_if_refused: bool = False
    # The parameters of SENTINEL CONFIG that concern other sentinels.
    shown: dict[bytes, bytes] = field(
        default_factory=lambda: {
            b"announce-ip": b"",
            b"announce-port": b"0",
            b"sentinel-user": b"",
            b"sentinel-pass": b"",
        }
    )

    def monitor(self, name: bytes, ip: bytes, port: int, quorum: int) -> MasterSettings:
        """Add a master to monitor and return its settings. Raises ValueError: the text says why it is refused."""
        if quorum <= 0:
            raise ValueError("Quorum must be 1 or greater.")
        if name in self.masters:
            raise ValueError("Duplicate master name.")
        if not 0 <= port <= 65535:
            raise ValueError("Invalid port number.")
        if not is_address(ip):
            raise ValueError("Can't resolve instance hostname.")
        self.masters[name] = MasterSettings(name, ip.decode(), port, quorum)
        return self.masters[name]

    def read(self, words: list[bytes]) -> None:
        """Apply a line of sentinel.conf, given the words after ``sentinel``.

        Raises ValueError: the line is invalid; the text says why.
        """
        kind, *values = words
        kind = kind.lower()
        if kind in _UNSUPPORTED and values[-1:] != [b"no"]:
            raise ValueError(_UNSUPPORTED[kind])
        match kind, values:
            case b"monitor", [name, ip, port, quorum]:
                self.monitor(name, ip, _number(port), _number(quorum))
            case b"myid", [digits]:
                if not _RUN_ID.fullmatch(digits):
                    raise ValueError("Malformed Sentinel id in myid option.")
                self.my_id = digits.decode()
            case b"current-epoch", [number]:
                self.epoch = _number(number)
            case b"config-epoch", [name, number]:
                self._master(name).config_epoch = _number(number)
            case b"leader-epoch", [name, number]:
                self._master(name).leader_epoch = _number(number)
            case ((b"known-replica" | b"known-slave"), [name, ip, port]) if is_address(ip):
                self._master(name).known_replicas.append((ip.decode(), _number(port)))
            case b"down-if-refused", [(b"yes" | b"no") as answer]:
                self.down_if_refused = answer == b"yes"
            case (
                (b"deny-scripts-reconfig" | b"resolve-hostnames" | b"announce-hostnames"),
                [b"yes" | b"no"],
            ):
                pass  # Rillet has neither scripts nor host names here
            case _, [value] if kind in self.shown:
                self.shown[kind] = value
            case _, [name, value] if kind in _OPTIONS and kind != b"quorum":
                try:
                    self._master(name).set(kind, value)
                except ValueError as error:
                    raise ValueError(str(error) if name not in self.masters else _range(kind)) from None
            case _:
                raise ValueError("Unrecognized sentinel configuration statement.")

    def _master(self, name: bytes) -> MasterSettings:
        if name not in self.masters:
            raise ValueError(NO_SUCH_MASTER)
        return self.masters[name]


def is_address(ip: bytes) -> bool:
    """Return True if a text is an IP address, False if it is a host name."""
    try:
        ipaddress.ip_address(ip.decode("latin-1"))
    except ValueError:
        return False
    return True


def _number(word: bytes) -> int:
    if not re.fullmatch(rb"\d{1,18}", word):
        raise ValueError("Invalid number in a sentinel line")
    return int(word)


def _range(kind: bytes) -> str:
    return (
        "negative or zero time parameter."
        if kind != b"parallel-syncs"
        else "invalid number of parallel syncs."
    )
