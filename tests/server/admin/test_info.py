import pytest
from support.servers import start_server


@pytest.fixture(scope="module")
def server():
    with start_server("rillet") as process:
        yield process


def sections(wire, *names):
    """Title to its fields, in order."""
    found = {}
    for block in wire.call("INFO", *names).value.decode().split("\r\n\r\n"):
        if block:
            title, *lines = block.split("\r\n")
            found[title.removeprefix("# ")] = dict(line.split(":", 1) for line in lines if line)
    return found


def test_only_the_requested_sections_are_returned(server):
    with server.wire() as wire:
        assert list(sections(wire, "SERVER", "nothing", "cpu")) == ["Server", "CPU"]
        assert wire.call("INFO", "nothing").value == b""
        assert next(iter(sections(wire, "clients", "default"))) == "Server"


def test_the_keyspace_is_reported_per_database(server):
    with server.wire() as wire:
        wire.call("FLUSHALL")
        assert sections(wire, "keyspace") == {"Keyspace": {}}
        wire.do("SET a 1; SET b 1 EX 1000; SELECT 5; SET c 1")
        facts = sections(wire, "keyspace")["Keyspace"]
    assert list(facts) == ["db0", "db5"]
    assert facts["db5"] == "keys=1,expires=0,avg_ttl=0,subexpiry=0"
    figures = dict(pair.split("=") for pair in facts["db0"].split(","))
    assert (figures["keys"], figures["expires"]) == ("2", "1")
    assert 900_000 < int(figures["avg_ttl"]) <= 1_000_000


def test_the_listener_is_reported_with_its_addresses(server):
    with server.wire() as wire:
        facts = sections(wire, "server")["Server"]
    assert facts["listener0"] == f"name=tcp,bind=127.0.0.1,port={server.port}"
    assert facts["tcp_port"] == str(server.port)
    assert int(facts["process_id"]) == server.pid


@pytest.mark.parametrize("kind", ["rillet", "redis810", "rillet-7.0", "redis7"])
def test_a_history_read_counts_as_a_change_only_up_to_7_0(kind):
    reads = [("c", ">"), ("c", "0"), ("c", "0"), ("d", "0"), ("d", ">"), ("e", ">")]
    with start_server(kind) as server, server.wire() as wire:
        wire.do("XADD s 1-0 f v; XGROUP CREATE s g 0")
        changes = [_changes(wire)]
        for consumer, after in reads:
            wire.call("XREADGROUP", "GROUP", "g", consumer, "STREAMS", "s", after)
            changes.append(_changes(wire))
    assert changes == ([2, 4, 5, 6, 8, 8, 8] if kind in {"rillet-7.0", "redis7"} else [2, 4, 4, 4, 5, 5, 6])


def _changes(wire):
    return int(sections(wire, "persistence")["Persistence"]["rdb_changes_since_last_save"])
