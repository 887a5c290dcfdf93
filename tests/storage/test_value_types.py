"""Every data type has a record, and what the record says of it fits together."""

import pytest
from support.fake_server import FakeServer, make_client, run

from rillet.protocol.requests import RequestParser
from rillet.server.debugging.digest import keyspace_digest
from rillet.storage.aof.rewrite import rewrite_commands
from rillet.storage.collections.base import Collection
from rillet.storage.freeing import Freeable
from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.keyspace.lazyfree import LazyFree
from rillet.storage.rdb import ByteSource, dump_value, load_rdb, rdb_chunks, restore_value
from rillet.storage.rdb.half_changed_values import mended
from rillet.storage.rdb.reader import BY_TYPE_BYTE
from rillet.storage.value_types import TYPES

LATER = 4_000_000_000_000
# Commands that make a value of each type at the key k, with all that a value of the type may hold.
SAMPLES = {
    "string": [("SET", "k", "x" * 300)],
    "list": [("RPUSH", "k", *range(300), "word", "")],
    "set": [("SADD", "k", *range(300), "word")],
    "zset": [("ZADD", "k", *(word for n in range(300) for word in (n / 3, f"m{n}")), "-inf", "low")],
    "hash": [
        ("HSET", "k", *(word for n in range(300) for word in (f"f{n}", n))),
        ("HPEXPIREAT", "k", LATER, "FIELDS", 2, "f1", "f2"),
    ],
    "stream": [
        *(("XADD", "k", f"{n}-1", "field", n) for n in range(1, 300)),
        ("XADD", "k", "IDMP", "producer", "iid", "*", "field", "value"),
        ("XDEL", "k", "7-1"),
        ("XGROUP", "CREATE", "k", "g", "0"),
        ("XGROUP", "CREATECONSUMER", "k", "g", "idle"),
        ("XREADGROUP", "GROUP", "g", "c", "COUNT", "200", "STREAMS", "k", ">"),
        ("XNACK", "k", "g", "FAIL", "IDS", 2, "3-1", "4-1"),
    ],
}  # fmt: skip
RDB_VERSIONS = (10, 11, 13, 14)


@pytest.fixture(params=SAMPLES)
def client(request):
    """A client of a server with one key, k, of the type."""
    client = make_client(server=FakeServer())
    for words in SAMPLES[request.param]:
        answer = run(client, *words)
        assert answer is None or not answer.startswith(b"-"), answer
    return client


@pytest.fixture
def value(client):
    return client.db.entries[b"k"]


def digest_of(value):
    return list(TYPES[type(value)].digest(value))


def test_every_type_has_a_sample_and_every_class_a_record():
    assert {each.name.decode() for each in TYPES.values()} == SAMPLES.keys()
    assert len({each.name for each in TYPES.values()}) == len(TYPES)
    assert set(Collection.__subclasses__()) <= TYPES.keys()
    assert all(issubclass(cls, (bytes, Freeable)) for cls in TYPES)


def test_every_type_byte_belongs_to_one_type():
    assert len(BY_TYPE_BYTE) == sum(len(each.codec.type_bytes) for each in TYPES.values())
    extensions = [each.codec.extension.field for each in TYPES.values() if each.codec.extension]
    assert len(set(extensions)) == len(extensions)


def test_a_copy_equals_it_and_shares_nothing(value):
    before = digest_of(value)
    twin = TYPES[type(value)].copy(value)
    assert digest_of(twin) == before
    if isinstance(value, Freeable):
        lazyfree = LazyFree()
        lazyfree.on_queued = lambda: None
        lazyfree.free_later(twin)
        del twin
        assert lazyfree.pending == 1  # it is not small
        steps = sum(iter(lazyfree.step, False))
        assert steps > 2
        assert lazyfree.freed == 1
    assert digest_of(value) == before


@pytest.mark.parametrize("version", RDB_VERSIONS)
def test_a_payload_restores_it(value, version):
    kind = TYPES[type(value)]
    fresh = restore_value(dump_value(value, version=version))
    assert type(fresh) is type(value)
    if kind.codec.extension is None or not kind.codec.extension.encode(
        value, kind.codec.type_of(value, version)
    ):
        assert digest_of(fresh) == digest_of(value)


@pytest.mark.parametrize("version", RDB_VERSIONS)
def test_a_file_restores_it_with_what_its_type_byte_cannot_express(client, value, version):
    fresh = Keyspace()
    list(load_rdb(ByteSource.of(b"".join(rdb_chunks(client.server.keyspace, version=version))), fresh))
    restored = fresh.databases[0].entries[b"k"]
    assert digest_of(restored) == digest_of(value)
    assert TYPES[type(value)].encoding(restored) == TYPES[type(value)].encoding(value)
    if version == max(RDB_VERSIONS):
        assert fresh.databases[0].field_due.when == client.db.field_due.when
        assert len(fresh.idempotent) == len(client.server.keyspace.idempotent)


# The words of the longest command that a rewrite makes of each type: of 64 elements, two words each or one.
LONGEST = {"list": 66, "set": 66, "zset": 130}


def test_the_commands_of_a_rewrite_create_it(client, value):
    other = make_client(server=FakeServer())
    commands = RequestParser().feed(b"".join(rewrite_commands(client.server.keyspace)))
    for argv in commands:
        run(other, *argv)
    longest = max(map(len, commands))
    assert longest == LONGEST.get(TYPES[type(value)].name.decode(), longest)
    assert keyspace_digest(other.server.keyspace) == keyspace_digest(client.server.keyspace)


def test_its_repair_changes_nothing_that_is_whole(client, value):
    if not isinstance(value, bytes):
        fresh, payload = mended(value, 14, (100, 100), client.server.keyspace.limits)
        assert payload
        assert digest_of(fresh) == digest_of(value)
