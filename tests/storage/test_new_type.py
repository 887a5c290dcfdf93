"""A data type that only its class, its codec and its record know works wherever values of any type do."""

from collections.abc import Iterable, Iterator

import pytest
from support.alone import Alone
from support.wire import encode_command, parse

from rillet.protocol.replies import command
from rillet.server.debugging.digest import keyspace_digest
from rillet.storage.aof.rewrite import rewrite_commands
from rillet.storage.codecs.codec import Codec
from rillet.storage.codecs.encoding import encode_string, read_string
from rillet.storage.freeing import Freeable
from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.keyspace.memory import memory_of_database
from rillet.storage.rdb import ByteSource, load_rdb, rdb_chunks
from rillet.storage.rdb.reader import BY_TYPE_BYTE
from rillet.storage.value_types import TYPES, ValueType

TYPE_BYTE = 99


class Pile(Freeable):
    """Words, one above the other."""

    def __init__(self, words: Iterable[bytes] = ()) -> None:
        self.words = list(words)

    def __len__(self) -> int:
        return len(self.words)

    def parts(self) -> Iterable[object]:
        return (self.words,)


def read(source: ByteSource, _value_type: int, _valkey: bool) -> Iterator[Pile | None]:
    yield Pile(read_string(source).split())


PILE = ValueType(
    b"pile",
    Pile,
    lambda: Codec((TYPE_BYTE,), read, lambda _value, _version: TYPE_BYTE, lambda value, *_: iter((encode_string(b" ".join(value.words)),))),
    rewrite=lambda value, key, _defaults: iter((command((b"PILE", key, *value.words)),)),
    rewritten_bytes=lambda value, _key: 10 * len(value),
    copy=lambda value: Pile(value.words),
    digest=lambda value: iter(value.words),
    memory=lambda value, _samples: 1000 * len(value),
    encoding=lambda _value: b"heap",
    serialized_bytes=len,
    choose_encoding=lambda _value, _limits: None,
    make_whole=lambda value: len(value) > 0,
    sizes="piles_items",
)  # fmt: skip


@pytest.fixture
def alone(monkeypatch):
    """A server with a pile of three words at the key k."""
    monkeypatch.setitem(TYPES, Pile, PILE)
    monkeypatch.setitem(BY_TYPE_BYTE, TYPE_BYTE, PILE)
    alone = Alone()
    alone.server.keyspace.databases[0].put(b"k", Pile([b"a", b"b", b"c"]))
    return alone


def call(alone: Alone, *words: str | bytes | int) -> object:
    written = alone.clients[0].transport.written
    written.clear()
    alone.send(0, encode_command(*words))
    node, _ = parse(b"".join(written))
    return node.value if node.kind in "-+" else node.plain()


def test_commands_for_keys_of_any_type_know_it(alone):
    assert call(alone, "TYPE", "k") == b"pile"
    assert call(alone, "SCAN", 0, "TYPE", "pile") == [b"0", [b"k"]]
    assert call(alone, "OBJECT", "ENCODING", "k") == b"heap"
    assert call(alone, "MEMORY", "USAGE", "k") > 3000
    assert b"db0_distrib_piles_items:2=1" in call(alone, "INFO", "keysizes")
    assert call(alone, "GET", "k").startswith(b"WRONGTYPE")
    assert call(alone, "RENAME", "k", "l") == b"OK"
    assert call(alone, "UNLINK", "l") == 1
    assert call(alone, "TYPE", "l") == b"none"


def test_it_is_copied_dumped_and_restored(alone):
    assert call(alone, "COPY", "k", "copied") == 1
    assert call(alone, "RESTORE", "restored", 0, call(alone, "DUMP", "k")) == b"OK"
    entries = alone.server.keyspace.databases[0].entries
    assert entries[b"copied"] is not entries[b"k"]
    assert [entries[key].words for key in (b"k", b"copied", b"restored")] == [[b"a", b"b", b"c"]] * 3


def test_files_hold_it(alone):
    fresh = Keyspace()
    list(load_rdb(ByteSource.of(b"".join(rdb_chunks(alone.server.keyspace))), fresh))
    assert fresh.databases[0].entries[b"k"].words == [b"a", b"b", b"c"]
    assert keyspace_digest(fresh) == keyspace_digest(alone.server.keyspace) != keyspace_digest(Keyspace())
    assert b"".join(rewrite_commands(alone.server.keyspace)).endswith(
        encode_command("PILE", "k", "a", "b", "c")
    )


def test_the_memory_limit_counts_it(alone):
    database = alone.server.keyspace.databases[0]
    before = memory_of_database(database)
    call(alone, "COPY", "k", "copied")
    assert memory_of_database(database) - before > 3000
