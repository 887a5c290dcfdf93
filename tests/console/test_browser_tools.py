"""Clients and commands, the prompt, keys, time and faults, and the timeline, in a real browser."""

import re
import threading

import pytest
import redis
from playwright.sync_api import expect
from support.programs.console import ConsoleProcess, Watched, address_of, scene, violations
from support.until import until

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def rillet(consoles):
    """Rillet with debug commands, and its console."""
    server, console = consoles("rillet")
    with redis.Redis(port=server.port, client_name="shop") as client:
        client.flushall()
        client.execute_command("DEBUG", "CLOCK", "RESET")
        client.execute_command("DEBUG", "FAULT", "CLEAR")
        console.client = client
        yield console


def send(page, line):
    page.get_by_label("Command").fill(line)
    page.keyboard.press("Enter")


def test_the_prompt_completes_sends_and_shows_typed_replies(console, opened):
    page = opened(console, "/prompt")
    line = page.get_by_label("Command")
    expect(line).to_be_focused()
    line.press_sequentially("xad")
    expect(page.locator("#help [data-complete]").first).to_have_text("XADD")
    page.keyboard.press("Tab")
    expect(line).to_have_value("XADD ")
    expect(page.locator("#help .usage")).to_contain_text("field value")
    assert violations(page) == []
    line.press_sequentially("orders 1-0 item <b>cup</b>")
    page.keyboard.press("Enter")
    expect(page.locator(".exchange pre").first).to_have_text('"1-0"')
    expect(line).to_have_value("")
    assert console.client.xrange("orders") == [(b"1-0", {b"item": b"<b>cup</b>"})]
    send(page, "HGETALL nothing")
    expect(page.locator(".exchange pre").last).to_have_text("(empty hash)")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(line).to_have_value("XADD orders 1-0 item <b>cup</b>")
    page.keyboard.press("Enter")
    expect(page.locator(".exchange pre.bad")).to_contain_text("(error)")
    expect(page.locator(".exchange b")).to_have_count(0)
    assert violations(page) == []
    page.reload()
    expect(page.locator(".exchange")).to_have_count(0)


def test_a_dangerous_command_is_asked_back(console, opened):
    console.client.set("a", "1")
    page = opened(console, "/prompt")
    send(page, "FLUSHALL")
    expect(page.locator(".exchange.asked")).to_contain_text("Send it?")
    assert violations(page) == []
    page.get_by_role("button", name="Leave it").click()
    expect(page.locator(".exchange")).to_have_count(0)
    assert console.client.get("a") == b"1"
    send(page, "FLUSHALL")
    page.get_by_role("button", name="Send it").click()
    expect(page.locator(".exchange pre")).to_have_text("OK")
    assert console.client.get("a") is None


@pytest.fixture
def read_only(rillet):
    """Another console of that Rillet, which is read-only."""
    with ConsoleProcess(address_of(rillet.client), "--read-only") as console:
        yield console


def test_a_read_only_console_shows_commands_and_nothing_that_looks_like_a_button(rillet, read_only, opened):
    scene(rillet.client)
    for console in (read_only, rillet):
        page = opened(console, "/group?key=orders&group=billing")
        for name in ("Destroy", "Set the ID", "Retire", "Claim …", "Acknowledge …"):
            button = page.locator("main :is(a.button, button)", has_text=name).first
            expect(button).to_be_visible()
            sign = button.evaluate("it => getComputedStyle(it, '::after').content")
            assert ("command" in sign) == (console is read_only), name
            colour = button.evaluate("it => getComputedStyle(it).backgroundColor")
            assert (colour == "rgba(0, 0, 0, 0)") == (console is read_only), name
        if console is read_only:
            assert violations(page) == []


def test_a_read_only_prompt_reads_and_refuses_to_write(read_only, opened):
    page = opened(read_only, "/prompt")
    send(page, "SET a 1")
    expect(page.locator(".exchange.refused")).to_contain_text("the console is read-only")
    send(page, "PING")
    expect(page.locator(".exchange pre")).to_have_text("PONG")
    page.goto("/time")
    expect(page.locator("#time_clock")).to_contain_text("DEBUG CLOCK FREEZE")
    expect(page.locator("#time_clock button")).to_have_count(0)


