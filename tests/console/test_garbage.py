"""What every group has acknowledged: never more than that, and counted where a lag counts it."""

import random

import pytest
import redis
from support import servers
from support.programs.console import deliver

import rillet
from rillet.console import api, top
from rillet.console.actions import ACTIONS, plan, run
from rillet.console.connection import Link
from rillet.console.garbage import garbage
from rillet.console.pages import GroupPage, StreamPage
from rillet.console.poller import Poller
from rillet.console.render import environment
from rillet.testing import Server


@pytest.fixture(params=["rillet", "redis810", "redis7", "valkey"])  # Redis 8.10 has ACKED
def kind(request):
    return request.param


async def found(link):
    """What the page of the stream says can be trimmed, and the overview's own estimate."""
    poller = Poller(link)
    await poller.round()
    shown = (await StreamPage({"key": "orders"}).context(poller))["garbage"]
    return shown, garbage(poller.overview.streams[b"orders"], poller.overview.facts), poller.overview


def needed(client):
    """The entries that a group has not acknowledged, one by one."""
    left = set()
    ids = [tuple(map(int, entry.split(b"-"))) for entry, _ in client.xrange("orders")]
    for group in client.xinfo_groups("orders"):
        last = tuple(map(int, group["last-delivered-id"].split(b"-")))
        left |= {entry for entry in ids if entry > last}
        pending = client.xpending_range("orders", group["name"], "-", "+", 10_000)
        left |= {tuple(map(int, one["message_id"].split(b"-"))) for one in pending}
    return left & set(ids)


@pytest.mark.parametrize("seed", range(8))
async def test_trimming_it_takes_all_that_is_done_before_the_first_entry_that_a_group_needs(
    seed, client, link
):
    chance = random.Random(seed)
    for number in range(1, 301):
        client.xadd("orders", {"n": number}, f"{number}-{chance.randrange(3)}")
    for name in "abc"[: chance.randint(1, 3)]:
        client.xgroup_create("orders", name, "0")
        client.xreadgroup(name, "Bob", {"orders": ">"}, count=chance.choice([1, 50, 299, 400]))
        held = [one["message_id"] for one in client.xpending_range("orders", name, "-", "+", 400)]
        done = held[: chance.randrange(len(held) + 1)] if chance.random() < 0.7 else held
        client.xack("orders", name, *chance.sample(done, len(done)), "999-0")
    before = needed(client)
    everything = client.xlen("orders")
    spare, estimate, overview = await found(link)
    assert (estimate and estimate.trim(b"orders")) == (spare and spare.trim(b"orders"))
    if spare is None or spare.held_by:
        assert min(before) == tuple(map(int, client.xrange("orders", count=1)[0][0].split(b"-")))
        return
    assert not spare.acked or overview.facts.version.startswith(("8.", rillet.__version__))
    link.read_only = False
    outcome = await run(
        link,
        plan(ACTIONS["trim"], {"key": "orders", "id": spare.before, "acked": "1" if spare.acked else ""}),
    )
    assert outcome.good
    gone = everything - client.xlen("orders")
    assert gone > 0
    assert needed(client) == before
    assert (await found(link))[0] is None
    assert not spare.exact or spare.entries == gone
    assert not spare.acked or spare.entries <= gone


def leave_the_first_pending(client):
    """Of 300 entries 200 are delivered, and all but the first of these are acknowledged."""
    deliver(client, 300, count=200)
    client.xack("orders", "billing", *(f"{number}-0" for number in range(2, 201)))


