"""The keyspace events of Redis 8.8 that name the fields of hashes: the classes S, T, I and V."""

import pytest
from support.live import LiveServer


@pytest.fixture(scope="module")
def server():
    with LiveServer() as server:
        yield server


@pytest.fixture
def notified(server):
    """Return a function that runs a command and returns the events it sends, as "channel message"."""
    with server.wire() as wire, server.wire() as listener:
        wire.call("FLUSHALL")
        listener.call("PSUBSCRIBE", "*")

        def run(classes, *words):
            wire.call("CONFIG", "SET", "notify-keyspace-events", classes)
            if words:
                reply = wire.call(*words)
                assert reply.kind != "-", reply
            wire.call("CONFIG", "SET", "notify-keyspace-events", "")
            wire.call("PUBLISH", "end", "")
            expected = []
            while (message := listener.read().plain())[2] != b"end":
                expected.append(f"{message[2].decode()} {message[3].decode()}")
            return expected

        yield run
        wire.call("CONFIG", "SET", "notify-keyspace-events", "")


def test_each_class_has_a_channel_of_its_own(notified):
    words = ("HSET", "key", "f1", "v", "field2", "v")
    assert notified("Sh", *words) == ["__subkeyspace@0__:key hset|2:f1,6:field2"]
    assert notified("Th", *words) == ["__subkeyevent@0__:hset 3:key|2:f1,6:field2"]
    assert notified("Ih", *words) == [
        "__subkeyspaceitem@0__:key\nf1 hset",
        "__subkeyspaceitem@0__:key\nfield2 hset",
    ]
    assert notified("Vh", *words) == ["__subkeyspaceevent@0__:hset|key 2:f1,6:field2"]


def test_they_are_apart_from_the_events_of_keys(notified):
    assert notified("KEA", "HSET", "key", "f", "v") == ["__keyspace@0__:key hset", "__keyevent@0__:hset key"]
    assert notified("STIV", "HSET", "key", "f", "v") == []
    assert notified("AS", "SET", "string", "v") == []
    assert notified("AKS", "HSET", "key", "f", "v") == [
        "__keyspace@0__:key hset",
        "__subkeyspace@0__:key hset|1:f",
    ]


def test_a_key_with_a_newline_has_no_items(notified):
    assert notified("SIh", "HSET", "a\nb", "f", "v") == ["__subkeyspace@0__:a\nb hset|1:f"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("HSET h a 9 new 9", "hset|1:a,3:new"),
        ("HMSET h a 9", "hset|1:a"),
        ("HSETNX h new 9", "hset|3:new"),
        ("HSETNX h a 9", ""),
        ("HDEL h a none b", "hdel|1:a,1:b"),
        ("HDEL h none", ""),
        ("HINCRBY h a 1", "hincrby|1:a"),
        ("HINCRBYFLOAT h a 1.5", "hincrbyfloat|1:a"),
        ("HEXPIRE h 100 FIELDS 2 a none", "hexpire|1:a"),
        ("HPEXPIRE h 100000 XX FIELDS 2 a t", "hexpire|1:t"),
        ("HEXPIREAT h 1 FIELDS 2 a b", "hdel|1:a,1:b"),
        ("HPERSIST h FIELDS 2 a t", "hpersist|1:t"),
        ("HGETEX h EX 100 FIELDS 2 a none", "hexpire|1:a"),
        ("HGETEX h PERSIST FIELDS 2 a t", "hpersist|1:t"),
        ("HGETEX h PXAT 1 FIELDS 1 a", "hdel|1:a"),
        ("HGETEX h FIELDS 1 a", ""),
        ("HGETDEL h FIELDS 2 a none", "hdel|1:a"),
        ("HSETEX h FIELDS 2 a 1 new 2", "hset|1:a,3:new"),
        ("HSETEX h EX 100 FIELDS 1 a 1", "hset|1:a hexpire|1:a"),
        ("HSETEX h EXAT 1 FIELDS 1 a 1", "hset|1:a hdel|1:a"),
    ],
)
def test_an_event_names_the_fields_that_changed(notified, words, expected):
    notified("", "HSET", "h", "a", "1", "b", "2", "t", "3")
    notified("", "HEXPIRE", "h", "1000", "FIELDS", "1", "t")
    assert notified("Sh", *words.split()) == [f"__subkeyspace@0__:h {one}" for one in expected.split()]


def test_fields_that_expire_share_one_event(notified, server):
    notified("", "HSET", "h", "a", "1", "b", "2", "t", "3")
    notified("", "DEBUG", "SET-ACTIVE-EXPIRE", "0")
    notified("", "HEXPIRE", "h", "1000", "FIELDS", "2", "a", "b")
    server.run_inside(lambda: server.inside.clock.advance(2_000_000))
    expected = notified("Sh", "HMGET", "h", "a", "b", "t")
    notified("", "DEBUG", "SET-ACTIVE-EXPIRE", "1")
    assert expected == ["__subkeyspace@0__:h hexpired|1:a,1:b"]