def test_clients_show_what_they_wait_for_and_what_they_send(console, opened):
    page = opened(console, "/clients")
    expect(page.locator("#clients_watch")).to_contain_text("MONITOR costs a busy server much")
    page.get_by_role("button", name="Watch for a minute").click()
    expect(page.get_by_role("button", name="Stop watching")).to_be_visible()
    expect(page.locator("#clients_watch")).to_contain_text("commands so far")
    with redis.Redis.from_url(
        address_of(console.client), client_name="worker", socket_timeout=None
    ) as worker:
        waiting = threading.Thread(target=lambda: worker.blpop("jobs", timeout=600))
        waiting.start()
        row = page.locator("#clients tbody tr", has_text="worker")
        expect(row).to_contain_text("waits")
        expect(row).to_contain_text("BLPOP jobs 600")
        console.client.set("<b>key</b>", "1")
        expect(page.locator(".log li", has_text="SET <b>key</b> 1")).to_have_count(1)
        assert violations(page) == []
        page.get_by_role("searchbox").fill("worker")
        page.keyboard.press("Enter")
        expect(page.locator("#clients tbody tr")).to_have_count(1)
        expect(page.locator(".log li", has_text="BLPOP jobs 600")).to_have_count(1)
        expect(page.locator(".log li", has_text="SET <b>key</b> 1")).to_have_count(0)
        console.client.rpush("jobs", "one")
        waiting.join()
    page.get_by_role("button", name="Stop watching").click()
    expect(page.get_by_role("button", name="Watch for a minute")).to_be_visible()
    page.reload()
    expect(page.locator("#clients_watch")).to_contain_text("commands were seen")


def test_the_slow_log_shows_what_was_slow(console, opened):
    page = opened(console, "/clients")
    client = console.client
    client.config_set("slowlog-log-slower-than", 0)
    client.set("slow", "<img>")
    client.config_set("slowlog-log-slower-than", 10_000)
    expect(page.locator("#clients_slow tbody tr", has_text="SET slow <img>")).to_have_count(1)


def test_keys_of_all_types_are_found_and_opened(console, opened):
    client = console.client
    page = opened(console, "/keys")
    expect(page.locator("main")).to_contain_text("No keys yet")
    assert violations(page) == []
    client.set("text", '{"a": [1, null]}', ex=1_000)
    client.hset("user", mapping={"<i>name</i>": "Sara"})
    client.xadd("orders", {"a": 1})
    expect(page.locator("tbody tr")).to_have_count(3)
    page.get_by_label("Type").select_option("hash")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="user").click()
    expect(page.locator("table.items")).to_contain_text("<i>name</i>")
    client.hset("user", "city", "Turku")
    expect(page.locator("table.items")).to_contain_text("Turku")
    page.go_back()
    page.goto("/keys")
    page.get_by_role("link", name="text").click()
    expect(page.locator(".tree").first).to_contain_text("null")
    page.goto("/keys")
    page.get_by_role("link", name="orders").click()
    expect(page.get_by_role("heading", name="Groups")).to_be_visible()


def test_the_clock_moves_freezes_and_runs_again(rillet, opened):
    client = rillet.client
    page = opened(rillet, "/time")
    before = client.execute_command("DEBUG", "CLOCK", "NOW")
    page.get_by_role("button", name="+1 h").click()
    expect(page.locator("#time_clock .badge.good")).to_have_text("runs")
    assert client.execute_command("DEBUG", "CLOCK", "NOW") - before >= 3_600_000
    page.get_by_role("button", name="Freeze").click()
    expect(page.locator("#time_clock .badge.warn")).to_have_text("frozen")
    at = client.execute_command("DEBUG", "CLOCK", "NOW")
    page.get_by_role("button", name="+1 min").click()
    expect(page.locator("#time_clock")).to_contain_text(str(at + 60_000))
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#time_clock .badge.good")).to_have_text("runs")
    page.get_by_role("link", name="By another time").click()
    page.get_by_label("Milliseconds").fill("5000")
    expect(page.locator("#plan .command pre")).to_have_text("DEBUG CLOCK ADVANCE 5000")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("heading", name="Clock")).to_be_visible()
    page.get_by_role("button", name="Time of day").click()
    expect(page.locator("#time_clock .badge.good")).to_have_text("runs")