@pytest.mark.parametrize("kind", ["rillet", "redis810"])
async def test_what_is_done_behind_a_pending_entry_is_found_where_the_server_has_acked(client, link):
    """One poisonous message at the beginning keeps XTRIM MINID alone from trimming anything."""
    leave_the_first_pending(client)
    spare, estimate, overview = await found(link)
    assert (
        spare.trim(b"orders")
        == estimate.trim(b"orders")
        == (b"XTRIM", b"orders", b"MINID", b"200-1", b"ACKED")
    )
    assert (spare.entries, spare.exact) == (199, False)
    assert api.streams(overview)["streams"][0]["garbage"]["trim"] == "XTRIM orders MINID 200-1 ACKED"
    assert next(top.plain_rows(overview))[-1] == "199"
    link.read_only = False
    assert (await run(link, plan(ACTIONS["trim"], {"key": "orders", "id": "200-1", "acked": "1"}))).good
    assert [entry for entry, _ in client.xrange("orders", count=2)] == [b"1-0", b"201-0"]
    assert client.xlen("orders") == 101
    assert (await found(link))[0] is None


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
async def test_what_a_pending_entry_keeps_is_said_where_the_server_has_no_acked(client, link):
    """The first page of the stream says which message it is, and that it has to go first."""
    leave_the_first_pending(client)
    spare, estimate, overview = await found(link)
    assert (spare.held_by, spare.holder, spare.entries) == ("1-0", b"billing", 199)
    assert spare.trim(b"orders") is estimate.trim(b"orders") is None
    said = api.streams(overview)["streams"][0]["garbage"]
    assert (said["trim"], said["held_by"], said["entries"], said["since_ms"]) == (None, "1-0", 199, 1)
    assert top._rows(overview)[0][0][-1] == "~199"
    poller = Poller(link)
    await poller.round()
    shown = await StreamPage({"key": "orders"}).context(poller)
    html = environment().get_template("parts/stream_facts.html").render(shown)
    assert "1-0 keeps them all" in html
    assert "/group?key=orders&amp;group=billing" in html
    assert "/act/trim" not in html
    client.xack("orders", "billing", "1-0")
    assert (await found(link))[0].trim(b"orders") == (b"XTRIM", b"orders", b"MINID", b"200-1")


async def test_a_stream_without_groups_has_none_and_top_counts_it(client, link):
    for number in range(1, 11):
        client.xadd("orders", {"n": number}, f"{number}-0")
    assert (await found(link))[:2] == (None, None)
    client.xgroup_create("orders", "billing", "0")
    assert (await found(link))[:2] == (None, None)
    client.xreadgroup("billing", "Bob", {"orders": ">"}, count=4)
    client.xack("orders", "billing", "1-0", "2-0", "3-0", "4-0")
    spare, _, overview = await found(link)
    if spare.exact:  # servers before 7 know no lag
        assert spare.entries == 4
    assert (spare.before, spare.since) == ("4-1", 1)
    assert next(top.plain_rows(overview))[-1] == str(spare.entries)
    assert top._rows(overview)[0][0][-1].strip("~") == str(spare.entries)


async def test_consumers_that_are_dead_and_hold_nothing_are_named():
    with (
        servers.start_server("rillet", "--enable-debug-command", "local") as server,
        redis.Redis(port=server.port) as client,
    ):
        deliver(client)
        client.xgroup_createconsumer("orders", "billing", "Alice")
        client.execute_command("DEBUG", "CLOCK", "ADVANCE", 90_000_000)
        client.xgroup_createconsumer("orders", "billing", "Carol")

        async with Link(f"redis://127.0.0.1:{server.port}") as link:
            poller = Poller(link)
            await poller.round()
            shown = await GroupPage({"key": "orders", "group": "billing"}).context(poller)
        assert shown["detail"].dead == (b"Alice",)
        html = environment().get_template("parts/group_lanes.html").render(shown)
        assert "consumer=Alice" in html[html.index('id="dead"') :]


def test_a_test_server_says_which_entries_all_groups_have_acknowledged():
    with Server() as server, server.client() as client:
        for number in range(1, 6):
            client.xadd("jobs", {"n": number}, f"{number}-0")
        assert server.stream("jobs").acknowledged_by_all == []
        client.xgroup_create("jobs", "a", "0")
        client.xgroup_create("jobs", "b", "0")
        client.xreadgroup("a", "Bob", {"jobs": ">"})
        client.xreadgroup("b", "Bob", {"jobs": ">"}, count=4)
        client.xack("jobs", "a", *(f"{number}-0" for number in range(1, 6)))
        client.xack("jobs", "b", "1-0", "3-0", "4-0")
        assert [entry.id for entry in server.stream("jobs").acknowledged_by_all] == ["1-0", "3-0", "4-0"]
