"""Recordings of what clients sent and were answered."""

import socket

import pytest
from support.background import aside
from support.live import eventually
from support.wire import Wire, encode_command

import rillet.testing
from rillet.server.debugging import recorder

DIRECTIVES = {"repl_diskless_sync_delay": 0}  # no replica waits for others


@pytest.fixture
def threaded():
    with rillet.testing.Server() as server:
        yield server


def words(seen) -> list[str]:
    return [" ".join(each.words) for each in seen]


def test_every_command_is_there_with_who_sent_it_and_what_it_was_answered(server):
    server.clock.freeze(1_000_000)
    with Wire(server.port) as wire, server.recording() as seen:
        wire.call("SET", "a", 1)
        wire.call("CLIENT", "SETNAME", "Bob")
        wire.call("SELECT", 2)
        server.clock.advance(seconds=1)
        wire.call("INCR", "a")
        wire.call("LPUSH", "a", "x")
    assert words(seen) == ["SET a 1", "CLIENT SETNAME Bob", "SELECT 2", "INCR a", "LPUSH a x"]
    assert [each.reply for each in seen] == ["OK", "OK", "OK", 1, None]
    assert [each.error is None for each in seen] == [True, True, True, True, False]
    assert seen[4].error == "WRONGTYPE Operation against a key holding the wrong kind of value"
    assert [each.client for each in seen] == ["", "", "Bob", "Bob", "Bob"]
    assert [each.database for each in seen] == [0, 0, 0, 2, 2]
    assert [each.time for each in seen] == [1_000_000] * 3 + [1_001_000] * 2
    assert [each.keys for each in seen] == [("a",), (), (), ("a",), ("a",)]
    assert seen[0].number < seen[1].number
    assert len({each.client_id for each in seen}) == 1


def test_commands_are_found_by_name_client_and_key(server):
    with server.client(client_name="Bob") as bob, server.client(client_name="Alice") as alice:
        bob.ping()
        alice.ping()
        with server.recording() as seen:
            bob.xadd("orders", {"item": "7"})
            bob.xgroup_create("orders", "billing", "0")
            alice.xreadgroup("billing", "Alice", {"orders": ">"})
            alice.xread({"orders": "0", "other": "0"})
            alice.xgroup_delconsumer("orders", "billing", "Alice")
            assert seen.count("xadd") == 1
            assert seen.count() == len(seen) == 5
    assert seen.count("XGROUP") == 2
    assert seen.count("XGROUP CREATE") == seen.count("xgroup|create") == 1
    assert seen.count("XACK") == 0
    assert [each.words[0] for each in seen.of(client="Bob")] == ["XADD", "XGROUP"]
    assert seen.of(client=seen[4].client_id) == seen.of("Alice")
    assert seen.count(key="ord*") == 5
    assert seen.count(key="oth*") == 1
    assert seen.count("XREAD", client="Alice", key="other") == 1
    assert seen.count("XREADGROUP", client="Bob") == 0


def test_a_blocked_command_gets_its_reply_when_it_is_served(server):
    server.clock.freeze(1_000)
    with Wire(server.port) as reader, Wire(server.port) as writer, server.recording() as seen:
        reader.send("BLPOP", "list", 0)
        eventually(lambda: len(seen) == 1)
        assert (seen[0].reply, seen[0].answered) == (None, None)
        assert "(no reply yet)" in str(seen)
        server.clock.advance(seconds=5)
        writer.call("LPUSH", "list", "x")
        reader.read()
        assert seen[0].reply == ["list", "x"]
        assert (seen[0].time, seen[0].answered) == (1_000, 6_000)
    assert words(seen) == ["BLPOP list 0", "LPUSH list x"]


def test_a_blocked_command_whose_client_leaves_is_never_answered(server):
    with server.recording() as seen, server.client() as other:
        with Wire(server.port) as reader:
            reader.send("BLPOP", "list", 0)
            eventually(lambda: seen.count("BLPOP") == 1)
        eventually(lambda: other.info("clients")["blocked_clients"] == 0)
        other.lpush("list", "x")
    assert seen.of(command="BLPOP")[0].answered is None