def test_the_form_of_another_action_replaces_the_one_before(rillet, opened):
    page = opened(rillet, "/time")
    page.get_by_role("button", name="Freeze").evaluate("(button) => { button.form.before = true; }")
    rillet.client.execute_command("DEBUG", "CLOCK", "FREEZE")
    form = page.locator("form", has=page.get_by_role("button", name="Resume"))
    expect(form.locator('[name="shown"]')).to_have_value("DEBUG CLOCK RESUME")
    assert form.evaluate("(form) => form.before") is None
    assert form.get_attribute("autocomplete") == "off"
    rillet.client.execute_command("DEBUG", "CLOCK", "RESET")


def test_a_fault_is_added_hits_and_ends(rillet, opened):
    page = opened(rillet, "/time")
    page.get_by_role("link", name="Add a fault").click()
    page.get_by_label("What happens").select_option("ERROR OOM")
    page.get_by_label("Only the first").fill("2")
    expect(page.locator("#plan .command pre")).to_have_text("DEBUG FAULT ADD COMMAND XACK FIRST 2 ERROR OOM")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#time_faults")).to_contain_text("0 hits of 0 commands")
    with pytest.raises(redis.OutOfMemoryError):
        rillet.client.xack("orders", "billing", "1-0")
    expect(page.locator("#time_faults .log li").first).to_contain_text("XACK orders")
    expect(page.locator("#time_faults")).to_contain_text(re.compile(r"\d hits? of"))
    assert violations(page) == []
    page.get_by_role("button", name="End it").click()
    expect(page.locator("#time_faults")).to_contain_text("Nothing goes wrong")
    assert rillet.client.execute_command("DEBUG", "FAULT", "LIST") == []


def test_a_recording_shows_the_timeline_of_a_message(rillet, opened):
    client = rillet.client
    scene(client, entries=3)
    page = opened(rillet, "/message?key=orders&id=1-0")
    expect(page.locator("#message_timeline")).to_contain_text("Record what clients send")
    page.get_by_role("link", name="Begin a recording").click()
    expect(page.locator("#plan .command pre")).to_have_text("DEBUG RECORD START LAST 10000")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("h1 .badge.good")).to_be_visible()
    client.xadd("orders", {"item": "cup"}, "4-0")
    client.xreadgroup("billing", "Bob", {"orders": ">"})
    page.goto("/message?key=orders&id=4-0")
    expect(page.locator(".timeline li")).to_have_count(2)
    client.xclaim("orders", "billing", "Alice", 0, ["4-0"])
    expect(page.locator(".timeline li")).to_have_count(3)
    expect(page.locator(".timeline li").last).to_contain_text("claimed by Alice from Bob in billing")
    page.goto("/act/ack?key=orders&group=billing&id=4-0")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("h1 .badge.good")).to_be_visible()
    page.goto("/message?key=orders&id=4-0")
    expect(page.locator(".timeline li").last).to_contain_text("acknowledged by Alice")
    expect(page.locator(".timeline li").last).to_contain_text("rillet-console")
    client.xdel("orders", "4-0")
    expect(page.locator(".timeline li").last).to_contain_text("deleted")
    assert violations(page) == []
    page.reload()
    expect(page.locator(".timeline li")).to_have_count(5)
    page.goto("/message?key=orders&id=1-0")
    page.get_by_role("link", name="End it").click()
    page.get_by_role("button", name="Run").click()
    expect(page.locator("h1 .badge.good")).to_be_visible()
    page.goto("/message?key=orders&id=1-0")
    expect(page.locator("#message_timeline")).to_contain_text("Record what clients send")


