"""The console of a cluster: streams of all masters, keys by one cursor, actions where the key is, moved slots."""

import asyncio

import pytest
import redis
from support.deployments.real_cluster import RealCluster

import rillet.testing
from rillet.console.actions import ACTIONS, plan, run
from rillet.console.clients import ClientsSubject, Watch
from rillet.console.connection import Link, command
from rillet.console.keys import KeysSubject
from rillet.console.page_details import GroupSubject
from rillet.console.poller import Poller
from rillet.console.prompt import Prompt
from rillet.console.read_only import ReadOnlyError

STREAMS = [f"orders:{number}".encode() for number in range(30)]


@pytest.fixture(scope="module", params=["rillet", "redis7"])
def cluster(request):
    """A cluster, the port of one of its masters, and how a slot moves to another one."""
    if request.param == "rillet":
        with rillet.testing.Cluster(shards=3) as found:
            port = int(found.url.rpartition(":")[2].partition("/")[0])

            def move(slot):
                key = next(key for key in STREAMS if found.slot_of(key.decode()) == slot)
                source = found.shard_of(key.decode())
                found.move(slot, to=next(shard for shard in found.shards if shard is not source))

            yield port, move
    else:
        with RealCluster("redis7", shards=3) as found:
            yield found.masters()[0].port, found.move_slot


@pytest.fixture
def client(cluster):
    with redis.cluster.RedisCluster(host="127.0.0.1", port=cluster[0]) as connected:
        connected.flushall(target_nodes="primaries")
        for key in STREAMS:
            connected.xadd(key, {"a": 1}, "1-0")
            connected.xgroup_create(key, "g", "0")
            connected.xreadgroup("g", "Bob", {key: ">"})
        yield connected


@pytest.fixture
async def link(cluster):
    async with Link(f"redis+cluster://127.0.0.1:{cluster[0]}") as made:
        yield made


async def test_streams_of_all_masters_are_found(client, link):
    poller = Poller(link)
    await poller.round()
    while poller.overview.sweeping:
        await poller.round()
    assert sorted(poller.overview.streams) == sorted(STREAMS)
    assert poller.overview.keys == len(STREAMS)
    assert poller.overview.facts.mode == "cluster"
    assert all(stream.pending == 1 for stream in poller.overview.streams.values())


async def test_keys_are_gone_through_by_one_cursor(client, link):
    found, cursor = set(), "0"
    while cursor:
        detail = await KeysSubject(cursor=cursor).read(link)
        found |= {row.key for row in detail.rows}
        cursor = detail.cursor
    assert found == set(STREAMS)


async def test_an_action_runs_where_its_key_is(client, link):
    for key in STREAMS[:6]:
        chosen = plan(ACTIONS["retire"], {"key": key.decode(), "group": "g", "consumer": "Bob", "to": "Al"})
        with pytest.raises(ReadOnlyError):
            await run(link, chosen)
        outcome = await run(link.actor, chosen)
        assert outcome.good, outcome.lines
        detail = await GroupSubject(key, b"g").read(link)
        assert [(lane.consumer.name, lane.consumer.pending) for lane in detail.lanes] == [(b"Al", 1)]


async def test_a_group_with_the_name_of_a_word_is_read_where_its_stream_is(client, link):
    for key in (b"words:%d" % number for number in range(10)):
        client.xadd(key, {"a": 1}, "1-0")
        client.xgroup_create(key, "streams", "0")
        words = ("XREADGROUP", "GROUP", "streams", "streams", "STREAMS", key, ">")
        assert await link.actor.call(*words) == [[key, [[b"1-0", [b"a", b"1"]]]]]
        client.delete(key)


async def test_a_slot_that_moves_is_found_again(client, cluster, link):
    key = STREAMS[3]
    assert await link.send([command("XLEN", key)]) == [1]
    cluster[1](client.keyslot(key))
    assert await link.send([command("XLEN", key), command("XLEN", STREAMS[0])]) == [1, 1]


async def test_clients_and_the_prompt_are_those_of_the_node_that_was_named(client, link):
    assert any(one.own for one in (await ClientsSubject().read(link)).clients)
    prompt = Prompt(link)
    replies = [
        (await prompt.run("one", f"XLEN {key.decode()}", read_only=True, sure=False)).text for key in STREAMS
    ]
    await prompt.close()
    assert "(integer) 1" in replies
    assert any("MOVED" in reply for reply in replies)
    watch = Watch()
    await watch.start(link)
    await asyncio.sleep(0)
    await watch.stop()
    assert not watch.on
