"""XADD IDMP and IDMPAUTO, XCFGSET, XIDMPRECORD, what XINFO STREAM shows of them, and what is propagated."""

import hiredis
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fake_server import FakeServer, make_client, reply, run
from support.groups import effects
from support.invariants import check_invariants
from support.thorough import examples

from rillet.storage.aof.rewrite import rewrite_commands

NOW = 1_700_000_000_000


def do(client, text):
    return run(client, *text.encode().split())


def add(client, text="IDMP p a", fields="f v"):
    """XADD with options; the ID."""
    return reply(client, *f"XADD s {text} * {fields}".split())


def info(client, *names):
    words = reply(client, "XINFO", "STREAM", "s")
    found = dict(zip(words[::2], words[1::2], strict=True))
    return [found[name.encode()] for name in names]


def tracked(client):
    return info(client, "pids-tracked", "iids-tracked", "iids-added", "iids-duplicates")


# What is forgotten


def test_the_time_in_the_id_counts_not_that_of_adding(client):
    do(client, "XADD s 1700000060000-0 f v")
    first = add(client)  # 1700000060000-1
    client.server.advance(100_000)
    assert add(client) == first
    client.server.advance(60_000)
    assert add(client) != first


def test_the_server_forgets_by_itself(client):
    keyspace = client.server.keyspace
    add(client)
    add(client, "IDMP q a")
    client.server.advance(60_000)
    add(client, "IDMP q b")
    keyspace.expire_idempotent()
    assert len(keyspace.idempotent) == 1
    client.server.advance(40_000)
    keyspace.expire_idempotent()
    assert {pid: list(known) for pid, known in client.db.entries[b"s"].idempotency.producers.items()} == {
        b"q": [b"b"]
    }
    client.server.advance(60_000)
    keyspace.expire_idempotent()
    assert not keyspace.idempotent
    assert tracked(client) == [0, 0, 3, 0]
    assert effects(client)[-1].startswith("XADD")


def test_a_stream_that_is_gone_is_not_kept(client):
    add(client)
    del client.db.entries[b"s"]
    assert not client.server.keyspace.idempotent


# Settings


def test_streams_keep_the_settings_they_were_made_with(client):
    do(client, "XADD s * f v")
    do(client, "XADD t * f v")
    do(client, "XCFGSET t IDMP-DURATION 9")
    client.server.keyspace.set_idempotency_defaults(50, 60)
    do(client, "XADD u * f v")
    settings = [reply(client, "XINFO", "STREAM", key)[15:18:2] for key in ("s", "t", "u")]
    assert settings == [[100, 100], [9, 100], [50, 60]]


# Copies, logs


def replay(commands):
    """A server that has loaded a log of the past century."""
    server = FakeServer(now=NOW + 3_000_000_000_000)
    loader = make_client(server=server)
    loader.trusted = loader.replays = True
    server.keyspace.expiring = False
    for argv in commands:
        run(loader, *argv)
    server.keyspace.expiring = True
    return loader


def test_a_log_is_read_as_it_was_written(client):
    add(client)
    add(client)
    add(client, "IDMPAUTO p", "x y")
    client.server.advance(100_000)
    again = add(client)  # forgotten, so it is a new one
    loader = replay(client.server.propagation.take())
    assert reply(loader, "XLEN", "s") == 3
    state = loader.db.entries[b"s"].idempotency
    assert (state.added, state.duplicates, state.tracked) == (3, 1, 2)
    assert state.find(b"p", b"a") == client.db.entries[b"s"].last_id
    assert again == b"1700000100000-0"


def test_a_duplicate_in_a_log_adds_nothing_even_where_its_iid_is_no_longer_known():
    loader = replay([b"XADD s 1-0 f v".split(), b"XADD s IDMP p a * f v".split()])
    assert reply(loader, "XLEN", "s") == 1


def rewritten(client):
    data = b"".join(rewrite_commands(client.server.keyspace))
    reader = hiredis.Reader()
    reader.feed(data)
    commands = []
    while (argv := reader.gets()) is not False:
        commands.append(argv)
    return [argv for argv in commands if argv[0] != b"SELECT"]


