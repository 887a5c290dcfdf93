"""Sets and sorted sets in files and payloads: every old form is read, and real servers read what is written."""

from math import inf
from struct import pack as packed

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.payloads import payload, ziplist
from support.servers import start_servers
from support.thorough import examples

from rillet.storage.codecs.encoding import encode_length, encode_string
from rillet.storage.codecs.listpack import pack, text
from rillet.storage.collections.encoding_limits import Limits
from rillet.storage.collections.set import Set
from rillet.storage.collections.sorted_set import SortedSet
from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.rdb import ByteSource, RdbError, dump_value, load_rdb, rdb_chunks, restore_value

PEERS = ("redis7", "valkey")
NUMBERS = [b"-70000", b"-3", b"0", b"5", b"1000"]
NAMES = [b"b", b"a", b"12", b"\x00\r\n", b""]
SCORES = {b"low": -inf, b"a": 0.1, b"12": 3.0, b"b": 3.0, b"": 1e20, b"high": inf}


def intset(numbers, size):
    body = b"".join(int(number).to_bytes(size, "little", signed=True) for number in numbers)
    return size.to_bytes(4, "little") + len(numbers).to_bytes(4, "little") + body


def state(value):
    if type(value) is Set:
        return set(value)
    assert type(value) is SortedSet
    return list(value.order)


def old_score(score):
    if score in {inf, -inf}:
        return b"\xfe" if score > 0 else b"\xff"
    digits = b"%.17g" % score
    return bytes((len(digits),)) + digits


def in_turn(scores):
    return [word for member, score in scores.items() for word in (member, b"%.17g" % score)]


SETS = {
    "strings": (2, encode_length(5) + b"".join(map(encode_string, NAMES)), NAMES, b"hashtable"),
    "an intset of 32 bits": (11, encode_string(intset(NUMBERS, 4)), NUMBERS, b"intset"),
    "an intset of 64 bits": (11, encode_string(intset(NUMBERS, 8)), NUMBERS, b"intset"),
    "an intset of 16 bits": (11, encode_string(intset(NUMBERS[1:], 2)), NUMBERS[1:], b"intset"),
    "a listpack": (20, encode_string(pack(list(map(text, NAMES)))), NAMES, b"listpack"),
}
SORTED_SETS = {
    "texts": (
        3,
        encode_length(6)
        + b"".join(encode_string(member) + old_score(score) for member, score in SCORES.items()),
        b"skiplist",
    ),
    "doubles": (
        5,
        encode_length(6)
        + b"".join(encode_string(member) + packed("<d", score) for member, score in SCORES.items()),
        b"skiplist",
    ),
    "a ziplist": (12, encode_string(ziplist(in_turn(SCORES))), b"listpack"),
    "a listpack": (17, encode_string(pack(list(map(text, in_turn(SCORES))))), b"listpack"),
}


@pytest.mark.parametrize("form", SETS)
def test_a_set_is_read_from(form):
    value_type, body, members, encoding = SETS[form]
    value = restore_value(payload(value_type, body))
    assert list(value) == members
    assert value.encoding == encoding


@pytest.mark.parametrize("form", SORTED_SETS)
def test_a_sorted_set_is_read_from(form):
    value_type, body, encoding = SORTED_SETS[form]
    value = restore_value(payload(value_type, body))
    assert state(value) == sorted((score, member) for member, score in SCORES.items())
    assert value.encoding == encoding


@pytest.mark.parametrize("version", [10, 11, 12, 14])
@pytest.mark.parametrize(
    "value",
    [
        Set(NAMES),
        Set([b"member %d" % number for number in range(3000)]),
        SortedSet(SCORES),
        SortedSet({b"member %d" % number: number / 3 for number in range(3000)}),
    ],
    ids=["small set", "large set", "small sorted set", "large sorted set"],
)
def test_what_is_written_is_read_back(value, version):
    assert state(restore_value(dump_value(value, version=version))) == state(value)
    keyspace, loaded = Keyspace(), Keyspace()
    keyspace.databases[0].add(b"k", value)
    list(load_rdb(ByteSource.of(b"".join(rdb_chunks(keyspace, version=version))), loaded))
    assert state(loaded.databases[0].entries[b"k"]) == state(value)
    assert (loaded.databases[0].entries[b"k"].encoding == b"listpack") == (len(value) < 10)


