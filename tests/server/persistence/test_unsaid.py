"""What a chosen RDB version has no place for: Rillet keeps it, and the log counts it once."""

from types import SimpleNamespace

import pytest
from support.aof import rewrite
from support.servers import start_server
from support.until import until

from rillet.server.persistence.rdb import UnsaidLog

LOST = (
    "RDB version {} has no place for 2 times of hash fields, 1 marks of entries given back by XNACK, "
    "1 ids of idempotent producers."
)


def fill(wire):
    wire.do(
        "HSET h a 1 b 2 c 3; HEXPIRE h 5000 FIELDS 2 a b; XADD s IDMP producer message * f v"
        "; XADD s 9999999999999-1 f v; XGROUP CREATE s g 0; XREADGROUP GROUP g c STREAMS s >"
        "; XNACK s g FAIL IDS 1 9999999999999-1"
    )


@pytest.mark.parametrize("version", [10, 11])
def test_it_is_logged_once_for_all_files_alike(version):
    flags = ("--rdb-version", version, "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")
    with start_server("rillet", *flags) as server, server.wire() as wire:
        fill(wire)
        assert wire.call("SAVE").value == b"OK"
        assert wire.call("SAVE").value == b"OK"
        wire.call("BGSAVE")
        until(lambda: "Background saving terminated with success" in server.log)
        rewrite(wire)
        assert server.log.count("has no place for") == 1
        assert LOST.format(version) in server.log
        wire.call("HPERSIST", "h", "FIELDS", 1, "a")
        assert wire.call("SAVE").value == b"OK"
        assert server.log.count("has no place for") == 2
        assert "no place for 1 times of hash fields" in server.log


def test_files_of_two_versions_in_turn_repeat_nothing():
    lines = []
    log = UnsaidLog(SimpleNamespace(log=SimpleNamespace(warning=lines.append)))
    for _ in range(2):
        log.note(10, "1 times of hash fields")
        log.note(11, "1 times of hash fields")
    assert [line[:14] for line in lines] == ["RDB version 10", "RDB version 11"]
    log.note(10, "")
    log.note(10, "1 times of hash fields")
    assert len(lines) == 3


def test_the_version_of_8_10_has_a_place_for_everything():
    with start_server("rillet") as server, server.wire() as wire:
        fill(wire)
        assert wire.call("SAVE").value == b"OK"
        assert (server.dir / "dump.rdb").read_bytes()[:9] == b"REDIS0015"
        assert wire.call("DUMP", "s").plain()[-10:-8] == b"\x0f\x00"
        assert "has no place for" not in server.log


@pytest.mark.parametrize(
    ("compat", "expected"), [("7.0", 10), ("7.2", 11), ("7.4", 12), ("8.2", 12), ("8.6", 13), ("8.8", 14)]
)
def test_the_version_is_that_of_compat_version(compat, expected):
    with start_server("rillet-8.10") as server, server.wire() as wire:
        wire.call("SET", "k", "v")
        assert wire.call("CONFIG", "SET", "compat-version", compat).value == b"OK"
        assert wire.call("DUMP", "k").plain()[-10:-8] == bytes((expected, 0))
        assert wire.call("SAVE").value == b"OK"
        assert (server.dir / "dump.rdb").read_bytes()[5:9] == b"%04d" % expected
        assert wire.call("CONFIG", "SET", "rdb-version", 9).value.startswith(b"ERR CONFIG SET failed")
