"""What faults do to commands, connections and their replies."""

import contextlib
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.alone import Alone
from support.live import LiveServer, eventually
from support.ports import free_port
from support.thorough import examples
from support.tls import TlsWire, make_certificates
from support.wire import ConnectionClosedError, encode_command

from rillet.protocol.key_slots import key_slot
from rillet.protocol.replies import command
from rillet.server.debugging.fault_spec import ERRORS, parse_fault

# Before, after, midway


def test_a_reply_is_lost_after_the_command_ran(server, wire, other):
    with server.fault(command="XADD", close="after") as fault:
        wire.send("XADD", "s", "1-1", "f", "v")
        assert wire.rest() == b""
        # What the client could not learn is on the disk before it sees the end.
        assert [b"XADD", b"s", b"1-1", b"f", b"v"] in server.aof()
        assert [hit.command for hit in fault.hits] == ["XADD"]
    assert other.call("XLEN", "s").plain() == 1


def test_a_command_does_not_run_if_the_connection_is_closed_before(server, wire, other):
    with server.fault(command="XADD", close="before"):
        wire.send("XADD", "s", "1-1", "f", "v")
        assert wire.rest() == b""
    assert other.call("EXISTS", "s").plain() == 0


@pytest.mark.parametrize("close", ["before", "after", "midway"])
def test_earlier_replies_of_a_pipeline_arrive_and_later_commands_do_not_run(server, wire, other, close):
    with server.fault(command="INCR", close=close):
        wire.send_raw(
            encode_command("SET", "n", 41) + encode_command("INCR", "n") + encode_command("SET", "n", 0)
        )
        expected = b"+OK\r\n" + (b":4" if close == "midway" else b"")
        assert wire.rest() == expected
    assert other.call("GET", "n").plain() == (b"41" if close == "before" else b"42")


@pytest.mark.parametrize("number", [0, 1, 5, 11, 100])
def test_so_many_bytes_of_a_reply_arrive(server, wire, number):
    reply = b"$5\r\nhello\r\n"
    with server.fault(command="ECHO", reply_bytes=number):
        wire.send("ECHO", "hello")
        assert wire.rest() == reply[:number]


@pytest.mark.parametrize("number", [None, 3])
def test_a_silent_connection_gets_nothing_more_although_its_commands_run(server, wire, other, number):
    with server.fault(command="ECHO", reply_bytes=number, silence=True) as fault:
        wire.send_raw(encode_command("PING") + encode_command("ECHO", "hello") + encode_command("INCR", "n"))
        eventually(lambda: other.call("GET", "n").plain() == b"1")
        wire.send("INCR", "n")
        eventually(lambda: other.call("GET", "n").plain() == b"2")
        arrived = b"+PONG\r\n" + b"$5\r"[: number or 0]
        assert wire.pending(0.05) == arrived
        assert fault.count == 1
        assert other.call("PING").plain() == b"PONG"
    # The end of the fault ends the silence, and with it the connection.
    assert wire.rest() == arrived


def test_a_reply_in_resp3_is_cut_as_well_and_no_push_follows_it(server):
    with server.wire(3) as wire, server.wire() as other:
        wire.call("CLIENT", "TRACKING", "ON", "BCAST")
        with server.fault(command="ECHO", reply_bytes=6, silence=True):
            wire.send_raw(encode_command("ECHO", "hello") + encode_command("SET", "a", 1))
            eventually(lambda: wire.pending() == b"$5\r\nhe")
            other.do("SET a 2; PING")
            assert wire.pending() == b"$5\r\nhe"


# Errors


def test_the_usual_errors_have_names(server, wire):
    for name, text in ERRORS.items():
        with server.fault(command="GET", error=name.decode().lower()):
            reply = wire.call("GET", "user:{1}")
            assert reply.kind == "-"
            assert reply.value.startswith(text)
    assert wire.call("GET", "a").is_null


