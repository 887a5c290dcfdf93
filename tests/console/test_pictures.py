"""The pictures of docs/ and README.md: made to be compared in size, and with RILLET_PICTURES=1 to be kept."""

import os
import struct
from pathlib import Path

import pytest
import redis
from playwright.sync_api import expect
from support.programs.console import WIDTH

pytestmark = pytest.mark.xdist_group("browser")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "console"
HEIGHT = 860
STORY = (
    # stream, group, consumer, messages that it takes, minutes until the next one
    ("orders", "billing", "alice", 9, 45),
    ("orders", "billing", "bob", 6, 12),
    ("orders", "billing", "carol", 4, 1),
    ("orders", "shipping", "depot-1", 12, 0),
    ("payments", "ledger", "worker-1", 3, 1),
    ("emails", "senders", "mailer-1", 5, 0),
)


@pytest.fixture
def day(consoles):
    """A day of orders: a consumer that has been silent for an hour, a message that fails again and again."""
    server, console = consoles("rillet")
    with redis.Redis(port=server.port, client_name="shop") as client:
        client.flushall()
        client.execute_command("DEBUG", "CLOCK", "RESET")
        form = console.ask("/act/record").fields("csrf", "shown")
        assert console.ask("/act/record", form).status == 303
        for number in range(60):
            client.xadd("orders", {"order": 7_300 + number, "item": ("teapot", "cup", "sugar")[number % 3], "data": '{"amount": 2, "gift": false, "to": {"city": "Turku"}}'})  # fmt: skip
            client.xadd("payments", {"order": 7_300 + number, "amount": 18})
            client.xadd("emails", {"to": "sara@example.com"})
        for stream, group in (
            ("orders", "billing"), ("orders", "shipping"), ("payments", "ledger"), ("emails", "senders"),
        ):  # fmt: skip
            client.xgroup_create(stream, group, "0")
        first = client.xrange("orders", count=1)[0][0]
        for stream, group, consumer, count, minutes in STORY:
            taken = client.xreadgroup(group, consumer, {stream: ">"}, count=count)[0][1]
            client.xack(stream, group, *(entry for entry, _ in taken[count // 2 :]))
            client.execute_command("DEBUG", "CLOCK", "ADVANCE", minutes * 60_000)
        for _ in range(5):
            client.xclaim("orders", "billing", "bob", 0, [first])
            client.execute_command("DEBUG", "CLOCK", "ADVANCE", 20_000)
        yield console, first.decode()
        client.execute_command("DEBUG", "CLOCK", "RESET")


def test_pictures_of_the_overview_a_group_and_a_message(day, opened, tmp_path):
    console, entry = day
    folder = FOLDER if os.environ.get("RILLET_PICTURES") else tmp_path
    page = opened(console)
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    pages = {
        "overview": ("/", "orders"),
        "group": ("/group?key=orders&group=billing", "alice"),
        "message": (f"/message?key=orders&id={entry}", "claimed by bob"),
    }
    for name, (path, text) in pages.items():
        page.goto(path)
        expect(page.locator("main")).to_contain_text(text)
        expect(page.locator(".chart canvas")).to_have_count(1 if name == "group" else 0)
        page.screenshot(path=folder / f"{name}.png")
        assert size_of(folder / f"{name}.png") == size_of(FOLDER / f"{name}.png") == (WIDTH, HEIGHT)


def size_of(picture):
    return struct.unpack(">II", picture.read_bytes()[16:24])


@pytest.mark.parametrize("name", ["overview", "group", "message"])
def test_the_page_of_the_console_shows_the_picture(name):
    assert f"](console/{name}.png)" in (ROOT / "docs" / "console.md").read_text(encoding="utf-8")
    assert (FOLDER / f"{name}.png").stat().st_size < 300_000
