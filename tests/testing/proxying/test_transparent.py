"""Random commands of every family through a proxy and beside it: each byte passes as it came, and each reply finds its request.

The commands go to two servers of one version, one of them behind a proxy: replies, effects on the append-only file, events,
invalidations and messages are the same. `RILLET_PROXY_COMMANDS=200000` plays as many of each kind.
"""

import os

import pytest
from differential.anything import Maker
from differential.player import Comparison, Played, describe
from support.until import until
from support.wire import Wire

import rillet.testing
from rillet.testing.proxying.link import Link

SIZE = 60
COMMANDS = int(os.environ.get("RILLET_PROXY_COMMANDS", "240"))
FIRST = int(os.environ.get("RILLET_SEED", "0"))


class Behind(Played):
    """A real server behind a proxy."""

    def _start(self):
        server = super()._start()
        self.proxy = rillet.testing.Proxy(f"redis://127.0.0.1:{server.port}", answers_debug=False).start()
        server.wire = lambda protocol=2: Wire(self.proxy.port, protocol)
        return server

    def _collect(self, blocked, replies):
        """Go on once every connection that the server has closed is closed to the client, too: that takes a turn more."""
        until(lambda: not self._closing())
        super()._collect(blocked, replies)

    def _closing(self):
        with Wire(self.server.port) as direct:
            listed = direct.call("CLIENT", "LIST").value
        names = self.proxy._run(
            lambda listener: [
                link._server.get_extra_info("sockname")
                for link in listener.open_sides
                if isinstance(link, Link) and link._server
            ]
        )
        return [port for _, port in filter(None, names) if b" addr=127.0.0.1:%d " % port not in listed]

    def close(self):
        for wire in (self.control, self.listener, *self.wires):
            wire.close()
        self.proxy.stop()
        self.server.discard()


class WithAndWithout(Comparison):
    """A real server behind a proxy beside one without."""

    def __init__(self, kind):
        self._compare(Behind(kind), [Played(kind)])


def play(both, version):
    """Play runs, and compare the bytes and the numbers of requests and replies of every connection."""
    for seed in range(FIRST, FIRST + COMMANDS // SIZE):
        run = Maker(seed, version).run(SIZE)
        found = both.first_difference(run)
        assert both.mine.control.call("PING").value == b"PONG"
        problems = both.mine.proxy._run(problems_of)
        assert not problems, f"seed {seed}: {problems[:3]}"
        if found is not None:
            pytest.fail(f"seed {seed}\n{describe(run, found)}", pytrace=False)


def problems_of(listener):
    """What is wrong with the connections so far; what they have kept is dropped."""
    found = []
    for link in listener.watched:
        link.count()
        found.append(problem_of(link))
        for kept in (link.asked, link.passed, link.answered, link.given):
            kept.clear()
    listener.watched = [link for link in listener.watched if not link._is_closed]
    return [each for each in found if each is not None]


def problem_of(link):
    if link.asked != link.passed and not link._is_closed:
        return "to the server", bytes(link.asked[-300:]), bytes(link.passed[-300:])
    if link.answered != link.given:
        return "to the client", bytes(link.answered[-300:]), bytes(link.given[-300:])
    if not link._is_closed and (link._unanswered or link._looked_at or link._value or link._is_held):
        ends = bytes(link.asked[-1000:]), bytes(link.answered[-1000:])
        return "unanswered", list(link._unanswered), link._looked_at, *ends
    return None


@pytest.mark.parametrize(("kind", "version"), [("redis810", "8.10"), ("redis7", "7.0")])
@pytest.mark.parametrize("looks", ["at nothing", "at everything"])
def test_random_commands_pass_byte_for_byte(watched, kind, version, looks):
    both = WithAndWithout(kind)
    proxy = both.mine.proxy
    try:
        if looks == "at everything":
            recording = proxy.recording(last=SIZE).start()
            fault = proxy.fault(client="nobody", close="after").start()
        play(both, version)
        if looks == "at everything":
            assert not fault.count
            assert recording.count() == SIZE
            assert all(each.answered for each in recording if each.reply is not None)
    finally:
        both.close()
