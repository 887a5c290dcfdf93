"""Streams that change their names: everything that one ever had, whatever its name was then."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.servers import start_server
from support.thorough import examples
from support.wire import encode_command as record

from rillet.pipeline.jobs.entries import read_entries
from rillet.pipeline.ledger.entries import find_contents
from rillet.pipeline.redis import ids

NAMES = ("a", "b", "c")


def numbers(source, stream="s", db=0):
    return [each.stream_id >> 64 for each in read_entries(source, stream, 0, ids.MAX_ID, db=db)]


class Model:
    """What streams there are, each with all that it ever had; and what each name ever stood for."""

    def __init__(self):
        self.db = 0
        self.streams = {}
        self.ever = {}
        self.file = bytearray(record("SELECT", "0"))

    def put(self, place, past):
        self.streams[place] = set(past)
        self.ever.setdefault(place, []).append(self.streams[place])

    def do(self, *words):
        getattr(self, words[0])(*words[1:])
        self.file += record(*map(str, words))

    def select(self, db):
        self.db = db

    def xadd(self, key, entry_id, *_):
        place = (self.db, key)
        if place not in self.streams:
            self.put(place, set())
        self.streams[place].add(entry_id)

    def unlink(self, key):
        self.streams.pop((self.db, key), None)

    def set(self, key, _value):
        self.unlink(key)

    def rename(self, key, target):
        if key != target:
            self.put((self.db, target), self.streams.pop((self.db, key)))

    def move(self, key, db):
        self.put((db, key), self.streams.pop((self.db, key)))

    def copy(self, key, target, _db, db, _replace):
        self.put((db, target), self.streams[self.db, key])

    def swapdb(self, one, other):
        swapped = {one: other, other: one}
        before, self.streams = self.streams, {}
        for (db, key), past in before.items():
            self.put((swapped[db], key), past)

    def flushdb(self):
        self.streams = {place: past for place, past in self.streams.items() if place[0] != self.db}


@st.composite
def stories(draw):
    model = Model()
    for number in range(1, draw(st.integers(1, 30))):
        here = [key for db, key in model.streams if db == model.db]
        kinds = "xadd xadd xadd select unlink set flushdb swapdb".split() + ["rename", "move", "copy"] * bool(
            here
        )
        kind = draw(st.sampled_from(kinds))
        name, db = draw(st.sampled_from(NAMES)), draw(st.integers(0, 1))
        if kind == "xadd":
            # Time goes on, or does not: other streams and those that were created again have greater ids already.
            n = draw(st.one_of(st.just(number), st.integers(1, 30)))
            if n > max(model.streams.get((model.db, name), {0}), default=0):
                model.do(kind, name, n, "n", n)
        elif kind in {"unlink", "set"}:
            model.do(kind, name, *["x"] * (kind == "set"))
            if kind == "set":
                model.do("unlink", name)
        elif kind in {"select", "flushdb"}:
            model.do(kind, *[db] * (kind == "select"))
        elif kind == "swapdb":
            model.do(kind, 0, 1)
        elif kind == "rename":
            model.do(kind, draw(st.sampled_from(here)), name)
        elif kind == "move":
            key = draw(st.sampled_from(here))
            if (1 - model.db, key) not in model.streams:
                model.do(kind, key, 1 - model.db)
        else:
            key = draw(st.sampled_from(here))
            if (model.db, key) != (db, name):
                model.do(kind, key, name, "DB", db, "REPLACE")
    return model


@settings(max_examples=examples(60))
@given(stories())
def test_a_name_has_all_that_its_streams_ever_had(tmp_path_factory, model):
    path = tmp_path_factory.mktemp("aof") / "one.aof"
    path.write_bytes(model.file)
    for db in (0, 1):
        for name in NAMES:
            wanted = set().union(*model.ever.get((db, name), []))
            assert numbers(path, name, db) == sorted(wanted)
    asked = {(db, name, f"{number}-0") for db in (0, 1) for name in NAMES for number in range(1, 31)}
    assert find_contents(str(path), asked) == {
        (db, name, entry_id): [b"n", entry_id.removesuffix("-0").encode()]
        for db, name, entry_id in asked
        if any(int(entry_id.removesuffix("-0")) in past for past in model.ever.get((db, name), []))
    }


@pytest.mark.parametrize("preamble", ["yes", "no"])
@pytest.mark.parametrize("kind", ["rillet", "redis7"])
def test_streams_are_followed_through_real_files(kind, preamble):
    flags = ("--appendonly", "yes", "--aof-use-rdb-preamble", preamble)
    with start_server(kind, *flags) as server:
        with server.wire() as connection:

            def add(stream, *chosen):
                for n in chosen:
                    connection.call("XADD", stream, f"{n}-0", "n", str(n))

            add("today", 1, 2, 3)
            add("s", 100)
            connection.call("BGREWRITEAOF")  # the base has the two
            while b"aof_rewrite_in_progress:1" in connection.call("INFO", "persistence").value:
                pass
            add("today", 4)
            connection.call("XDEL", "today", "2-0")
            connection.call("RENAME", "today", "s")
            add("today", 50)
            add("s", 5)
            payload = connection.call("DUMP", "s").value
            connection.call("COPY", "s", "copy")
            add("s", 6)
            connection.call("DEL", "s")
            add("s", 200)
            connection.call("SET", "word", "x")
            connection.call("RESTORE", "word", "0", connection.call("DUMP", "word").value, "REPLACE")
            connection.call("RESTORE", "restored", "0", payload)
            add("restored", 7)
        server.stop()
        folder = server.dir / "appendonlydir"
        assert numbers(folder, "today") == [1, 2, 3, 4, 50]
        assert numbers(folder, "s") == [1, 2, 3, 4, 5, 6, 100, 200]
        assert numbers(folder, "copy") == [1, 2, 3, 4, 5]
        # A payload has no past.
        assert numbers(folder, "restored") == [1, 3, 4, 5, 7]
        assert numbers(folder, "word") == []
        [entry] = read_entries(folder, "restored", ids.join(3), ids.join(3))
        assert entry.words == [b"n", b"3"]
        asked = [(0, "s", "6-0"), (0, "today", "100-0"), (0, "s", "2-0"), (0, "copy", "1-0")]
        assert find_contents(str(folder), asked) == {
            (0, "s", "6-0"): [b"n", b"6"], (0, "s", "2-0"): [b"n", b"2"], (0, "copy", "1-0"): [b"n", b"1"],
        }  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["XADD s 1 n 1", "XADD t 50 n 1", "XADD s 2 n 1", "XADD t 51 n 1", "RENAME t s"], [1, 2, 50, 51]),
        (["XADD s 50 n 1", "DEL s", "XADD s 1 n 1", "XADD s 60 n 1"], [1, 50, 60]),
        (["XADD s 5 n 1", "XADD s 6 n 1", "XDEL s 5 6", "XSETID s 0-0", "XADD s 2 n 1", "XADD s 5 n 1"], [2, 5, 6]),
        (["XADD s 1 n 1", "RENAME s t", "COPY t s", "XADD s 2 n 1", "XADD t 3 n 1"], [1, 2]),
        (["XADD t 1 n 1", "RENAME t s", "RENAME s u", "XADD u 2 n 1"], [1]),
        (["XADD s IDMP p i * n 1", "XADD s 7 n 1"], [7]),
    ],
    ids=["at the same time", "created again", "set back", "there and back", "in passing", "repeated"],
)  # fmt: skip
def test_ids_rise_whatever_became_of_the_stream(lines, wanted, tmp_path):
    path = tmp_path / "one.aof"
    path.write_bytes(record("SELECT", "0") + b"".join(record(*line.split()) for line in lines))
    assert numbers(path) == wanted


def test_an_id_that_was_given_twice_is_that_of_the_later_entry(tmp_path):
    path = tmp_path / "one.aof"
    lines = ("SELECT 3", "XADD s 1-0 n old", "DEL s", "XADD s 1-0 n new more 2", "XADD other 1-0 n other")
    path.write_bytes(b"".join(record(*line.split()) for line in lines))
    assert find_contents(str(path), [(3, "s", "1-0"), (0, "s", "1-0")]) == {
        (3, "s", "1-0"): [b"n", b"new", b"more", b"2"]
    }
    assert find_contents(str(path), []) == {}
