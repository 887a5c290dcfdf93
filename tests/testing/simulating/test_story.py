"""The story of a failed simulation, and what mattered in it: `testing/simulating/story.py`, `testing/simulating/shrinking.py`."""

from hypothesis import given
from hypothesis import strategies as st

from rillet.server.clock import EPOCH
from rillet.testing import RecordedCommand
from rillet.testing.simulating.shrinking import smallest, summary
from rillet.testing.simulating.story import Event, event_of, told


def event(time, host, words, reply, *, keys=(), fault=None, error=None):
    command = RecordedCommand(
        number=time, words=tuple(words.split()) if isinstance(words, str) else words, reply=reply, error=error,
        client=host, client_id=1, database=0, keys=keys, time=EPOCH + time, answered=EPOCH + time, fault=fault,
        encoded=b"",
    )  # fmt: skip
    return event_of(command, {7: "lost before it ran"})


def added(time, n):
    return event(time, "driver", f"XADD jobs * n {n}", f"{time}-0", keys=("jobs",))


def taken(time, host, entry, n):
    reply = [["jobs", [[f"{entry}-0", ["n", str(n)]]]]]
    return event(time, host, f"XREADGROUP GROUP w {host} STREAMS jobs >", reply, keys=("jobs",))


def done(time, host, n, key="done"):
    return event(time, host, f"SADD {key} {n}", 1, keys=(key,))


def acknowledged(time, host, entry, fault=None):
    return event(time, host, f"XACK jobs w {entry}-0", 1, keys=("jobs",), fault=fault)


def ten_jobs(lost=4):
    """One of ten jobs is acknowledged, and not done: its worker dies."""
    story = [Event(0, "redis", "starts"), *(added(n + 1, n) for n in range(10))]
    for n in range(10):
        at = 100 * (n + 1)
        story += [taken(at, "a", n + 1, n), acknowledged(at + 1, "a", n + 1)]
        story.append(Event(at + 2, "a", "crashes") if n == lost else done(at + 2, "a", n))
    return [*story, event(9000, "driver", "SCARD done", 9, keys=("done",))]


def test_a_story_follows_the_entry_that_the_error_names():
    lines = told(ten_jobs(), AssertionError("pending: ['7-0']"))
    assert lines[0] == "What happened to entry 7-0:"
    assert [line.split(maxsplit=2)[2] for line in lines[1:-1]] == [
        "starts",
        "XADD jobs * n 6 -> '7-0'",
        "crashes",
        "XREADGROUP GROUP w a STREAMS jobs > -> [['jobs', [['7-0', ['n', '6']]]]]",
        "XACK jobs w 7-0 -> 1",
        "SADD done 6 -> 1",
        "SCARD done -> 9",
    ]


def test_a_story_follows_the_entry_whose_value_the_error_quotes():
    text = "assert {b'0', b'1'} == {b'0', b'1'}\n  Extra items in the right set:\n  b'4'\n  Use -v to get more diff"
    lines = told(ten_jobs(), AssertionError(text))
    assert lines[0] == "What happened to entry 5-0:"
    assert not any("XACK jobs w 3-0" in line for line in lines)


def test_a_story_follows_the_odd_entry_where_the_error_names_none():
    lines = told(ten_jobs(lost=8), AssertionError("assert 9 == 10"))
    assert lines[0] == "What happened to entry 9-0:"


def test_a_story_follows_a_key_and_the_entry_behind_it():
    story = [added(1, 1), added(2, 2), taken(3, "a", 1, 1), taken(4, "b", 2, 2)]
    story += [done(5, "b", 2, "done:2"), done(6, "a", 1, "done:1"), acknowledged(7, "b", 2)]
    lines = told(story, AssertionError("done:2"))
    assert lines[0] == "What happened to entry 2-0, key done:2:"
    assert sum("done:1" in line for line in lines) == 0
    assert sum("XACK jobs w 2-0" in line for line in lines) == 1


def test_an_error_inside_a_group_or_behind_another_names_entries_too():
    group = ExceptionGroup("several", [ValueError("no"), ValueError("7-0 is lost")])
    assert told(ten_jobs(), group)[0] == "What happened to entry 7-0:"
    error = RuntimeError("job failed")
    error.__cause__ = ValueError("7-0")
    assert told(ten_jobs(), error)[0] == "What happened to entry 7-0:"


