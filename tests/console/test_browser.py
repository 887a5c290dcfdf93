"""The pages of streams in a real browser, and what all pages have in common."""

import re
import threading

import pytest
import redis
from playwright.sync_api import expect
from support import servers
from support.programs.console import (
    COLOURS,
    KINDS,
    PHONE,
    WIDTH,
    ConsoleProcess,
    address_of,
    deliver,
    scene,
    violations,
)
from support.until import until

from rillet.console.pages import PAGES

pytestmark = pytest.mark.xdist_group("browser")


def pages_of(console):
    yield "/", "orders"
    yield "/stream?key=orders", "12-0"
    yield "/stream?key=orders&field=item&contains=tea", "12-0"
    yield "/group?key=orders&group=billing", "Bob"
    yield "/group?key=orders&group=billing&by=Bob&idle_over=0s&sort=deliveries", "that fit"
    yield "/act/deadletter?key=orders&group=billing&all=1&fit=3&by=Bob", "can be stopped"
    yield "/message?key=orders&id=1-0", "Bob has it"
    yield "/act/claim?key=orders&group=billing&id=1-0&to=Alice", "XCLAIM orders billing Alice 0 1-0"
    yield "/act/redrive?key=orders&all=1", "all that match the filter below"
    yield "/act/resend?key=orders&id=12-0", "The message is added to a stream"
    yield "/act/trim?key=orders&id=5-0&acked=1", "XTRIM orders MINID 5-0 ACKED"
    yield "/act/retire?key=orders&group=billing&consumer=Bob", "still to be filled in"
    yield "/keys", "user:1"
    yield "/key?key=user:1", "Sara"
    yield "/clients?find=", "wait for something"
    yield "/prompt", "Type a command"
    if console.kind == "rillet":
        yield "/time", "DEBUG CLOCK FREEZE"
        yield "/act/fault", "DEBUG FAULT ADD COMMAND XACK CLOSE after"


def test_every_page_is_accessible_and_fits(console, opened):
    scene(console.client)
    console.client.hset("user:1", mapping={"name": "Sara", "bin": b"\xff"})
    assert {path.partition("?")[0] for path, _ in pages_of(console)} >= set(PAGES) - {"/time", "/job"}
    page = opened(console, "/")
    for path, text in pages_of(console):
        page.goto(path)
        expect(page.locator("main")).to_contain_text(text)
        page.emulate_media(color_scheme="dark")
        assert violations(page, *COLOURS) == [], path
        page.emulate_media(color_scheme="light")
        for width, rows in ((WIDTH, 1), (PHONE, 2)):  # of 36 pixels, above what a page is about
            page.set_viewport_size({"width": width, "height": 900})
            # charts follow a while later
            until(lambda at=width: page.evaluate("document.documentElement.scrollWidth") <= at)
            assert violations(page) == [], (path, width)
            assert page.locator(".bar").bounding_box()["height"] < 12 + rows * 40, (path, width)
        page.set_viewport_size({"width": WIDTH, "height": 900})


def test_links_lead_from_streams_to_a_message_and_back(console, opened):
    scene(console.client)
    page = opened(console)
    page.get_by_role("link", name="orders", exact=True).click()
    expect(page.get_by_role("heading", name="orders", level=1)).to_be_visible()
    page.get_by_role("table").get_by_role("link", name="billing").click()
    expect(page.locator(".lane")).to_have_count(2)
    bob = page.locator(".lane", has_text="Bob")
    expect(bob.locator(".cell")).to_have_count(5)
    expect(bob.locator(".cell.poison")).to_have_count(1)
    bob.locator(".cell").first.click()
    expect(page.get_by_role("heading", name="1-0", level=1)).to_be_visible()
    expect(page.locator(".tree").first).to_contain_text("null")
    page.go_back()
    expect(page.locator(".lane")).to_have_count(2)
    page.reload()
    expect(page.locator(".lane")).to_have_count(2)