def test_moved_and_ask_lead_to_the_slot_of_the_key_here(server, wire):
    for name in ("MOVED", "ASK"):
        with server.fault(command="GET", error=name):
            # CLUSTER KEYSLOT of a real node: 12182, and 5061 for what is in braces.
            assert wire.call("GET", "foo").value == f"{name} 12182 127.0.0.1:{server.port}".encode()
            assert wire.call("GET", "x{bar}y").value == f"{name} 5061 127.0.0.1:{server.port}".encode()
        with server.fault(command="GET", error=f"{name} 7 127.0.0.1:7001"):
            assert wire.call("GET", "foo").value == f"{name} 7 127.0.0.1:7001".encode()


@pytest.mark.parametrize("name", ["MOVED", "ASK"])
def test_a_delayed_redirection_leads_to_the_slot_of_its_own_key(server, wire, other, name):
    server.clock.freeze()
    with server.fault(command="GET", error=name, clock_delay=10) as fault:
        for each, key in ((wire, "foo"), (other, "bar")):
            each.send("GET", key)
            eventually(lambda key=key: [hit.key for hit in fault.hits][-1:] == [key])
        server.clock.advance(seconds=10)
        for each, key in ((wire, b"foo"), (other, b"bar")):
            assert each.read().plain().split()[1] == b"%d" % key_slot(key)


def test_an_error_is_counted_and_the_command_does_not_run(server, wire):
    wire.call("CONFIG", "RESETSTAT")
    with server.fault(command="INCR", error="OOPS not today"):
        assert wire.call("INCR", "n").value == b"OOPS not today"
    assert wire.call("EXISTS", "n").plain() == 0
    assert server.info("errorstat_OOPS") == "count=1"
    assert "rejected_calls=1" in server.info("cmdstat_incr")


# Which


def test_keys_are_found_as_the_command_declares_them(server, wire):
    wire.call("XGROUP", "CREATE", "user:1", "g", 0, "MKSTREAM")
    for words, hits in (
        (["SET", "user:1x", "v"], True),
        (["SET", "v", "user:1"], False),
        (["MSET", "a", "1", "user:2", "1"], True),
        (["XREADGROUP", "GROUP", "user:g", "c", "STREAMS", "other", ">"], False),
        (["XREADGROUP", "GROUP", "g", "c", "STREAMS", "user:1", ">"], True),
        (["EVAL", "return 1", "1", "user:3"], True),
        (["EVAL", "return 1", "0", "user:3"], False),
        (["PING", "user:3"], False),
        (["GET"], False),
        (["GET", "user:1", "user:2"], False),
        (["NONSENSE", "user:1"], False),
    ):
        with server.fault(key="user:*", error="HIT it") as fault:
            assert (wire.call(*words).value == b"HIT it") == hits, words
            assert fault.count == hits
        if hits:
            assert fault.hits[0].key.startswith("user:")


def test_a_container_means_all_its_subcommands(server, wire):
    for name in ("XGROUP", "xgroup create", "XGROUP|CREATE"):
        with server.fault(command=name, error="HIT it") as fault:
            assert wire.call("XGROUP", "CREATE", "s", "g", 0).value == b"HIT it"
            assert (wire.call("XGROUP", "DESTROY", "s", "g").value == b"HIT it") == (name == "XGROUP")
            assert wire.call("XLEN", "s").plain() == 0
        assert fault.hits[0].command == "XGROUP CREATE"


def test_clients_are_known_by_name_id_user_and_library(server, wire, other):
    wire.call("ACL", "SETUSER", "carol", "on", ">pw", "+@all", "~*")
    wire.call("AUTH", "carol", "pw")
    wire.call("CLIENT", "SETNAME", "worker-1")
    wire.call("CLIENT", "SETINFO", "LIB-NAME", "redis-rb")
    own = wire.call("CLIENT", "ID").plain()
    for glob in ("carol", "worker-1", "worker-*", "redis-rb", own):
        with server.fault(command="GET", client=glob, error="HIT it") as fault:
            assert wire.call("GET", "a").value == b"HIT it"
            assert other.call("GET", "a").is_null
        assert [(hit.client, hit.client_id) for hit in fault.hits] == [("worker-1", own)]
    with server.fault(client="*", error="HIT it"):
        assert wire.call("GET", "a").value == b"HIT it"
    wire.call("ACL", "DELUSER", "carol")


