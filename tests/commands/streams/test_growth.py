"""What commands of streams do does not grow with what they do not touch: counted in bytecodes, after random histories."""

import random
import sys
from types import FrameType

import pytest
from support.fake_server import make_client, run

from rillet.commands.runtime.deferral import Deferred
from rillet.commands.spec.command import REGISTRY
from rillet.storage.streams.ids import encode, parse

FEW, MANY = 500, 8_000
# Not here: XREADGROUP of new entries with a PEL, which costs more where the history has set the group back to pending ones.
# {id}, {ids}: of one entry and of ten that follow each other, in the middle of the PEL. {new}: of one more entry. {there}, {last}: of
# an entry in the middle of the stream, and the last of all. {kept}: one entry less than there are.
COMMANDS = """
XADD s {new} f v
XADD s MAXLEN ~ 1000000 {new} f v
XADD s MAXLEN = {kept} {new} f v
XADD s IDMPAUTO p {new} f v
XLEN s
XRANGE s {id} + COUNT 10
XREVRANGE s + {id} COUNT 10
XREAD COUNT 10 STREAMS s {id}
XREADGROUP GROUP g a COUNT 10 NOACK STREAMS s >
XREADGROUP GROUP g c COUNT 10 CLAIM 0 STREAMS s >
XREADGROUP GROUP g a COUNT 10 STREAMS s 0
XREADGROUP GROUP g a COUNT 10 STREAMS s {id}
XCLAIM s g a 0 {ids}
XCLAIM s g b 0 {ids} JUSTID
XCLAIM s g a 0 {ids} FORCE
XCLAIM s g c 0 {ids} IDLE 700000
XCLAIM s g c 0 {ids} TIME 5 RETRYCOUNT 3 JUSTID
XNACK s g FAIL IDS 10 {ids}
XAUTOCLAIM s g c 0 {id} COUNT 10
XAUTOCLAIM s g c 100000000 0 COUNT 10
XPENDING s g
XPENDING s g - + 10
XPENDING s g {id} + 10
XPENDING s g - + 10 a
XPENDING s g {id} + 10 b
XPENDING s g IDLE 100000000 - + 10
XPENDING s g IDLE 1 - + 10 c
XACK s g {ids}
XACKDEL s g IDS 10 {ids}
XDEL s {id}
XDELEX s ACKED IDS 10 {ids}
XDELEX s KEEPREF IDS 1 {id}
XDELEX s DELREF IDS 1 {id}
XTRIM s MINID ~ 2-0
XTRIM s MAXLEN = {kept}
XSETID s {last}
XCFGSET s IDMP-DURATION 50
XIDMPRECORD s p {unique} {there}
XGROUP CREATE s {unique} {id}
XGROUP DESTROY s nosuch
XGROUP CREATECONSUMER s g d
XGROUP DELCONSUMER s g d
XGROUP SETID s g {id}
XINFO STREAM s
XINFO STREAM s FULL COUNT 10
XINFO GROUPS s
XINFO CONSUMERS s g
""".strip().split("\n")


def do(client, *words: object) -> None:
    """Run a command, after the work that it asks the server for; it is no error."""
    while True:
        try:
            reply = run(client, *words)
            assert reply is None or not reply.startswith(b"-"), (words, reply)
        except Deferred as deferred:
            while deferred.step():
                pass
        else:
            return


