"""Messages one by one: what they hold, who had them, and lines that a shell takes as they are meant."""

import re
import shutil
import subprocess
from html import unescape

import pytest

from rillet.pipeline.ledger.spelling import spell_name
from rillet.pipeline.report.stories import stories_of

STEP = {
    "db": 0, "stream": "orders", "group": "g", "entry_id": "5-0", "consumer": "ann", "began": "first", "began_ms": 1000,
    "ended": "claimed", "ended_ms": 3500, "deliveries": 1, "added_ms": 5, "step": 1, "steps": 2,
}  # fmt: skip
LAST = STEP | {
    "consumer": "bob", "began": "claimed", "began_ms": 3500, "ended": None, "ended_ms": None, "step": 2,
}  # fmt: skip
POISON = {
    "db": 0, "stream": "orders", "group": "g", "entry_id": "5-0", "deliveries": 7, "path": "ann → bob", "state": "pending",
    "first_ms": 1000, "last_ms": 3500,
}  # fmt: skip
PENDING = POISON | {"consumer": "bob", "delivered_ms": 3500, "idle_ms": 1500}


def lines(page):
    return [unescape(line) for line in re.findall(r"<dd><code>([^<]*)</code></dd>", page)]


def test_an_entry_leads_to_what_it_holds_and_who_had_it(report):
    contents = {(0, "orders", "5-0"): [b"order", b"77", b"note", b"<b>"]}
    page = report(contents=contents, poison=[POISON], pending=[PENDING], histories=[STEP, LAST])
    assert page.count('<a href="#message-1"><code>5-0</code></a>') == 2
    assert page.count('id="message-1"') == 1
    assert "<dt>order</dt><dd><bdi>77</bdi></dd>" in page
    assert "<bdi>&lt;b&gt;</bdi>" in page
    story = page.partition('id="message-1"')[2]
    cells = re.findall(r'data-of="[^"]*"><span>(?:<b>)?([^<]*)', story)
    assert cells == [
        *("1", "delivered", "ann", "1970-01-01 00:00:01.000", "2.5 s", "claimed by another"),
        *("2", "claimed", "bob", "1970-01-01 00:00:03.500", "-", "still pending"),
    ]


def test_a_pending_message_has_every_line_that_helps_and_another_only_a_look(report):
    page = report(pending=[PENDING], histories=[STEP, LAST])
    assert lines(page) == [
        "redis-cli XRANGE orders 5-0 5-0",
        "redis-cli XCLAIM orders g CONSUMER 0 5-0",
        "rillet pipeline deadletter move orders-dead 5-0 --stream orders --group g",
        "redis-cli XACK orders g 5-0",
    ]
    acked = LAST | {"ended": "acked", "ended_ms": 4000, "db": 3}
    page = report(poison=[POISON | {"state": "acked", "db": 3}], histories=[STEP | {"db": 3}, acked])
    assert lines(page) == ["redis-cli -n 3 XRANGE orders 5-0 5-0"]


def test_what_is_not_known_or_not_wanted_is_said(report):
    page = report(contents={}, pending=[PENDING], histories=[STEP, LAST])
    assert "What it holds is not in these files." in page
    page = report(contents=None, pending=[PENDING], histories=[STEP, LAST])
    assert "<code>--no-contents</code>" in page
    assert "What it holds" not in page
    many = [word for number in range(60) for word in (b"f%d" % number, b"\xff" * 3000)]
    page = report(
        contents={(0, "orders", "5-0"): many}, pending=[PENDING], histories=[STEP | {"steps": 1002}]
    )
    assert "10 more fields" in page
    assert "binary, 3,000 bytes in all" in page
    assert "1,001 steps in between are not shown." in page


def test_messages_come_once_and_without_a_story_lead_nowhere(report):
    other = PENDING | {"entry_id": "6-0"}
    assert [story.anchor for story in stories_of([STEP, LAST], None, [POISON, other, PENDING])] == [
        "message-1"
    ]
    page = report(pending=[other])
    assert "<code>6-0</code>" in page
    assert "Message by message" not in page


@pytest.mark.parametrize(
    "name", [b"a b", b"it's", b"$HOME `x` !", b"or\xff\\x41", b"new\nline\t'", "é-ü".encode(), b"\\", b"-x"]
)
def test_a_shell_reads_the_names_that_redis_has(report, name):
    bash = shutil.which("bash")
    row = {"stream": spell_name(name), "group": spell_name(name)}
    page = report(pending=[PENDING | row], histories=[LAST | row])
    xack = lines(page)[-1]
    done = subprocess.run(
        [bash, "-c", f"printf '%s\\0' {xack.removeprefix('redis-cli ')}"],
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.split(b"\0")[:-1] == [b"XACK", name, name, b"5-0"]
