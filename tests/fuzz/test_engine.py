"""The engine of the fuzzers: what it does with a failure, and that it repeats itself."""

from random import Random

import pytest
from fuzz import engine
from fuzz.engine import Fuzzer, mutate, parse_lines, show_line


@pytest.fixture
def fuzzer(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "ROOT", tmp_path)
    monkeypatch.setattr(engine, "CORPUS", tmp_path / "corpus")
    monkeypatch.delenv("RILLET_FUZZ_INPUT", raising=False)
    monkeypatch.delenv("RILLET_FUZZ_SEED", raising=False)
    monkeypatch.setenv("RILLET_FUZZ_SECONDS", "2")
    (tmp_path / "corpus" / "requests").mkdir(parents=True)
    (tmp_path / "corpus" / "requests" / "a-seed").write_bytes(b"seed")
    return Fuzzer("requests")


def refuse_xs(data):
    if b"x" in data:
        raise ValueError("an x")


def test_a_failing_input_is_shrunk_and_written_with_the_command_that_runs_it(fuzzer, tmp_path):
    with pytest.raises(AssertionError, match="ValueError: an x") as failure:
        fuzzer.run(refuse_xs, lambda _chance, _corpus: b"abc" * 50 + b"x" + b"def" * 50)
    (written,) = (tmp_path / "build" / "fuzz" / "requests").iterdir()
    assert written.read_bytes() == b"x"
    assert f"RILLET_FUZZ_INPUT=build/fuzz/requests/{written.name} " in str(failure.value)
    assert "Input 0 of seed 1" in str(failure.value)


def test_the_end_of_the_time_is_no_failure(fuzzer):
    assert fuzzer.run(refuse_xs, lambda _chance, corpus: corpus[0]) > 0


def test_without_a_time_there_is_a_number_of_inputs_however_long_they_take(fuzzer, monkeypatch):
    monkeypatch.delenv("RILLET_FUZZ_SECONDS")
    monkeypatch.setitem(engine.INPUTS, "requests", 7)
    made = []
    assert fuzzer.run(made.append, lambda chance, corpus: mutate(chance, corpus[0] * 20)) == 7
    assert len(made) == 7


def test_the_same_seed_makes_the_same_inputs_and_another_one_others(fuzzer, monkeypatch):
    monkeypatch.delenv("RILLET_FUZZ_SECONDS")
    monkeypatch.setitem(engine.INPUTS, "requests", 50)

    def inputs():
        made = []
        fuzzer.run(made.append, lambda chance, corpus: mutate(chance, corpus[0] * 20))
        return made

    first = inputs()
    assert inputs() == first
    monkeypatch.setenv("RILLET_FUZZ_SEED", "2")
    assert inputs() != first


def test_one_input_is_run_alone(fuzzer, tmp_path, monkeypatch):
    (tmp_path / "found").write_bytes(b"x")
    monkeypatch.setenv("RILLET_FUZZ_INPUT", str(tmp_path / "found"))
    assert fuzzer.texts() == [b"x"]
    assert fuzzer.run(refuse_xs, lambda _chance, _corpus: b"x") == 0


def test_a_hang_is_a_failure(fuzzer, monkeypatch):
    monkeypatch.setattr(engine, "HANG_SECONDS", 1)

    def hang(_data):
        while True:
            pass

    with pytest.raises(engine.HangError):
        fuzzer.check_once(hang, b"")


@pytest.mark.parametrize("words", [[b"SET", b"", b"a b"], [b"#x", b"\x00\xff\r\n", b"'\"\\"], [b"\\x41"]])
def test_a_line_holds_any_words(words):
    text = show_line([b"ECHO", *words])
    assert parse_lines(text) == [[b"ECHO", *words]]


def test_mutation_changes_its_input():
    changed = {mutate(Random(number), b"0123456789" * 3) for number in range(100)}
    assert len(changed) > 60