def run_shown(page, shown):
    """See the command, run it, and see that it went well."""
    expect(page.locator("#plan .command pre")).to_contain_text(shown)
    page.get_by_role("button", name="Run").click()
    expect(page.locator("h1 .badge.good")).to_have_text("done")
    expect(page.locator("section").first).to_contain_text(shown.split()[0])


def test_a_click_that_leaves_a_field_still_presses_the_button(console, opened):
    """The field's `change` asks for the same command between pressing and letting go of the button."""
    scene(console.client)
    page = opened(console, "/act/claim?key=orders&group=billing&id=1-0")
    page.get_by_label("To consumer").fill("Alice")
    expect(page.locator("#plan .command pre")).to_contain_text("XCLAIM orders billing Alice 0 1-0")
    page.get_by_role("button", name="Run").hover()
    with page.expect_response(re.compile("/act/claim")):
        page.mouse.down()
    page.evaluate("new Promise((settled) => setTimeout(settled, 100))")  # htmx swaps what has come
    page.mouse.up()
    expect(page.locator("h1 .badge.good")).to_have_text("done")


def test_every_action_shows_its_command_and_runs_it(console, opened):
    client = console.client
    page = opened(console)
    page.get_by_role("link", name="Try the XCLAIM story").click()
    run_shown(page, "XCLAIM orders billing Alice 0 1-0")
    page.get_by_role("link", name="To the group").click()
    expect(page.locator(".lane")).to_have_count(2)

    # What is chosen stays chosen while the page is live.
    page.get_by_label("Choose 2-0").check()
    client.xreadgroup("billing", "Carol", {"orders": ">"})
    expect(page.locator(".lane")).to_have_count(3)
    expect(page.get_by_label("Choose 2-0")).to_be_checked()
    page.get_by_role("button", name="Claim").click()
    expect(page.locator("#plan")).to_contain_text("still to be filled in")
    page.get_by_label("To consumer").fill("Carol")
    run_shown(page, "XCLAIM orders billing Carol 0 2-0")
    assert client.xpending_range("orders", "billing", "2-0", "2-0", 1)[0]["consumer"] == b"Carol"

    page.goto("/group?key=orders&group=billing")
    page.get_by_label("Choose 1-0").check()
    page.get_by_role("button", name="Acknowledge").click()
    run_shown(page, "XACK orders billing 1-0")

    if console.kind == "rillet":
        page.goto("/message?key=orders&id=2-0")
        page.get_by_role("link", name="Give back").click()
        run_shown(page, "XNACK orders billing FAIL IDS 1 2-0")
        page.goto("/group?key=orders&group=billing")
        expect(page.locator(".lane.unowned .cell")).to_have_count(1)
    else:
        page.goto("/group?key=orders&group=billing")
        expect(page.locator("#picked")).to_contain_text("needs XNACK")

    page.get_by_role("link", name="Retire Carol").click()
    page.get_by_label("To consumer").fill("Dave")
    run_shown(page, "1 orders billing Carol Dave 100")
    assert {one["name"] for one in client.xinfo_consumers("orders", "billing")} == {b"Alice", b"Bob", b"Dave"}

    for link, label, typed, shown in (
        ("Delete Bob", "", "", "XGROUP DELCONSUMER orders billing Bob"),
        ("Add a consumer", "Name", "Erin", "XGROUP CREATECONSUMER orders billing Erin"),
        ("Set the ID", "ID", "2-0", "XGROUP SETID orders billing 2-0"),
        ("Destroy", "", "", "XGROUP DESTROY orders billing"),
    ):
        page.goto("/group?key=orders&group=billing")
        page.get_by_role("link", name=link).click()
        if label:
            page.get_by_label(label, exact=True).fill(typed)
        run_shown(page, shown)
    page.get_by_role("link", name="To the stream").click()
    page.get_by_role("link", name="Create a group").click()
    page.get_by_label("Group").fill("new group")
    run_shown(page, 'XGROUP CREATE orders "new group" $ MKSTREAM')
    page.goto("/stream?key=orders")
    page.get_by_role("link", name="Add an entry").click()
    page.get_by_label("Value").fill("a cup")
    run_shown(page, 'XADD orders * item "a cup"')
    assert client.xlen("orders") == 4
    page.goto("/message?key=orders&id=3-0")
    page.get_by_role("link", name="Delete").click()
    run_shown(page, "XDEL orders 3-0")
    assert client.xlen("orders") == 3


