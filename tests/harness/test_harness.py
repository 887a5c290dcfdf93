"""The harness of the differential tests: what it compares must not be able to hide a difference."""

from unittest.mock import Mock

import pytest
from differential.judge import judge
from hypothesis import given
from hypothesis import strategies as st
from support.aof import read_commands
from support.masks import Masks
from support.script import Answer, Player, parse_script, parse_step, split_words
from support.wire import Node, encode_command, parse, split_replies


def node(raw: bytes) -> Node:
    found = parse(raw)
    assert found is not None
    assert found[1] == len(raw)
    return found[0]


def answer(raw: bytes, line: str = "PING") -> Answer:
    return Answer(parse_step(1, line), node(raw))


SCALARS = st.one_of(
    st.integers().map(lambda value: b":%d\r\n" % value),
    st.binary().map(lambda value: b"$%d\r\n%b\r\n" % (len(value), value)),
    st.sampled_from(
        [
            b"+OK\r\n",
            b"-ERR x\r\n",
            b"_\r\n",
            b"$-1\r\n",
            b"*-1\r\n",
            b"#t\r\n",
            b",1.5\r\n",
            b"=5\r\ntxt:x\r\n",
        ]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda parts: b"*%d\r\n" % len(parts) + b"".join(parts)),
        st.lists(inner, max_size=4).map(lambda parts: b"~%d\r\n" % len(parts) + b"".join(parts)),
        st.lists(st.tuples(inner, inner), max_size=3).map(
            lambda pairs: b"%%%d\r\n" % len(pairs) + b"".join(name + value for name, value in pairs)
        ),
    ),
    max_leaves=12,
)


@given(VALUES)
def test_a_parsed_value_writes_the_bytes_it_came_from(raw):
    assert node(raw).encode() == raw


@given(VALUES, st.data())
def test_a_value_cut_short_is_not_a_value(raw, data):
    cut = data.draw(st.integers(0, len(raw) - 1))
    assert parse(raw[:cut]) is None


@given(st.lists(VALUES, max_size=4))
def test_consecutive_replies_are_distinguished(raws):
    assert [part.encode() for part in split_replies(b"".join(raws))] == raws


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"$-1\r\n", b"*-1\r\n"), (b"$-1\r\n", b"_\r\n"), (b"+OK\r\n", b"$2\r\nOK\r\n"), (b"*0\r\n", b"~0\r\n"),
        (b"%0\r\n", b"*0\r\n"),
    ],
)  # fmt: skip
def test_types_that_look_alike_differ(one, other):
    assert answer(one).raw != answer(other).raw
    assert judge(answer(one), answer(other), newest=True)
    assert judge(answer(one), answer(other), newest=False)


def test_a_time_is_hidden_only_where_it_is_declared():
    reply = node(b"*2\r\n:5\r\n:5\r\n")
    assert str(Masks().apply(reply, ["ms:1"])) == "*[:5 :<ms>]"


def test_never_stays_visible_under_a_time_mask():
    assert str(Masks().apply(node(b":-1\r\n"), ["ms:."])) == ":-1"


def test_an_automatic_id_keeps_its_number_in_later_replies():
    masks = Masks()
    first, second = node(b"$15\r\n1700000000000-0\r\n"), node(b"$15\r\n1700000000001-0\r\n")
    assert str(masks.apply(first, ["id:."])) == '$"<id:1>"'
    assert str(masks.apply(second, ["id:."])) == '$"<id:2>"'
    assert str(masks.apply(first, [])) == '$"<id:1>"'
    assert masks.fill_in("XDEL s {2}") == "XDEL s 1700000000001-0"


def test_a_path_finds_values_in_maps_and_in_flat_arrays():
    flat = node(b"*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:2\r\n")
    mapped = node(b"%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:2\r\n")
    assert str(Masks().apply(flat, ["ms:b"])) == '*[$"a" :1 $"b" :<ms>]'
    assert str(Masks().apply(mapped, ["ms:b"])) == '%[$"a" :1 $"b" :<ms>]'


def test_a_difference_on_purpose_must_be_one(monkeypatch):
    monkeypatch.setattr("differential.judge.ON_PURPOSE", {"x"})
    line = "PING ## purpose:x"
    assert judge(answer(b"+A\r\n", line), answer(b"+A\r\n", line), newest=True)
    assert not judge(answer(b"+A\r\n", line), answer(b"+B\r\n", line), newest=True)


def test_an_older_version_has_no_purpose_to_differ(monkeypatch):
    monkeypatch.setattr("differential.judge.ON_PURPOSE", {"x"})
    line = "PING ## purpose:x"
    assert judge(answer(b"+A\r\n", line), answer(b"+B\r\n", line), newest=False)


def test_words_are_split_as_by_redis_cli():
    assert split_words(r'SET k "a b\x00\r\n" ""') == [b"SET", b"k", b"a b\x00\r\n", b""]


def test_a_script_knows_its_cases_and_protocols(tmp_path):
    path = tmp_path / "x.script"
    path.write_text(
        "# hello\n--- one thing\nPING\nB> XREAD STREAMS s 0 ## id ms:0.1\n--- another [resp3]\nB< 2\n"
    )
    one, another = parse_script(path)
    assert (one.title, one.protocols, another.protocols) == ("one thing", (2, 3), (3,))
    assert [(step.connection, step.verb) for step in one.steps + another.steps] == [
        ("A", ":"),
        ("B", ">"),
        ("B", "<"),
    ]
    assert one.steps[1].masks == ("id:.", "ms:0.1")


@pytest.mark.parametrize("blocked", [0, 1])
def test_an_impatient_player_waits_for_a_late_reply_but_not_for_a_blocked_client(blocked):
    player = Player.__new__(Player)
    text = b"blocked_clients:%d\r\n" % blocked
    player.control = Mock(call=Mock(return_value=Node("$", b"%d" % len(text), text)))
    late = Mock(read=Mock(side_effect=[TimeoutError, Node("+", b"OK")]))
    if blocked:
        with pytest.raises(TimeoutError):
            player.reply(late)
    else:
        assert player.reply(late).header == b"OK"


def test_annotations_of_an_aof_are_skipped():
    assert read_commands(b"#TS:5\r\n" + encode_command("SET", "k", "v")) == [[b"SET", b"k", b"v"]]
