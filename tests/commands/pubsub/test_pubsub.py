import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.thorough import examples
from support.wired_server import WiredServer, talk

from rillet.protocol import globs
from rillet.protocol.globs import matches

CHANNELS = [b"a", b"ab", b"b"]
PATTERNS = [b"a*", b"?", b"b"]


@pytest.fixture
def server():
    return WiredServer()


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
