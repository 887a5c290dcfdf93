import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.thorough import examples
from support.wired_server import WiredServer, talk

from rillet.protocol import globs
from rillet.protocol.globs import matches
from rillet.storage.keyspace import notifications as events

CHANNELS = [b"a", b"ab", b"b"]
PATTERNS = [b"a*", b"?", b"b"]


@pytest.fixture
def server():
    return WiredServer()


def bulks(*words):
    return b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


@pytest.mark.parametrize(("resp", "head", "null"), [(2, b"*", b"$-1\r\n"), (3, b">", b"_\r\n")])
def test_unsubscribe_from_nothing_names_null(server, resp, head, null):
    client = server.connect(resp)
    for name in (b"unsubscribe", b"punsubscribe", b"sunsubscribe"):
        assert talk(client, name) == head + b"3\r\n" + bulks(name) + null + b":0\r\n"


def test_acknowledgements_come_through_while_replies_are_off(server):
    client = server.connect(3)
    talk(client, "CLIENT", "REPLY", "OFF")
    assert talk(client, "SUBSCRIBE", "a") == b">3\r\n" + bulks(b"subscribe", b"a") + b":1\r\n"
    assert talk(client, "UNSUBSCRIBE") == b">3\r\n" + bulks(b"unsubscribe", b"a") + b":0\r\n"


def test_pubsub_reports_subscribers(server):
    client, other = server.connect(), server.connect(3)
    talk(client, "SUBSCRIBE", "news", "sport")
    talk(other, "SUBSCRIBE", "news")
    talk(client, "PSUBSCRIBE", "n*")
    talk(other, "PSUBSCRIBE", "n*", "s*")
    talk(client, "SSUBSCRIBE", "shard")
    asker = server.connect(3)
    assert talk(asker, "PUBSUB", "CHANNELS") == b"*2\r\n" + bulks(b"news", b"sport")
    assert talk(asker, "PUBSUB", "CHANNELS", "n*") == b"*1\r\n" + bulks(b"news")
    assert talk(asker, "PUBSUB", "NUMPAT") == b":2\r\n"
    assert (
        talk(asker, "PUBSUB", "NUMSUB", "news", "none")
        == b"*4\r\n" + bulks(b"news") + b":2\r\n" + bulks(b"none") + b":0\r\n"
    )
    assert talk(asker, "PUBSUB", "NUMSUB") == b"*0\r\n"
    assert talk(asker, "PUBSUB", "SHARDCHANNELS") == b"*1\r\n" + bulks(b"shard")
    assert talk(asker, "PUBSUB", "SHARDCHANNELS", "x") == b"*0\r\n"
    assert talk(asker, "PUBSUB", "SHARDNUMSUB", "shard") == b"*2\r\n" + bulks(b"shard") + b":1\r\n"
    assert talk(asker, "PUBSUB", "channels", "a", "b") == (
        b"-ERR unknown subcommand or wrong number of arguments for 'channels'. Try PUBSUB HELP.\r\n"
    )
    assert talk(asker, "PUBSUB", "HELP").startswith(b"*")


@pytest.mark.parametrize(
    ("mask", "channels"),
    [
        (events.STREAM, []),
        (events.STREAM | events.KEYSPACE, [(b"__keyspace@3__:k", b"xadd")]),
        (events.STREAM | events.KEYEVENT, [(b"__keyevent@3__:xadd", b"k")]),
        (
            events.STREAM | events.KEYSPACE | events.KEYEVENT,
            [(b"__keyspace@3__:k", b"xadd"), (b"__keyevent@3__:xadd", b"k")],
        ),
    ],
)
def test_events_go_to_the_channels_that_are_switched_on(server, mask, channels):
    client = server.connect()
    talk(client, "PSUBSCRIBE", "__key*")
    server.keyspace.notify_mask = mask
    server.keyspace.notify(events.STREAM, b"xadd", b"k", server.keyspace.databases[3])
    assert client.take() == b"".join(
        b"*4\r\n" + bulks(b"pmessage", b"__key*", channel, text) for channel, text in channels
    )


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["subscribe", "unsubscribe", "psubscribe", "punsubscribe", "leave", "publish"]),
        st.integers(0, 2),
        st.integers(0, 2),
    ),
    max_size=40,
)


@given(STEPS)
@settings(max_examples=examples(80), deadline=None)
def test_messages_reach_exactly_the_subscribers(steps):
    server = WiredServer()
    clients = [server.connect() for _ in range(3)]
    publisher = server.connect()
    channels: list[set[bytes]] = [set(), set(), set()]
    patterns: list[set[bytes]] = [set(), set(), set()]
    for action, who, what in steps:
        if action == "publish":
            wanted = [
                (CHANNELS[what] in channels[at])
                + sum(matches(pattern, CHANNELS[what]) for pattern in patterns[at])
                for at in range(3)
            ]
            assert talk(publisher, "PUBLISH", CHANNELS[what], "m") == b":%d\r\n" % sum(wanted)
            assert [client.take().count(b"message\r\n") for client in clients] == wanted
        elif action == "leave":
            server.pubsub.remove(clients[who])
            channels[who].clear()
            patterns[who].clear()
        else:
            mine, names = (patterns[who], PATTERNS) if action[0] == "p" else (channels[who], CHANNELS)
            (mine.discard if "unsub" in action else mine.add)(names[what])
            answer = talk(clients[who], action, names[what])
            assert answer.endswith(b":%d\r\n" % (len(channels[who]) + len(patterns[who])))
        assert set(server.pubsub.channels) == set().union(*channels)
        assert set(server.pubsub.patterns) == set().union(*patterns)


def test_a_pattern_is_compiled_once_for_as_long_as_somebody_subscribes(server, monkeypatch):
    """More patterns than any fixed number: one more must not make each message compile all of them."""
    globs.matcher.cache_clear()
    compiled = []
    original = globs._compile
    monkeypatch.setattr(globs, "_compile", lambda *words: compiled.append(words) or original(*words))
    client = server.connect(3)
    for number in range(600):
        talk(client, "PSUBSCRIBE", f"*a{number}*b")
    for _ in range(3):
        assert talk(server.connect(), "PUBLISH", "a5b", "text") == b":1\r\n"
    assert len(compiled) == 600
    talk(client, "PUNSUBSCRIBE", "*a5*b")
    talk(client, "PSUBSCRIBE", "*a5*b")
    talk(server.connect(), "PUBLISH", "a5b", "text")
    assert len(compiled) <= 601
    talk(client, "PUNSUBSCRIBE")
    assert server.pubsub._matchers == {}
