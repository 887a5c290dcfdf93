"""redis-py's methods for what Redis 8.2 to 8.10 brought to streams, in both protocols."""

import pytest
from support.live import LiveServer


@pytest.fixture(scope="module")
def shared():
    with LiveServer() as server:
        yield server


@pytest.fixture(params=[2, 3])
def client(shared, request):
    shared.reset()
    with shared.client(protocol=request.param, decode_responses=True) as client:
        for key in ("s", "t"):
            for ms in range(1, 6):
                client.xadd(key, {"a": "b"}, id=f"{ms}-0")
            client.xgroup_create(key, "g", "0")
        client.xreadgroup("g", "c", {"s": ">"}, count=3)
        yield client


def read(reply):
    """Either protocol's reply as a dict."""
    pairs = reply.items() if isinstance(reply, dict) else reply
    return {key: entries[0] if isinstance(reply, dict) and entries else entries for key, entries in pairs}


def ids(entries):
    return [entry[0] for entry in entries]


def test_xdelex_and_xackdel(client):
    assert client.xdelex("s", "1-0", "4-0", ref_policy="ACKED") == [2, 2]
    assert client.xdelex("s", "1-0", "9-0", ref_policy="DELREF") == [1, -1]
    assert client.xackdel("s", "g", "2-0", "5-0") == [1, -1]
    assert client.xackdel("s", "g", "3-0", ref_policy="ACKED") == [1]
    assert ids(client.xrange("s")) == ["4-0", "5-0"]
    assert client.xpending("s", "g")["pending"] == 0


def test_xadd_and_xtrim_with_a_policy(client):
    assert client.xtrim("s", maxlen=2, ref_policy="ACKED", approximate=False) == 0
    client.xadd("s", {"a": "b"}, id="6-0", maxlen=2, approximate=False, ref_policy="DELREF")
    assert ids(client.xrange("s")) == ["5-0", "6-0"]
    assert client.xpending("s", "g")["pending"] == 0


def test_xnack(client):
    assert client.xnack("s", "g", "SILENT", "1-0", "9-0") == 1
    assert client.xnack("s", "g", "FATAL", "4-0", retrycount=3, force=True) == 1
    found = client.xpending_range("s", "g", "-", "+", 10)
    assert [(entry["message_id"], entry["consumer"], entry["times_delivered"]) for entry in found] == [
        ("1-0", "", 0),
        ("2-0", "c", 1),
        ("3-0", "c", 1),
        ("4-0", "", 3),
    ]
    assert found[0]["time_since_delivered"] == -1
    assert client.xinfo_stream("s", full=True)["groups"][0]["nacked-count"] == 2


def test_xreadgroup_claims(client):
    client.xnack("s", "g", "FAIL", "2-0")
    found = read(client.xreadgroup("g", "d", {"s": ">"}, count=4, claim_min_idle_time=0))["s"]
    assert ids(found) == ["2-0", "1-0", "3-0", "4-0"]
    assert [int(entry[3]) for entry in found] == [1, 1, 1, 0]
    assert found[3][2:] in ([0, 0], (0, 0), ["0", "0"])
    assert read(client.xreadgroup("g", "d", {"s": ">"}, claim_min_idle_time=100_000)).keys() == {"s"}
    assert not client.xreadgroup("g", "d", {"s": ">"}, claim_min_idle_time=100_000)


def test_limits_over_all_streams(client):
    found = read(client.xread({"s": "0", "t": "0"}, max_count=7))
    assert {key: len(entries) for key, entries in found.items()} == {"s": 5, "t": 2}
    assert [len(entries) for entries in read(client.xread({"s": "0", "t": "0"}, max_size=1)).values()] == [1]
    found = read(client.xreadgroup("g", "c", {"s": ">", "t": ">"}, count=2, max_count=3))
    assert {key: len(entries) for key, entries in found.items()} == {"s": 2, "t": 1}
    assert len(read(client.xreadgroup("g", "c", {"s": ">", "t": ">"}, max_size=1))["t"]) == 1