def test_entries_stay_chosen_from_page_to_page_and_while_the_table_changes(console, opened):
    client = console.client
    deliver(client, 120)
    page = opened(console, "/group?key=orders&group=billing&sort=id")
    page.get_by_label("Choose 1-0", exact=True).check()
    page.get_by_label("Choose 2-0", exact=True).check()
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#elsewhere")).to_contain_text("2 chosen on other pages")
    page.get_by_label("Choose 60-0", exact=True).check()
    page.get_by_role("button", name="Before").click()
    expect(page.get_by_label("Choose 2-0", exact=True)).to_be_checked()
    page.get_by_label("Choose 2-0", exact=True).uncheck()
    expect(page.locator("#elsewhere")).to_contain_text("1 chosen on other pages")
    page.get_by_role("button", name="Deliveries").click()
    page.get_by_role("button", name="ID", exact=True).click()
    expect(page.get_by_label("Choose 1-0", exact=True)).to_be_checked()
    expect(page.get_by_label("Choose 2-0", exact=True)).not_to_be_checked()
    client.xack("orders", "billing", *(f"{number}-0" for number in range(2, 52)))  # 60-0 comes to this page
    expect(page.get_by_label("Choose 60-0", exact=True)).to_be_checked()
    expect(page.locator("#elsewhere")).to_be_hidden()
    page.get_by_role("button", name="Claim").click()
    page.get_by_label("To consumer").fill("Alice")
    run_shown(page, "XCLAIM orders billing Alice 0 1-0 60-0")
    assert [(one["message_id"], one["consumer"]) for one in client.xpending_range("orders", "billing", "-", "+", 2)] == [
        (b"1-0", b"Alice"), (b"52-0", b"Bob")]  # fmt: skip


def test_two_browsers_see_the_same_changes(console, opened):
    scene(console.client)
    path = "/group?key=orders&group=billing"
    one, other = opened(console, path), opened(console, path, width=PHONE, scheme="dark")
    console.client.xreadgroup("billing", "Carol", {"orders": ">"}, count=1)
    for page in (one, other):
        expect(page.locator(".lane", has_text="Carol").locator(".cell")).to_have_count(1)
    console.client.xack("orders", "billing", "1-0", "2-0")
    for page in (one, other):
        expect(page.locator(".lane", has_text="Bob").locator(".cell")).to_have_count(3)


def test_the_live_tail_shows_what_is_added(console, opened):
    scene(console.client)
    page = opened(console, "/stream?key=orders")
    expect(page.locator("[id='entry-12-0']")).to_be_visible()
    console.client.xadd("orders", {"item": "<b>cup</b>"}, "13-0")
    expect(page.locator("[id='entry-13-0']")).to_contain_text("<b>cup</b>")
    expect(page.locator(".chart canvas")).to_be_visible()