def test_a_story_about_too_many_entries_or_about_nothing_is_told_whole():
    every = "all of " + " ".join(f"{n}-0" for n in range(1, 11))
    assert told(ten_jobs(), AssertionError(every))[0] == "What happened:"
    assert told([Event(0, "redis", "starts")], AssertionError())[0] == "What happened:"
    assert told([], AssertionError()) == ["What happened:"]


def test_a_poll_stands_once_and_an_empty_read_not_at_all():
    story = []
    for at in range(0, 1000, 100):
        story += [
            event(at, "a", "EVALSHA abc 1 jobs " + str(at), None, keys=("jobs",)),
            event(at + 1, "a", "EVALSHA def 1 jobs " + str(at), ["busy"], keys=("jobs",)),
            event(at + 2, "b", "SET lock b NX", None, keys=("lock",)),
        ]
    story.append(event(1000, "b", "SET lock b NX", "OK", keys=("lock",)))
    story.append(event(1100, "b", "SET lock b NX", None, keys=("lock",)))
    lines = told(story, AssertionError())
    assert [line.split(maxsplit=1)[1] for line in lines[1:-1]] == [
        "a          EVALSHA def 1 jobs 0 -> ['busy'] (again until 0.901, 10 times)",
        "b          SET lock b NX -> None (again until 0.902, 10 times)",
        "b          SET lock b NX -> 'OK'",
        "b          SET lock b NX -> None",
    ]


def test_a_long_story_keeps_what_went_wrong_and_what_was_around_it():
    story = [event(at, "m", f"INCRBY n {at}", at, keys=("n",)) for at in range(1000)]
    story[500] = event(500, "m", "INCRBY n 500", None, keys=("n",), fault=7)
    lines = told(story, AssertionError())
    assert len(lines) < 60
    assert sum("(lost before it ran)" in line for line in lines) == 1
    for at in (0, 495, 505, 999):
        assert any(f"INCRBY n {at} " in line for line in lines), at
    assert sum("more …" in line for line in lines) == 2


def test_bytes_that_are_no_text_are_written_out_so_that_xdist_can_send_them():
    story = [
        event(1, "a", ("SET", "k\udcff", "\n \x00"), "\udcfe", keys=("k\udcff",)),
        event(2, "a", ("NO\udcff",), None, error="ERR unknown 'NO\udcff'"),
        Event(3, "b\udcff", "starts"),
    ]
    for whole in (False, True):
        text = "\n".join(told(story, AssertionError("\udcff"), whole=whole))
        text.encode()
        assert "k\\xff" in text
        assert len(text.splitlines()) == (4 if not whole else 3)


@given(st.sets(st.integers(0, 30)), st.lists(st.sets(st.integers(0, 30), max_size=4), max_size=3))
def test_the_smallest_part_fails_and_passes_without_any_one_of_it(whole, causes):
    tried = []

    def fails(part):
        tried.append(frozenset(part))
        return any({each for (each,) in part} >= cause for cause in causes)

    elements = [(each,) for each in sorted(whole)]
    if fails(elements):
        kept = smallest(elements, fails)
        assert fails(kept)
        assert not any(fails([each for each in kept if each is not one]) for one in kept)
        assert len(tried) < 200


def test_a_summary_says_what_mattered_and_what_did_not():
    needed = {("crashes", 2): "a crashes at 1.301, for 2.913 s"}
    off = [("latency",), ("crashes", 1), ("crashes", 3), ("loss", "after", "a", "XACK", 1)]
    assert summary(needed, off, (5, 5)) == [
        "It passes without any one of these:",
        "  - a crashes at 1.301, for 2.913 s",
        "It fails without the rest, too: late messages, 2 crashes, 1 lost command or reply.",
        "The order of the tasks does not matter: it failed in 5 of 5 others, too.",
    ]
    assert summary({}, [], (2, 5)) == [
        "It fails also if nothing goes wrong.",
        "The order of the tasks matters: it failed in 2 of 5 others.",
    ]
