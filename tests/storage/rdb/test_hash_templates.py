"""Hashes that HIMPORT of Redis 8.10.2 made: in its files, its payloads and for its replicas their names are shared."""

import pytest
from differential.pairs import PAIRS
from support.aof import rewrite
from support.deployments.replication import follow, in_step
from support.servers import start_server

from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.rdb import ByteSource, RdbError, load_rdb

FIELDS = ["f", "g", "a longer name", "7"]
HASHES = {
    "small": ["1", "-2", "v", ""],
    "large": ["x" * 70, "12", "v" * 5000, "3"],
    "numbers": ["9223372036854775807", "-9223372036854775808", "0", "1.5"],
    "again": ["1", "2", "3", "4"],
}
CHANGES = (
    "HSET small new 5",
    "HDEL numbers g",
    "HSET again f " + "y" * 80,
    "HPEXPIREAT large 33177117420123 FIELDS 1 f",
)
AOF = ("--appendonly", "yes", "--enable-debug-command", "yes", "--aof-use-rdb-preamble", "yes")


def fill(wire):
    wire.call("HIMPORT", "PREPARE", "some", *FIELDS)
    for key, values in HASHES.items():
        assert wire.call("HIMPORT", "SET", key, "some", *values).value == b"OK"
    many = [f"field{number}" for number in range(700)]
    wire.call("HIMPORT", "PREPARE", "many", *many)
    wire.call("HIMPORT", "SET", "many", "many", *(f"value{number}" for number in range(700)))
    for line in CHANGES:
        wire.call(*line.split())
    wire.call("SELECT", 1)
    wire.call("HIMPORT", "SET", "elsewhere", "some", *HASHES["small"])
    assert wire.call("OBJECT", "ENCODING", "elsewhere").value == b"template-listpack"
    wire.call("SELECT", 0)


def contents(wire):
    seen = {}
    for database in (0, 1):
        wire.call("SELECT", database)
        for key in wire.call("KEYS", "*").plain():
            value = wire.call("HGETALL", key).plain()
            seen[database, key] = sorted(zip(value[::2], value[1::2], strict=True))
    wire.call("SELECT", 0)
    return seen


@pytest.fixture
def real():
    with start_server("redis810", *AOF) as server, server.wire() as wire:
        fill(wire)
        yield server, wire


def test_a_dump_file_with_them_is_loaded(real):
    server, wire = real
    wire.call("SAVE")
    with (server.dir / "dump.rdb").open("rb") as file:
        keyspace = Keyspace()
        assert [*load_rdb(ByteSource(file.read), keyspace)][-1:] in ([], [None])
    found = {
        (database.index, key): sorted(value.fields.items())
        for database in keyspace.databases
        for key, value in database.entries.items()
    }
    assert found == contents(wire)
    assert len(found) == len(HASHES) + 2


@pytest.mark.parametrize("rewritten", [False, True])
def test_an_append_only_file_with_them_is_loaded(real, rewritten):
    server, wire = real
    if rewritten:
        rewrite(wire)
    expected = contents(wire)
    server.stop()
    with start_server("rillet", *AOF, folder=server.dir) as mine, mine.wire() as other:
        assert contents(other) == expected


@pytest.mark.parametrize("key", [*HASHES, "many"])
def test_a_payload_of_one_is_restored(real, running, key):
    _, wire = real
    with running("rillet").wire() as other:
        other.call("FLUSHALL")
        payload = wire.call("DUMP", key).plain()
        assert other.call("RESTORE", key, 0, payload).value == b"OK"
        assert contents(other)[0, key.encode()] == contents(wire)[0, key.encode()]


def test_a_replica_gets_them_by_the_snapshot_and_by_the_stream(real):
    server, wire = real
    with start_server("rillet") as mine, mine.wire() as other:
        follow(mine, server.port)
        in_step(server, mine)
        assert contents(other) == contents(wire)
        wire.call("FLUSHALL")
        fill(wire)  # HIMPORT SET is propagated as RESTORE of a payload whose checksum is 0
        in_step(server, mine)
        assert contents(other) == contents(wire) != {}


@pytest.mark.parametrize(("mine", "real"), PAIRS)
def test_a_payload_without_checksum_is_taken_where_the_real_server_takes_it(running, mine, real):
    answers = []
    for kind in (mine, real):
        with running(kind).wire() as wire:
            wire.call("FLUSHALL")
            wire.call("SET", "s", "hello")
            payload = wire.call("DUMP", "s").plain()
            functions = wire.call("FUNCTION", "DUMP").plain()
            answers.append(
                [
                    wire.call("RESTORE", "k", 0, payload[:-8] + bytes(8)),
                    wire.call("RESTORE", "l", 0, payload[:-8] + bytes(7) + b"\x01"),
                    wire.call("FUNCTION", "RESTORE", functions[:-8] + bytes(8)),
                ]
            )
    assert answers[0] == answers[1]


NAMES = bytes.fromhex("00 10 10000000 0300 816602 816702 816e02 ff")
VALUES = bytes.fromhex("0f 0f000000 0400 0001 0101 0201 0301 ff")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"\xf2\x00\x01\x01f\xf2\x00\x01\x01g", "whose number is taken"),
        (b"\x1e\x01h" + VALUES, "is not there"),
        (b"\x20\x01h\x05\x01v", "is not there"),
        (b"\xf2\x00\x02\x01f\x01g\x1e\x01h" + VALUES, "field without value"),
        (b"\x1d\x01h\x02" + NAMES[1:] + VALUES, "unknown form"),
        (b"\x1d\x01h\x01\x01\x01f" + VALUES, "field without value"),
        (b"\xf2\x00\x02\x01f\x01f\x20\x01h\x00\x01v\x01w", "a field twice"),
        (b"\xf2\x00\x00\x20\x01h\x00", "without fields"),
    ],
)
def test_damaged_ones_are_refused(body, error):
    with pytest.raises(RdbError, match=error):
        list(load_rdb(ByteSource.of(b"REDIS0015" + body + b"\xff" + bytes(8)), Keyspace()))