def test_the_append_only_file_shows_the_timeline_of_a_message(rillet, opened):
    client = rillet.client
    client.config_set("appendonly", "yes")
    until(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
    scene(client, entries=3)
    page = opened(rillet, "/message?key=orders&id=1-0", width=375)
    expect(page.locator("#message_timeline")).to_contain_text("From the server's append-only file")
    expect(page.locator(".timeline li")).to_have_count(8)
    expect(page.locator(".timeline li").first).to_contain_text("added")
    expect(page.locator(".timeline li").first).not_to_contain_text("later")
    client.xack("orders", "billing", "1-0")
    expect(page.locator(".timeline li").last).to_contain_text("acknowledged by Bob in billing")
    expect(page.locator("#message_timeline")).to_contain_text("need aof-timestamp-enabled")
    assert violations(page) == []
    client.config_set("appendonly", "no")
    expect(page.locator("#message_timeline")).to_contain_text("Record what clients send")


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
@pytest.mark.browser
def test_other_servers_say_where_a_timeline_can_be_had(kind, consoles, opened):
    server, console = consoles(kind)
    with redis.Redis(port=server.port) as client:
        client.flushall()
        scene(client, entries=3)
    page = opened(console, "/message?key=orders&id=1-0")
    expect(page.locator("#message_timeline")).to_contain_text("A Rillet with debug commands")
    expect(page.get_by_role("link", name="Time and faults")).to_have_count(0)


def test_more_pages_than_a_browser_has_connections_stay_live(rillet, browser):
    scene(rillet.client)
    watched = Watched(browser, rillet)
    pages = [watched.page, *(watched.another() for _ in range(8))]
    for page in pages:
        page.goto("/group?key=orders&group=billing")
        expect(page.locator(".lane")).to_have_count(2)
        expect(page.locator("html[data-follows]")).to_be_attached()
    ways = {page.evaluate("document.documentElement.dataset.follows") for page in pages}
    assert ways == {"events", "questions"}
    rillet.client.xreadgroup("billing", "Carol", {"orders": ">"}, count=1)
    for page in pages:
        expect(page.locator(".lane", has_text="Carol")).to_have_count(1)
    watched.check()
    watched.close()


@pytest.mark.parametrize(
    ("status", "words"), [(403, "refuses to answer: 403"), (500, "fails to answer: 500")]
)
def test_a_page_whose_questions_are_refused_says_so(rillet, browser, status, words):
    watched = Watched(browser, rillet)
    page = watched.page
    page.add_init_script("Object.defineProperty(navigator, 'locks', { value: undefined })")
    page.route(re.compile(r"/now\?"), lambda route: route.fulfill(status=status))
    page.goto("/")
    expect(page.locator('[data-part="status"] [data-state="gone"]')).to_contain_text(words)
    page.unroute(re.compile(r"/now\?"))
    expect(page.locator('[data-part="status"] [data-state="up"]')).to_be_visible()
    watched.close()


def test_a_page_that_is_hidden_rests_and_one_that_is_seen_again_catches_up(rillet, opened):
    scene(rillet.client)
    page = opened(rillet, "/group?key=orders&group=billing")
    expect(page.locator(".lane")).to_have_count(2)
    hide = "(hidden) => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true }); document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(hide, True)
    rillet.client.xreadgroup("billing", "Carol", {"orders": ">"}, count=1)
    other = opened(rillet, "/group?key=orders&group=billing")
    expect(other.locator(".lane", has_text="Carol")).to_have_count(1)
    rillet.client.xgroup_createconsumer("orders", "billing", "Dave")
    expect(other.locator(".lane", has_text="Dave")).to_have_count(1)
    expect(page.locator(".lane", has_text="Dave")).to_have_count(0)
    page.evaluate(hide, False)
    expect(page.locator(".lane", has_text="Dave")).to_have_count(1)
