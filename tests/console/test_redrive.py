"""Dead letters go back to the stream that they came from: each once, whatever is lost or dies on the way."""

import asyncio
import html
import signal
import subprocess
import sys
import time

import pytest
import redis
from support.programs.console import ConsoleProcess, address_of, deliver, good_of

import rillet.testing
from rillet.console.actions import ACTIONS, Progress, plan, run
from rillet.console.connection import Link
from rillet.console.redrive import Sent, Wanted, send_back
from rillet.console.redrive_command import main
from rillet.console.values import Values
from rillet.testing import every_fault


@pytest.fixture(params=["rillet", "redis7", "redis810", "valkey"])
def kind(request):
    return request.param


def letters(client, count=3, stream="orders"):
    """Make dead letters as the console makes them, in ``dead``."""
    client.xgroup_create(stream, "billing", "$", mkstream=True)
    pipe = client.pipeline(transaction=False)
    for number in range(1, count + 1):
        origin = {"origin-stream": stream, "origin-group": "billing", "origin-id": f"{number}-0"}
        pipe.xadd("dead", {"n": number, "kind": "cup" if number % 2 else "pot", **origin})
    pipe.execute()


def numbers(client, stream):
    return [int(fields[b"n"]) for _, fields in client.xrange(stream)]


async def sent_by(link, wanted, progress=None, **options):
    link.read_only = False
    sent = Sent()
    await send_back(link, wanted, progress or Progress(), sent, **options)
    return sent


def test_all_go_back_without_the_fields_of_their_origin_and_a_second_run_finds_none(client, capsys):
    letters(client, 250)
    assert main([address_of(client), "dead"]) == 0
    assert capsys.readouterr().out == "250 sent back to orders\n"
    assert numbers(client, "orders") == list(range(1, 251))
    assert set(client.xrange("orders", count=1)[0][1]) == {b"n", b"kind"}
    assert client.xlen("dead") == 0
    assert main([address_of(client), "dead"]) == 0
    assert capsys.readouterr().out == "no message fits\n"
    assert client.xlen("orders") == 250


