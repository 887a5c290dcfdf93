"""Actions on real servers: what is shown, what is sent, and what came of it."""

import html
import re

import pytest
import redis
from support.programs.console import before, deliver

from rillet.console.actions import ACTIONS, Outcome, Progress, plan, run
from rillet.console.app import Console
from rillet.console.connection import command, shown
from rillet.console.jobs import Job
from rillet.console.poller import Poller
from rillet.console.read_only import ReadOnlyError
from rillet.console.security import Guard


@pytest.fixture
def link(link):
    link.read_only = False
    return link


def made(name, **typed):
    return plan(ACTIONS[name], {"key": "orders", "group": "billing", **typed})


def claim(client, consumer, numbers, **options):
    client.xclaim("orders", "billing", consumer, 0, [f"{n}-0" for n in numbers], **{"idle": 60_000} | options)


def holders(client):
    return {
        row["message_id"]: row["consumer"]
        for row in client.xpending_range("orders", "billing", "-", "+", 100_000)
    }


def knows_xnack(client):
    try:
        client.execute_command("XNACK", "no-such-key", "g", "FAIL", "IDS", 1, "1-0")
    except redis.ResponseError as error:
        return "unknown command" not in str(error)
    raise AssertionError


async def test_claimed_entries_are_with_the_other_consumer(client, link):
    deliver(client, 6)
    chosen = made("claim", to="Alice", id="1-0 2-0")
    assert chosen.text == "XCLAIM orders billing Alice 0 1-0 2-0"
    assert (await run(link, chosen)).good
    assert [holders(client)[one] for one in (b"1-0", b"2-0", b"3-0")] == [b"Alice", b"Alice", b"Bob"]


async def test_all_that_fit_a_filter_are_claimed_in_slices_and_nothing_else(client, link):
    deliver(client, 2_500)
    claim(client, "Carol", range(1, 2_501, 3))
    claim(client, "Bob", range(2, 2_501, 3))
    chosen = made("claim", to="Dave", all="1", by="Bob", idle_over="1min", fit="833")
    assert chosen.text == "XPENDING orders billing - + 1000 Bob\nXCLAIM orders billing Dave 60000 <IDs>"
    progress = Progress()
    assert (await run(link, chosen, progress)).good
    assert (progress.done, progress.total) == (833, 833)
    found = holders(client)
    assert [one for one, who in found.items() if who == b"Dave"] == [
        f"{number}-0".encode() for number in range(2, 2_501, 3)
    ]
    assert sum(who == b"Carol" for who in found.values()) == 834


async def test_an_action_on_all_stops_behind_its_slice(client, link):
    deliver(client, 1_500)
    progress = Progress()
    before(link, b"XACK", lambda: setattr(progress, "stopped", True))
    outcome = await run(link, made("ack", all="1", fit="1500"), progress)
    assert (outcome.good, progress.done) == (False, 100)
    assert "stopped: 100 entries done" in outcome.lines[0][1]
    assert client.xpending("orders", "billing")["pending"] == 1_400


async def test_what_another_consumer_claims_meanwhile_stays_with_it(client, link):
    deliver(client, 10)
    claim(client, "Bob", range(1, 11))
    before(link, b"XCLAIM", lambda: claim(client, "Carol", [3], idle=0))
    assert (await run(link, made("claim", to="Dave", all="1", by="Bob"))).good
    found = holders(client)
    assert found.pop(b"3-0") == b"Carol"
    assert set(found.values()) == {b"Dave"}


async def test_a_dead_letter_is_in_one_stream_and_says_where_it_came_from(client, link):
    deliver(client, 6)
    client.xdel("orders", "2-0")
    outcome = await run(link, made("deadletter", id="1-0 2-0"))
    assert outcome.lines[0][1] == "(integer) 1"
    ((_, fields),) = client.xrange("orders:dead")
    assert fields == {
        b"n": b"1", b"origin-stream": b"orders", b"origin-group": b"billing", b"origin-id": b"1-0",
    }  # fmt: skip
    assert sorted(holders(client)) == [b"2-0", b"3-0", b"4-0", b"5-0", b"6-0"]


