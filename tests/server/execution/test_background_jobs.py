"""Long work runs in slices; a client that needs the result waits, and no other does."""

import gc
from contextlib import contextmanager

import pytest
from support.live import LiveServer, eventually

from rillet.commands.streams import deferral
from rillet.storage.groups import pending
from rillet.storage.streams.macro_nodes import MacroNodes
from rillet.storage.streams.stream import Stream

N = 6_000


@pytest.fixture
def server():
    with LiveServer(appendonly=True) as server:
        yield server


@contextmanager
def by_hand(server):
    """Jobs run only when `with by_hand(server) as go_on: … go_on()` is called; it returns whether more is to do."""
    jobs = server.inside.background_jobs
    server.run_inside(lambda: setattr(jobs, "_wake", lambda *_: None))

    def go_on() -> bool:
        server.run_inside(jobs._run)
        return bool(jobs._jobs)

    try:
        yield go_on
    finally:
        del jobs._wake
        server.run_inside(jobs._wake)


@pytest.fixture
def steps(monkeypatch):
    """A list that grows by one with each step that learns of macro nodes."""
    made = []

    def counted(stream):
        made.append(stream)
        return original(stream)

    original = MacroNodes.account_some
    monkeypatch.setattr(MacroNodes, "account_some", counted)
    return made


def add(wire, key="s", number=N):
    script = "for at = 1, ARGV[1] do redis.call('XADD', KEYS[1], at .. '-0', 'f', 'v') end"
    wire.call("EVAL", script, 1, key, number)


def stream_at(server, key=b"s"):
    return server.inside.keyspace.databases[0].entries[key]


def held(server):
    return [client for clients in list(server.inside.background_jobs._jobs.values()) for client in clients]


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ("XTRIM s MAXLEN 1", N - 1),
        ("XTRIM s MAXLEN = 100", N - 100),
        (f"XTRIM s MINID {N - 1}-0", N - 2),
        ("XTRIM s MAXLEN ~ 1 LIMIT 0", N - 100),
        ("XTRIM s MAXLEN ~ 1 ACKED", N - 1),
        (f"XDEL s {N}-0", 1),
        (f"XDELEX s IDS 1 {N}-0", [1]),
        ("XADD s MAXLEN 1 9999-0 f v", b"9999-0"),
    ],
)
def test_who_needs_macro_nodes_waits_while_others_are_served(server, steps, request_, answer):
    with server.wire() as waiting, server.wire() as other:
        with by_hand(server) as go_on:
            add(waiting)
            waiting.send(*request_.split())
            waiting.send("PING")
            eventually(lambda: len(held(server)) == 1)
            before = len(steps)
            assert server.call(other, "XLEN", "s") == N
            assert not waiting.pending()
            while go_on():
                assert server.call(other, "PING") == b"PONG"
            assert len(steps) - before > 30
            assert waiting.read().plain() == answer
            assert waiting.read().plain() == b"PONG"
        name = request_.split()[0].lower()
        calls = N + 1 if name == "xadd" else 1
        stats = server.call(other, "INFO", "commandstats").decode()
        assert f"cmdstat_{name}:calls={calls}," in stats
    assert server.aof()[-1][0] == request_.split()[0].encode()


def test_a_deferred_command_has_the_same_reply_as_an_immediate_one(server):
    with server.wire() as wire, by_hand(server) as go_on:
        add(wire)
        add(wire, "t")
        stream_at(server, b"t").macro_nodes.count  # noqa: B018 - learns of all
        wire.send("XINFO", "STREAM", "s")
        eventually(lambda: held(server))
        while go_on():
            pass
        assert wire.read().encode() == wire.call("XINFO", "STREAM", "t").encode()


def test_in_a_transaction_or_a_script_nothing_waits(server):
    with server.wire() as wire, by_hand(server):
        add(wire)
        wire.do("MULTI; XTRIM s MAXLEN 1")
        assert server.call(wire, "EXEC") == [N - 1]
        add(wire, "u")
        wire.do(f"MULTI; XDEL u {N}-0")
        assert server.call(wire, "EXEC") == [1]
        add(wire, "t")
        assert server.call(wire, "EVAL", "return redis.call('xtrim', 't', 'MAXLEN', 1)", 0) == N - 1