def test_a_transaction_is_recorded_as_it_was_sent(server):
    with server.client() as client, server.recording() as seen:
        pipe = client.pipeline()
        pipe.set("k", "text")
        pipe.incr("k")
        pipe.execute(raise_on_error=False)
    assert words(seen)[-4:] == ["MULTI", "SET k text", "INCRBY k 1", "EXEC"]
    assert [each.reply for each in seen][-4:-1] == ["OK", "QUEUED", "QUEUED"]
    done, failed = seen[-1].reply
    assert done == "OK"
    assert str(failed).startswith("ERR value is not an integer")
    assert isinstance(failed, Exception)


def test_passwords_are_hidden(server):
    with Wire(server.port) as wire, server.recording() as seen:
        wire.call("ACL", "SETUSER", "bob", ">secret", "on", "+@all")
        wire.call("AUTH", "bob", "secret")
        wire.call("HELLO", 3, "AUTH", "bob", "secret")
    assert "secret" not in str(seen)
    assert [each.words[1:3] for each in seen][1] == ("(redacted)", "(redacted)")


def test_debug_and_the_control_connection_are_not_recorded(server):
    with Wire(server.port) as wire, server.recording() as seen:
        wire.call("DEBUG", "SLEEP", 0)
        wire.call("PING")
        server.clock.advance(seconds=1)
        assert wire.call("DEBUG", "CONTROL").plain() == b"OK"
        wire.call("PING")
        wire.call("DEBUG", "RECORD", "START")
    assert words(seen) == ["PING"]


def test_an_unknown_command_and_a_wrong_arity_have_an_error_and_no_keys(server):
    with Wire(server.port) as wire, server.recording() as seen:
        wire.call("NONSENSE", "a")
        wire.call("GET")
        wire.call("XREADGROUP", "STREAMS")
    assert all(each.error and each.error.startswith("ERR ") for each in seen)
    assert [each.keys for each in seen] == [(), (), ()]


def test_recordings_nest_and_each_has_its_own_time(server):
    with Wire(server.port) as wire, server.recording() as outer:
        wire.call("SET", "a", 1)
        with server.recording() as inner:
            wire.call("SET", "a", 2)
        wire.call("SET", "a", 3)
    wire.close()
    assert words(outer) == ["SET a 1", "SET a 2", "SET a 3"]
    assert words(inner) == ["SET a 2"]


def test_a_recording_may_be_used_again(server):
    seen = server.recording()
    with Wire(server.port) as wire:
        with seen:
            wire.call("SET", "a", 1)
        with seen:
            wire.call("SET", "a", 2)
    assert words(seen) == ["SET a 2"]


def test_only_the_last_are_kept_and_the_rest_is_counted(server):
    with Wire(server.port) as wire, server.recording(last=2) as seen:
        for number in range(5):
            wire.call("SET", "a", number)
            assert len(seen) == min(number + 1, 2)
    assert words(seen) == ["SET a 3", "SET a 4"]
    assert seen.dropped == 3
    assert str(seen).startswith("(3 earlier commands were dropped)\n")


def test_a_blocked_command_that_was_dropped_stays_dropped(server):
    with Wire(server.port) as reader, Wire(server.port) as wire, server.recording(last=2) as seen:
        reader.send("BLPOP", "list", 0)
        eventually(lambda: len(seen) == 1)
        wire.call("PING")
        wire.call("LPUSH", "list", "x")
        reader.read()
    assert words(seen) == ["PING", "LPUSH list x"]


def test_the_memory_of_a_recording_is_bounded(threaded, monkeypatch):
    monkeypatch.setattr(recorder, "MOST_BYTES", 100_000)
    with Wire(threaded.port) as wire, threaded.recording() as seen:
        for _ in range(20):
            wire.call("ECHO", b"x" * 9_000)
        with pytest.raises(rillet.testing.RecordingError, match=r"\d+ commands were dropped"):
            seen.count("ECHO")
        [only] = threaded._server.debugging.recorder.recordings.values()
        assert sum(entry.size for entry in only.entries) == only._bytes <= 100_000
        assert only.dropped + len(only.entries) == 20
    assert seen.dropped > 10


