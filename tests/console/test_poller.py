"""The poller: what it reads, how little it asks for, and how it comes back."""

import asyncio
import contextlib
import json
from dataclasses import replace

import pytest
import redis
from support import servers
from support.programs.console import address_of, deliver

from rillet.console import pending_maxima, replies, top
from rillet.console import poller as polling
from rillet.console.connection import Link
from rillet.console.page_details import GroupSubject, MessageSubject, StreamSubject, before, page_of
from rillet.console.pages import GroupPage, OverviewPage
from rillet.console.poller import Poller, UnreadableError
from rillet.console.render import chart, environment
from rillet.console.samples import Samples, rate


class WatchedLink(Link):
    """A link that remembers what it sent."""

    def __init__(self, address):
        super().__init__(address)
        self.sent = []

    async def send(self, commands):
        self.sent += commands
        return await super().send(commands)


@pytest.fixture
async def poller(client):
    async with WatchedLink(address_of(client)) as link:
        yield Poller(link, tick=0.01)


def fill(client, streams=3, entries=4):
    for number in range(streams):
        deliver(client, entries, f"s{number}", count=2)


@contextlib.asynccontextmanager
async def polling_of(poller):
    task = asyncio.ensure_future(poller.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(poller, condition):
    async with asyncio.timeout(60):
        while not condition():
            await poller.ticked()


async def test_a_round_finds_streams_and_their_groups(client, poller):
    fill(client)
    client.set("other", 1)
    await poller.round()
    overview = poller.overview
    assert sorted(overview.streams) == [b"s0", b"s1", b"s2"]
    assert overview.keys == 4
    stream = overview.streams[b"s1"]
    assert (stream.length, stream.last_id, stream.pending, stream.worst_lag) == (4, "4-0", 2, 2)
    assert stream.groups[0].most_deliveries == 1
    assert stream.groups[0].looked is None
    assert stream.memory
    assert stream.memory > 0


async def test_a_stream_that_is_deleted_or_becomes_something_else_leaves(client, poller):
    fill(client)
    await poller.round()
    client.delete("s0")
    client.delete("s1")
    client.set("s1", "a string")
    await poller.round()
    assert list(poller.overview.streams) == [b"s2"]


async def test_no_command_reads_a_whole_stream_or_more_than_a_page_of_a_pel(client, poller):
    fill(client, streams=1, entries=400)
    client.xreadgroup("billing", "Bob", {"s0": ">"})
    await poller.round()
    await poller.data_of(StreamSubject(b"s0"))
    await poller.data_of(GroupSubject(b"s0", b"billing"))
    await poller.data_of(MessageSubject(b"s0", "1-0"))
    await page_of(poller.link, b"s0", "+", 25, b"", b"")
    for words in poller.link.sent:
        if words[0] == b"XPENDING" and len(words) > 3:
            assert int(words[5]) <= 1_000
        if words[0] in {b"XRANGE", b"XREVRANGE"}:
            assert words[2] == words[3] or int(words[5]) <= 200
        assert words[:2] != (b"XINFO", b"STREAM") or b"FULL" not in words


def stuck(client, entries, at, deliveries=9, idle=36_000_000):
    """A backlog of Bob's, in whose midst one entry was delivered again and again and another waits for long."""
    deliver(client, entries)
    client.xclaim("orders", "billing", "Bob", 0, [f"{at}-0"], retrycount=deliveries)
    client.xclaim("orders", "billing", "Bob", 0, [f"{at + 1}-0"], idle=idle, justid=True)


async def test_the_stuck_message_of_a_small_backlog_is_found_at_once(client, poller):
    stuck(client, 100, 61)
    await poller.round()
    (group,) = poller.overview.streams[b"orders"].groups
    assert (group.most_id, group.most_deliveries, group.oldest_id) == ("61-0", 9, "62-0")
    assert group.oldest_idle >= 36_000_000
    assert group.looked is None


async def test_the_stuck_message_of_any_backlog_is_found_and_until_then_it_is_a_sample(client, poller):
    stuck(client, 30_000, 25_001)
    rounds = []
    for _ in range(4):
        poller.link.sent.clear()
        await poller.round()
        (group,) = poller.overview.streams[b"orders"].groups
        rounds.append(group.looked)
        asked = [int(words[5]) for words in poller.link.sent if words[0] == b"XPENDING"]
        assert sum(asked) <= 11_000
        assert max(asked) <= 1_000
    assert rounds == [10_000, 20_000, 30_000, None]
    assert (group.most_id, group.most_deliveries, group.oldest_id) == ("25001-0", 9, "25002-0")
    # It stays found while the next lap goes on, and is forgotten when it is acknowledged.
    await poller.round()
    assert poller.overview.streams[b"orders"].groups[0].most_id == "25001-0"
    client.xack("orders", "billing", "25001-0", "25002-0")
    await poller.round()
    (group,) = poller.overview.streams[b"orders"].groups
    assert group.most_deliveries == 1
    assert group.oldest_idle < 36_000_000


async def test_many_groups_share_the_budget_and_all_have_their_turn(client, poller):
    for number in range(40):
        deliver(client, 600, f"s{number}")
    for _ in range(3):
        await poller.round()
    groups = [stream.groups[0] for stream in poller.overview.streams.values()]
    assert len(groups) == 40
    assert all(group.looked is None and group.oldest_id for group in groups)


async def test_each_group_is_looked_at_in_the_first_round_and_grows_older_until_its_turn_comes(
    client, poller, monkeypatch
):
    monkeypatch.setattr(pending_maxima, "ROUND", 10)
    for number in range(9):
        deliver(client, 5, f"s{number}")
        client.xclaim(f"s{number}", "billing", "Bob", 0, ["3-0"], idle=(9 - number) * 60_000)
    await poller.round()
    first = poller.overview
    groups = [stream.groups[0] for stream in first.streams.values()]
    assert all(group.oldest_id == "3-0" and not group.unread for group in groups)
    # An hour later on the server's clock: two of the groups are read again, the others are as much older.
    original = polling.replies.now
    monkeypatch.setattr(polling.replies, "now", lambda reply: original(reply) + 3_600_000)
    for number in range(9):
        client.xclaim(f"s{number}", "billing", "Bob", 0, ["3-0"], idle=(69 - number) * 60_000)
    await poller.round()
    ordered = sorted(poller.overview.streams.values(), key=lambda stream: stream.trouble, reverse=True)
    assert [stream.key for stream in ordered] == [b"s%d" % number for number in range(9)]
    assert all(stream.oldest_idle >= 3_600_000 for stream in ordered)


async def test_a_group_that_was_not_read_yet_says_so_everywhere(client, poller, monkeypatch):
    monkeypatch.setattr(pending_maxima, "ROUND", 2)
    monkeypatch.setattr(pending_maxima, "FIRST", 6)
    for number in range(3):
        deliver(client, 5, f"s{number}")
    await poller.round()
    unread = [stream for stream in poller.overview.streams.values() if stream.unread]
    assert len(unread) == 1
    assert [row[-3:-1] for row in top.plain_rows(poller.overview)].count(("", "")) == 2
    assert [cells[-3:-1] for cells, _ in top._rows(poller.overview)].count(("not read", "")) == 2
    page = OverviewPage({})
    shown = environment().get_template("parts/streams.html")
    html = shown.render({**await page.context(poller), "read_only": True})
    assert "not read yet" in html
    assert "5 pending not read yet" in html
    for _ in range(3):
        await poller.round()
    assert not any(stream.unread for stream in poller.overview.streams.values())


async def test_an_idle_time_grows_between_two_rounds_unless_the_clock_may_stand_still(
    client, poller, monkeypatch
):
    deliver(client, 5, "s0")
    await poller.round()
    overview = poller.overview
    monkeypatch.setattr(polling.time, "monotonic", lambda: overview.read + 5)
    assert overview.aged(1_000) == 6_000
    assert overview.aged(None) is None
    assert replace(overview, gone="away").aged(1_000) == 1_000
    assert replace(overview, facts=replace(overview.facts, debug=True)).aged(1_000) == 1_000


async def test_a_page_of_a_group_filters_sorts_and_pages_through_the_whole_backlog(client, poller):
    stuck(client, 3_000, 2_500)
    client.xclaim("orders", "billing", "Carol", 0, [f"{number}-0" for number in range(1, 2_001)], justid=True)
    await poller.round()

    async def table(**typed):
        page = GroupPage({"key": "orders", "group": "billing", **typed})
        return await page.whole_context(poller)

    shown = await table()
    assert (shown["rows"][0].id, shown["most_id"], shown["most"], shown["fitting"]) == (
        "2501-0", "2500-0", 9, 3_000,
    )  # fmt: skip
    assert (await table(sort="deliveries"))["rows"][0].id == "2500-0"
    assert [entry.id for entry in (await table(idle_over="1h"))["rows"]] == ["2501-0"]
    assert [entry.id for entry in (await table(tries="5"))["rows"]] == ["2500-0"]
    carols = await table(by="Carol", sort="id", at="40")
    assert (carols["fitting"], carols["pages"], carols["rows"][-1].id) == (2_000, 40, "2000-0")
    assert (await table(first="10", last="12-0"))["fitting"] == 3
    assert (await table(by="Carol", at="999"))["number"] == 40
    assert "not a time" in (await table(idle_over="soon"))["problem"]


async def test_consumers_in_trouble_come_first_and_say_what_they_do_not_show(client, poller):
    stuck(client, 300, 100)
    client.xadd("orders", {"item": "cup"})
    client.xreadgroup("billing", "Alice", {"orders": ">"})
    for number in range(40):
        client.xgroup_createconsumer("orders", "billing", f"idle{number}")
    detail = await poller.data_of(GroupSubject(b"orders", b"billing"))
    first = detail.lanes[0]
    assert (first.consumer.name, first.most, len(first.entries)) == (b"Bob", 9, 40)
    assert first.oldest >= 36_000_000
    assert first.entries[0].id == "100-0"
    assert detail.lanes[1].consumer.name == b"Alice"
    assert (detail.hidden, detail.hidden_pending) == (12, 0)


def test_a_chart_has_no_cliff_where_the_clock_jumped():
    rows = json.loads(
        chart([(0.0, 1, 1, 1), (1.0, 2, 1, 2), (2.0, 3, 1, 3), (9000.0, 4, 1, 9)], {"lag": (1, False)})
    )["rows"]
    assert rows[1] == [1, 2, 3, None, 4]
    back = json.loads(
        chart([(100.0, 1, 1, 1), (101.0, 2, 1, 2), (5.0, 3, 1, 3), (6.0, 4, 1, 4)], {"lag": (1, False)})
    )["rows"]
    assert back[1] == [3, 4]


async def test_entries_that_are_big_are_read_in_small_numbers(client, poller):
    for number in range(1, 31):
        client.xadd("big", {"v": b"x" * 1_000_000}, f"{number}-0")
    detail = await poller.data_of(StreamSubject(b"big"))
    assert 1 <= len(detail.newest) <= 6


async def test_big_entries_are_left_out_of_most_rounds(client, poller):
    client.xadd("big", {"v": b"x" * 100_000}, "1-0")
    await poller.round()
    poller.link.sent.clear()
    client.xadd("big", {"v": b"y"}, "2-0")
    await poller.round()
    assert (b"XINFO", b"STREAM", b"big") not in poller.link.sent
    assert poller.overview.streams[b"big"].length == 2


async def test_pages_that_look_at_the_same_thing_share_one_read(client, poller):
    fill(client, streams=1)
    subject = GroupSubject(b"s0", b"billing")
    details = await asyncio.gather(
        *(poller.data_of(GroupSubject(b"s0", b"billing"), fresh=True) for _ in range(20))
    )
    assert len({id(detail) for detail in details}) == 1
    assert poller.link.sent.count((b"XINFO", b"CONSUMERS", b"s0", b"billing")) == 1
    assert await poller.data_of(subject) is details[0]


async def test_rates_are_the_growth_between_two_rounds(client, poller):
    fill(client, streams=1)
    async with polling_of(poller), poller.viewing([]):
        await until(poller, lambda: poller.overview.streams)
        client.xadd("s0", {"n": 5})
        client.xreadgroup("billing", "Bob", {"s0": ">"}, count=1)
        await until(poller, lambda: (poller.overview.streams[b"s0"].rate_in or 0) > 0)


async def test_a_server_that_goes_away_is_said_and_found_again(monkeypatch):
    with servers.start_server("redis7") as server:
        port = server.port
        async with Link(f"redis://127.0.0.1:{port}") as link:
            poller = Poller(link, tick=0.01)
            async with polling_of(poller), poller.viewing([]):
                await until(poller, lambda: poller.overview.facts)
                server.stop()
                await until(poller, lambda: poller.overview.gone)
                monkeypatch.setattr(servers, "free_port", lambda: port)
                server.start()
                await until(poller, lambda: not poller.overview.gone)
                with redis.Redis(port=port) as client:
                    client.xadd("new", {"a": 1})
                await until(poller, lambda: b"new" in poller.overview.streams)


async def test_more_streams_than_the_budget_are_counted_as_left_out(client, poller, monkeypatch):
    monkeypatch.setattr(polling, "MOST_STREAMS", 2)
    fill(client)
    await poller.round()
    assert len(poller.overview.streams) == 2
    assert poller.overview.left_out


async def test_a_slow_round_is_followed_by_a_long_pause(client, poller, monkeypatch):
    rounds = []
    original = poller.round

    async def slow():
        await original()
        rounds.append(1)
        poller.overview = polling.replace(poller.overview, taken=1000.0)

    monkeypatch.setattr(poller, "round", slow)
    async with polling_of(poller):
        for _ in range(20):
            await poller.ticked()
    assert len(rounds) == 1


async def test_a_filter_pages_through_what_fits(client, poller):
    for number in range(1, 101):
        client.xadd("s", {"kind": "even" if number % 2 == 0 else "odd", "n": number}, f"{number}-0")
    first = await page_of(poller.link, b"s", "+", 20, b"kind", b"even")
    assert [entry.id for entry in first.entries] == [f"{number}-0" for number in range(100, 60, -2)]
    second = await page_of(poller.link, b"s", first.older, 40, b"kind", b"even")
    assert [entry.id for entry in second.entries] == [f"{number}-0" for number in range(60, 0, -2)]
    assert second.older == ""


async def test_pages_without_a_filter_leave_nothing_out(client, poller):
    for number in range(1, 61):
        client.xadd("s", {"n": number}, f"{number}-0")
    seen, at = [], "+"
    while at:
        page = await page_of(poller.link, b"s", at, 25, b"", b"")
        seen += [entry.id for entry in page.entries]
        at = page.older
    assert seen == [f"{number}-0" for number in range(60, 0, -1)]


async def test_a_message_is_where_each_group_says(client, poller):
    fill(client, streams=1)
    client.xgroup_create("s0", "late", "0")
    client.xack("s0", "billing", "2-0")
    states = {}
    for entry_id in ("1-0", "2-0", "4-0"):
        detail = await poller.data_of(MessageSubject(b"s0", entry_id))
        states[entry_id] = {standing.group.name: standing.state for standing in detail.standings}
    assert states == {
        "1-0": {b"billing": "pending", b"late": "waiting"},
        "2-0": {b"billing": "passed", b"late": "waiting"},
        "4-0": {b"billing": "waiting", b"late": "waiting"},
    }


def test_what_an_old_server_does_not_say_is_unknown():
    group = replies.groups(
        [[b"name", b"billing", b"consumers", 1, b"pending", 2, b"last-delivered-id", b"3-0"]]
    )[0]
    assert (group.lag, group.entries_read) == (None, None)
    consumer = replies.consumers([[b"name", b"c", b"pending", 1, b"idle", 5]])[0]
    assert consumer.inactive is None


@pytest.mark.parametrize(("entry_id", "smaller"), [("5-3", "5-2"), ("5-0", f"4-{2**64 - 1}"), ("0-0", "0-0")])
def test_the_id_before_another(entry_id, smaller):
    assert before(entry_id) == smaller


def test_a_history_is_bounded_in_both_directions():
    history = Samples(samples=3, series=2)
    for number in range(5):
        for key in ((b"a",), (b"b",), (b"c",)):
            history.add(key, (float(number), number, None, None))
    assert history.of((b"a",)) == []
    assert [sample[0] for sample in history.of((b"c",))] in ([2.0, 3.0, 4.0], [4.0])


def test_a_counter_that_began_again_has_no_rate():
    assert rate((1.0, 5, None, None), (3.0, 9, None, None), 1) == 2.0
    assert rate((1.0, 5, None, None), (3.0, 1, None, None), 1) is None
    assert rate(None, (3.0, 1, None, None), 1) is None


class Broken:
    """A subject whose reading fails for a reason of the console's own."""

    series = ()

    def __init__(self):
        self.reads = 0

    async def read(self, _):
        self.reads += 1
        return {}["no such key"]


async def test_a_detail_that_cannot_be_read_is_said_and_logged_once_and_the_rest_goes_on(
    client, poller, caplog
):
    fill(client, streams=1)
    broken, group = Broken(), GroupSubject(b"s0", b"billing")
    async with polling_of(poller), poller.viewing([broken, group]):
        await until(poller, lambda: broken.reads > 2 and group in poller._details)
        client.xack("s0", "billing", "1-0")
        await until(poller, lambda: poller._details[group][1].group.pending == 1)
        with pytest.raises(UnreadableError, match="KeyError: 'no such key'"):
            await poller.data_of(broken)
        assert poller.overview.gone == ""
    assert [record.exc_info[0] for record in caplog.records] == [KeyError]


async def test_a_round_that_fails_shows_no_green_state_and_is_tried_again(
    client, poller, monkeypatch, caplog
):
    fill(client, streams=1)
    async with polling_of(poller), poller.viewing([]):
        await until(poller, lambda: poller.overview.streams)
        with monkeypatch.context() as broken:
            broken.setattr(replies, "facts", lambda *_, **__: {}["no such key"])
            await until(poller, lambda: poller.overview.gone)
            assert "the console cannot read it: KeyError" in poller.overview.gone
            await poller.ticked()
        await until(poller, lambda: not poller.overview.gone)
    assert [record.exc_info[0] for record in caplog.records] == [KeyError]


async def test_a_detail_that_takes_long_is_read_less_often_but_within_ten_seconds(client, poller):
    class Slow:
        series = ()

        def __init__(self, seconds):
            self.seconds, self.reads = seconds, 0

        async def read(self, _):
            await asyncio.sleep(self.seconds)
            self.reads += 1
            return self.reads

    slow, slower = Slow(0.3), Slow(0.6)
    async with poller.viewing([slow, slower]):
        await poller._read_watched()
        await poller._read_watched()
        assert await poller.data_of(slow) == 1
        assert (slow.reads, slower.reads) == (1, 1)
        for one, least in ((slow, 20 * 0.3), (slower, polling.UNWATCHED)):
            read_at, _ = poller._details[one]
            assert least - 0.02 <= poller._due[one] - read_at <= polling.UNWATCHED
    poller.changed()
    assert await poller.data_of(slow) == 2
