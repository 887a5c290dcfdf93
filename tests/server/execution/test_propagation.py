"""What the append-only file receives: one effect bare, several in MULTI/EXEC, SELECT where the database changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.aof import read_commands
from support.live import LiveServer, eventually, words
from support.wire import commands, encode_command

from rillet.protocol.replies import command
from rillet.server.execution.propagation import Propagation


@pytest.fixture
def server():
    with LiveServer(appendonly=True, appendfsync="no") as server:
        yield server


# The rule itself


@pytest.fixture
def sink():
    return []


@pytest.fixture
def propagation(sink):
    propagation = Propagation()
    propagation.connect(sink.append)
    return propagation


@pytest.fixture
def sent(propagation):
    """What replicas get, beside the file that is ``sink``."""
    sent = []
    propagation.connect(sent.append, to_replicas=True)
    return sent


def propagated(sink) -> list[list[bytes]]:
    return read_commands(b"".join(sink))


def flush(propagation, db: int, *effects: str) -> None:
    """A unit of these effects."""
    for effect in effects:
        propagation.add(db, effect.encode().split())
    propagation.flush()


def unit(text: str) -> bytes:
    return b"".join(encode_command(*words) for words in commands(text))


def test_one_effect_is_bare_behind_its_select(propagation, sink):
    flush(propagation, 0, "SET k v")
    propagation.add_encoded(0, command([b"DEL", b"k"]))
    propagation.flush()
    assert propagated(sink) == words("SELECT 0\nSET k v\nDEL k")


def test_several_effects_are_a_transaction_with_the_select_inside(propagation, sink):
    propagation.add(2, [b"SET", b"k", b"v"])
    propagation.add(2, [b"DEL", b"k"])
    flush(propagation, 3, "DEL l")
    assert propagated(sink) == words("MULTI\nSELECT 2\nSET k v\nDEL k\nSELECT 3\nDEL l\nEXEC")
    assert len(sink) == 1, "a unit reaches a sink in one piece"


@pytest.mark.parametrize("number", [1, 2, 3])
def test_joined_effects_are_a_transaction_if_there_are_several(propagation, sink, number):
    propagation.add_joined(2, command([b"DEL", b"k"]) * number, number)
    propagation.flush()
    deletions = ["DEL k"] * number
    expected = ["SELECT 2", *deletions] if number == 1 else ["MULTI", "SELECT 2", *deletions, "EXEC"]
    assert propagated(sink) == words("\n".join(expected))


def test_joined_effects_are_dropped_together(propagation, sink):
    propagation.add(0, [b"SET", b"k", b"v"])
    before = len(propagation.effects)
    propagation.add_joined(0, command([b"DEL", b"k"]) * 2, 2)
    propagation.drop_from(before)
    propagation.flush()
    assert propagated(sink) == words("SELECT 0\nSET k v")


RECORDS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["plain", "replicas only", "older", "not at all"])),
    max_size=6,
)


def record_all(propagation, records, first=0):
    for number, (db, kind) in enumerate(records, first):
        words = [b"SET", b"k", b"%d" % number]
        if kind == "plain":
            propagation.add(db, words)
        elif kind == "replicas only":
            propagation.add_for_replicas(db, words)
        else:
            older = [[b"OLD", b"%d" % number], [b"DEL", b"k"]] if kind == "older" else []
            propagation.add_with_downgrade(db, words, older)


@given(RECORDS, RECORDS)
def test_a_unit_that_is_split_is_the_same_as_one_flushed_before_each_of_its_effects(records, more):
    took = []
    for is_split in (True, False):
        propagation = Propagation()
        file: list[bytes] = []
        replicas: list[bytes] = []
        propagation.connect(file.append)
        propagation.connect(replicas.append, to_replicas=True)
        for number, record in enumerate(records):
            if number and not is_split:
                propagation.flush()
            record_all(propagation, [record], number)
        if is_split:
            propagation.flush_each(keep=1)
        record_all(propagation, more, len(records))  # the unit goes on
        propagation.flush()
        took.append((b"".join(file), b"".join(replicas)))
    assert took[0] == took[1]


@given(st.lists(st.integers(0, 2) | st.just("connect"), max_size=12), st.booleans())
def test_a_unit_of_one_effect_is_passed_on_as_any_unit(steps, selects_first):
    took = []
    for is_general in (True, False):
        propagation = Propagation()
        propagation.selects_first = selects_first
        files: list[list[bytes]] = []
        for number, step in enumerate(["connect", *steps]):
            if step == "connect":
                files.append([])
                propagation.connect(files[-1].append)
                continue
            propagation.add(step, [b"SET", b"k", b"%d" % number])
            if is_general:
                propagation._hand_on(
                    [
                        (sink, *propagation._unit(propagation.effects, selected))
                        for sink, selected in propagation.sinks.items()
                    ]
                )
                propagation.forget()
            else:
                propagation.flush()
            assert not propagation.effects
        took.append((files, list(propagation.sinks.values())))
    assert took[0] == took[1]


def test_the_select_of_a_unit_precedes_multi_as_7_0_writes_it(propagation, sink):
    propagation.selects_first = True
    for db in (1, 1, 0):
        propagation.add(db, [b"DEL", b"k"])
    propagation.flush()
    flush(propagation, 0, "DEL a", "DEL b")
    assert propagated(sink) == words(
        "SELECT 1\nMULTI\nDEL k\nDEL k\nSELECT 0\nDEL k\nEXEC\nMULTI\nDEL a\nDEL b\nEXEC"
    )


def test_a_unit_that_no_sink_takes_is_not_split(propagation, sink):
    def fail(data: bytes) -> None:
        raise OSError

    propagation.connect(fail)
    propagation.disconnect(sink.append)
    record_all(propagation, [(0, "plain"), (0, "older"), (0, "plain")])
    with pytest.raises(OSError):
        propagation.flush_each(keep=1)
    propagation.disconnect(fail)
    propagation.connect(sink.append)
    propagation.flush()
    assert propagated(sink) == words("MULTI\nSELECT 0\nSET k 0\nSET k 1\nSET k 2\nEXEC")


@pytest.mark.parametrize("number", [1, 2])
def test_a_unit_for_which_there_is_no_memory_is_passed_on_with_the_next_one(number):
    taken: list[bytes] = []
    failures = [MemoryError()] * 3

    def take(data: bytes) -> None:
        if failures:
            raise failures.pop()
        taken.append(data)

    propagation = Propagation()
    propagation.connect(take)
    record_all(propagation, [(0, "plain")] * number)
    with pytest.raises(MemoryError):
        propagation.flush()
    assert not taken
    flush(propagation, 0, "DEL k")
    sets = "".join(f"SET k {at}\n" for at in range(number))
    assert propagated(taken) == words(f"MULTI\nSELECT 0\n{sets}DEL k\nEXEC")
    assert not propagation.effects


def test_a_new_sink_starts_with_a_select(propagation, sink):
    flush(propagation, 1, "SET k v")
    other = []
    propagation.connect(other.append)
    flush(propagation, 1, "SET k w")
    assert propagated(other) == words("SELECT 1\nSET k w")


def test_without_a_sink_nothing_is_gathered():
    propagation = Propagation()
    propagation.add(0, [b"SET", b"k", b"v"])
    propagation.add_encoded(0, b"x")
    assert not propagation.effects
    assert not propagation.active


def test_a_disconnected_sink_receives_nothing(propagation, sink):
    propagation.disconnect(sink.append)
    propagation.add(0, [b"SET", b"k", b"v"])
    assert not propagation.effects
    assert not sink


# With replicas


def test_file_and_replicas_get_the_same_bytes_and_select_for_themselves(propagation, sink, sent):
    flush(propagation, 3, "DEL a")
    propagation.select_again(sent.append)
    flush(propagation, 3, "DEL b")
    assert sink == [unit("SELECT 3; DEL a"), unit("DEL b")]
    assert sent == [unit("SELECT 3; DEL a"), unit("SELECT 3; DEL b")]


def test_what_is_for_replicas_alone_stays_in_its_place_there(propagation, sink, sent):
    propagation.add(0, [b"DEL", b"a"])
    for message in (b"m", b"n"):
        propagation.add_for_replicas(1, [b"PUBLISH", b"c", message])
        propagation.flush()
    flush(propagation, 0, "DEL b")
    assert sink == [unit("SELECT 0; DEL a"), unit("DEL b")]
    first = "MULTI; SELECT 0; DEL a; SELECT 1; PUBLISH c m; EXEC"
    assert sent == [unit(first), unit("PUBLISH c n"), unit("SELECT 0; DEL b")]


def test_without_replicas_nothing_is_kept_for_them(propagation, sink, sent):
    propagation.disconnect(sent.append)
    propagation.add_for_replicas(0, [b"PUBLISH", b"c", b"m"])
    assert propagation.effects == []
    propagation.disconnect(sink.append)
    assert not propagation.active


def test_replicas_get_older_forms_of_what_the_file_keeps_unchanged(propagation, sink, sent):
    for newer, older in (([b"NEW"], [[b"OLD", b"1"], [b"OLD", b"2"]]), ([b"NEWER"], [])):
        propagation.add_with_downgrade(0, newer, older)
        propagation.flush()
    flush(propagation, 0, "DEL a")
    assert sink == [unit("SELECT 0; NEW"), unit("NEWER"), unit("DEL a")]
    assert sent == [unit("MULTI; SELECT 0; OLD 1; OLD 2; EXEC"), unit("DEL a")]


def test_forgotten_effects_leave_nothing_behind(propagation, sink, sent):
    propagation.add_for_replicas(0, [b"PUBLISH", b"c", b"m"])
    propagation.forget()
    flush(propagation, 0, "DEL a")
    assert sink == sent == [unit("SELECT 0; DEL a")]


# Through the server


def test_a_key_that_expires_is_deleted_in_the_file(server, wire):
    wire.do("SET a 1 PX 60000; SET b 1 PX 60000")
    before = len(server.aof())
    server.clock.advance(minutes=2)
    # Each key is a unit of its own, so no MULTI.
    eventually(lambda: len(server.aof()) == before + 2)
    assert sorted(server.aof()[before:]) == words("DEL a\nDEL b")
