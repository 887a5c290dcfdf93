"""Dead letters are counted, shown and given another chance, each of them in exactly one place."""

import pytest

from rillet.pipeline.cli.main import main
from rillet.pipeline.group.dead_letters import DeadLetter
from rillet.pipeline.jobs import deadletter
from rillet.pipeline.redis import ids
from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint


@pytest.fixture(params=["rillet", "redis7"])
def connection(request, running):
    with Connection(Endpoint(port=running(request.param).port, retries=0)) as connection:
        connection.call("FLUSHALL")  # other tests have the same server
        for n in range(1, 5):
            reason = "bad json" if n % 2 else "delivered 5 times"
            fields = (b"n", b"%d" % n, b"n", b"\xff")
            letter = DeadLetter("orders", ids.join(n), "billing", "bob", 5, reason, fields)
            connection.call("XADD", "dead", f"{n * 10}-0", *letter.words())
        connection.call("XADD", "dead", "99-0", "no", "letter")
        yield connection
        connection.call("FLUSHALL")


def run(connection, *words):
    return main(["deadletter", *words, "--port", str(connection.endpoint.port)])


def entries(connection, stream):
    return [words for _, words in connection.call("XRANGE", stream, "-", "+")]


def test_letters_are_counted_by_reason(connection, capsys):
    assert run(connection, "list", "dead") == 0
    assert capsys.readouterr().out == (
        "       2  orders > billing: bad json\n       2  orders > billing: delivered 5 times\n"
    )
    assert run(connection, "list", "nothing-here") == 0
    assert capsys.readouterr().out == "no letters\n"


def test_a_letter_is_shown_with_its_fields(connection, capsys):
    assert run(connection, "show", "dead", "20-0") == 0
    assert capsys.readouterr().out == (
        "20-0  1970-01-01 00:00:00.020  orders 2-0\n    billing, bob: delivered 5 times\n    n = 2\n    n = \\xff\n"
    )


def test_chosen_letters_go_back_to_their_stream(connection, capsys):
    assert run(connection, "requeue", "dead", "--reason", "json") == 0
    assert capsys.readouterr().out == "2 letters were requeued\n"
    assert entries(connection, "orders") == [[b"n", b"1", b"n", b"\xff"], [b"n", b"3", b"n", b"\xff"]]
    assert [word for word, _ in connection.call("XRANGE", "dead", "-", "+")] == [b"20-0", b"40-0", b"99-0"]


def test_letters_of_a_stream_whose_name_is_no_utf8_go_back_to_it(connection, capsys):
    letter = DeadLetter("or\udcff", ids.join(1), "billing", "bob", 5, "bad json", (b"n", b"1"))
    connection.call("XADD", b"dead\xff", "10-0", *letter.words())
    for action in ("list", "show"):
        assert run(connection, action, "dead\udcff") == 0
        assert "  or\\xff " in capsys.readouterr().out
    assert run(connection, "requeue", "dead\udcff", "--stream", "or\udcff") == 0
    assert entries(connection, b"or\xff") == [[b"n", b"1"]]
    assert connection.call("XLEN", b"dead\xff") == 0


def test_all_letters_are_requeued_only_if_that_is_said(connection, capsys):
    assert run(connection, "requeue", "dead") == 2
    assert "say which to requeue" in capsys.readouterr().err
    assert connection.call("XLEN", "dead") == 5
    assert run(connection, "requeue", "dead", "--all", "--to", "second-chance") == 0
    assert len(entries(connection, "second-chance")) == 4
    assert connection.call("XLEN", "dead") == 1


def test_a_letter_that_another_client_requeued_is_left(connection):
    letters = deadletter.read_letters(connection, "dead")

    def while_another_works():
        for letter in letters:
            with Connection(connection.endpoint) as other:
                other.call("XDEL", "dead", ids.text(letter.letter_id))
            yield letter

    assert deadletter.requeue(connection, "dead", while_another_works()) == 0
    assert connection.call("EXISTS", "orders") == 0