@pytest.mark.parametrize(
    "request_",
    [
        "XTRIM s MAXLEN 0",
        f"XTRIM s MAXLEN {N - 1000}",
        "XTRIM s MAXLEN ~ 1 LIMIT 1000",
        "XTRIM s MINID 1000-0",
        "XDEL s 1000-0",
        f"XADD s MAXLEN ~ {N} * f v",
    ],
)
def test_what_needs_little_does_not_wait(server, request_):
    with server.wire() as wire, by_hand(server):
        add(wire)
        wire.call(*request_.split())
        assert stream_at(server).macro_nodes.is_behind or not stream_at(server).length


def test_a_client_that_disconnects_is_forgotten(server):
    with server.wire() as other:
        with by_hand(server) as go_on:
            add(other)
            with server.wire() as waiting:
                waiting.send("XTRIM", "s", "MAXLEN", "1")
                eventually(lambda: held(server))
            eventually(lambda: not held(server))
            while go_on():
                pass
        assert server.call(other, "XLEN", "s") == N
        assert not stream_at(server).macro_nodes.is_behind


def test_a_held_command_is_monitored_once_and_its_reply_skipped_as_asked(server):
    with server.wire() as wire, server.wire() as monitor:
        with by_hand(server) as go_on:
            add(wire)
            monitor.call("MONITOR")
            wire.send("CLIENT", "REPLY", "SKIP")
            wire.send("XTRIM", "s", "MAXLEN", "1")
            wire.send("XLEN", "s")
            eventually(lambda: held(server))
            while go_on():
                pass
            assert wire.read().plain() == 1
        seen = [monitor.read().plain().split(b"] ")[1] for _ in range(3)]
    assert seen == [b'"CLIENT" "REPLY" "SKIP"', b'"XTRIM" "s" "MAXLEN" "1"', b'"XLEN" "s"']


def test_macro_nodes_are_computed_while_the_server_is_idle(server, steps):
    with server.wire() as wire:
        add(wire)
    eventually(lambda: not stream_at(server).macro_nodes.is_behind)
    assert len(steps) > N // 128 - 32


def test_idle_jobs_pause_while_there_are_many_requests(server, steps, monkeypatch):
    jobs = server.inside.background_jobs
    asked = []
    monkeypatch.setattr(jobs, "_is_busy", lambda: bool(asked.append(True)) or True)
    with server.wire() as wire:
        add(wire)
        eventually(lambda: len(asked) > 2)
    assert not steps
    monkeypatch.undo()


def test_a_failing_job_is_dropped_and_releases_its_clients(server, monkeypatch):
    def fail(_stream):
        raise ZeroDivisionError

    with server.wire() as wire, server.wire() as other:
        original = MacroNodes.account_some
        with by_hand(server) as go_on:
            add(wire)
            monkeypatch.setattr(MacroNodes, "account_some", fail)
            wire.send("XTRIM", "s", "MAXLEN", "1")
            eventually(lambda: held(server))
            monkeypatch.setattr(MacroNodes, "account_some", original)
            with pytest.raises(ZeroDivisionError):
                go_on()
            assert server.call(other, "PING") == b"PONG"
            eventually(lambda: held(server))
            while go_on():
                pass
            assert wire.read().plain() == N - 1


@pytest.mark.parametrize(
    "how", [("UNLINK", "s"), ("DEL", "s"), ("FLUSHALL",), ("SET", "s", "v"), ("PEXPIRE", "s", "0")]
)
def test_what_is_big_is_freed_later_and_counted(server, how):
    with server.wire() as wire:
        add(wire)
        with by_hand(server) as go_on:
            wire.call(*how)
            assert server.info("lazyfree_pending_objects") == "1"
            assert server.info("lazyfreed_objects") == "0"
            while go_on():
                pass
            assert server.info("lazyfree_pending_objects") == "0"
            assert server.info("lazyfreed_objects") == "1"


@pytest.mark.parametrize("how", [("XGROUP", "DESTROY", "s", "g"), ("XGROUP", "DELCONSUMER", "s", "g", "c")])
def test_pending_entries_of_a_group_are_freed_later(server, how):
    with server.wire() as wire:
        add(wire)
        wire.do("XGROUP CREATE s g 0; XGROUP CREATECONSUMER s g other; XREADGROUP GROUP g c STREAMS s >")
        with by_hand(server) as go_on:
            assert wire.call(*how).plain() == (N if "DELCONSUMER" in how else 1)
            assert server.info("lazyfree_pending_objects") == "1"
            if "DELCONSUMER" in how:
                assert [line[1] for line in server.call(wire, "XINFO", "CONSUMERS", "s", "g")] == [b"other"]
                assert server.call(wire, "XPENDING", "s", "g")[0] == 0
                wire.call("XADD", "s", "*", "f", "v")
                assert len(server.call(wire, "XREADGROUP", "GROUP", "g", "other", "STREAMS", "s", ">")) == 1
            while go_on():
                pass
            assert server.info("lazyfree_pending_objects") == "0"
        assert server.call(wire, "XLEN", "s") >= N


