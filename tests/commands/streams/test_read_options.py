"""MAXSIZE on a long stream, and the words of XREADGROUP that are remembered."""

from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import reply, run
from support.groups import group_client

from rillet.commands.streams.read_options import parse_options
from rillet.protocol.errors import ReplyError

KEY = len(b"*2\r\n$1\r\ns\r\n")


def test_many_entries_within_a_size():
    client = group_client(500)
    for ms in range(1, 501):
        size = KEY + len(run(client, "XRANGE", "s", "-", f"{ms}-0")) - len(f"*{ms}\r\n")
        found = reply(client, "XREAD", "MAXSIZE", str(size), "STREAMS", "s", "0")
        assert len(found[0][1]) == ms
        if ms > 20:
            break


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