def test_a_rewritten_log_states_settings_that_differ_and_iids_whose_entry_is_there(client):
    do(client, "XADD s * f v")
    add(client, "IDMP p gone")
    run(client, "XDEL", "s", f"{NOW}-1")
    add(client, "IDMP p a")
    add(client, "IDMP o b")
    assert [b" ".join(argv).decode() for argv in rewritten(client)][-2:] == [
        f"XIDMPRECORD s p a {NOW}-2",
        f"XIDMPRECORD s o b {NOW}-3",
    ]
    do(client, "XCFGSET s IDMP-MAXSIZE 7")
    add(client, "IDMP p c")
    commands = rewritten(client)
    assert [b" ".join(argv).decode() for argv in commands][-2:] == [
        "XCFGSET s IDMP-DURATION 100 IDMP-MAXSIZE 7",
        f"XIDMPRECORD s p c {NOW}-4",
    ]
    state = replay(commands).db.entries[b"s"].idempotency
    assert (state.duration, state.maxsize) == (100, 7)
    assert state.producers == client.db.entries[b"s"].idempotency.producers


# A model


class Model:
    """The rules on plain dicts: `iids` is {pid: [(iid, ms, seq)]} in order of recording."""

    def __init__(self):
        self.now, self.last, self.entries = NOW, (0, 0), {}
        self.duration = self.maxsize = 100
        self.iids, self.added, self.duplicates = {}, 0, 0

    def add(self, pid, iid):
        limit = self.now - self.duration * 1000
        kept = [(name, entry) for name, entry in self.iids.get(pid, []) if entry[0] > limit]
        for name, entry in kept:
            if name == iid:
                self.duplicates += 1
                return entry
        self.last = (self.now, 0) if self.now > self.last[0] else (self.last[0], self.last[1] + 1)
        self.entries[self.last] = True
        if pid is not None:
            self.iids[pid] = [*kept, (iid, self.last)][-self.maxsize :]
            self.added += 1
        return self.last

    def configure(self, duration, maxsize):
        if (duration, maxsize) != (self.duration, self.maxsize):
            self.duration, self.maxsize, self.iids = duration, maxsize, {}

    def look(self):
        limit = self.now - self.duration * 1000
        living = [[entry for _, entry in known if entry[0] > limit] for known in self.iids.values()]
        return [
            len(self.entries), self.duration, self.maxsize, sum(map(bool, living)), sum(map(len, living)),
            self.added, self.duplicates,
        ]  # fmt: skip


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("pq"), st.sampled_from("abcde")),
        st.tuples(st.just("add"), st.sampled_from("pq"), st.sampled_from("abcde")),
        st.tuples(st.just("add"), st.none(), st.none()),
        st.tuples(st.just("configure"), st.sampled_from([2, 3]), st.sampled_from([2, 4])),
        st.tuples(st.just("wait"), st.sampled_from([1, 900, 1000, 2500])),
        st.tuples(st.just("delete"), st.integers(0, 5)),
        st.tuples(st.just("cron")),
    ),
    max_size=40,
)


@settings(max_examples=examples(200))
@given(STEPS)
def test_it_does_what_plain_dicts_do(steps):
    client, model = make_client(), Model()
    run(client, "XADD", "s", "*", "f", "v")
    model.add(None, None)
    for step, *words in [("configure", 3, 2), *steps]:
        if step == "add":
            pid, iid = words
            options = ["IDMP", pid, iid] if pid else []
            ms, seq = model.add(pid, iid)
            assert reply(client, "XADD", "s", *options, "*", "f", "v") == b"%d-%d" % (ms, seq)
        elif step == "configure":
            run(client, "XCFGSET", "s", "IDMP-DURATION", words[0], "IDMP-MAXSIZE", words[1])
            model.configure(*words)
        elif step == "wait":
            model.now = client.server.advance(words[0])
        elif step == "delete":
            victim = list(model.entries)[words[0]] if words[0] < len(model.entries) else (1, 1)
            run(client, "XDEL", "s", f"{victim[0]}-{victim[1]}")
            model.entries.pop(victim, None)
        else:
            client.server.keyspace.expire_idempotent()
        seen = info(
            client, "length", "idmp-duration", "idmp-maxsize", "pids-tracked", "iids-tracked", "iids-added",
            "iids-duplicates",
        )  # fmt: skip
        assert seen == model.look()
        check_invariants(client.db.entries[b"s"].idempotency)
    loaded = replay(client.server.propagation.take())
    assert reply(loaded, "XRANGE", "s", "-", "+") == reply(client, "XRANGE", "s", "-", "+")
    mine, theirs = client.db.entries[b"s"].idempotency, loaded.db.entries[b"s"].idempotency
    assert (theirs.added, theirs.duplicates) == (mine.added, mine.duplicates)
    for pid, known in mine.producers.items():
        assert known.items() <= theirs.producers[pid].items()