async def test_a_replayed_message_comes_again_as_a_new_one(client, link):
    deliver(client, 6)
    assert (await run(link, made("replay", all="1", tries="1", last="2-0"))).good
    assert sorted(holders(client)) == [b"3-0", b"4-0", b"5-0", b"6-0"]
    ((_, entries),) = client.xreadgroup("billing", "Alice", {"orders": ">"})
    assert [fields for _, fields in entries] == [{b"n": b"1"}, {b"n": b"2"}]


async def test_acknowledged_entries_leave_the_pel(client, link):
    deliver(client, 6)
    outcome = await run(link, made("ack", id="1-0,6-0"))
    assert outcome.lines == (("XACK orders billing 1-0 6-0", "(integer) 2"),)
    assert len(holders(client)) == 4


async def test_a_retired_consumer_loses_nothing(client, link):
    deliver(client, 250)
    chosen = made("retire", consumer="Bob", to="Alice")
    assert [line.split()[0] for line in chosen.text.splitlines()] == ["EVAL", "EVAL"]
    outcome = await run(link, chosen)
    assert outcome.good
    assert set(holders(client).values()) == {b"Alice"}
    assert len(holders(client)) == 250
    assert [one["name"] for one in client.xinfo_consumers("orders", "billing")] == [b"Alice"]


async def test_retiring_moves_the_entries_of_that_consumer_and_no_others(client, link):
    """Others may have been idle as long, or longer."""
    deliver(client, 250)
    claim(client, "Carol", range(1, 251, 2), idle=10_000_000)
    claim(client, "Bob", [2], idle=3_600_000, retrycount=9)
    assert (await run(link, made("retire", consumer="Bob", to="Alice"))).good
    found = holders(client)
    assert {found[f"{number}-0".encode()] for number in range(1, 251, 2)} == {b"Carol"}
    assert {found[f"{number}-0".encode()] for number in range(2, 251, 2)} == {b"Alice"}
    assert client.xpending_range("orders", "billing", "2-0", "2-0", 1)[0]["times_delivered"] == 9


async def test_retiring_drops_what_was_deleted_from_the_stream(client, link):
    deliver(client, 6)
    client.xdel("orders", "1-0")
    assert (await run(link, made("retire", consumer="Bob", to="Alice"))).good
    assert [one["name"] for one in client.xinfo_consumers("orders", "billing")] == [b"Alice"]


async def test_a_consumer_that_is_not_dead_is_not_deleted(client, link):
    deliver(client, 6)

    def reads_late():
        client.xadd("orders", {"item": "late"})
        client.xreadgroup("billing", "Bob", {"orders": ">"})

    before(link, b"EVAL", reads_late)
    outcome = await run(link, made("retire", consumer="Bob", to="Alice"))
    assert not outcome.good
    assert "not deleted" in outcome.lines[-1][1]
    assert b"Bob" in holders(client).values()


async def test_entries_are_given_back_where_xnack_is_known(client, link):
    deliver(client, 6)
    outcome = await run(link, made("giveback", id="1-0"))
    if knows_xnack(client):
        assert outcome.good
        assert holders(client)[b"1-0"] == b""
    else:
        assert "unknown command" in outcome.lines[0][1]


async def test_groups_and_consumers_come_and_go(client, link):
    for name, typed in (
        ("newgroup", {"id": "0"}),
        ("newconsumer", {"consumer": '"Zo\\xc3\\xab"'}),
        ("add", {"field": "item", "value": "cup", "id": "5-0"}),
        ("setid", {"id": "5-0"}),
    ):
        outcome = await run(link, made(name, **typed))
        assert outcome.good, outcome
    assert client.xinfo_groups("orders")[0]["last-delivered-id"] == b"5-0"
    assert client.xinfo_consumers("orders", "billing")[0]["name"] == "Zoë".encode()
    assert (await run(link, made("delconsumer", consumer="Zoë"))).good
    assert (await run(link, made("delete", id="5-0"))).good
    assert (await run(link, made("delgroup"))).good
    assert client.xinfo_groups("orders") == []


