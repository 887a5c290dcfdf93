"""Directives that no code reads: all of them are known, and setting one leaves a line in the log."""

import re
from pathlib import Path

import pytest
from support.servers import start_server

from rillet.server.config.config import DIRECTIVES
from rillet.server.config.kinds import Only
from rillet.server.config_bindings import OF_TLS, WITHOUT_EFFECT
from rillet.storage.collections.encoding_limits import Limits

ROOT = Path(__file__).parents[2]
# Read by a loop over their names.
READ_BY_NAME = {*vars(Limits()), *(name.replace("-", "_") for name in OF_TLS)}


def test_each_directive_is_read_by_code_or_known_to_have_no_effect():
    sources = [path for layer in ("commands", "server", "storage") for path in (ROOT / layer).rglob("*.py")]
    read = set(re.findall(r"\.(\w+)\b", "\n".join(path.read_text() for path in sources)))
    unread = {
        each.name
        for each in DIRECTIVES.values()
        if each.primary
        and each.attribute not in read | READ_BY_NAME
        and not isinstance(each.kind, Only)  # refuses what would have no effect
    }
    read_to_refuse_a_change = {"cluster-slot-stats-enabled", "key-memory-histograms"}
    assert unread | read_to_refuse_a_change == set(WITHOUT_EFFECT)


def test_a_directive_without_effect_is_logged_when_it_is_set():
    with start_server("rillet", "--io-threads", "4", "--dynamic-hz", "yes") as server, server.wire() as wire:
        said = "# Warning: io-threads has no effect in Rillet: one thread runs all commands.\n"
        assert server.log.count(said) == 1
        assert server.log.count("has no effect") == 1  # dynamic-hz has its default
        for value in ("yes", "yes", "no"):
            assert wire.call("CONFIG", "SET", "activedefrag", value).plain() == b"OK"
        assert server.log.count("activedefrag has no effect in Rillet: there is no jemalloc") == 1


def test_a_file_with_every_directive_of_redis_starts(running, tmp_path):
    with running("redis810").wire() as wire:
        settings = wire.call("CONFIG", "GET", "*").plain()
    file = tmp_path / "redis.conf"
    pairs = dict(zip(settings[::2], settings[1::2], strict=True)) | {
        b"dir": str(tmp_path).encode(),
        b"save": b"",
    }
    several = {b"bind", b"oom-score-adj-values", b"latency-tracking-info-percentiles", b"save"}
    lines = [
        name + b" " + (value if name in several and value else b'"%b"' % value)
        for name, value in pairs.items()
        if name not in {b"port", b"client-output-buffer-limit", b"replicaof", b"slaveof"}
    ]
    classes = pairs[b"client-output-buffer-limit"].split()
    lines += [
        b"client-output-buffer-limit " + b" ".join(classes[at : at + 4]) for at in range(0, len(classes), 4)
    ]
    file.write_bytes(b"\n".join(lines) + b"\n")
    with start_server("rillet", "--include", str(file), folder=tmp_path) as server, server.wire() as wire:
        mine = wire.call("CONFIG", "GET", "*").plain()
        mine = dict(zip(mine[::2], mine[1::2], strict=True))
        assert {
            name: (mine.get(name), value) for name, value in pairs.items() if mine.get(name) != value
        } == {b"port": (b"%d" % server.port, pairs[b"port"])}


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_what_has_no_effect_is_a_directive(name):
    assert DIRECTIVES[name.encode()].primary


def test_info_shows_the_percentiles_that_are_wanted():
    with (
        start_server("rillet", "--latency-tracking-info-percentiles", "25 99.5") as server,
        server.wire() as wire,
    ):
        wire.call("PING")
        text = wire.call("INFO", "latencystats").plain().decode()
        assert re.search(r"^latency_percentiles_usec_ping:p25=[\d.]+,p99\.5=[\d.]+\r$", text, re.MULTILINE)
        assert wire.call("CONFIG", "SET", "latency-tracking", "no").plain() == b"OK"
        assert wire.call("INFO", "latencystats").plain().decode().split() == ["#", "Latencystats"]