@pytest.fixture(autouse=True)
def _a_quarter_is_many(monkeypatch):
    monkeypatch.setattr(deferral, "MANY", N // 4)


def shared_group(server, wire):
    """A stream whose group has given two thirds of the entries to c, and the rest to d; a third of them is many."""
    stream = Stream()
    server.run_inside(lambda: server.inside.keyspace.databases[0].add(b"s", stream))
    add(wire)
    wire.call("XGROUP", "CREATE", "s", "g", "0")
    for name in ("c", "c", "d"):
        wire.call("XREADGROUP", "GROUP", "g", name, "COUNT", N // 3, "STREAMS", "s", ">")


@pytest.mark.parametrize(
    ("how", "answer", "left"),
    [
        (("XGROUP", "DELCONSUMER", "s", "g", "c"), N // 3 * 2, N // 3),
        (("XTRIM", "s", "MAXLEN", N // 2, "DELREF"), N // 2, N // 2),
        (("XTRIM", "s", "MINID", f"{N // 2 + 1}-0", "DELREF"), N // 2, N // 2),
        (("XADD", "s", "DELREF", "MAXLEN", N // 2, "9999-0", "f", "v"), b"9999-0", N // 2 - 1),
    ],
)
def test_pending_entries_that_go_in_masses_are_gone_for_all_while_the_work_is_done_later(
    server, how, answer, left
):
    with server.wire() as wire, server.wire() as waiting, server.wire() as other:
        shared_group(server, wire)
        stream_at(server).macro_nodes.count  # noqa: B018 - so that no trim waits for that
        with by_hand(server) as go_on:
            assert server.call(wire, *how) == answer
            assert server.aof()[-1][: len(how)] == [str(word).encode() for word in how]
            waiting.send("XPENDING", "s", "g")
            waiting.send("XACK", "s", "g", f"{N}-0", "1-0")
            eventually(lambda: len(held(server)) == 1)
            rounds = 0
            while go_on():
                rounds += 1
                assert server.call(other, "PING") == b"PONG"
                assert server.call(other, "XRANGE", "s", "-", "+", "COUNT", "1")
            assert waiting.read().plain()[0] == left
            assert waiting.read().plain() == (1 if left else 0)
        assert len(server.call(other, "XPENDING", "s", "g", "-", "+", N)) == left - 1


@pytest.mark.parametrize(
    "look",
    [
        ("XPENDING", "s", "g", "-", "+", "1", "d"),
        ("XPENDING", "s", "g", "IDLE", "1", "-", "+", "1"),
        ("XREADGROUP", "GROUP", "g", "d", "COUNT", "1", "STREAMS", "s", "0"),
        ("XREADGROUP", "GROUP", "g", "e", "COUNT", "1", "CLAIM", "0", "STREAMS", "s", ">"),
        ("XINFO", "STREAM", "s", "FULL"),
    ],
)
def test_the_first_look_at_an_order_of_many_pending_entries_is_prepared_in_steps(server, monkeypatch, look):
    monkeypatch.setattr(pending, "_MANY", N // 4)
    with server.wire() as wire, server.wire() as waiting, server.wire() as other:
        shared_group(server, wire)
        with by_hand(server) as go_on:
            waiting.send(*look)
            eventually(lambda: len(held(server)) == 1)
            while go_on():
                assert server.call(other, "PING") == b"PONG"
            assert waiting.read().plain()
            waiting.send(*look)
            assert waiting.read().plain()  # without a job


@pytest.mark.parametrize(
    "look",
    [
        ("XPENDING", "s", "g", "-", "+", "1"),
        ("XPENDING", "s", "g"),
        ("XPENDING", "s", "g", "-", "+", "1", "c"),
        ("XAUTOCLAIM", "s", "g", "d", "0", "0", "COUNT", "1"),
    ],
)
def test_a_look_behind_many_acknowledged_entries_is_prepared_in_steps(server, monkeypatch, look):
    with server.wire() as wire, server.wire() as waiting:
        shared_group(server, wire)
        server.call(wire, "XPENDING", "s", "g", "-", "+", "1", "c")
        server.call(wire, "XACK", "s", "g", *[f"{at}-0" for at in range(2, N // 3)])
        monkeypatch.setattr(pending, "_MANY", N // 4)
        with by_hand(server) as go_on:
            waiting.send(*look)
            eventually(lambda: len(held(server)) == 1)
            while go_on():
                pass
            assert waiting.read().plain()


def test_in_a_transaction_the_whole_job_runs_immediately(server):
    with server.wire() as wire, by_hand(server) as go_on:
        shared_group(server, wire)
        wire.do("XGROUP DELCONSUMER s g c; MULTI; XPENDING s g - + 1")
        [[[text, *_]]] = server.call(wire, "EXEC")
        assert text == b"%d-0" % (N // 3 * 2 + 1)
        assert not go_on()


def test_few_pending_entries_are_removed_immediately(server):
    with server.wire() as wire, by_hand(server):
        add(wire, number=50)
        wire.call("XGROUP", "CREATE", "s", "g", "0")
        for name in "cd":
            wire.call("XREADGROUP", "GROUP", "g", name, "COUNT", "20", "STREAMS", "s", ">")
        wire.do("XGROUP DELCONSUMER s g c; XTRIM s MAXLEN 20 DELREF")
        assert not server.inside.background_jobs._jobs
        assert server.call(wire, "XPENDING", "s", "g")[:1] == [10]


def test_a_group_that_is_destroyed_while_it_is_busy_is_freed(server, monkeypatch):
    with server.wire() as wire:
        with by_hand(server) as go_on:
            shared_group(server, wire)
            wire.call("XGROUP", "DELCONSUMER", "s", "g", "c")
            assert wire.call("DEL", "s").plain() == 1
            while go_on():
                pass
            assert server.info("lazyfree_pending_objects") == "0"
        add(wire, number=1)
        assert server.call(wire, "XINFO", "GROUPS", "s") == []


def test_a_reader_that_is_woken_does_not_wait_again(server, monkeypatch):
    with server.wire() as wire, server.wire() as reader, by_hand(server) as go_on:
        shared_group(server, wire)
        reader.send("XREADGROUP", "GROUP", "g", "e", "BLOCK", "0", "STREAMS", "s", ">")
        eventually(lambda: server.info("blocked_clients") == "1")
        wire.do("XGROUP DELCONSUMER s g c; XADD s 9999-0 f v")
        assert reader.read().plain()[0][1][0][0] == b"9999-0"
        while go_on():
            pass
        assert server.call(wire, "XPENDING", "s", "g")[0] == N // 3 + 1


def test_keys_expire_a_few_at_a_time(server):
    with server.wire() as wire:
        for at in range(500):
            wire.send("SET", f"k{at}", "v", "PX", 10_000_000)
        for _ in range(500):
            wire.read()
        with by_hand(server) as go_on:
            server.run_inside(lambda: setattr(server.inside.cron, "paused", True))
            server.clock.freeze()
            keyspace = server.inside.keyspace

            def one_step():
                keyspace.now += 20_000_000
                return server.inside.active_expiry.step()

            assert server.run_inside(one_step)
            left = server.call(wire, "DBSIZE")
            assert 400 < left < 500
            server.run_inside(
                lambda: server.inside.background_jobs.run_soon(server.inside.active_expiry.step)
            )
            del go_on
    assert server.aof()[-1][0] in {b"DEL", b"UNLINK", b"EXEC"}


@pytest.mark.parametrize("owns_process", [False, True])
def test_a_pel_is_old_before_it_is_big(server, owns_process, monkeypatch):
    """Else a collection would go through all of its entries; where the process is another's the collector is, too."""
    inside = server.inside
    monkeypatch.setattr(inside, "handles_signals", owns_process)

    def look() -> bool:
        pel = inside.keyspace.databases[0].entries[b"s"].groups[b"g"].pel
        inside.cron.step()
        return any(each is pel for young in (0, 1) for each in gc.get_objects(generation=young))

    gc.disable()
    try:
        with server.wire() as wire:
            wire.do("XADD s * f v; XGROUP CREATE s g 0; XREADGROUP GROUP g c STREAMS s >")
        assert server.run_inside(look) is not owns_process
    finally:
        gc.enable()
