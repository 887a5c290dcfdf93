"""Dead letters are counted, shown and given another chance, each of them in exactly one place."""

from __future__ import annotations

import pytest

from rillet.pipeline.cli.main import main
from rillet.pipeline.group.dead_letters import DeadLetter
from rillet.pipeline.jobs import deadletter
from rillet.pipeline.redis import ids
from rillet.pipeline.redis.connection import Wire
from rillet.pipeline.redis.options import Endpoint


@pytest.fixture(params=["rillet", "redis7"])
def wire(request, running):
    with Wire(Endpoint(port=running(request.param).port, retries=0)) as wire:
        for n in range(1, 5):
            reason = "bad json" if n % 2 else "delivered 5 times"
            fields = (b"n", b"%d" % n, b"n", b"\xff")
            letter = DeadLetter("orders", ids.join(n), "billing", "bob", 5, reason, fields)
            wire.call("XADD", "dead", f"{n * 10}-0", *letter.words())
        wire.call("XADD", "dead", "99-0", "no", "letter")
        yield wire
        wire.call("FLUSHALL")


def run(wire, *words):
    return main(["deadletter", *words, "--port", str(wire.endpoint.port)])


def entries(wire, stream):
    return [words for _, words in wire.call("XRANGE", stream, "-", "+")]


def test_letters_are_counted_by_reason(wire, capsys):
    assert run(wire, "list", "dead") == 0
    assert capsys.readouterr().out == (
        "       2  orders > billing: bad json\n       2  orders > billing: delivered 5 times\n"
    )
    assert run(wire, "list", "nothing-here") == 0
    assert capsys.readouterr().out == "no letters\n"


def test_a_letter_is_shown_with_its_fields(wire, capsys):
    assert run(wire, "show", "dead", "20-0") == 0
    assert capsys.readouterr().out == (
        "20-0  1970-01-01 00:00:00.020  orders 2-0\n    billing, bob: delivered 5 times\n    n = 2\n    n = \\xff\n"
    )


def test_chosen_letters_go_back_to_their_stream(wire, capsys):
    assert run(wire, "requeue", "dead", "--reason", "json") == 0
    assert capsys.readouterr().out == "2 letters were requeued\n"
    assert entries(wire, "orders") == [[b"n", b"1", b"n", b"\xff"], [b"n", b"3", b"n", b"\xff"]]
    assert [word for word, _ in wire.call("XRANGE", "dead", "-", "+")] == [b"20-0", b"40-0", b"99-0"]


def test_letters_of_a_stream_whose_name_is_no_utf8_go_back_to_it(wire, capsys):
    letter = DeadLetter("or\udcff", ids.join(1), "billing", "bob", 5, "bad json", (b"n", b"1"))
    wire.call("XADD", b"dead\xff", "10-0", *letter.words())
    for action in ("list", "show"):
        assert run(wire, action, "dead\udcff") == 0
        assert "  or\\xff " in capsys.readouterr().out
    assert run(wire, "requeue", "dead\udcff", "--stream", "or\udcff") == 0
    assert entries(wire, b"or\xff") == [[b"n", b"1"]]
    assert wire.call("XLEN", b"dead\xff") == 0


def test_all_letters_are_requeued_only_if_that_is_said(wire, capsys):
    assert run(wire, "requeue", "dead") == 2
    assert "say which to requeue" in capsys.readouterr().err
    assert wire.call("XLEN", "dead") == 5
    assert run(wire, "requeue", "dead", "--all", "--to", "second-chance") == 0
    assert len(entries(wire, "second-chance")) == 4
    assert wire.call("XLEN", "dead") == 1


def test_a_letter_somebody_else_has_requeued_is_left(wire):
    letters = deadletter.read_letters(wire, "dead")

    def while_another_works():
        for letter in letters:
            with Wire(wire.endpoint) as other:
                other.call("XDEL", "dead", ids.text(letter.letter_id))
            yield letter

    assert deadletter.requeue(wire, "dead", while_another_works()) == 0
    assert wire.call("EXISTS", "orders") == 0


def test_a_letter_taken_between_the_look_and_the_move_is_not_moved_twice(wire, monkeypatch):
    pipeline, taken = wire.pipeline, []

    def late(commands, **options):
        if commands[0][0] == "MULTI" and not taken:
            taken.append(commands)
            with Wire(wire.endpoint) as other:
                other.call("XDEL", "dead", "10-0")
        return pipeline(commands, **options)

    monkeypatch.setattr(wire, "pipeline", late)
    assert deadletter.requeue(wire, "dead", deadletter.read_letters(wire, "dead", ["10-0", "20-0"])) == 1
    assert entries(wire, "orders") == [[b"n", b"2", b"n", b"\xff"]]


def test_a_key_of_another_type_is_said(wire, capsys):
    wire.call("SET", "text", "x")
    assert run(wire, "list", "text") == 1
    assert "WRONGTYPE" in capsys.readouterr().err