def test_commands_without_a_reply_are_recorded(server):
    with Wire(server.port) as wire, server.recording() as seen:
        wire.send("CLIENT", "REPLY", "OFF")
        wire.send("SET", "a", 1)
        wire.call("CLIENT", "REPLY", "ON")
    assert [each.reply for each in seen] == [None, None, "OK"]
    assert all(each.answered is not None for each in seen)
    assert "SET a 1 -> (no reply)" in str(seen)


def test_replies_of_both_protocols_become_python_values(server):
    with Wire(server.port) as two, Wire(server.port, 3) as three, server.recording() as seen:
        for wire in (two, three):
            wire.call("HSET", "h", "f", "v")
            wire.call("HGETALL", "h")
            wire.call("GET", "missing")
            wire.call("ZADD", "z", "1.5", "m")
            wire.call("ZSCORE", "z", "m")
        two.call("SET", "b", b"\xff\x00")
    assert [seen.of(command="HGETALL")[n].reply for n in (0, 1)] == [["f", "v"], {"f": "v"}]
    assert [seen.of(command="GET")[n].reply for n in (0, 1)] == [None, None]
    assert [seen.of(command="ZSCORE")[n].reply for n in (0, 1)] == ["1.5", 1.5]
    assert seen[-1].words[2].encode(errors="surrogateescape") == b"\xff\x00"


def test_the_pushes_of_one_subscribe_are_one_reply(server):
    with Wire(server.port) as wire, server.recording() as seen:
        wire.send("SUBSCRIBE", "a", "b")
        wire.read()
        wire.read()
    assert seen[0].reply == [["subscribe", "a", 1], ["subscribe", "b", 2]]


def test_commands_of_many_threads_are_all_there_while_others_read_them(server):
    def work(number: int) -> None:
        with server.client(client_name=f"worker-{number}") as client:
            for at in range(50):
                client.incr("n")
                if at % 20 == 0:
                    assert seen.count("INCRBY") >= at

    with server.recording() as seen:
        for worker in [aside(work, number) for number in range(4)]:
            worker.result(60)
    assert sorted(each.reply for each in seen.of(command="INCRBY")) == list(range(1, 201))
    assert all(seen.count("INCRBY", client=f"worker-{number}") == 50 for number in range(4))


def test_nothing_needs_all_checks_when_the_last_recording_ends(threaded):
    with threaded.recording(), threaded.recording():
        assert threaded._server.needs_all_checks
        assert threaded._server.interceptor is not None
    assert not threaded._server.needs_all_checks
    assert threaded._server.interceptor is None


def test_what_replicas_say_is_not_recorded(server):
    with rillet.testing.Server() as replica, replica.client() as client, server.recording() as seen:
        client.replicaof(server.host, server.port)
        eventually(lambda: client.info("replication")["master_link_status"] == "up")
    assert not {each.words[0].upper() for each in seen} & {"REPLCONF", "PSYNC"}


@pytest.mark.parametrize("last", [0, -1])
def test_a_recording_of_no_commands_is_refused(server, last):
    with pytest.raises(ValueError, match="last must be positive"):
        server.recording(last=last)


def test_a_client_that_closes_before_it_is_answered_harms_nothing(server):
    with server.recording() as seen, socket.create_connection((server.host, server.port)) as sock:
        sock.sendall(encode_command("SET", "a", 1) + encode_command("QUIT") + encode_command("SET", "a", 2))
        while sock.recv(100):
            pass
    assert words(seen) == ["SET a 1", "QUIT"]


def test_a_recording_that_the_server_has_forgotten_says_so_and_is_off(server):
    forgotten = server.recording().start()
    server.restart()
    for ask in (forgotten.count, forgotten.stop):
        with pytest.raises(rillet.testing.RecordingError, match="restarted or reset"):
            ask()
    assert not forgotten.is_on
    with server.recording(), server.client() as client:
        entry = client.xadd("s", {"a": "b"})
        assert [event.what for event in server.history("s", entry).events] == ["added"]
