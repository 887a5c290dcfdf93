"""Many faults at once: a command asks only those that may hit it, and the order of adding decides among these."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.alone import Alone
from support.thorough import examples

from rillet.protocol.replies import command
from rillet.server.debugging.fault import Fault
from rillet.server.debugging.fault_spec import parse_fault

COMMANDS = {
    "get": [b"GET", b"user:1"],
    "set": [b"SET", b"user:2", b"v"],
    "mget": [b"MGET", b"a", b"user:1"],
    "config|get": [b"CONFIG", b"GET", b"port"],
    "config|set": [b"CONFIG", b"SET", b"maxmemory", b"0"],
    "ping": [b"PING"],
}


@pytest.fixture
def asked(monkeypatch) -> list[Fault]:
    """The faults that looked at a command, as often as they did."""
    asked: list[Fault] = []
    takes = Fault.takes

    def spied(self: Fault, *args: object) -> bool:
        asked.append(self)
        return takes(self, *args)

    monkeypatch.setattr(Fault, "takes", spied)
    return asked


def answer(alone: Alone, *words: bytes) -> bytes:
    """What the first client is answered."""
    written = alone.clients[0].transport.written
    written.clear()
    alone.send(0, command(words))
    return b"".join(written)


def add(alone: Alone, *words: bytes) -> Fault:
    faults = alone.server.debugging.faults
    return faults.active[faults.add(parse_fault(words))]


def test_a_command_asks_only_the_faults_of_its_name_its_container_and_all_commands(asked):
    alone = Alone()
    for number in range(100):
        for name in (b"SET", b"XADD", b"XGROUP CREATE", b"CONFIG GET"):
            add(alone, b"COMMAND", name, b"KEY", b"none:%d" % number, b"ERROR", b"OOM")
    general = add(alone, b"CLIENT", b"another", b"ERROR", b"OOM")
    container = add(alone, b"COMMAND", b"CONFIG", b"CLIENT", b"another", b"ERROR", b"OOM")
    answer(alone, b"PING")
    assert asked == [general]
    asked.clear()
    answer(alone, b"CONFIG", b"SET", b"maxmemory", b"0")
    assert asked == [general, container]
    asked.clear()
    answer(alone, b"SET", b"a", b"1")
    assert len(asked) == 101


def test_a_fault_that_is_removed_is_asked_no_more(asked):
    alone = Alone()
    first, second = (add(alone, b"COMMAND", b"PING", b"NTH", b"9", b"ERROR", b"OOM") for _ in range(2))
    alone.server.debugging.faults.remove(first.id)
    answer(alone, b"PING")
    assert asked == [second]
    alone.server.debugging.faults.clear()
    asked.clear()
    assert answer(alone, b"PING") == b"+PONG\r\n"
    assert asked == []


def test_the_keys_of_a_command_are_worked_out_once_for_all_faults(monkeypatch):
    from rillet.server.debugging import fault

    alone = Alone()
    for number in range(50):
        add(alone, b"COMMAND", b"GET", b"KEY", b"none:%d" % number, b"ERROR", b"OOM")
    calls = []
    keys_of = fault.keys_of
    monkeypatch.setattr(fault, "keys_of", lambda *args: calls.append(args) or keys_of(*args))
    answer(alone, b"GET", b"a")
    assert len(calls) == 1


@dataclass
class Expected:
    """A fault as it is described: looked at in the order of adding, the first that hits has the command to itself."""

    command: str | None
    key: str | None
    nth: int
    fitted: int = 0
    hit: int = 0

    def takes(self, name: str) -> bool:
        words = COMMANDS[name]
        if self.command not in {None, name, name.partition("|")[0]}:
            return False
        if self.key is not None and not any(word.startswith(b"user:") for word in words[1:]):
            return False
        self.fitted += 1
        hits = not self.nth or self.fitted == self.nth
        self.hit += hits
        return hits


@settings(max_examples=examples(150), deadline=None)
@given(
    faults=st.lists(
        st.tuples(
            st.sampled_from([None, "get", "set", "mget", "config", "config|get", "ping"]),
            st.sampled_from([None, "user:*"]),
            st.integers(0, 4),
        ),
        max_size=12,
    ),
    sent=st.lists(st.sampled_from(sorted(COMMANDS)), max_size=20),
)
def test_the_order_of_adding_decides_whatever_the_faults_look_for(faults, sent):
    alone = Alone()
    expected = [Expected(*each) for each in faults]
    added = []
    for name, key, nth in faults:
        words = [b"COMMAND", name.encode()] if name else []
        words += [b"KEY", key.encode()] if key else []
        words += [b"NTH", b"%d" % nth] if nth else []
        added.append(add(alone, *words, b"ERROR", b"HIT it"))
    for name in sent:
        is_hit = any(each.takes(name) for each in expected)
        assert (answer(alone, *COMMANDS[name]) == b"-HIT it\r\n") == is_hit
    assert [(each.fitted, each.hit) for each in added] == [(each.fitted, each.hit) for each in expected]