@pytest.mark.parametrize(
    ("counter", "expected"), [({"nth": 3}, [3]), ({"every": 3}, [3, 6, 9]), ({"first": 2}, [1, 2])]
)
def test_hits_are_counted(server, wire, counter, expected):
    with server.fault(command="INCR", error="HIT it", **counter) as fault:
        hits = []
        for at in range(1, 11):
            wire.call("PING")
            if wire.call("INCR", "n").kind == "-":
                hits.append(at)
    assert hits == expected
    assert (fault.count, fault.fitted) == (len(expected), 10)


def test_without_a_limit_every_command_is_hit_but_debug(server, wire):
    with server.fault(error="HIT it") as fault:
        assert wire.call("PING").value == b"HIT it"
        assert wire.call("HELLO", 3).value == b"HIT it"
        assert wire.call("DEBUG", "SLEEP", 0).plain() == b"OK"
        assert wire.call("DEBUG", "FAULT", "CLEAR").kind == "*"
        assert wire.call("PING").value == b"PONG"
        fault._is_on = False


def test_a_control_connection_is_not_hit(server, wire):
    wire.call("DEBUG", "CONTROL")
    with server.fault(error="HIT it"):
        assert wire.call("PING").value == b"PONG"


commands = st.lists(
    st.sampled_from([["INCR", "a"], ["INCR", "b"], ["GET", "a"], ["SET", "b", "1"]]), min_size=1, max_size=60
)


@settings(max_examples=examples(40))
@given(commands, st.integers(0, 5), st.floats(0, 1), st.lists(st.integers(1, 5)))
def test_the_same_seed_and_commands_give_the_same_hits_however_they_arrive(words, seed, probability, cuts):
    def outcome(chunks: list[bytes]) -> tuple[bytes, int]:
        alone = Alone()
        faults = alone.server.debugging.faults
        options = [b"COMMAND", b"INCR", b"PROBABILITY", repr(probability).encode(), b"SEED", b"%d" % seed]
        number = faults.add(parse_fault([*options, b"ERROR", b"HIT it"]))
        for chunk in chunks:
            alone.send(0, chunk)
        return b"".join(alone.clients[0].transport.written), faults.active[number].hit

    encoded = [command([word.encode() for word in each]) for each in words]
    pieces = []
    left = encoded
    for size in cuts:
        pieces.append(b"".join(left[:size]))
        left = left[size:]
    pieces.append(b"".join(left))
    assert outcome(encoded) == outcome([b"".join(encoded)]) == outcome([piece for piece in pieces if piece])


def test_the_first_fault_that_hits_has_the_command_to_itself(server, wire):
    with (
        server.fault(command="GET", nth=2, error="ONE a") as one,
        server.fault(command="GET", every=2, error="TWO b") as two,
        server.fault(key="a", error="THREE c") as three,
    ):
        replies = [wire.call("GET", "a").value for _ in range(5)]
        assert [fault.id for fault in server.faults] == [one.id, two.id, three.id]
    assert replies == [b"THREE c", b"ONE a", b"TWO b", b"THREE c", b"TWO b"]
    # The second GET never came to the other two.
    assert (one.fitted, two.fitted, three.fitted) == (5, 4, 2)


# Nothing goes past a fault


def test_a_run_of_xadds_in_one_batch_does_not_pass_by(server, wire, other):
    with server.fault(command="XADD", nth=50, close="after"):
        wire.send_raw(encode_command("XADD", "s", "*", "f", "v") * 100)
        assert wire.rest().count(b"$") == 49
    assert other.call("XLEN", "s").plain() == 50


def test_nor_do_commands_that_are_queued_in_one_batch(server, wire):
    with server.fault(command="XADD", nth=50, error="OOM"):
        batch = (
            encode_command("MULTI")
            + encode_command("XADD", "s", "*", "f", "v") * 100
            + encode_command("EXEC")
        )
        wire.send_raw(batch)
        replies = [wire.read() for _ in range(102)]
    assert [at for at, reply in enumerate(replies) if reply.kind == "-"] == [50, 101]
    assert replies[101].value.startswith(b"EXECABORT")


