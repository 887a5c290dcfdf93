"""FAILOVER again and again while clients write and groups read: nothing that was confirmed is lost or comes back.

The master picks one of its own replicas, so the three servers hang from each other as a star or as a chain.
"""

import itertools
import os
import random
import signal

import pytest
from support.background import beside, go_on
from support.deployments.replication import call, follow, in_step, info, pause, picture, until_up
from support.until import until

TIMES = int(os.environ.get("RILLET_FAILOVERS", "4"))
SEED = int(os.environ.get("RILLET_SEED", "1"))


class Worker:
    """Adds, reads and acknowledges at whichever server is the master."""

    def __init__(self, name: str, servers: list) -> None:
        self.name = name
        self.servers = itertools.cycle(servers)
        self.wire = next(self.servers).wire()
        self.added: dict[bytes, bytes] = {}
        self.acknowledged: set[bytes] = set()
        self.counted = 0

    def work(self) -> bool:
        if not self._works(self.wire):
            self.wire.close()
            self.wire = next(self.servers).wire()
        return True

    def _works(self, wire) -> bool:
        """One round at this server; False if it is no master."""
        value = b"%s-%d" % (self.name.encode(), len(self.added))
        added = wire.call("XADD", "s", "*", "f", value)
        if added.value.startswith(b"READONLY"):
            return False
        assert b"-" in added.value, added.value
        self.added[added.value] = value
        number = wire.call("INCR", "number:" + self.name).plain()
        if not isinstance(number, int):
            return False
        assert number == self.counted + 1, "an INCR was lost, or came twice"
        self.counted = number
        read = wire.call("XREADGROUP", "GROUP", "g", self.name, "COUNT", 1, "STREAMS", "s", ">").plain()
        if isinstance(read, list):
            [[_, [[entry, _]]]] = read
            acknowledged = wire.call("XACK", "s", "g", entry).plain()
            if isinstance(acknowledged, int):
                assert acknowledged == 1, "a delivery was lost"
                self.acknowledged.add(entry)
        return True


def master_of(servers: list):
    return next((server for server in servers if info(server, "role") == "master"), None)


def fail_over(servers: list, chance: random.Random) -> None:
    master = master_of(servers)
    direct = [each for each in servers if info(each, "master_port") == str(master.port)]
    target = chance.choice(direct)
    until_up(target)
    until(lambda: int(info(master, "connected_slaves")) >= len(direct), 60)
    os.kill(target.pid, signal.SIGSTOP)  # so that it lacks what is written meanwhile
    try:
        pause(chance.uniform(0, 0.05))
        assert call(master, "FAILOVER", "TO", "127.0.0.1", target.port) == b"OK"
        pause(chance.uniform(0, 0.05))
    finally:
        os.kill(target.pid, signal.SIGCONT)
    if chance.random() < 0.3:
        call(master, "FAILOVER", "ABORT")  # too late now and then
    until(lambda: all(info(each, "master_failover_state") == "no-failover" for each in servers), 60)
    until(lambda: sum(info(each, "role") == "master" for each in servers) == 1, 60)


@pytest.mark.parametrize("kinds", [("rillet", "rillet", "rillet"), ("rillet", "redis810", "rillet")])
def test_nothing_confirmed_is_lost_in_a_ring_of_failovers(started, kinds):
    chance = random.Random(SEED)
    flags = ("--compat-version", "8.10")
    servers = [started(kind, *(flags if kind == "rillet" else ())) for kind in kinds]
    call(servers[0], "XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    for replica in servers[1:]:
        follow(replica, servers[0].port)
    workers = [Worker(name, servers) for name in "abc"]
    with beside(*(worker.work for worker in workers)) as running:
        for _ in range(TIMES):
            go_on(running, 20)
            fail_over(servers, chance)
    for worker in workers:
        worker.wire.close()
    master = master_of(servers)
    others = [each for each in servers if each is not master]
    for each in others:
        until_up(each)
    in_step(master, *others)
    entries = {entry: fields[1] for entry, fields in call(master, "XRANGE", "s", "-", "+")}
    pending = {entry for entry, *_ in call(master, "XPENDING", "s", "g", "-", "+", 100000)}
    for worker in workers:
        assert worker.added.items() <= entries.items()
        assert not worker.acknowledged & pending
    for each in others:
        assert picture(each) == picture(master)
