"""The timeline of a message, from a recording that the console begins on a Rillet, or from its append-only file."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import redis
from support import servers

from rillet.console import timeline
from rillet.console.connection import Link
from rillet.console.poller import Poller
from rillet.console.timeline import FileSubject, TapeSubject, events, waits, written_events


@pytest.fixture(scope="module")
def server():
    with servers.start_server("rillet", "--enable-debug-command", "local") as started:
        yield started


@pytest.fixture
def client(server):
    with redis.Redis(port=server.port, client_name="shop") as connected:
        connected.flushall()
        yield connected


@pytest.fixture
async def link(server):
    async with Link(f"redis://127.0.0.1:{server.port}") as made:
        await timeline.begin(made.actor)
        yield made
        await timeline.end(made.actor)


async def life(link, entry_id="1-0", key=b"orders", *, exists=True, database=0):
    assert await TapeSubject().read(link)
    rows = [row for _, row in sorted(link.tape.rows.items())]
    return events(rows, key, entry_id, database, exists=exists)


def life_of(found):
    return [(one.what, one.group, one.consumer, one.certain) for one in found]


BEGINNING = [("added", "", "", True), ("delivered", "g", "Bob", True)]
LIFE = [*BEGINNING, ("claimed", "g", "Alice", True), ("acknowledged", "g", "Alice", True)]
ENDS = {"deleted", "trimmed", "removed with its stream"}


def begin(client):
    client.xgroup_create("orders", "g", "0", mkstream=True)
    client.xadd("orders", {"a": 1}, "1-0")
    client.xreadgroup("g", "Bob", {"orders": ">"})


async def test_it_shows_who_added_delivered_claimed_and_acknowledged_and_when(client, link):
    begin(client)
    client.execute_command("DEBUG", "CLOCK", "ADVANCE", 60_000)
    client.xclaim("orders", "g", "Alice", 0, ["1-0"])
    client.xack("orders", "g", "1-0")
    found = await life(link)
    client.execute_command("DEBUG", "CLOCK", "RESET")
    assert life_of(found) == LIFE
    assert found[2].time - found[1].time >= 60_000
    assert {one.client for one in found} == {"shop"}
    assert (found[2].origin, found[2].note) == ("Bob", "")


EVENTS = [
    (("XACK", "orders", "g", "1-0"), ("acknowledged", "g", "Bob", True)),
    (("XACK", "orders", "g", "1"), ("acknowledged", "g", "Bob", True)),
    (("XACK", "orders", "g", "1-0", "9-0"), ("acknowledged", "g", "Bob", True)),
    (("XNACK", "orders", "g", "FAIL", "IDS", 1, "1-0"), ("given back", "g", "Bob", True)),
    (("XCLAIM", "orders", "g", "Al", 0, "1-0", "JUSTID"), ("claimed", "g", "Al", True)),
    (("XAUTOCLAIM", "orders", "g", "Al", 0, "0"), ("claimed", "g", "Al", True)),
    (("XREADGROUP", "GROUP", "g", "Bob", "STREAMS", "orders", "0"), ("read again", "g", "Bob", True)),
    (("XDEL", "orders", "1-0"), ("deleted", "", "", True)),
    (("XDELEX", "orders", "IDS", 1, "1-0"), ("deleted", "", "", True)),
    (("XACKDEL", "orders", "g", "IDS", 1, "1-0"), ("deleted", "", "", True)),
    (("XTRIM", "orders", "MAXLEN", 0), ("trimmed", "", "", True)),
    (("XGROUP", "DESTROY", "orders", "g"), ("dropped from pending", "g", "Bob", True)),
    (("XGROUP", "DELCONSUMER", "orders", "g", "Bob"), ("dropped from pending", "g", "Bob", True)),
    (("DEL", "orders"), ("removed with its stream", "", "", True)),
    (("FLUSHALL",), ("removed with its stream", "", "", True)),
    (("RENAME", "orders", "others"), ("removed with its stream", "", "", True)),
    (("RENAMENX", "orders", "others"), ("removed with its stream", "", "", True)),
    (("MOVE", "orders", 3), ("removed with its stream", "", "", True)),
    (("SWAPDB", 0, 3), ("removed with its stream", "", "", False)),
    (("RENAME", "orders", "orders"), ("delivered", "g", "Bob", True)),
    (("RENAMENX", "orders", "orders"), ("delivered", "g", "Bob", True)),
    (("COPY", "orders", "others"), ("delivered", "g", "Bob", True)),
    (("COPY", "orders", "orders", "DB", 3), ("delivered", "g", "Bob", True)),
    (("SWAPDB", 3, 4), ("delivered", "g", "Bob", True)),
    (("EVAL", "return 1", 1, "orders"), ("delivered", "g", "Bob", True)),
    (("EVAL", "redis.call('XACK', KEYS[1], 'g', '1-0')", 1, "orders"), ("acknowledged", "g", "Bob", True)),
    (("EVAL", "redis.call('XDEL', 'orders', '1-0')", 0), ("deleted", "", "", True)),
    (("EVAL", "redis.call('FLUSHALL')", 0), ("removed with its stream", "", "", True)),
    (("EVAL", "redis.call('XTRIM', KEYS[1], 'MAXLEN', 0)", 1, "orders"), ("trimmed", "", "", True)),
]


@pytest.mark.parametrize(("words", "event"), EVENTS, ids=lambda words: " ".join(map(str, words[:2])))
async def test_each_command_leaves_its_event(client, link, words, event):
    begin(client)
    client.response_callbacks.clear()  # redis-py reads other replies of XCLAIM than those of JUSTID
    client.execute_command(*words)
    assert life_of(await life(link, exists=event[0] not in ENDS))[-1] == event


async def test_the_command_inside_a_script_is_named_at_its_place(client, link):
    client.function_load(
        "#!lua name=t\nredis.register_function('claim', function(keys) "
        "return redis.call('XCLAIM', keys[1], 'g', 'Lua', 0, '1-0') end)",
        replace=True,
    )
    begin(client)
    ack = "redis.call('XACK', KEYS[1], 'g', '1-0') error('late')"
    with client.pipeline() as pipe:
        pipe.evalsha("0" * 40, 1, "orders").fcall("claim", 1, "orders").xclaim(
            "orders", "g", "Al", 0, ["1-0"]
        )
        pipe.eval(ack, 1, "orders").xdel("orders", "1-0")
        pipe.execute(raise_on_error=False)
    client.eval_ro("return redis.call('XLEN', KEYS[1])", 1, "orders")
    assert [(one.what, one.consumer, one.note) for one in await life(link, exists=False)] == [
        ("added", "", ""), ("delivered", "Bob", ""), ("claimed", "Lua", "XCLAIM inside FCALL"), ("claimed", "Al", ""),
        ("acknowledged", "Al", "XACK inside EVAL"), ("deleted", "", ""),
    ]  # fmt: skip


async def test_what_a_rillet_before_the_field_has_recorded_may_have_been_a_script(client, link):
    begin(client)
    client.eval("return 1", 1, "orders")
    await life(link)
    rows = [row[:10] for _, row in sorted(link.tape.rows.items())]
    assert life_of(events(rows, b"orders", "1-0", 0, exists=True))[-1] == (
        "perhaps changed by a script", "", "", False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "event"),
    [
        (("XACK", "ids", "streams", "1-0"), ("acknowledged", "streams", "ids", True)),
        (("XNACK", "ids", "streams", "FAIL", "IDS", 1, "1-0"), ("given back", "streams", "ids", True)),
        (("XDELEX", "ids", "IDS", 1, "1-0"), ("deleted", "", "", True)),
        (("XACKDEL", "ids", "streams", "IDS", 1, "1-0"), ("deleted", "", "", True)),
    ],
    ids=lambda words: words[0],
)
async def test_names_that_are_words_of_commands_are_names(client, link, words, event):
    client.response_callbacks.clear()
    client.xgroup_create("ids", "streams", "0", mkstream=True)
    client.xadd("ids", {"a": 1}, "1-0")
    client.execute_command("XREADGROUP", "GROUP", "streams", "ids", "COUNT", 1, "STREAMS", "ids", ">")
    client.execute_command(*words)
    found = life_of(await life(link, key=b"ids", exists=event[0] != "deleted"))
    assert found[:2] == [("added", "", "", True), ("delivered", "streams", "ids", True)]
    assert found[-1] == event


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (("RENAME", "others", "orders"), "RENAME from others"),
        (("RENAMENX", "others", "orders"), "RENAMENX from others"),
        (("COPY", "others", "orders", "REPLACE"), "COPY from others"),
        (("COPY", "orders", "orders", "DB", 0, "REPLACE"), "COPY from orders"),
        (("MOVE", "orders", 0), "MOVE from database 3"),
        (("SWAPDB", 0, 3), "SWAPDB"),
        (("RESTORE", "orders", 0, "the dump"), "RESTORE"),
    ],
    ids=lambda words: " ".join(map(str, words[:3])) if isinstance(words, tuple) else "",
)
async def test_a_message_comes_with_a_stream_that_takes_this_place(client, server, link, words, note):
    """The message is in a stream of another name or database; "orders" had another one with the same ID before."""
    begin(client)
    dump = client.dump("orders")
    if words[0] in {"RENAMENX", "MOVE", "RESTORE"}:
        client.delete("orders")
    with redis.Redis(port=server.port, db=3) as other:
        for there, key in ((client, "others"), (other, "orders")):
            there.xgroup_create(key, "g", "0", mkstream=True)
            there.xadd(key, {"a": 2}, "1-0")
        sender = other if "orders" in words[1:2] and words[0] != "RESTORE" else client
        sender.execute_command(*(dump if word == "the dump" else word for word in words))
        gone = [("removed with its stream", "", "", words[0] != "SWAPDB")]
        came = [("came with its stream", "", "", True)]
        found = await life(link)
        assert life_of(found) == BEGINNING + gone + came
        assert found[-1].note == note
        assert life_of(await life(link, exists=False)) == BEGINNING + gone  # it was in the first stream only
        client.xreadgroup("g", "Alice", {"orders": ">" if words[0] != "RESTORE" else "0"})
        if words[0] != "RESTORE":
            client.xack("orders", "g", "1-0")
            client.xdel("orders", "1-0")
            after = [("delivered", "g", "Alice", True), ("acknowledged", "g", "Alice", True)]
            after.append(("deleted", "", "", True))
            assert life_of(await life(link, exists=False)) == BEGINNING + gone + came + after


async def test_a_stream_that_came_can_go_again(client, link):
    begin(client)
    client.rename("orders", "aside")
    client.rename("aside", "orders")
    client.xreadgroup("g", "Bob", {"orders": "0"})
    client.delete("orders")
    assert [one.what for one in await life(link, exists=False)] == [
        "added", "delivered", "removed with its stream", "came with its stream", "read again",
        "removed with its stream",
    ]  # fmt: skip


async def test_a_stream_that_takes_no_place_changes_nothing(client, link):
    begin(client)
    client.xadd("others", {"a": 2}, "1-0")
    assert not client.renamenx("others", "orders")
    assert not client.copy("others", "orders")
    with pytest.raises(redis.ResponseError):
        client.restore("orders", 0, client.dump("others"))
    client.move("others", 3)
    assert [one.what for one in await life(link)] == ["added", "delivered"]


async def test_what_is_deleted_is_not_removed_once_more_with_its_stream(client, link):
    client.execute_command("DEBUG", "CLOCK", "FREEZE")  # all within one millisecond
    begin(client)
    client.xdel("orders", "1-0")
    client.delete("orders")
    client.xadd("orders", {"a": 1}, "1-0")
    client.delete("orders")
    client.execute_command("DEBUG", "CLOCK", "RESET")
    assert [one.what for one in await life(link, exists=False)] == [
        "added", "delivered", "deleted", "added", "removed with its stream",
    ]  # fmt: skip


async def test_a_command_that_is_not_understood_is_logged_and_leaves_the_others(client, link, caplog):
    begin(client)
    client.xack("orders", "g", "1-0")
    assert await TapeSubject().read(link)
    rows = [[*row] for _, row in sorted(link.tape.rows.items())]
    rows[2][7] = [b"XREADGROUP", b"of", b"another", b"form", b"orders"]
    assert [one.what for one in events(rows, b"orders", "1-0", 0, exists=True)] == ["added", "acknowledged"]
    assert "XREADGROUP" in caplog.text


async def test_a_recording_that_begins_inside_a_transaction_gives_each_command_its_own_reply(server, client):
    with client.client() as one:
        one.execute_command("MULTI")
        one.execute_command("SET", "another", "key")
        async with Link(f"redis://127.0.0.1:{server.port}") as link:
            await timeline.begin(link.actor)
            one.execute_command("XADD", "orders", "1-0", "a", "1")
            one.execute_command("EXEC")
            found = await life(link)
            await timeline.end(link.actor)
    assert life_of(found) == [("added", "", "", True)]


async def test_a_transaction_counts_when_it_runs_and_an_error_does_not(client, link):
    begin(client)
    pipeline = client.pipeline()
    pipeline.set("another", "key")
    pipeline.xack("orders", "g", "1-0")
    pipeline.execute()
    with pytest.raises(redis.ResponseError):
        client.execute_command("XACK", "orders")
    assert [one.what for one in await life(link)] == ["added", "delivered", "acknowledged"]


async def test_other_streams_databases_and_messages_do_not_count(client, server, link):
    begin(client)
    client.xadd("others", {"a": 1}, "1-0")
    client.xadd("orders", {"a": 1}, "2-0")
    with redis.Redis(port=server.port, db=3) as other:
        other.xadd("orders", {"a": 1}, "1-0")
        assert life_of(await life(link, database=3)) == [("added", "", "", True)]
        other.flushall()
    client.xack("orders", "g", "2-0")
    assert [one.what for one in await life(link, "2-0")][:1] == ["added"]
    assert len(await life(link, "7-7")) == 0


async def test_a_fault_that_lost_the_reply_is_named(client, link):
    begin(client)
    fault = client.execute_command("DEBUG", "FAULT", "ADD", "COMMAND", "XACK", "FIRST", "1", "DELAY", "1")
    client.xack("orders", "g", "1-0")
    client.execute_command("DEBUG", "FAULT", "CLEAR", fault)
    assert (await life(link))[-1].lost


async def test_the_console_itself_is_in_no_recording_and_hit_by_no_fault(client, server, link):
    begin(client)
    poller = Poller(link, tick=0.01)
    await poller.round()
    await timeline.begin(link.actor)
    fault = client.execute_command("DEBUG", "FAULT", "ADD", "ERROR", "LOADING")
    await poller.round()
    await poller.round()
    assert await TapeSubject().read(link)
    assert poller.overview.gone == ""
    client.execute_command("DEBUG", "FAULT", "CLEAR", fault)
    reply = await link.call("DEBUG", "RECORD", "READ", link.tape.id)
    assert {row[5] for row in reply[2]} <= {b"shop"}


@asynccontextmanager
async def waiting(link, *words):
    """A client that waits in a command, as the recording knows; at the end its reply has come."""
    async with redis.asyncio.from_url(link.shown) as worker:
        reply = asyncio.ensure_future(worker.execute_command(*words))
        async with asyncio.timeout(60):
            while not waits(link):
                await TapeSubject().read(link)
        yield
        await reply
    await TapeSubject().read(link)
    assert waits(link) == {}


async def test_a_client_that_waits_is_known_with_its_command(client, link):
    async with waiting(link, "XREAD", "BLOCK", 60_000, "STREAMS", "orders", "$"):
        assert next(iter(waits(link).values()))[0] == b"XREAD"
        client.xadd("orders", {"a": 1})


async def test_what_was_read_is_not_read_again_while_a_client_waits(client, link):
    async with waiting(link, "XREAD", "BLOCK", 60_000, "STREAMS", "orders", "$"):
        for number in range(1, 101):
            client.xadd("others", {"a": 1}, f"{number}-0")
        await TapeSubject().read(link)
        read = []
        send = link.send

        async def counted(commands):
            got = await send(commands)
            read.extend(row[7][0] for row in got[0][2])
            return got

        link.send = counted
        await TapeSubject().read(link)
        assert read == [b"XREAD"]
        client.xadd("orders", {"a": 1})
    assert read == [b"XREAD", b"XREAD", b"XADD"]


async def test_a_reader_that_was_blocked_gets_the_message_after_it_was_added(client, link):
    client.xgroup_create("orders", "g", "0", mkstream=True)
    client.execute_command("DEBUG", "CLOCK", "FREEZE")  # all within one millisecond
    async with waiting(link, "XREADGROUP", "GROUP", "g", "Bob", "BLOCK", 60_000, "STREAMS", "orders", ">"):
        client.xadd("orders", {"a": 1}, "1-0")
    client.execute_command("DEBUG", "CLOCK", "RESET")
    assert [one.what for one in await life(link)] == ["added", "delivered"]


async def test_what_does_not_concern_streams_is_not_kept(client, link):
    for number in range(100):
        client.set(f"k{number}", "x" * 1_000)
    client.xadd("orders", {"a": 1}, "1-0")
    await TapeSubject().read(link)
    assert [row[7][0] for row in link.tape.rows.values()] == [b"XADD"]


async def test_a_recording_that_the_server_has_forgotten_is_none(client, link):
    client.execute_command("DEBUG", "RECORD", "STOP", link.tape.id)
    assert not await TapeSubject().read(link)
    assert link.tape.id == 0


async def test_a_new_server_is_recorded_from_its_first_round_on_if_asked(client, server):
    async with Link(f"redis://127.0.0.1:{server.port}") as link:
        poller = Poller(link, record=True)
        await poller.round()
        begin(client)
        assert [one.what for one in await life(link)] == ["added", "delivered"]
        await timeline.end(link.actor)


async def test_other_servers_are_not_recorded(running):
    async with Link(f"redis://127.0.0.1:{running('redis7').port}") as link:
        await Poller(link, record=True).round()
        assert not await TapeSubject().read(link)


@pytest.fixture(scope="module")
def durable():
    flags = ("--enable-debug-command", "local", "--appendonly", "yes")
    with servers.start_server("rillet", *flags) as started:
        yield started


@pytest.fixture
def writer(durable):
    with redis.Redis(port=durable.port, client_name="shop") as connected:
        connected.config_set("aof-timestamp-enabled", "no")
        connected.flushall()
        yield connected


@pytest.fixture
async def reader(durable):
    async with Link(f"redis://127.0.0.1:{durable.port}") as made:
        await Poller(made).round()
        yield made


async def written_life(link, entry_id="1-0", *, exists=True):
    """What the file says since the last FLUSHALL, which is in it, too."""
    written = await FileSubject(b"orders", entry_id).read(link)
    last = max((at for at, row in enumerate(written.rows) if row[1][0] == b"FLUSHALL"), default=-1)
    return written_events(written.rows[last + 1 :], entry_id, exists=exists)


async def test_the_file_shows_what_was_before_the_console(writer, reader):
    begin(writer)
    writer.xclaim("orders", "g", "Alice", 0, ["1-0"])
    writer.xack("orders", "g", "1-0")
    found = await written_life(reader)
    assert life_of(found) == LIFE
    assert (found[2].origin, found[2].note) == ("Bob", "delivered 2 times by then")
    assert [one.time is None for one in found] == [True, False, False, True]


async def test_the_file_has_all_times_with_annotations_and_that_of_an_id_without(writer, reader):
    now = writer.execute_command("DEBUG", "CLOCK", "FREEZE")
    entry_id = writer.xadd("orders", {"a": 1}).decode()
    writer.config_set("aof-timestamp-enabled", "yes")
    writer.xgroup_create("orders", "g", "0")
    writer.execute_command("DEBUG", "CLOCK", "ADVANCE", 2_250)
    writer.xreadgroup("g", "Bob", {"orders": ">"})
    writer.xack("orders", "g", entry_id)
    found = await written_life(reader, entry_id)
    writer.execute_command("DEBUG", "CLOCK", "RESET")
    second = (now + 2_250) // 1_000 * 1_000
    assert [one.time for one in found] == [now, now + 2_250, second]
    assert found[0].note == "the time of its ID"


WRITTEN = [
    *(row for row in EVENTS if row[0][0] in {"XACK", "XNACK", "XCLAIM", "XAUTOCLAIM", "XDEL", "XGROUP", "DEL"}),
    *(row for row in EVENTS if row[0][:3] in {("RENAME", "orders", "others"), ("SWAPDB", 0, 3)} or "call('XACK'" in str(row)),
    (("XDELEX", "orders", "IDS", 1, "1-0"), ("deleted", "", "", False)),
    (("XACKDEL", "orders", "g", "IDS", 1, "1-0"), ("deleted", "", "", False)),
    (("XTRIM", "orders", "MINID", 2), ("trimmed", "", "", True)),
    (("XADD", "orders", "MINID", "=", 2, "9-0", "a", "b"), ("trimmed", "", "", True)),
]  # fmt: skip


@pytest.mark.parametrize(("words", "event"), WRITTEN, ids=lambda words: " ".join(map(str, words[:2])))
async def test_each_command_in_the_file_leaves_its_event(writer, reader, words, event):
    begin(writer)
    writer.response_callbacks.clear()
    writer.execute_command(*words)
    assert life_of(await written_life(reader, exists=event[0] not in ENDS))[-1] == event


async def test_an_entry_that_autoclaim_found_deleted_is_dropped(writer, reader):
    begin(writer)
    writer.xdel("orders", "1-0")
    writer.xautoclaim("orders", "g", "Alice", 0)
    assert [one.what for one in await written_life(reader, exists=False)] == [
        "added", "delivered", "deleted", "dropped from pending",
    ]  # fmt: skip


async def test_the_file_is_read_on_where_the_last_read_ended(writer, reader):
    begin(writer)
    written = await FileSubject(b"orders", "1-0").read(reader)
    cursor, count = written.cursor, len(written.rows)
    writer.xack("orders", "g", "1-0")
    written = await FileSubject(b"orders", "1-0").read(reader)
    assert written.cursor != cursor
    assert [words[0] for _, words in written.rows[count:]] == [b"XACK"]


async def test_of_a_message_that_is_delivered_again_and_again_the_last_events_are_kept(
    writer, reader, monkeypatch
):
    monkeypatch.setattr(timeline, "ROWS", 10)
    begin(writer)
    for _ in range(50):
        writer.xclaim("orders", "g", "Alice", 0, ["1-0"])
    writer.xack("orders", "g", "1-0")
    written = await FileSubject(b"orders", "1-0").read(reader)
    assert len(written.rows) == 10
    assert written.dropped >= 43
    assert written.rows[-1][1][0] == b"XACK"


async def test_few_messages_are_kept(writer, reader):
    for number in range(1, 101):
        await FileSubject(b"orders", f"{number}-0").read(reader)
    assert len(reader.written) == 32


async def test_what_the_recording_knows_from_the_beginning_is_not_read_from_the_file(writer, reader):
    await timeline.begin(reader.actor)
    begin(writer)
    await TapeSubject().read(reader)
    assert await FileSubject(b"orders", "1-0").read(reader) is None
    assert await FileSubject(b"orders", "2-0").read(reader) is not None
    await timeline.end(reader.actor)


async def test_a_server_without_the_file_has_no_such_timeline_and_a_damaged_file_is_named(
    server, writer, reader, durable
):
    async with Link(f"redis://127.0.0.1:{server.port}") as link:
        await Poller(link).round()
        assert await FileSubject(b"orders", "1-0").read(link) is None
    await FileSubject(b"orders", "1-0").read(reader)
    reader.written[b"orders", "1-0"].cursor = b"1:1:0:0"
    written = await FileSubject(b"orders", "1-0").read(reader)
    assert "damaged" in written.error
    assert (await FileSubject(b"orders", "1-0").read(reader)).error == ""


async def test_other_servers_are_not_asked_for_a_file(running):
    async with Link(f"redis://127.0.0.1:{running('redis7').port}") as link:
        await Poller(link).round()
        before = await link.call("INFO", "commandstats")
        assert await FileSubject(b"orders", "1-0").read(link) is None
        after = await link.call("INFO", "commandstats")
    count = [next((line for line in text.splitlines() if b"_debug" in line), b"") for text in (before, after)]
    assert count[0] == count[1]
