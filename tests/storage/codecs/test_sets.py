"""Sets and sorted sets in files and payloads: every form is read, and damage is refused."""

from math import inf
from struct import pack as packed

import pytest
from support.payloads import payload, ziplist

from rillet.storage.codecs.encoding import encode_length, encode_string
from rillet.storage.codecs.listpack import pack, text
from rillet.storage.collections.set import LISTPACK, Set
from rillet.storage.collections.sorted_set import SortedSet
from rillet.storage.rdb import RdbError, dump_value, restore_value

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


@pytest.mark.parametrize(
    ("version", "value_type", "encoding"), [(11, 20, b"listpack"), (10, 2, b"hashtable")]
)
def test_a_listpack_of_integers_stays_one_for_readers_that_know_listpacks(version, value_type, encoding):
    written = dump_value(Set([b"9", b"-3", b"70000"], LISTPACK), version=version)
    assert written[0] == value_type
    value = restore_value(written)
    assert list(value) == [b"9", b"-3", b"70000"]
    assert value.encoding == encoding


@pytest.mark.parametrize("form", SORTED_SETS)
def test_a_sorted_set_is_read_from(form):
    value_type, body, encoding = SORTED_SETS[form]
    value = restore_value(payload(value_type, body))
    assert state(value) == sorted((score, member) for member, score in SCORES.items())
    assert value.encoding == encoding


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
