"""Hashes in files and payloads: every form is read, and damage is refused."""

import pytest
from support.payloads import payload, ziplist

from rillet.storage.codecs.encoding import encode_length, encode_string
from rillet.storage.codecs.listpack import integer, pack, text
from rillet.storage.collections.encoding_limits import Limits
from rillet.storage.collections.hash import Hash
from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.rdb import ByteSource, RdbError, dump_value, load_rdb, rdb_chunks, restore_value

SMALL = [(b"a", b"1"), (b"field", b"some value"), (b"-12", b"\x00\r\n"), (b"", b"70000")]
LARGE = [(b"field %d" % number, b"x" * (number % 90)) for number in range(700)]
LATER = 33_177_117_420_000
TIMES = {b"a": LATER, b"-12": LATER + 5}


def make(pairs, times=()):
    value = Hash()
    for field, content in pairs:
        value.set(field, content, Limits())
    for field, when in dict(times).items():
        value.expire(field, when)
    return value


def state(value):
    assert type(value) is Hash
    return value.fields, value.times.when if value.times else {}


def short_zipmap(pairs):
    return bytes((len(pairs),)) + b"".join(
        bytes((len(field),)) + field + bytes((len(content), 2)) + content + b"??" for field, content in pairs
    )


WORDS = [word for pair in SMALL for word in pair]
FORMS = {
    "a zipmap": (9, encode_string(short_zipmap(SMALL) + b"\xff"), {}),
    "a ziplist": (13, encode_string(ziplist(WORDS)), {}),
    "a listpack": (16, encode_string(pack([text(word) for word in WORDS])), {}),
    "a listpack with times of a candidate": (
        23,
        encode_string(
            pack(
                [
                    each
                    for field, content in SMALL
                    for each in (text(field), text(content), integer(TIMES.get(field, 0)))
                ]
            )
        ),
        TIMES,
    ),
    "a listpack with times": (
        25,
        LATER.to_bytes(8, "little")
        + encode_string(
            pack(
                [
                    each
                    for field, content in SMALL
                    for each in (text(field), text(content), integer(TIMES.get(field, 0)))
                ]
            )
        ),
        TIMES,
    ),
    "a table with times of a candidate": (
        22,
        encode_length(4)
        + b"".join(
            encode_length(TIMES.get(field, 0)) + encode_string(field) + encode_string(content)
            for field, content in SMALL
        ),
        TIMES,
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_hash_is_read_from(form):
    value_type, body, times = FORMS[form]
    assert state(restore_value(payload(value_type, body))) == (dict(SMALL), times)


@pytest.mark.parametrize("pairs", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("times", [{}, {b"a": LATER, b"field 3": LATER + 1}], ids=["lasting", "expiring"])
def test_a_payload_is_read_back(pairs, times):
    value = make(pairs, {field: when for field, when in times.items() if field in dict(pairs)})
    for version in (10, 11, 12, 14):
        assert state(restore_value(dump_value(value, version=version))) == state(value)


def test_only_a_payload_with_times_says_that_it_is_newer():
    assert dump_value(make(SMALL), version=10)[-10:-8] == b"\x0a\x00"
    assert dump_value(make(SMALL, TIMES), version=10)[-10:-8] == b"\x0c\x00"
    assert dump_value(make(SMALL, TIMES), version=14)[-10:-8] == b"\x0e\x00"


@pytest.mark.parametrize(
    ("value_type", "body"),
    [
        (4, encode_length(0)),
        (4, encode_length(2) + encode_string(b"a") * 4),
        (16, encode_string(pack([text(b"a")]))),
        (16, encode_string(pack([]))),
        (16, encode_string(pack([text(b"a")] * 4))),
        (25, LATER.to_bytes(8, "little") + encode_string(pack([text(b"a"), text(b"b"), text(b"c")]))),
        (25, LATER.to_bytes(8, "little") + encode_string(pack([text(b"a"), text(b"b"), integer(-1)]))),
        (24, b"\xff" * 8 + encode_length(1) + encode_length(5) + encode_string(b"a") * 2),
        (9, encode_string(b"\x01\x05a")),
        (9, encode_string(b"\x01\x01a\x01\x00b\xff\xff")),
    ],
    ids=[
        "no fields", "a field twice", "no value", "an empty listpack", "a field twice in a listpack",
        "a time that is no number", "a time before time began", "a time after all time", "a zipmap cut off",
        "a zipmap that goes on",
    ],
)  # fmt: skip
def test_a_damaged_hash_is_refused(value_type, body):
    with pytest.raises(RdbError):
        restore_value(payload(value_type, body))


def test_times_that_name_a_missing_field_are_damage():
    keyspace = Keyspace()
    keyspace.databases[0].add(b"h", make(SMALL, TIMES))
    data = b"".join(rdb_chunks(keyspace, version=11, checksum=False))
    assert data.count(b"-12") == 0  # it is written as an integer, in the hash and behind it
    at = data.rindex(b"\xc0\xf4")
    with pytest.raises(RdbError, match="field of a hash that is not there"):
        list(load_rdb(ByteSource.of(data[:at] + b"\xc0\x63" + data[at + 2 :]), Keyspace()))
