"""The site of the documentation is complete, needs no network, and shows only what runs."""

import html
import importlib
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from support.servers import start_server
from support.tool import run_program
from support.until import until

import rillet.testing
from rillet.commands.spec.command import REGISTRY
from rillet.pipeline.formats import READING
from rillet.pipeline.ledger.format import FollowingOptions
from rillet.pipeline.redis.options import records
from rillet.pipeline.sink.options import SinkOptions
from rillet.server.families import load_all

pytestmark = pytest.mark.xdist_group("site")  # which is built once

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
load_all()
FORMS = [*READING.values(), SinkOptions, FollowingOptions]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it: a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    variables = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = run_program(*words, seconds=500, cwd=ROOT, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


# No words make them fail.
NEVER_REFUSED = {
    "command|docs", "command|info", "info", "latency|histogram", "latency|reset", "pubsub|numsub", "pubsub|shardnumsub",
    "punsubscribe", "quit", "sunsubscribe", "unsubscribe",
}  # fmt: skip


def test_every_command_has_a_page_with_an_example_or_why_there_is_none(site, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_site"))
    examples = importlib.import_module("examples")
    ours = {name: examples.OURS for name, command in REGISTRY.items() if command.ours}
    reasons = examples.WITHOUT | ours
    for name, command in REGISTRY.items():
        page = site / "reference/commands" / name.replace("|", "-") / "index.html"
        text = html.unescape(page.read_text(encoding="utf-8"))
        if not command.is_served:
            assert name not in reasons
            continue
        assert "Complexity" in text, name
        assert ('id="example"' in text) is (name not in reasons), name
        assert name not in reasons or f"There is no example: {reasons[name]}." in text, name
        assert ('id="errors"' in text) is (name not in NEVER_REFUSED), name


def test_no_example_ends_in_an_error_and_each_ends_with_its_command(site):
    """What is refused stands below, under the errors."""
    seen = 0
    for name, command in REGISTRY.items():
        page = site / "reference/commands" / name.replace("|", "-") / "index.html"
        found = re.search(r'id="example".*?<pre>(.*?)</pre>', page.read_text(encoding="utf-8"), re.DOTALL)
        if found is None:
            continue
        seen += 1
        steps = re.split(r"^[\w ]*> ", html.unescape(re.sub(r"<[^>]+>", "", found[1])), flags=re.MULTILINE)
        line, _, reply = steps[-1].partition("\n")
        assert line.lower().startswith(command.name.replace("|", " ")), name
        assert reply, name
    assert seen > 350


def test_an_error_is_no_example(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(DOCS / "_site"))
    examples = importlib.import_module("examples")
    monkeypatch.setattr(examples, "EXAMPLES", tmp_path)
    (tmp_path / "bad.script").write_text("--- a refusal\nSET k v\nLPUSH k 1\nGET k\n", encoding="utf-8")
    [case] = examples.written("bad")
    found = {name: examples.Shown() for name in REGISTRY}
    with rillet.testing.Server() as server:
        examples.note(found, examples.play(case, server.port))
    assert found["lpush"].example == []
    assert [text.split()[0] for text in found["lpush"].errors] == ["WRONGTYPE"]
    assert found["get"].text == '> SET k v\nOK\n> GET k\n"v"'


def test_an_example_loses_the_steps_that_its_reply_does_not_depend_on(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(DOCS / "_site"))
    examples = importlib.import_module("examples")
    monkeypatch.setattr(examples, "EXAMPLES", tmp_path)
    lines = "SET a 1\nGET a\nSET b 2\nINCRBY a 5\nDECRBY a 2\nTIME\nCLIENT ID\n"
    (tmp_path / "long.script").write_text(f"--- many steps\n{lines}", encoding="utf-8")
    [case] = examples.written("long")
    found = {name: examples.Shown() for name in REGISTRY}
    with rillet.testing.Server() as server:
        examples.note(found, examples.play(case, server.port))
        short = {
            name: [step.rest for step, _ in examples.without_the_needless(found[name].example, server.port)]
            for name in ("decrby", "client|id", "get")
        }
    assert short == {
        "decrby": ["SET a 1", "INCRBY a 5", "DECRBY a 2"],
        "client|id": ["CLIENT ID"],
        "get": ["SET a 1", "GET a"],
    }


def test_a_case_of_the_examples_goes_to_its_end(monkeypatch):
    """A mistake in one would shorten it without a word; only what is titled so is refused."""
    monkeypatch.syspath_prepend(str(DOCS / "_site"))
    examples = importlib.import_module("examples")
    refused = {"words that are refused", "what a node refuses", "a server that is no node of a cluster"}

    def check(case, played):
        assert len(played) == len([step for step in case.steps if step.verb != "wait"]), case.title
        if case.title in refused:
            assert {reply.kind for _, reply in played} == {"-"}, case.title

    with rillet.testing.Server(enable_debug_command="yes", busy_reply_threshold=1) as server:
        for case in examples.written("server"):
            check(case, list(examples.play(case, server.port)))
    for name in ("files", "replica", "cluster"):
        for case in examples.written(name):
            with getattr(examples, name)() as (ports, names):
                check(case, list(examples.play(case, ports["A"], ports, names)))


def test_an_example_shows_what_the_server_replies(site):
    text = (site / "reference/commands/xlen/index.html").read_text(encoding="utf-8")
    example = re.sub(r"<[^>]+>", "", text[text.index('id="example"') :])
    assert re.search(r"&gt; XADD .*&gt; XLEN \w+\n\(integer\) [1-9]", example, re.DOTALL)
    assert "ERR wrong number of arguments for" in example


def test_the_page_of_the_tests_has_every_public_name(site):
    text = html.unescape(
        re.sub(r"<[^>]+>", "", (site / "reference/testing/index.html").read_text(encoding="utf-8"))
    )
    for name in rillet.testing.__all__:
        thing = getattr(rillet.testing, name)
        assert re.search(rf"\b{name}\b", text)
        ours = [each for each in getattr(thing, "__mro__", ()) if each.__module__.startswith("rillet.")]
        names = {each for part in ours for each in {*vars(part), *vars(part).get("__annotations__", ())}}
        missing = [each for each in names if not each.startswith("_") and not re.search(rf"\b{each}\b", text)]
        assert missing == [], name
    for name in ("rillet_server", "rillet_async", "rillet_factory", "RilletMixin", "AsyncRilletMixin"):
        assert name in text


def test_every_option_of_the_spark_formats_is_on_its_page(site):
    text = (site / "reference/spark-options/index.html").read_text(encoding="utf-8")
    found = set(re.findall(r"<tr>\s*<td><code>(\w+)</code>", text))
    assert found == {name for form in FORMS for name in records(form)}
    row = re.search(r"<tr>\s*<td><code>maxRowsPerPartition</code>.*?</tr>", text, re.DOTALL)[0]
    assert "<code>100000</code>" in row
    assert "group: <code>10000</code>" in row


def test_the_tables_of_the_spark_page_name_options_that_there_are():
    text = (DOCS / "spark.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| option \|.*\n\|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    cells = [line.split("|")[1] for table in tables for line in table.splitlines()]
    named = {word for cell in cells for word in re.findall(r"`([a-zA-Z]+)[=`]", cell)} - {"load"}
    assert len(named) > 50
    assert named - {name for form in FORMS for name in records(form)} == set()


def test_the_site_loads_nothing_from_elsewhere(site):
    loaded = re.compile(
        r'<(?:script|img|iframe)[^>]*\bsrc="(?:https?:)?//|<link[^>]*rel="stylesheet"[^>]*href="(?:https?:)?//'
    )
    assert [path for path in site.rglob("*.html") if loaded.search(path.read_text(encoding="utf-8"))] == []


def test_no_page_asks_for_the_stars_of_the_repository(site):
    """The theme asks api.github.com wherever it shows a repository by its own part."""
    assert [
        page
        for page in site.rglob("*.html")
        if 'data-md-component="source"' in page.read_text(encoding="utf-8")
    ] == []


def test_the_front_page_has_an_install_line_an_example_a_picture_and_four_doors(tmp_path):
    front = (DOCS / "index.md").read_text(encoding="utf-8")
    assert 'pip install "rillet[testing]"' in front
    assert "![The console" in front
    assert re.findall(r"^\| \*\*(\w+)\*\*", front, re.MULTILINE) == ["Run", "Test", "See", "Spark"]
    [example] = BLOCK.findall(front)
    done = run_program(sys.executable, "-W", "error", "-c", example, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_readme_says_in_its_first_screen_what_the_two_commands_take():
    first = "".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines(keepends=True)[:40])
    assert first.index("make run") < first.index("make test ") < first.index("pip install rillet")
    assert "1.7 GB" in first


def test_the_tutorial_runs(tmp_path):
    """Its blocks are one program."""
    program = "\n".join(BLOCK.findall((DOCS / "tutorial.md").read_text(encoding="utf-8")))
    assert program.count("\n") > 15
    done = run_program(sys.executable, "-W", "error", "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


# docs/how-to/production.md


def test_a_redis_follows_and_is_promoted():
    with (
        start_server("rillet") as ours,
        start_server("redis810") as real,
        ours.wire() as wire,
        real.wire() as theirs,
    ):
        wire.call("XADD", "s", "1-0", "f", "v")
        theirs.call("REPLICAOF", "127.0.0.1", ours.port)
        until(lambda: b"master_link_status:up" in theirs.call("INFO", "replication").value)
        wire.call("XADD", "s", "2-0", "f", "v")
        assert wire.call("WAIT", 1, 10000).plain() == 1
        assert theirs.call("REPLICAOF", "NO", "ONE").plain() == b"OK"
        assert theirs.call("XADD", "s", "3-0", "f", "v").plain() == b"3-0"
        assert theirs.call("XLEN", "s").plain() == 3


def test_a_redis_starts_in_the_folder(tmp_path):
    with start_server("rillet") as ours:
        with ours.wire() as wire:
            wire.call("XADD", "s", "1-0", "f", "v")
            wire.call("XGROUP", "CREATE", "s", "g", "0")
            wire.call("SAVE")
            folder = wire.call("CONFIG", "GET", "dir").plain()[1].decode()
        shutil.copy(Path(folder) / "dump.rdb", tmp_path)
    with start_server("redis810", "--dir", str(tmp_path)) as real, real.wire() as wire:
        assert wire.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">").plain() == [
            [b"s", [[b"1-0", [b"f", b"v"]]]]
        ]