async def test_an_error_ends_a_run_and_is_shown(client, link):
    outcome = await run(link, made("setid", id="1-0"))
    assert not outcome.good
    assert outcome.lines[0][1].startswith("(error) ")


async def test_the_story_leaves_one_entry_with_each(client, link):
    assert (await run(link, made("example"))).good
    assert sorted(holders(client).values()) == [b"Alice", b"Bob"]


@pytest.mark.parametrize(
    ("name", "typed", "problem"),
    [
        ("claim", {"to": "Alice"}, "IDs"),
        ("claim", {"to": "Alice", "id": "1-0", "idle": "-1"}, "whole number"),
        ("claim", {"to": '"Alice', "id": "1-0"}, "quotes"),
        ("ack", {"id": "JUSTID"}, "not an ID"),
        ("setid", {"id": "abc"}, "not an ID"),
        ("retire", {"consumer": "Bob", "to": "Bob"}, "a consumer other than"),
        ("ack", {"all": "1", "idle_over": "soon"}, "not a time"),
        ("ack", {"all": "1", "tries": "many"}, "whole number"),
        ("ack", {"all": "1", "first": "a"}, "not an ID"),
        ("ack", {"all": "1", "last": "1-2-3"}, "not an ID"),
        ("ack", {"all": "1", "by": '"open'}, "quotes"),
    ],
)
def test_what_makes_no_command_is_said(name, typed, problem):
    chosen = made(name, **typed)
    assert problem in chosen.problem
    assert chosen.steps == []


async def test_a_read_only_link_sends_no_command_that_changes_something(client, link):
    deliver(client, 6)
    link.read_only = True
    for name in ACTIONS:
        chosen = made(name, id="1-0", to="Alice", consumer="Bob", value="x", fault="1", fields="n 1")
        assert chosen.steps
        with pytest.raises(ReadOnlyError):
            await run(link, chosen)
    for words in (
        ("FLUSHALL",), ("DEBUG", "CLOCK", "ADVANCE", 5), ("DEBUG", "FAULT", "CLEAR"), ("CLIENT", "KILL", "x"),
    ):  # fmt: skip
        with pytest.raises(ReadOnlyError):
            await link.send([command(*words)])
    assert set(holders(client).values()) == {b"Bob"}


@pytest.mark.parametrize(
    ("address", "plain"),
    [
        ("redis://ann:s3cret@db:6379/2", "redis://ann@db:6379/2"),
        ("rediss://:s3cret@db", "rediss://db"),
        ("redis://db?password=s3cret", "redis://db"),
        ("unix://:s3cret@/run/redis.sock?db=1", "unix:///run/redis.sock"),
        ("redis+sentinel://:s3cret@a:1,b:2/main", "redis+sentinel://a:1,b:2/main"),
    ],
)
def test_an_address_is_shown_without_its_password(address, plain):
    assert shown(address) == plain


@pytest.mark.parametrize(
    "template", ["done.html", "job.html"], ids=["at once", "after its progress was shown"]
)
@pytest.mark.parametrize(
    ("name", "typed", "onward"),
    [
        ("add", {"key": "orders"}, ("To the stream", "/stream?key=orders")),
        ("claim", {"key": "orders", "group": "b&c"}, ("To the group", "/group?key=orders&group=b%26c")),
        ("delgroup", {"key": "orders", "group": "billing"}, ("To the stream", "/stream?key=orders")),
        ("example", {"key": "orders"}, ("To the group", "/group?key=orders&group=billing")),
        ("fault", {}, None),
    ],
)
def test_an_outcome_leads_to_what_the_action_was_about(link, template, name, typed, onward):
    chosen = plan(ACTIONS[name], typed)
    job = Job(chosen, outcome=Outcome((("PING", "PONG"),), good=True))
    page = Console(Poller(link), Guard())._render(template, plan=chosen, job=job, outcome=job.outcome)
    actions = html.unescape(page.body.decode().partition('<p class="actions">')[2])
    links = {(text, to) for to, text in re.findall(r'href="([^"]+)">([^<]+)', actions)}
    assert links >= {("All streams", "/"), *([onward] if onward else [])}
    assert bool(onward) == ("To the" in actions)
