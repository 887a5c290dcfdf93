"""kill -9 of the server, of `rillet proxy` and of clients, at any moment and beside each other.

Each client pushes numbers through the proxy and keeps a ledger. In the end each list has its numbers in order, no fewer than
were acknowledged and no more than were sent, and no client got a reply that was not its own.
"""

import contextlib
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from random import Random

from support.ports import free_port
from support.proxies import port_when_ready, start_proxy
from support.servers import start_server
from support.until import until

KILLS = int(os.environ.get("RILLET_PROXY_KILLS", "4"))
CLIENTS = 4
PROGRAM = Path(__file__).parents[2] / "support" / "programs" / "proxied_client.py"
VICTIMS = ("server", "proxy", "client")


class Scene:
    """A server, a proxy in front of it and its clients."""

    def __init__(self, real, ledger):
        self.real, self.ledger, self.port = real, ledger, free_port()
        self.clients = []
        self.proxy = None
        self.started = 0

    def start_client(self):
        self.started += 1
        words = [sys.executable, str(PROGRAM), str(self.port), str(self.ledger), str(self.started)]
        self.clients.append(subprocess.Popen(words))

    def start_proxy(self):
        options = ["--port", str(self.port), "--fault", "RPUSH key=none close=after"]
        self.proxy = start_proxy(f"redis://127.0.0.1:{self.real.port}", *options)
        assert port_when_ready(self.proxy) == self.port

    def kill(self, victims, chance):
        """Kill all of them, then start them again."""
        killed = []
        for victim in victims:
            if victim == "client":
                killed.append(self.clients.pop(chance.randrange(len(self.clients))))
            else:
                killed.append(self.proxy if victim == "proxy" else self.real._process)
            killed[-1].kill()
        for each in killed:
            each.wait()
            for pipe in filter(None, (each.stdout, each.stderr)):
                pipe.close()
        if "server" in victims:
            self.real.start(self.real.port)
        if "proxy" in victims:
            self.start_proxy()
        if "client" in victims:
            self.start_client()

    def acknowledged(self):
        return self.ledger.read_bytes().count(b"acked") if self.ledger.exists() else 0

    def close(self):
        for each in filter(None, (*self.clients, self.proxy)):
            each.kill()
            each.communicate()


def test_no_kill_loses_invents_reorders_or_misleads_anything(tmp_path):
    chance = Random(os.environ.get("RILLET_SEED", "1"))
    ledger = tmp_path / "ledger"
    with (
        start_server("redis810", "--appendonly", "yes") as real,
        contextlib.closing(Scene(real, ledger)) as scene,
    ):
        scene.start_proxy()
        for _ in range(CLIENTS):
            scene.start_client()
        for number in range(KILLS):
            enough = scene.acknowledged() + chance.randrange(1, 20)
            until(lambda enough=enough: scene.acknowledged() >= enough)
            # The first kills have one victim each, so that a short run has them all.
            scene.kill(
                VICTIMS[number : number + 1] or chance.sample(VICTIMS, chance.choice((1, 2, 3))), chance
            )
        enough = scene.acknowledged() + 1
        until(lambda: scene.acknowledged() >= enough)
        scene.close()
        scene.clients.clear()
        scene.proxy = None
        sent, acked = defaultdict(int), defaultdict(int)
        for line in ledger.read_text().splitlines():
            what, key, number = line.split(" ", 2)
            assert what != "wrong", line
            (sent if what == "sent" else acked)[key] = int(number)
        with real.wire() as wire:
            kept = {key.decode() for key in wire.call("KEYS", "*").plain()}
            assert kept <= sent.keys()
            for key in sent:
                found = [int(each) for each in wire.call("LRANGE", key, 0, -1).plain()]
                assert found == list(range(1, len(found) + 1))
                assert acked[key] <= len(found) <= sent[key]