def history(size: int, seed: int):
    """A client of a stream with so many entries, most of them pending, after random commands of all kinds."""
    chance = random.Random(seed)
    client = make_client()
    for number in range(1, size + 1):
        do(client, "XADD", "s", f"{number}-0", "f", "v")
    do(client, "XGROUP", "CREATE", "s", "g", 0)
    for _ in range(size // 20):
        read = ("XREADGROUP", "GROUP", "g", chance.choice("abc"), "COUNT", chance.randrange(40))
        do(client, *read, "STREAMS", "s", ">")
        first = chance.randrange(1, size)
        ids = [f"{number}-0" for number in range(first, first + chance.choice([1, 1, 10]))]
        claim = ("XCLAIM", "s", "g", chance.choice("abc"), 0, *ids)
        do(
            client,
            *chance.choice(
                [
                    claim,
                    (*claim, "JUSTID"),
                    (*claim, "TIME", chance.randrange(1_000_000)),
                    (*claim, "IDLE", chance.randrange(1_000_000), "FORCE"),
                    ("XACK", "s", "g", *ids),
                    ("XDEL", "s", *ids),
                    ("XNACK", "s", "g", "FAIL", "IDS", len(ids), *ids),
                    ("XTRIM", "s", "MINID", f"{min(first, size // 8)}-0"),
                    ("XGROUP", "SETID", "s", "g", f"{first}-0"),
                    ("XAUTOCLAIM", "s", "g", chance.choice("abc"), 0, ids[0], "COUNT", 20),
                    (*read, "CLAIM", chance.randrange(1000), "STREAMS", "s", ">"),
                    (*read, "STREAMS", "s", "0"),
                ]
            ),
        )
        client.server.advance(chance.randrange(10))
    return client


def bytecodes(client, words: list[str]) -> int:
    """How many bytecodes a command runs."""
    count = 0

    def trace(frame: FrameType, event: str, _: object):
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        do(client, *words)
    finally:
        sys.settrace(before)
    return count


def typical(client, command: str) -> int:
    """The median of several spots of the PEL, behind a first time that may have to prepare something."""
    found = []
    pending = list(client.db.entries[b"s"].groups[b"g"])
    for turn in range(8):
        first = len(pending) // 2 + 11 * turn
        ids = [entry.text.decode() for entry in pending[first : first + 10]]
        stream = client.db.entries[b"s"]
        names = {
            "{id}": [ids[0]],
            "{ids}": ids,
            "{new}": ["*"],
            "{there}": [next(each for each in ids if stream.contains(parse(each.encode())))],
            "{last}": [encode(stream.last_id).decode()],
            "{kept}": [str(stream.length - 1)],
            "{unique}": [f"u{turn}"],
        }
        found.append(
            bytecodes(client, [word for each in command.split() for word in names.get(each, [each])])
        )
    return sorted(found[1:])[3]


@pytest.fixture(scope="module")
def long_history():
    """The same for all commands, which take 80 of its entries at most: to make it takes 0.7 seconds."""
    return history(MANY, 1)


@pytest.mark.xdist_group("growth")  # in this order, so that each command meets the same each time
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_does_as_much_among_many_entries_as_among_few(long_history, command):
    few, many = (typical(client, command) for client in (history(FEW, 1), long_history))
    # To merge late entries takes some thousand; a walk over all of the many would take 50,000.
    assert many <= 2 * few + 5_000


def test_each_command_of_streams_is_here():
    served = {name for name, entry in REGISTRY.items() if name.startswith("x") and entry.is_served}
    measured = {"|".join(line.lower().split()[:2]) for line in COMMANDS} | {
        line.lower().split()[0] for line in COMMANDS
    }
    assert {name for name in served - measured if not name.endswith("|help")} == set()


def test_a_claim_passes_once_over_entries_that_the_stream_has_lost():
    few, many = (claims_behind(lost) for lost in (20, 2_000))
    assert many <= 2 * few


def claims_behind(lost: int) -> int:
    """How many bytecodes the second claim of ten runs, where the stream has lost the first ones of the pending entries."""
    client = make_client()
    for number in range(1, lost + 101):
        do(client, "XADD", "s", f"{number}-0", "f", "v")
    do(client, "XGROUP", "CREATE", "s", "g", 0)
    do(client, "XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">")
    do(client, "XTRIM", "s", "MINID", f"{lost + 1}-0")
    claim = "XREADGROUP GROUP g c COUNT 10 CLAIM 0 STREAMS s >".split()
    bytecodes(client, claim)
    return bytecodes(client, claim)