def test_a_letter_taken_between_the_look_and_the_move_is_not_moved_twice(connection, monkeypatch):
    pipeline, taken = connection.pipeline, []

    def late(commands, **options):
        if commands[0][0] == "MULTI" and not taken:
            taken.append(commands)
            with Connection(connection.endpoint) as other:
                other.call("XDEL", "dead", "10-0")
        return pipeline(commands, **options)

    monkeypatch.setattr(connection, "pipeline", late)
    assert (
        deadletter.requeue(
            connection, "dead", deadletter.read_letters(connection, "dead", [10 << 64, 20 << 64])
        )
        == 1
    )
    assert entries(connection, "orders") == [[b"n", b"2", b"n", b"\xff"]]


def test_a_key_of_another_type_is_said(connection, capsys):
    connection.call("SET", "text", "x")
    assert run(connection, "list", "text") == 1
    assert "WRONGTYPE" in capsys.readouterr().err


@pytest.fixture
def pending(connection):
    """Ids of four entries that are pending with two consumers; and one that is not."""
    for n in range(1, 6):
        connection.call("XADD", "orders", f"{n}-0", "n", n)
    connection.call("XGROUP", "CREATE", "orders", "billing", "0")
    for consumer in ("alice", "bob"):
        connection.call("XREADGROUP", "GROUP", "billing", consumer, "COUNT", 2, "STREAMS", "orders", ">")
    connection.call("DEL", "dead")
    return [f"{n}-0" for n in range(1, 6)]


def still_pending(connection):
    return [row[0].decode() for row in connection.call("XPENDING", "orders", "billing", "-", "+", 10)]


def test_pending_entries_of_any_consumer_are_moved_together_with_their_acknowledgement(
    connection, pending, capsys
):
    words = "move dead 1-0 4-0 --stream orders --group billing --because".split()
    assert run(connection, *words, "no such customer") == 0
    assert capsys.readouterr().out.startswith(
        "2 entries were moved to dead\nacknowledged in group billing; a query"
    )
    assert still_pending(connection) == ["2-0", "3-0"]
    letters = [each.dead for each in deadletter.read_letters(connection, "dead")]
    assert [(each.stream_id >> 64, each.consumer, each.reason, each.fields) for each in letters] == [
        (1, "alice", "no such customer", (b"n", b"1")),
        (4, "bob", "no such customer", (b"n", b"4")),
    ]
    assert sorted(row[1] for row in connection.call("XINFO", "CONSUMERS", "orders", "billing")) == [
        b"alice",
        b"bob",
    ]


def test_what_is_not_pending_is_not_moved(connection, pending, capsys):
    words = ("move", "dead", "1-0", "5-0", "1-0", "77", "--stream", "orders", "--group", "billing")
    assert run(connection, *words) == 1
    out, err = capsys.readouterr()
    assert out.startswith("1 entry was moved to dead\n")
    assert err == "2 entries were not pending, or deleted: nothing to move\n"
    assert still_pending(connection) == ["2-0", "3-0", "4-0"]
    assert len(connection.call("XRANGE", "dead", "-", "+")) == 1


def test_a_move_says_what_it_lacks(connection, pending, capsys):
    assert run(connection, "move", "dead", "1-0", "--stream", "orders") == 2
    assert "say what to move: ids, --stream and --group" in capsys.readouterr().err
    assert run(connection, "move", "dead", "1-0", "--stream", "orders", "--group", "no-such-group") == 1
    assert "NOGROUP" in capsys.readouterr().err
    assert still_pending(connection) == ["1-0", "2-0", "3-0", "4-0"]


@pytest.mark.parametrize("stream", ["dead", "nothing-here"])
def test_a_reason_that_is_no_regular_expression_is_refused(connection, capsys, stream):
    with pytest.raises(SystemExit) as ended:
        run(connection, "list", stream, "--reason", "(")
    assert ended.value.code == 2
    assert "argument --reason: is no regular expression: " in capsys.readouterr().err
