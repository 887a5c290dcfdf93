"""A sentinel process over a master and two replicas, of Rillet or of Redis; and a listener to its events."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Self

import redis
from redis.sentinel import Sentinel as RedisSentinel
from support.ports import free_port
from support.servers import require_binary

from rillet.testing import Server
from rillet.testing.sentinel import SentinelServer

if TYPE_CHECKING:
    from typing import TypeAlias

    Node: TypeAlias = "Server | RedisProcess"

NAME = "mymaster"
# Milliseconds after which a silent server is down: a loaded machine lets servers be silent for long, and where one is to
# be missed, nobody waits a minute.
DOWN_AFTER, SOON = 60_000, 1500
SECONDS = 60
PASSWORD = "secret"


class Deployment:
    """A master, two replicas and a sentinel: `.port` is the sentinel's, `.nodes` are the servers.

    Those of Rillet run in threads, which start quickly; Redises in processes.
    """

    def __init__(self, kind: str, *, password: bool = False) -> None:
        self.kind = kind
        self.password = PASSWORD if password else None
        self.folder = Path(tempfile.mkdtemp(prefix=f"sentinel-{kind}-"))
        self.nodes: list[Node] = []
        self._sentinel: Server | RedisProcess | None = None
        try:
            self.nodes.append(self._node())
            self.nodes += [self._node(self.nodes[0].port) for _ in range(2)]
            # A Redis Sentinel asks for INFO once in ten seconds: the replicas must follow before it asks first.
            for node in self.nodes[1:]:
                self.until(lambda node=node: is_following(node, self.password))
            self._sentinel = self._start_sentinel()
            self.until(lambda: self.follows() == 2)
        except BaseException:
            self.__exit__()
            raise

    def _node(self, master: int | None = None) -> Node:
        secret = {"requirepass": PASSWORD, "masterauth": PASSWORD} if self.password else {}
        if self.kind == "rillet":
            place = {} if master is None else {"replicaof": ("127.0.0.1", master)}
            return Server(transport="tcp", repl_diskless_sync_delay=0, **secret, **place).start()
        flags = ["--repl-diskless-sync-delay", "0", "--save", "", "--bind", "127.0.0.1"]
        flags += [word for name, value in secret.items() for word in (f"--{name}", value)]
        node = RedisProcess(self.kind, self.folder, flags)
        node.start(*([] if master is None else ["--replicaof", "127.0.0.1", str(master)]))
        return node

    def _start_sentinel(self) -> Server | RedisProcess:
        lines = [
            f"monitor {NAME} 127.0.0.1 {self.nodes[0].port} 1",
            f"down-after-milliseconds {NAME} {DOWN_AFTER}",
            f"failover-timeout {NAME} 20000",
            *([f"auth-pass {NAME} {PASSWORD}"] if self.password else []),
        ]
        if self.kind == "rillet":
            return SentinelServer(lines).start()
        conf = self.folder / "sentinel.conf"
        conf.write_text("\n".join([f"dir {self.folder}", *(f"sentinel {line}" for line in lines)]))
        sentinel = RedisProcess(self.kind, self.folder, [], before=[str(conf)])
        sentinel.start("--sentinel")
        return sentinel

    # Questions

    def client(self, **options) -> redis.Redis:
        """A client of the sentinel itself."""
        return redis.Redis(port=self.port, decode_responses=True, **options)

    def raw(self, *words, protocol: int = 2):
        """A reply as it comes over the wire, or the text of an error."""
        with redis.Redis(port=self.port, protocol=protocol, decode_responses=True) as client:
            client.response_callbacks.clear()
            connection = client.connection_pool.get_connection()
            try:
                connection.send_command(*words)
                return connection.read_response()
            except redis.ResponseError as error:
                return f"{type(error).__name__} {error}"
            finally:
                client.connection_pool.release(connection)

    @property
    def port(self) -> int:
        assert self._sentinel is not None
        return self._sentinel.port

    @property
    def master(self) -> Node:
        port = int(self.raw("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1])
        return next(node for node in self.nodes if node.port == port)

    def follows(self) -> int:
        """How many replicas follow the present master, as the sentinel sees it."""
        port = self.master.port
        return sum(
            each["master-link-status"] == "ok"
            and int(each["master-port"]) == port
            and each["flags"] == "slave"
            for each in map(pairs, self.raw("SENTINEL", "REPLICAS", NAME))
        )

    def redis_sentinel(self, **options) -> RedisSentinel:
        password = {"password": self.password} if self.password else {}
        return RedisSentinel([("127.0.0.1", self.port)], **password, **options)

    def until(self, is_so, seconds: float = SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(redis.ConnectionError, StopIteration):
                if is_so():
                    return
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)

    @property
    def log(self) -> str:
        return "\n".join(list(self._sentinel.log.lines)[-40:]) if self._sentinel else "no sentinel yet"

    # Events

    def fail_over(self) -> Node:
        """Fail over on demand, and wait for the new master."""
        before = self.master
        self.until(lambda: self.raw("SENTINEL", "FAILOVER", NAME) == "OK")
        self.until(lambda: self.master is not before and not self.is_failing_over())
        return self.master

    def lose_master(self) -> Node:
        """Stop the master, and wait for the new one; returns the old one."""
        before = self.master
        before.stop()
        self.miss_servers_soon()
        self.until(lambda: self.master is not before and not self.is_failing_over())
        return before

    def miss_servers_soon(self) -> None:
        """Let the sentinel count a silent server as down after 1.5 seconds from now on."""
        assert self.raw("SENTINEL", "SET", NAME, "down-after-milliseconds", str(SOON)) == "OK"

    def is_failing_over(self) -> bool:
        return "failover_in_progress" in pairs(self.raw("SENTINEL", "MASTER", NAME))["flags"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._sentinel, *self.nodes):
            if each is not None:
                each.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class RedisProcess:
    """A process of Redis on a port that it keeps."""

    def __init__(self, kind: str, folder: Path, flags: list[str], before: list[str] | None = None) -> None:
        self.port = free_port()
        self._command = [str(require_binary(kind)), *(before or []), "--port", str(self.port), *flags]
        self._folder = Path(tempfile.mkdtemp(dir=folder))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> SimpleNamespace:
        return SimpleNamespace(lines=(self._folder / "log").read_text(errors="replace").splitlines())

    def start(self, *more: str) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, *more], cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            assert time.monotonic() < deadline, self.log.lines
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(SECONDS)
            self._process = None


def is_following(node: Node, password: str | None) -> bool:
    with redis.Redis(port=node.port, password=password, decode_responses=True) as client:
        return client.info("replication").get("master_link_status") == "up"


class Events:
    """What a sentinel publishes from now on, in order; ports become the letters of ``names``."""

    def __init__(self, deployment: Deployment) -> None:
        self._names = {str(node.port): letter for node, letter in zip(deployment.nodes, "ABC", strict=True)}
        self._client = deployment.client()
        self._pubsub = self._client.pubsub()
        self._pubsub.psubscribe("*")
        assert self._pubsub.get_message(timeout=60)["type"] == "psubscribe"
        self.seen: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while not self._ended.is_set():
            message = self._pubsub.get_message(timeout=0.1)
            if message is not None and message["type"] == "pmessage":
                text = re.sub(r"\d{4,5}", lambda found: self._names.get(found[0], found[0]), message["data"])
                self.seen.append(f"{message['channel']} {re.sub(r'[0-9a-f]{40}', 'ID', text)}")

    def since(self, number: int = 0) -> list[str]:
        return self.seen[number:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._pubsub.close()
        self._client.close()


def pairs(reply: list[str]) -> dict[str, str]:
    """A flat reply as a dict."""
    return dict(zip(reply[::2], reply[1::2], strict=True))
