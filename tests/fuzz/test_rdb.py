"""Dump files with right checksums: refused with a clear error, or loaded with values that can be used."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

from fuzz.engine import Fuzzer, cuts, mutate
from fuzz.starts import start

from rillet.server.debugging.digest import keyspace_digest, value_digest
from rillet.storage.codecs.crc64 import crc64
from rillet.storage.groups.stream_value import make_whole
from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.rdb import ByteSource, RdbError, dump_value, load_rdb, rdb_chunks, restore_value
from rillet.storage.rdb.check import check_rdb
from rillet.storage.streams.chunk import DamagedError
from rillet.storage.streams.stream import Stream

fuzzer = Fuzzer("rdb")

# One input in so many is also the dump file of a real start.
_STARTS = 150


def signed(data: bytes) -> bytes:
    """The same with a right checksum."""
    return data[:-8] + crc64(data[:-8]).to_bytes(8, "little")


def load(data: bytes, *, sanitize: bool = True) -> Keyspace:
    keyspace = Keyspace()
    for _ in load_rdb(ByteSource.of(data), keyspace, sanitize=sanitize):
        pass
    return keyspace


def check(data: bytes) -> None:
    data = signed(data)
    with tempfile.TemporaryDirectory(prefix="rillet-rdb-") as folder:
        path = Path(folder) / "dump.rdb"
        path.write_bytes(data)
        said: list[str] = []
        sound = check_rdb(path, said.append, now=0)
        assert said
        try:
            keyspace = load(data)
        except RdbError as error:
            assert str(error)  # noqa: PT017 - one of two good outcomes
            keyspace = None
        if keyspace is not None:
            assert sound, said
            check_values(keyspace)
        check_kept(data, keyspace)
        if crc64(data[:-8]) % _STARTS == 0:
            start(Path(folder))


def check_kept(data: bytes, checked: Keyspace | None) -> None:
    """Without a check at once the values are the same; where that would have failed, it fails when they are read."""
    try:
        keyspace = load(data, sanitize=False)
    except RdbError as error:
        assert str(error)  # noqa: PT017 - one of two good outcomes
        assert checked is None
        return
    try:
        found = keyspace_digest(keyspace)
    except DamagedError as error:
        assert str(error)  # noqa: PT017 - one of two good outcomes
        assert checked is None
        for database in keyspace.databases:
            for value in database.entries.values():
                if type(value) is Stream:
                    make_whole(value)
        check_values(keyspace)
    else:
        assert checked is None or found == keyspace_digest(checked)


def check_values(keyspace: Keyspace) -> None:
    """What was loaded can be written and read again, value by value and as a whole."""
    for database in keyspace.databases:
        for name in list(database.visible_keys()):
            fresh = Keyspace().databases[0]
            fresh.add(name, restore_value(dump_value(database.entries[name], version=14)))
            assert value_digest(fresh, name) == value_digest(database, name), name
    again = load(b"".join(rdb_chunks(keyspace, version=14)))
    assert keyspace_digest(again) == keyspace_digest(keyspace)


def generate(chance: Random, corpus: Sequence[bytes]) -> bytes:
    data = chance.choice(corpus)
    # Not the magic and the version, which would hide the rest.
    return data[:9] + mutate(chance, data[9:-8], corpus, most=6) + data[-8:]


@fuzzer.seeds
def test_a_known_file_is_refused_or_loaded(seed):
    fuzzer.check_once(check, seed)


@fuzzer.seeds
def test_a_file_cut_anywhere_is_refused(seed):
    for at in cuts(seed):
        try:
            load(seed[:at])
        except RdbError as error:
            assert str(error)  # noqa: PT017 - one of two good outcomes
        else:
            raise AssertionError(at)


def test_a_mutated_file_is_refused_or_loaded():
    fuzzer.run(check, generate)
