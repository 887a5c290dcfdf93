"""The console's facts as JSON: the same names each time, true numbers, and commands that can be sent as they are."""

import json
import time
from urllib.parse import quote

import pytest
import redis
from support.programs.console import ConsoleProcess, address_of, deliver

from rillet.console import api, top
from rillet.console.connection import command
from rillet.console.names import split_line
from rillet.console.poller import Poller

STREAM = set(
    "stream length memory_bytes added_per_second delivered_per_second lag pending oldest_idle_ms garbage groups error".split()
)
GROUP = set(
    "stream group consumers pending lag last_delivered_id looked_at read_ms oldest_idle_ms oldest_id most_deliveries "
    "most_delivered_id".split()
)
ENTRY = set("stream group id consumer idle_ms deliveries read claim acknowledge".split())


@pytest.fixture
def scene(client):
    """Five orders, of which Bob holds the second, third and fourth, the third since an hour and for the sixth time."""
    deliver(client, 5, count=4)
    client.xack("orders", "billing", "1-0")
    client.execute_command("XCLAIM orders billing Bob 0 3-0 IDLE 3600000 RETRYCOUNT 6 JUSTID")
    return client


async def asked(link, path, **typed):
    poller = Poller(link)
    await poller.round()
    return json.loads(json.dumps(await api.answer(poller, path, typed)))


async def test_streams_and_groups_have_the_documented_names(scene, link):
    found = await asked(link, "streams")
    assert set(found) == {"server", "time_ms", "complete", "streams"}
    (stream,) = found["streams"]
    assert set(stream) == STREAM
    (group,) = stream["groups"]
    assert set(group) == GROUP
    assert (stream["stream"], stream["length"], stream["pending"], found["complete"]) == (
        "orders", 5, 3, True,
    )  # fmt: skip
    assert (group["oldest_id"], group["most_delivered_id"], group["most_deliveries"]) == ("3-0", "3-0", 6)
    assert group["oldest_idle_ms"] >= 3_600_000
    acked = found["server"]["kind"] == "Rillet"  # the other servers of this test are too old
    assert stream["garbage"]["trim"] == (
        "XTRIM orders MINID 4-1 ACKED" if acked else "XTRIM orders MINID 2-0"
    )
    one = await asked(link, "streams/orders")
    assert set(one) == STREAM | {"time_ms"}
    assert (await asked(link, "groups", stream="orders"))["groups"][0]["group"] == "billing"


async def test_the_stuck_message_is_named_with_what_would_free_it(scene, link):
    found = await asked(link, "pending", idle="10min")
    assert (found["complete"], found["fitting"]) == (True, 1)
    (entry,) = found["pending"]
    assert set(entry) == ENTRY
    assert (entry["id"], entry["consumer"], entry["deliveries"]) == ("3-0", "Bob", 6)
    link.read_only = False
    claim = [b"Alice" if word == b"CONSUMER" else word for word in split_line(entry["claim"])]
    assert await link.send([command(*claim)]) == [[[b"3-0", [b"n", b"3"]]]]
    assert (await asked(link, "pending", tries="2"))["pending"][0]["consumer"] == "Alice"
    assert await link.send([command(*split_line(entry["acknowledge"]))]) == [1]
    everything = await asked(link, "pending", limit="1")
    assert (everything["fitting"], len(everything["pending"])) == (2, 1)


async def test_names_that_are_no_text_come_as_redis_cli_takes_them(client, link):
    client.xadd(b'\xff "a', {"n": 1}, "1-0")
    client.xgroup_create(b'\xff "a', b"\x00", "0")
    client.xreadgroup(b"\x00", b"\xfe", {b'\xff "a': ">"})
    name = (await asked(link, "streams"))["streams"][0]["stream"]
    assert (await asked(link, f"streams/{name}"))["length"] == 1
    (entry,) = (await asked(link, "pending", stream=name, group='"\\x00"'))["pending"]
    link.read_only = False
    assert await link.send([command(*split_line(entry["acknowledge"]))]) == [1]


def test_top_prints_the_same(scene, capsys):
    assert top.main([address_of(scene), "--json"]) == 0
    (stream,) = json.loads(capsys.readouterr().out)["streams"]
    assert set(stream) == STREAM


def test_it_is_behind_the_token_and_says_errors_in_json(running):
    server = running("rillet")
    with redis.Redis(port=server.port) as client:
        client.flushall()
        client.xadd("a/b c", {"n": 1}, "1-0")
    with ConsoleProcess(f"redis://127.0.0.1:{server.port}", "--token", "open-sesame") as console:
        own = {"Authorization": "Bearer open-sesame"}
        until = time.monotonic() + 60  # the first round
        while not json.loads(console.ask("/api/streams", headers=own).text).get("complete"):
            assert time.monotonic() < until
        for path in ("streams", "streams/orders", "groups", "pending"):
            assert console.ask(f"/api/{path}").status == 401
            assert console.ask(f"/api/{path}", {}, headers=own).status == 405
        found = console.ask(f"/api/streams/{quote('a/b c')}", headers=own)
        assert (found.status, json.loads(found.text)["length"]) == (200, 1)
        assert found.headers["content-type"] == "application/json"
        for path, status in (
            ("streams/none", 404), ("nothing", 404), ("pending?idle=soon", 400), ("pending?limit=1001", 400),
            ("pending?group=none", 404),
        ):  # fmt: skip
            answer = console.ask(f"/api/{path}", headers=own)
            assert (answer.status, set(json.loads(answer.text))) == (status, {"error"}), path