def test_nor_does_a_command_of_another_spelling(server, wire):
    with server.fault(command="ping", error="HIT it"):
        for name in ("ping", "PING", "PiNg"):
            assert wire.call(name).value == b"HIT it"


# Transactions, scripts


@pytest.mark.parametrize("close", ["before", "after", "midway"])
def test_exec_is_hit_as_a_whole_if_one_of_its_commands_fits(server, wire, other, close):
    with server.fault(command="INCR", close=close) as fault:
        assert wire.call("MULTI").plain() == b"OK"
        assert wire.call("SET", "a", 1).plain() == b"QUEUED"
        assert wire.call("INCR", "n").plain() == b"QUEUED"
        wire.send("EXEC")
        assert wire.rest() == (b"*2\r\n+OK" if close == "midway" else b"")[:6]
    assert other.call("GET", "n").plain() == (None if close == "before" else b"1")
    assert [hit.command for hit in fault.hits] == ["INCR"]


def test_each_command_of_a_transaction_counts(server, wire):
    with server.fault(command="INCR", nth=3, close="after"):
        for at in range(2):
            wire.do("MULTI; INCR n; INCR n")
            wire.send("EXEC")
            if not at:
                assert wire.read().plain() == [1, 2]
        assert wire.rest() == b""


def test_an_error_refuses_a_command_that_is_to_be_queued(server, wire):
    with server.fault(command="SET", error="READONLY"):
        wire.call("MULTI")
        assert wire.call("INCR", "n").plain() == b"QUEUED"
        assert wire.call("SET", "a", 1).value == ERRORS[b"READONLY"]
        assert wire.call("EXEC").value.startswith(b"EXECABORT")
    assert wire.call("EXISTS", "n").plain() == 0


def test_an_error_of_exec_discards_the_transaction(server, wire):
    with server.fault(command="EXEC", error="LOADING"):
        wire.do("MULTI; INCR n")
        expected = b"EXECABORT Transaction discarded because of: " + ERRORS[b"LOADING"]
        assert wire.call("EXEC").value == expected
        assert wire.call("EXEC").value == expected
    assert wire.call("EXEC").value == b"ERR EXEC without MULTI"
    assert wire.call("EXISTS", "n").plain() == 0


def test_a_transaction_that_was_refused_already_runs_none_of_its_commands(server, wire):
    with server.fault(command="INCR", close="after") as fault:
        wire.do("MULTI; INCR n")
        wire.call("NONSENSE")
        assert wire.call("EXEC").value.startswith(b"EXECABORT")
        assert fault.count == 0


def test_a_script_fits_by_its_own_name_and_keys(server, wire):
    script = ("EVAL", "return redis.call('INCR', KEYS[1])", 1, "n")
    with server.fault(command="INCR", error="HIT it"):
        assert wire.call(*script).plain() == 1
    with server.fault(command="EVAL", key="n", error="HIT it"):
        assert wire.call(*script).value == b"HIT it"


# What faults leave alone


def test_messages_of_channels_arrive_whatever_hits_their_subscriber(server, wire, other):
    wire.call("SUBSCRIBE", "news")
    own = next(c.id for c in server.inside.clients.values() if c.is_subscriber)
    with server.fault(client=own, close="after"):
        assert other.call("PUBLISH", "news", "hello").plain() == 1
        assert wire.read().plain() == [b"message", b"news", b"hello"]


def test_replication_and_loading_are_never_hit(server, wire):
    wire.call("SET", "a", 1)
    names = ("PSYNC", "REPLCONF", "SET", "INCR")
    with LiveServer() as replica, replica.wire() as there, contextlib.ExitStack() as faults:
        for name in names:
            faults.enter_context(replica.fault(command=name, error="HIT it"))
        for name in names[:3]:
            faults.enter_context(server.fault(command=name, error="HIT it"))
        there.call("REPLICAOF", "127.0.0.1", server.port)
        eventually(lambda: "link_status:up" in there.call("INFO", "replication").plain().decode())
        wire.call("INCR", "a")
        eventually(lambda: there.call("GET", "a").plain() == b"2")
    with server.fault(error="HIT it"):
        assert wire.call("DEBUG", "LOADAOF").plain() == b"OK"
    assert wire.call("GET", "a").plain() == b"2"


