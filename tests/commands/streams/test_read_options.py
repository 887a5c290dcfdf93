"""MAXCOUNT and MAXSIZE: what XREAD and XREADGROUP may answer over all their streams."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import reply, run
from support.groups import forget, group_client

from rillet.commands.spec.key_finders import keys_of_streams
from rillet.commands.spec.versions import compat_with
from rillet.commands.streams.read_options import parse_options
from rillet.protocol.errors import ReplyError

ITEM = len(b"*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n")
KEY = len(b"*2\r\n$1\r\ns\r\n")
NUMBER = len(b"*3\r\n")


@pytest.fixture
def client():
    """Streams s, t and u of three entries each, with a group g."""
    client = group_client(3)
    for name in ("t", "u"):
        for ms in range(1, 4):
            run(client, "XADD", name, f"{ms}-0", "a", "b")
        run(client, "XGROUP", "CREATE", name, "g", "0")
    forget(client)
    return client


def shape(found):
    """Per stream its name and the number of entries."""
    return None if found is None else {name.decode(): len(items) for name, items in found}


def read(client, *words):
    return shape(reply(client, "XREAD", *words, "STREAMS", "s", "t", "u", "0", "0", "0"))


def read_group(client, *words, ids=(">", ">", ">")):
    return shape(reply(client, "XREADGROUP", "GROUP", "g", "c", *words, "STREAMS", "s", "t", "u", *ids))


def test_maxcount_is_at_least_count(client):
    error = b"-ERR MAXCOUNT must be greater than or equal to COUNT\r\n"
    for words in (("COUNT", "3", "MAXCOUNT", "2"), ("MAXCOUNT", "2", "COUNT", "3")):
        assert run(client, "XREAD", *words, "STREAMS", "s", "0") == error
    assert read(client, "COUNT", "0", "MAXCOUNT", "2") == {"s": 2}
    assert read(client, "COUNT", "2", "MAXCOUNT", "2") == {"s": 2}


def test_before_8_10_they_are_unknown(client):
    client.server.compat = compat_with("8.8")
    assert run(client, "XREAD", "MAXCOUNT", "1", "STREAMS", "s", "0") == b"-ERR syntax error\r\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("MAXCOUNT 1", {"s": 1}),
        ("MAXCOUNT 3", {"s": 3}),
        ("MAXCOUNT 4", {"s": 3, "t": 1}),
        ("MAXCOUNT 99", {"s": 3, "t": 3, "u": 3}),
        ("COUNT 2 MAXCOUNT 3", {"s": 2, "t": 1}),
        ("COUNT 2 MAXCOUNT 4", {"s": 2, "t": 2}),
        ("MAXSIZE 1", {"s": 1}),  # the first one always goes out
        (f"MAXSIZE {KEY + ITEM}", {"s": 1}),
        (f"MAXSIZE {KEY + ITEM + 1}", {"s": 2}),
        (f"MAXSIZE {KEY + 2 * ITEM + 1}", {"s": 3}),
        (f"MAXSIZE {KEY + 3 * ITEM + NUMBER}", {"s": 3}),
        (f"MAXSIZE {KEY + 3 * ITEM + NUMBER + 1}", {"s": 3, "t": 0}),
        (f"MAXSIZE {KEY + 3 * ITEM + NUMBER + KEY}", {"s": 3, "t": 0}),
        (f"MAXSIZE {KEY + 3 * ITEM + NUMBER + KEY + 1}", {"s": 3, "t": 1}),
        ("MAXSIZE 100000", {"s": 3, "t": 3, "u": 3}),
        (f"MAXSIZE {KEY + ITEM + 1} MAXCOUNT 1", {"s": 1}),
        (f"MAXSIZE {KEY + ITEM + 1} COUNT 1", {"s": 1}),  # the number of s counts before t
    ],
)
def test_limits_are_for_all_streams_together(client, words, expected):
    assert read(client, *words.split()) == expected
    assert read_group(client, *words.split()) == expected


@pytest.mark.parametrize("words", ["MAXCOUNT 3", "MAXSIZE 1"])
def test_streams_behind_the_limit_are_not_visited(client, words):
    read_group(client, *words.split())
    assert len(client.db.entries[b"s"].groups[b"g"].consumers) == 1
    assert not client.db.entries[b"t"].groups[b"g"].consumers


def test_all_keys_are_judged_before_any_is_read(client):
    words = ("XREADGROUP", "GROUP", "g", "c", "MAXCOUNT", "1", "STREAMS", "s", "no", ">", ">")
    assert run(client, *words).startswith(b"-NOGROUP")
    assert not client.db.entries[b"s"].groups[b"g"].consumers


def test_many_entries_within_a_size():
    client = group_client(500)
    for ms in range(1, 501):
        size = KEY + len(run(client, "XRANGE", "s", "-", f"{ms}-0")) - len(f"*{ms}\r\n")
        found = reply(client, "XREAD", "MAXSIZE", str(size), "STREAMS", "s", "0")
        assert len(found[0][1]) == ms
        if ms > 20:
            break


@pytest.mark.parametrize("option", ["MAXCOUNT", "MAXSIZE", "CLAIM"])
def test_a_key_can_be_found_behind_them(option):
    words = ["XREADGROUP", "GROUP", "STREAMS", "c", option, "STREAMS", "STREAMS", "k", ">"]
    assert keys_of_streams([word.encode() for word in words]) == [7]


def parsed(words):
    """What the options mean, or the error."""
    try:
        options = parse_options(group_client(1), words, grouped=True)
    except ReplyError as error:
        return error.text
    return [getattr(options, name) for name in type(options).__slots__]


@given(
    count=st.one_of(
        st.integers(-(1 << 64), 1 << 64).map(b"%d".__mod__),
        st.sampled_from([b"", b"x", b"+1", b"01", b"STREAMS"]),
    ),
    group=st.one_of(st.binary(max_size=4), st.binary(min_size=300, max_size=300)),
    consumer=st.binary(max_size=4),
)
def test_words_that_are_remembered_mean_what_the_general_way_says(count, group, consumer):
    words = [b"XREADGROUP", b"GROUP", group, consumer, b"COUNT", count, b"STREAMS", b"s", b">"]
    general = [word.lower() if word in {b"GROUP", b"COUNT"} else word for word in words[:6]] + words[6:]
    for _ in range(2):  # the second time they may be remembered
        assert parsed(words) == parsed(general)


def test_long_names_are_not_remembered():
    client = group_client(1)

    def options(name):
        words = [b"XREADGROUP", b"GROUP", b"g", name, b"COUNT", b"1", b"STREAMS", b"s", b">"]
        return parse_options(client, words, grouped=True)

    assert options(b"c") is options(b"c")
    long = b"c" * 300
    assert options(long) is not options(long)
