"""The site of the documentation is complete, needs no network, and shows only what runs."""

from __future__ import annotations

import html
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.servers import start_server
from support.until import until

import rillet.testing
from rillet.commands import load_all
from rillet.commands.spec.command import REGISTRY
from rillet.pipeline.group import options as group
from rillet.pipeline.redis.options import ENDPOINT_NAMES
from rillet.pipeline.sink import options as sink
from rillet.pipeline.source.entry_batches import COLUMN_OPTIONS
from rillet.pipeline.source.options import BATCH_NAMES, STREAM_NAMES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it: a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    variables = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        words, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.xdist_group("site")
def test_every_command_has_a_page_with_an_example_or_why_there_is_none(site):
    load_all()
    for name, command in REGISTRY.items():
        text = (site / "reference/commands" / name.replace("|", "-") / "index.html").read_text(
            encoding="utf-8"
        )
        if command.is_served:
            assert 'id="example"' in text or 'id="errors"' in text or "There is no example" in text, name
            assert "Complexity" in text, name
        if command.is_served and command.group == "stream":
            assert 'id="example"' in text, name
            assert 'id="errors"' in text, name


@pytest.mark.xdist_group("site")
def test_an_example_shows_what_the_server_replies(site):
    text = (site / "reference/commands/xlen/index.html").read_text(encoding="utf-8")
    example = re.sub(r"<[^>]+>", "", text[text.index('id="example"') :])
    assert re.search(r"&gt; XADD .*&gt; XLEN \w+\n\(integer\) [1-9]", example, re.DOTALL)
    assert "ERR wrong number of arguments for" in example


@pytest.mark.xdist_group("site")
def test_the_page_of_the_tests_has_every_public_name(site):
    text = html.unescape(
        re.sub(r"<[^>]+>", "", (site / "reference/testing/index.html").read_text(encoding="utf-8"))
    )
    for name in rillet.testing.__all__:
        thing = getattr(rillet.testing, name)
        ours = [each for each in thing.__mro__ if each.__module__.startswith("rillet.")]
        names = {each for part in ours for each in {*vars(part), *vars(part).get("__annotations__", ())}}
        missing = [each for each in names if not each.startswith("_") and not re.search(rf"\b{each}\b", text)]
        assert missing == [], name
    for name in ("rillet_server", "rillet_async", "rillet_factory", "RilletMixin", "AsyncRilletMixin"):
        assert name in text


@pytest.mark.xdist_group("site")
def test_every_option_of_the_spark_formats_is_on_its_page(site):
    text = (site / "reference/spark-options/index.html").read_text(encoding="utf-8")
    for names in (ENDPOINT_NAMES, COLUMN_OPTIONS, STREAM_NAMES, BATCH_NAMES, group.NAMES, sink.NAMES):
        assert [name for name in names if f"<code>{name}</code>" not in text] == []
    row = re.search(r"<tr>\s*<td><code>maxRowsPerPartition</code>.*?</tr>", text, re.DOTALL)[0]
    assert "<code>100000</code>" in row
    assert "group: <code>10000</code>" in row


def test_an_option_without_a_meaning_stops_the_site(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_site"))
    page = importlib.import_module("spark_options_page")
    monkeypatch.delitem(page.MEANINGS, "fetchSize")
    with pytest.raises(ValueError, match="fetchSize"):
        page.page()


@pytest.mark.xdist_group("site")
def test_the_site_loads_nothing_from_elsewhere(site):
    loaded = re.compile(
        r'<(?:script|img|iframe)[^>]*\bsrc="(?:https?:)?//|<link[^>]*rel="stylesheet"[^>]*href="(?:https?:)?//'
    )
    assert [path for path in site.rglob("*.html") if loaded.search(path.read_text(encoding="utf-8"))] == []


def test_the_tutorial_runs(tmp_path):
    """Its blocks are one program."""
    program = "\n".join(BLOCK.findall((DOCS / "tutorial.md").read_text(encoding="utf-8")))
    assert program.count("\n") > 15
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip
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