def test_a_page_stays_usable_while_many_entries_flow_in(console, opened):
    scene(console.client)
    page = opened(console, "/stream?key=orders")
    ended = threading.Event()

    def flow():
        with redis.Redis.from_url(address_of(console.client)) as client:
            while not ended.is_set():
                pipeline = client.pipeline(transaction=False)
                for _ in range(1_000):
                    pipeline.xadd("orders", {"item": "cup"}, maxlen=20_000)
                pipeline.execute()

    writer = threading.Thread(target=flow)
    writer.start()
    try:
        length = page.locator(".tile").first  # with how many were added: trimming may keep the length itself
        expect(length).to_have_text(re.compile(r"\d,\d{3}"))
        seen = length.inner_text()
        expect(
            page.locator(".tile", has=page.get_by_text("Added", exact=True)).locator("strong")
        ).to_have_text(re.compile(r"[1-9].*/s"))
        page.get_by_role("link", name="Add an entry").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Add an entry")
        page.go_back()
        expect(length).not_to_have_text(seen, use_inner_text=True)
    finally:
        ended.set()
        writer.join()


def test_hostile_names_run_no_script_and_ask_no_other_host(console, opened):
    word = b'<img src=http://evil.example/x onerror="window.hacked=1"><script>window.hacked=1</script>'
    console.client.xadd(word, {word: word}, "1-0")
    console.client.xgroup_create(word, word, "0")
    console.client.xreadgroup(word, word, {word: ">"})
    page = opened(console)
    page.locator("tbody th > a", has_text="evil.example").first.click()
    expect(page.locator("h1")).to_contain_text("<img src=http://evil.example/x")
    page.get_by_role("table").get_by_role("link").first.click()
    expect(page.locator(".lane")).to_have_count(1)
    console.client.xadd(word, {word: word}, "2-0")
    console.client.xreadgroup(word, word, {word: ">"})
    expect(page.locator(".cell[href]")).to_have_count(2)
    page.get_by_role("link", name=re.compile("^Retire")).click()
    page.get_by_label("To consumer").fill("<script>window.hacked=1</script>")
    expect(page.locator("#plan pre")).to_contain_text("<script>")
    assert page.evaluate("window.hacked") is None


def test_the_keyboard_goes_through_rows_and_up_again(console, opened):
    scene(console.client)
    console.client.xadd("quiet", {"a": 1})
    page = opened(console)
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("html[data-ready]")).to_be_attached()
    page.keyboard.press("j")
    expect(page.locator("tbody tr").nth(0).locator("th > a")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator("tbody tr").nth(1).locator("th > a")).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="orders", level=1)).to_be_visible()
    expect(page.locator("html[data-ready]")).to_be_attached()
    page.keyboard.press("u")
    expect(page.get_by_role("heading", name="Streams", level=1)).to_be_visible()
    expect(page.locator("html[data-ready]")).to_be_attached()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("qui")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.keyboard.press("Tab")
    page.locator(".skip").focus()
    expect(page.locator(".skip")).to_be_in_viewport()


def test_an_empty_server_says_what_to_type_next(console, opened):
    page = opened(console)
    expect(page.locator("main")).to_contain_text("XADD orders * item teapot amount 2")
    assert violations(page) == []
    console.client.xadd("orders", {"item": "teapot"})
    expect(page.locator("tbody tr")).to_have_count(1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_follows_a_server_that_goes_and_comes_back(kind, opened, monkeypatch):
    with servers.start_server(kind) as server:
        port = server.port
        with ConsoleProcess(f"redis://127.0.0.1:{port}") as console:
            with redis.Redis(port=port) as client:
                scene(client)
            page = opened(console, "/stream?key=orders")
            expect(page.locator("#status")).to_contain_text(re.compile("Rillet|Redis|Valkey"))
            expect(page.locator("#status")).to_contain_text("read-only")
            server.stop()
            expect(page.locator("#status [data-state=gone]")).to_be_visible()
            monkeypatch.setattr(servers, "free_port", lambda: port)
            server.start()
            expect(page.locator("#status [data-state=up]")).to_be_visible()
            expect(page.get_by_role("alert")).to_contain_text("no stream with this key")
            with redis.Redis(port=port) as client:
                client.xadd("orders", {"item": "after the restart"})
            expect(page.locator("#stream_tail")).to_contain_text("after the restart")
            expect(page.get_by_role("alert")).to_have_count(0)
            page.close()