@pytest.mark.parametrize(
    ("value_type", "body"),
    [
        (2, encode_length(0)),
        (2, encode_length(2) + encode_string(b"a") * 2),
        (11, encode_string(intset([], 2))),
        (11, encode_string(intset([1, 1], 2))),
        (11, encode_string(intset([1, 2], 2)[:-1])),
        (11, encode_string(intset([1, 2], 3))),
        (20, encode_string(pack([]))),
        (20, encode_string(pack([text(b"a")] * 2))),
        (5, encode_length(0)),
        (5, encode_length(1) + encode_string(b"a") + packed("<d", float("nan"))),
        (5, encode_length(2) + (encode_string(b"a") + packed("<d", 1)) * 2),
        (3, encode_length(1) + encode_string(b"a") + b"\xfd"),
        (3, encode_length(1) + encode_string(b"a") + b"\x01x"),
        (17, encode_string(pack([text(b"a")]))),
        (17, encode_string(pack([text(b"a"), text(b"nan")]))),
        (17, encode_string(pack([text(b"a"), text(b"x")]))),
        (17, encode_string(pack([text(b"a"), text(b"1")] * 2))),
        (12, encode_string(ziplist([b"a", b"1", b"b"]))),
    ],
)
def test_a_damaged_set_is_refused(value_type, body):
    with pytest.raises(RdbError):
        restore_value(payload(value_type, body))


FORMS = [(value_type, body) for value_type, body, *_ in (*SETS.values(), *SORTED_SETS.values())]


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from(FORMS), st.data())
def test_damage_is_refused_or_harmless(form, data):
    value_type, body = form
    changed = bytearray(body)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(changed)), st.integers(1, len(changed))))
    try:
        value = restore_value(payload(value_type, bytes(changed[:cut])))
    except RdbError:
        return
    value.choose_encoding(Limits())
    assert state(restore_value(dump_value(value))) == state(value)


@pytest.fixture(scope="module")
def servers():
    with start_servers("rillet", *PEERS) as started:
        yield started


COMMANDS = [
    ("SADD", *NUMBERS),
    ("SADD", *range(600)),
    ("SADD", *NAMES),
    ("SADD", *(f"member {number}" for number in range(200))),
    ("SADD", "x" * 100),
    ("ZADD", "-inf", "low", "0.1", "a", "3", "12", "3", "b", "1e20", "", "inf", "high"),
    ("ZADD", *(word for number in range(200) for word in (number / 7, f"member {number}"))),
    ("ZADD", 1, "x" * 100),
]


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: f"{words[0]}-{len(words)}")
def test_payloads_go_both_ways(servers, peer, command):
    with servers["rillet"].wire() as mine, servers[peer].wire() as theirs:
        mine.call("CONFIG", "SET", "rdb-version", 10 if peer == "redis7" else 11)
        look = ("SMEMBERS", "k") if command[0] == "SADD" else ("ZRANGE", "k", 0, -1, "WITHSCORES")
        for here, there in ((mine, theirs), (theirs, mine)):
            here.call("DEL", "k")
            here.call(command[0], "k", *command[1:])
            data = here.call("DUMP", "k").plain()
            assert there.call("RESTORE", "k", 0, data, "REPLACE").plain() == b"OK"
            if command[0] == "SADD":
                assert sorted(here.call(*look).plain()) == sorted(there.call(*look).plain())
            else:
                assert list(map(number_or_name, here.call(*look).plain())) == list(
                    map(number_or_name, there.call(*look).plain())
                )
            if peer == "valkey":
                encoding = here.call("OBJECT", "ENCODING", "k").plain()
                assert there.call("OBJECT", "ENCODING", "k").plain() == encoding


def number_or_name(word):
    """7.0 spells scores with more digits."""
    try:
        return float(word)
    except ValueError:
        return word