def test_commands_without_replies_are_hit(server, wire, other):
    with server.fault(command="SET", close="after"):
        wire.send("CLIENT", "REPLY", "OFF")
        wire.send("SET", "a", 1)
        assert wire.rest() == b""
    assert other.call("GET", "a").plain() == b"1"


def test_unused_faults_leave_the_fast_path_open(server, wire):
    assert server.inside.interceptor is None
    with server.fault(command="GET", error="OOM"):
        assert server.inside.needs_all_checks
    assert server.inside.interceptor is None
    assert not server.inside.needs_all_checks
    assert wire.call("PING").plain() == b"PONG"


# Connections


def test_new_connections_are_refused(server, wire):
    number = wire.call("DEBUG", "FAULT", "ADD", "CONNECTIONS", "refuse", "FIRST", 2).plain()
    for _ in range(2):
        with server.wire() as refused, pytest.raises((ConnectionClosedError, ConnectionError)):
            refused.call("PING")
    with server.wire() as accepted:
        assert accepted.call("PING").plain() == b"PONG"
    [[_, _, fitted, hit, hits]] = wire.call("DEBUG", "FAULT", "CLEAR", number).plain()
    assert (fitted, hit) == (3, 2)
    assert [each[3] for each in hits] == [b"CONNECT", b"CONNECT"]
    assert server.info("connected_clients") == "2"


# The forms of transport


def test_unix_sockets_are_hit(tmp_path):
    import socket

    path = tmp_path / "socket"
    with LiveServer(unixsocket=path) as server, socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(path))
        with server.fault(command="SET", close="midway"):
            sock.sendall(encode_command("GET", "a") + encode_command("SET", "a", 1))
            received = b""
            while data := sock.recv(100):
                received += data
        assert received == b"$-1\r\n+O"
        with socket.socket(socket.AF_UNIX) as another, server.fault(command="SET", error="MOVED"):
            another.connect(str(path))
            another.sendall(encode_command("SET", "foo", 1))
            assert another.recv(100) == b"-MOVED 12182 127.0.0.1:%d\r\n" % server.port


def test_tls_connections_are_hit(tmp_path):
    folder = make_certificates(tmp_path)
    files = {"tls_cert_file": folder / "server.crt", "tls_key_file": folder / "server.key"}
    ports = {"port": free_port(), "tls_port": free_port()}
    with LiveServer(**ports, **files, tls_ca_cert_file=folder / "ca.crt") as server:
        with TlsWire(ports["tls_port"], folder) as wire, server.fault(command="ECHO", reply_bytes=6):
            wire.send_raw(encode_command("PING") + encode_command("ECHO", "hello"))
            assert wire.rest() == b"+PONG\r\n$5\r\nhe"
        with TlsWire(ports["tls_port"], folder) as wire, server.fault(command="ECHO", slow=(4, 0.001)):
            assert wire.call("ECHO", "hello").plain() == b"hello"
            assert wire.call("PING").plain() == b"PONG"


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("close", ["after", "midway"])
def test_what_ran_is_on_the_disk_when_the_client_sees_the_end(always, close):
    policy = "always" if always else "everysec"
    with LiveServer(appendonly=True, appendfsync=policy) as server:
        for number in itertools.count():
            with server.wire() as wire, server.fault(command="SET", close=close):
                wire.send_raw(encode_command("INCR", "n") + encode_command("SET", "a", number))
                assert wire.rest() == b":%d\r\n" % (number + 1) + (b"+O" if close == "midway" else b"")
                assert server.aof()[-1] == [b"SET", b"a", b"%d" % number]
            if number == 20:
                break