def test_a_dry_run_changes_nothing_and_shows_the_command(client, capsys):
    letters(client)
    assert main([address_of(client), "dead", "--dry-run", "--filter", "kind=po"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1 would be sent back to orders\nEVAL ")
    assert (client.xlen("dead"), client.xlen("orders")) == (3, 0)


def test_a_filter_and_a_rate_send_what_fits(client):
    letters(client, 5)
    client.xgroup_create("other", "g", "$", mkstream=True)
    words = [address_of(client), "dead", "--filter", "kind=cup", "--filter", "n=3", "--rate", "1000/s"]
    assert main([*words, "--to", "other"]) == 0
    assert numbers(client, "other") == [3]
    assert numbers(client, "dead") == [1, 2, 4, 5]


def test_messages_that_name_no_stream_stay_unless_one_is_named(client, capsys):
    letters(client, 1)
    client.xadd("dead", {"n": 2, "source": "orders"})
    assert main([address_of(client), "dead"]) == 1
    assert "1 not sent now: the field origin-stream does not name" in capsys.readouterr().err
    assert main([address_of(client), "dead", "--origin", "source"]) == 0
    assert numbers(client, "orders") == [1, 2]
    assert set(client.xrange("orders")[-1][1]) == {b"n"}


def test_a_stream_that_is_gone_is_not_made_again_and_holds_no_other_up(client, capsys):
    letters(client, 2, "gone")
    letters(client, 2)
    client.delete("gone")
    assert main([address_of(client), "dead"]) == 1
    assert "2 not sent now: there is no stream gone" in capsys.readouterr().err
    assert (client.xlen("dead"), client.exists("gone"), client.xlen("orders")) == (2, 0, 2)


def test_what_a_message_or_its_stream_refuses_stays_and_holds_no_other_up(client, capsys):
    """A string where a stream was, a stream without IDs left, one that is forbidden, a message with too many fields."""
    client.set("text", "x")
    for stream in ("full", "mine"):
        client.xgroup_create(stream, "billing", "$", mkstream=True)
    client.xadd("full", {"n": 0}, f"{2**64 - 1}-{2**64 - 2}")
    for stream in ("text", "full", "full", "mine"):
        client.xadd("dead", {"n": 1, "origin-stream": stream})
    client.xadd("dead", {"origin-stream": "orders"} | {f"f{number}": "" for number in range(4_000)})
    letters(client, 150)
    rules = ("reset", "on", ">pw", "~dead", "~orders", "~full", "~text", "+@all")
    client.execute_command("ACL", "SETUSER", "clerk", *rules)
    try:
        assert main([address_of(client).replace("//", "//clerk:pw@"), "dead"]) == 1
    finally:
        client.execute_command("ACL", "DELUSER", "clerk")
    said = capsys.readouterr()
    assert sorted(said.out.splitlines()) == ["1 sent back to full", "150 sent back to orders"]
    assert len(said.err.splitlines()) == 4
    for why in (
        "to text: WRONGTYPE", "to full: ERR The stream has ex", "to mine: ", "they have more fields than a script",
    ):  # fmt: skip
        assert f"1 not sent now: {why}" in said.err
    assert (client.xlen("dead"), client.xlen("orders"), client.xlen("full")) == (4, 150, 2)


def test_a_dry_run_says_what_would_stay(client, capsys):
    letters(client, 2)
    client.set("text", "x")
    for stream in ("text", "gone"):
        client.xadd("dead", {"n": 3, "origin-stream": stream})
    assert main([address_of(client), "dead", "--dry-run"]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("2 would be sent back to orders\nEVAL ")
    assert said.err == "1 not sent now: there is no stream text\n1 not sent now: there is no stream gone\n"


def test_a_replica_keeps_all_and_a_full_server_moves_them(client, capsys):
    """What is added is deleted in the same step, so maxmemory is no reason to refuse it."""
    letters(client, 3)
    client.replicaof("127.0.0.1", "1")
    try:
        assert main([address_of(client), "dead"]) == 1
    finally:
        client.replicaof("NO", "ONE")
    assert "read only replica" in capsys.readouterr().err
    assert (client.xlen("dead"), client.xlen("orders")) == (3, 0)
    client.config_set("maxmemory", 1)
    try:
        assert main([address_of(client), "dead"]) == 0
    finally:
        client.config_set("maxmemory", 0)
    assert (client.xlen("dead"), client.xlen("orders")) == (0, 3)


@pytest.mark.parametrize(
    ("others", "sent", "said"),
    [
        ("another run", 200, ""), ("XTRIM dead MAXLEN 20", 120, ""), ("DEL dead", 100, ""),
        ("DEL orders", 100, "there is no stream orders"), ("XGROUP DESTROY orders billing", 250, ""),
    ],
)  # fmt: skip
async def test_what_others_do_behind_the_first_slice_loses_and_doubles_nothing(
    others, sent, said, client, link
):
    letters(client, 250)
    wanted = Wanted(b"dead")

    def meanwhile():
        if client.xlen("orders") != 100 or client.xlen("dead") != 150:
            return
        if others == "another run":
            ids = [entry.decode() for entry, _ in client.xrange("dead")[80:130]]
            client.execute_command(*wanted.words(b"orders", ids))
        else:
            client.execute_command(*others.split())

    done = await sent_by(link, wanted, tell=meanwhile)
    assert done.total == sent
    assert said in " ".join(done.reasons)
    there, here = numbers(client, "orders"), numbers(client, "dead")
    assert len({*there, *here}) == len(there) + len(here)
    if not others.startswith("DEL") and "XTRIM" not in others:
        assert sorted(there + here) == list(range(1, 251))


@pytest.mark.parametrize(
    "words",
    [
        ["--filter", "kind"], ["--rate", "0"], ["--rate", "-1"], ["--rate", "1e9"], ["--rate", "fast"], ["--to", '"a'],
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(words, capsys):
    with pytest.raises(SystemExit):
        main(["redis://127.0.0.1:1", "dead", *words])
    said = capsys.readouterr().err
    assert words[0] in said or "quotes" in said


def test_a_server_that_is_not_there_is_named_with_the_next_step(capsys):
    assert main(["redis://127.0.0.1:1", "dead"]) == 1
    assert "start a server with: rillet" in capsys.readouterr().err


async def test_a_stream_that_goes_back_to_itself_ends(client, link):
    for number in (1, 2):
        client.xadd("dead", {"n": number})
    assert (await sent_by(link, Wanted(b"dead", to=b"dead"))).total == 2
    assert numbers(client, "dead") == [1, 2]


async def test_it_stops_behind_its_slice_and_goes_on_later(client, link):
    letters(client, 250)
    progress = Progress()

    def stop():
        progress.stopped = True

    assert (await sent_by(link, Wanted(b"dead"), progress, tell=stop)).total == 100
    assert (progress.done, progress.total) == (100, 250)
    assert (await sent_by(link, Wanted(b"dead"))).total == 150
    assert numbers(client, "orders") == list(range(1, 251))


async def test_the_console_sends_chosen_messages_back_and_all_that_fit(client, link):
    letters(client, 5)
    link.read_only = False
    ids = [entry.decode() for entry, _ in client.xrange("dead")]
    chosen = plan(ACTIONS["redrive"], {"key": "dead", "id": f"{ids[4]} {ids[1]}"})
    assert ids[4] in chosen.text
    assert (await run(link, chosen)).good
    assert numbers(client, "orders") == [2, 5]
    typed = {"key": "dead", "all": "1", "field": "n", "contains": "3"}
    outcome = await run(link, plan(ACTIONS["redrive"], typed))
    assert outcome.lines[0][1] == "1 sent back to orders"
    assert numbers(client, "dead") == [1, 4]
    assert plan(ACTIONS["redrive"], {"key": "dead", "all": ""}).missing
    again = await run(link, chosen)
    assert not again.good
    assert "no longer here" in again.lines[0][1]


async def test_an_edited_message_is_sent_once(client, link):
    letters(client, 1)
    link.read_only = False
    typed = {"key": "dead", "id": client.xrange("dead")[0][0].decode()}
    resend = ACTIONS["resend"]
    begun = await resend.begin(link, Values(typed))
    assert begun == {"to": "orders", "fields": "n 1\nkind cup"}
    made = plan(resend, {**typed, **begun, "fields": 'n 1\r\nkind "big cup"\r\n'})
    assert (await run(link, made)).good
    assert not (await run(link, made)).good
    assert [fields for _, fields in client.xrange("orders")] == [{b"n": b"1", b"kind": b"big cup"}]
    assert client.xlen("dead") == 0
    assert "line 2" in plan(resend, {**typed, "to": "orders", "fields": "n 1\nkind big cup"}).problem
    gone = plan(resend, {**typed, "to": "nowhere", "fields": "n 1"})
    assert "there is no stream nowhere" in (await run(link, gone)).lines[0][1]


@pytest.mark.parametrize(
    ("name", "denied", "typed"),
    [
        ("redrive", "xdel", {"key": "dead", "all": "1"}),
        ("resend", "xdel", {"key": "dead", "id": "1-0", "to": "orders", "fields": "n 1"}),
        ("deadletter", "xack", {"key": "orders", "group": "billing", "id": "1-0", "dead": "dead"}),
    ],
)
async def test_a_user_who_may_not_take_a_message_away_adds_none(client, name, denied, typed):
    deliver(client)
    client.xadd("dead", {"n": 2, "origin-stream": "orders"}, "1-0")
    client.execute_command("ACL", "SETUSER", "halfway", "on", ">secret", "~*", "+@all", f"-{denied}")
    try:
        async with Link(address_of(client).replace("//", "//halfway:secret@")) as link:
            link.read_only = False
            outcome = await run(link, plan(ACTIONS[name], typed))
    finally:
        client.execute_command("ACL", "DELUSER", "halfway")
    assert not outcome.good
    assert (client.xlen("orders"), client.xlen("dead")) == (1, 1)


@pytest.mark.parametrize("name", ["redrive", "redrive chosen", "resend"])
def test_a_message_is_in_one_place_whatever_is_lost_on_the_way(name):
    def story(server):
        client = server.client()
        letters(client)
        first, *_ = [entry.id for entry in server.stream("dead").entries]
        typed = {
            "redrive": {"all": "1"},
            "redrive chosen": {"id": first},
            "resend": {"id": first, "to": "orders", "fields": "n 1"},
        }[name]
        for again in (False, True):
            good = asyncio.run(good_of(server.url, name.split()[0], {"key": "dead", **typed}))
            there, here = numbers(client, "orders"), numbers(client, "dead")
            assert sorted(there + here) == [1, 2, 3]
            if good or again:
                assert there == ([1, 2, 3] if name == "redrive" else [1])

    every_fault("EVAL")(story)()


def test_pages_of_dead_letters_lead_to_forms_that_send_them_back(rillet_process):
    evil = "</textarea><script>alert(1)</script>"
    with redis.Redis(port=rillet_process.port) as client:
        client.flushall()
        letters(client)
        last = client.xadd("dead", {"note": evil, "origin-stream": "orders"}).decode()
        with ConsoleProcess(address_of(client), "--allow-writes") as console:
            for query in ("", "&field=note"):
                page = console.ask(f"/stream?key=dead{query}").text
                assert f'form="back" name="id" value="{last}"' in page
            assert 'form="back"' not in console.ask("/stream?key=orders").text
            message = console.ask(f"/message?key=dead&id={last}").text
            assert f"/act/redrive?key=dead&amp;id={last}" in message
            form = console.ask(f"/act/resend?key=dead&id={last}")
            assert "<script>alert" not in form.text
            assert html.escape(evil) in form.text.replace("&#34;", "&quot;")
            done = console.ask("/act/resend", form.fields("csrf", "shown", "key", "id", "to", "fields"))
            assert done.status == 303
            assert "sent to orders" in console.ask(done.headers["location"]).text
            form = console.ask("/act/redrive?key=dead&all=1&field=n&contains=2")
            names = ("csrf", "shown", "key", "all", "field", "contains", "origin", "leave")
            done = console.ask("/act/redrive", form.fields(*names))
            assert "1 sent back to orders" in console.ask(done.headers["location"]).text
        assert client.xrange("orders")[0][1] == {b"note": evil.encode()}
        assert numbers(client, "dead") == [1, 3]


def test_a_run_that_is_killed_goes_on_and_nothing_is_lost_or_doubled(client, capsys):
    letters(client, 500)
    words = [sys.executable, "-m", "rillet", "redrive", address_of(client), "dead", "--rate", "20/s"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 60
            while not client.xlen("orders"):
                assert time.monotonic() < until
                time.sleep(0.02)
        finally:
            process.send_signal(signal.SIGKILL)
    sent = client.xlen("orders")
    assert 0 < sent < 500
    assert sorted(numbers(client, "orders") + numbers(client, "dead")) == list(range(1, 501))
    assert main([address_of(client), "dead"]) == 0
    assert capsys.readouterr().out == f"{500 - sent} sent back to orders\n"
    assert numbers(client, "orders") == list(range(1, 501))


def test_a_stream_in_another_slot_of_a_cluster_is_refused_in_one_sentence(capsys):
    with rillet.testing.Cluster(shards=2) as cluster:
        port = int(cluster.url.rpartition(":")[2].partition("/")[0])
        with redis.cluster.RedisCluster(host="127.0.0.1", port=port) as client:
            for stream in ("orders", "{dead}orders"):
                client.xgroup_create(stream, "billing", "$", mkstream=True)
                client.xadd("{dead}", {"n": 1, "origin-stream": stream})
            assert main([f"redis+cluster://127.0.0.1:{port}", "{dead}"]) == 1
            said = capsys.readouterr()
            assert said.out == "1 sent back to {dead}orders\n"
            assert said.err.startswith("1 not sent now: orders is in another slot of the cluster")
            assert (client.xlen("orders"), client.xlen("{dead}")) == (0, 1)
