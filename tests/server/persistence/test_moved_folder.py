"""CONFIG SET dir, dbfilename, appendonly and save in the middle of something, beside Redis: which files are there, what the next start has.

The rows of ``USUAL`` run always, all of them with `make test-heavy`.
"""

import contextlib
import re
import signal
from pathlib import Path
from typing import NamedTuple

import pytest
import redis
from support.background import at_once
from support.endings import AOF, POINTS, QUICK, SLOW, TRIES, UNDER_WAY, info, is_under_way, settle
from support.servers import require_binary, start_server
from support.until import until
from support.wire import ConnectionClosedError

import rillet.testing

CHANGES = {
    "dir": ("dir", "inner"),
    "dbfilename": ("dbfilename", "other.rdb"),
    "appendonly no": ("appendonly", "no"),
    "appendonly yes": ("appendonly", "yes"),
    "no points": ("save", ""),
    "points": ("save", "3600 1000000"),
}
THEN = "TERM", "kill", "BGSAVE", "SAVE", "BGREWRITEAOF", "SHUTDOWN"
USUAL = {
    ("nothing, with a file", "dir", "BGREWRITEAOF"),
    ("nothing, with a file", "appendonly no", "SAVE"),
    ("the first file", "dir", "TERM"),
    ("the first file", "dir", "kill"),
    ("the first file behind a save", "dir", "kill"),
    ("a rewrite", "dir", "kill"),
    ("a save, with save points", "dbfilename", "SHUTDOWN"),
    ("a full sync", "dir", "BGREWRITEAOF"),
}


# A first file that CONFIG SET appendonly yes asks for waits for these.
SAVES = {"a save", "a save, with save points", "a full sync, with save points"}


def _is_compared(way: str, change: str, then: str) -> bool:
    """Whether both answer the same: not where Rillet keeps more, and a full synchronization is no save (docs/differences.md)."""
    is_behind = way.startswith("the first file behind a save") or (
        change == "appendonly yes" and way in SAVES
    )
    is_no_save = way.startswith("a full sync") and then in {"BGSAVE", "SAVE"}
    return not (is_behind and then == "SHUTDOWN") and not is_no_save


ROWS = [
    pytest.param(*row, id=" - ".join(row), marks=[] if row in USUAL else pytest.mark.heavy)
    for row in ((way, change, then) for way in UNDER_WAY for change in CHANGES for then in THEN)
    if _is_compared(*row)
]


class After(NamedTuple):
    """What a change in the middle left."""

    replies: list[str]
    files: list[str]
    kept: int  # keys of the next start


def change_and_end(kind: str, way: str, change: str, then: str) -> After:
    """Change one server in the middle of something, end it, and start it again with that change."""
    for _ in range(TRIES):
        after, was_under_way = change_and_end_once(kind, way, change, then)
        if was_under_way:
            break
    return after


def change_and_end_once(kind: str, way: str, change: str, then: str) -> tuple[After, bool]:
    """The same, and whether all of it was for certain in the middle."""
    begin, flags = UNDER_WAY[way]
    flags = (*flags, *"--appendfsync always --shutdown-timeout 1 --enable-protected-configs yes".split())
    with start_server(kind, *flags) as server, server.wire() as wire, server.wire() as other:
        (server.dir / "inner").mkdir()
        with begin(server, wire) as begun:
            # What the change begins must not have ended before the next command.
            wire.call(*(QUICK if then in {"TERM", "kill"} else SLOW))
            replies = [str(wire.call("CONFIG", "SET", *CHANGES[change])), str(wire.call("SET", "late", "v"))]
            if then not in {"TERM", "kill", "SHUTDOWN"}:
                replies.append(str(wire.call(then)))
            wire.call(*QUICK)
            was_under_way = is_under_way(begun)
        if then != "SHUTDOWN":
            settle(other)
        else:
            with contextlib.suppress(ConnectionClosedError, ConnectionError):
                replies.append(str(other.call("SHUTDOWN")))
                settle(other)
        process = server._process
        process.send_signal(signal.SIGKILL if then == "kill" else signal.SIGTERM)
        process.wait(30)
        files = files_of(server.dir)
        on = change == "appendonly yes" or (
            (AOF[0] in flags or way.startswith("the first file")) and change != "appendonly no"
        )
        server.flags = (*flags, "--appendonly", "yes" if on else "no")
        if change == "dir":
            server.flags += ("--dir", str(server.dir / "inner"))
        if change == "dbfilename":
            server.flags += ("--dbfilename", "other.rdb")
        server.start()
        with server.wire() as after:
            return After(replies, files, int(str(after.call("DBSIZE").plain()))), was_under_way


def files_of(folder: Path) -> list[str]:
    """The data files, without their numbers."""
    found = (
        path for path in folder.rglob("*") if path.is_file() and path.suffix in {".rdb", ".aof", ".manifest"}
    )
    names = (str(path.relative_to(folder)) for path in found if not path.name.startswith("temp"))
    return sorted({re.sub(r"\.\d+\.", ".N.", name) for name in names})


@pytest.mark.parametrize(("way", "change", "then"), ROWS)
def test_a_change_in_the_middle_leaves_the_files_and_keys_that_it_does_in_redis(way, change, then):
    require_binary("redis810")
    theirs, ours = at_once(lambda kind: change_and_end(kind, way, change, then), ("redis810", "rillet"))
    if way.startswith("a full sync"):
        assert ours.replies[:2] == theirs.replies[:2]
        ours, theirs = ours[1:], theirs[1:]
    assert ours == theirs


def test_a_folder_that_refuses_the_first_file_leaves_it_in_the_old_one():
    flags = "--enable-protected-configs", "yes", *POINTS
    with start_server("rillet", *flags) as server, server.wire() as wire:
        begin, _ = UNDER_WAY["the first file"]
        (server.dir / "inner").mkdir()
        (server.dir / "inner" / "appendonlydir").touch()
        for _ in range(TRIES):
            with begin(server, wire) as begun:
                refusal = str(wire.call("CONFIG", "SET", "dir", "inner"))
            if is_under_way(begun):
                break
            wire.call("CONFIG", "SET", "appendonly", "no")
        assert refusal.startswith("-ERR CONFIG SET failed (possibly related to argument 'dir')")
        settle(wire)
        assert info(wire, "aof_enabled") == "1"
        assert files_of(server.dir)[:2] == [
            "appendonlydir/appendonly.aof.N.base.rdb",
            "appendonlydir/appendonly.aof.N.incr.aof",
        ]


def test_a_first_file_that_moves_there_and_back_has_every_write():
    flags = "--enable-protected-configs", "yes", "--appendfsync", "always"
    with start_server("rillet", *flags) as server, server.wire() as wire:
        begin, _ = UNDER_WAY["the first file"]
        (server.dir / "inner").mkdir()
        with begin(server, wire):
            for number, folder in enumerate(("inner", str(server.dir), "inner", str(server.dir))):
                # A file that is complete stays where it is.
                wire.call("CONFIG", "SET", "rdb-key-save-delay", "60000000" if number < 3 else "0")
                assert str(wire.call("CONFIG", "SET", "dir", folder)) == "+OK"
                wire.call("SET", f"moved{number}", "v")
        keys = str(wire.call("DBSIZE"))
        settle(wire)
        server._process.kill()
        server._process.wait(30)
        server.flags = (*flags, *AOF)
        server.start()
        with server.wire() as after:
            assert str(after.call("DBSIZE")) == keys


def test_a_folder_whose_file_has_left_is_free(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    kept = {"appendonly": True, "save": ""}
    with rillet.testing.Server(dir=tmp_path / "a", enable_protected_configs="yes", **kept) as one:
        client = one.client()
        client.set("k", "v")
        client.config_set("dir", str(tmp_path / "b"))
        with pytest.raises(rillet.testing.StartError, match="is in use"):
            rillet.testing.Server(dir=tmp_path / "a", **kept).start()
        client.bgrewriteaof()
        until(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
        with rillet.testing.Server(dir=tmp_path / "a", **kept) as other:
            assert other.client().get("k") == b"v"
        client.set("k", "w")
    with rillet.testing.Server(dir=tmp_path / "b", **kept) as again:
        assert again.client().get("k") == b"w"


def test_a_folder_that_refuses_a_rewrite_leaves_the_file_in_the_old_one(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "appendonlydir").touch()
    with rillet.testing.Server(dir=tmp_path, appendonly=True, save="", enable_protected_configs="yes") as one:
        client = one.client()
        client.config_set("dir", str(tmp_path / "b"))
        with pytest.raises(redis.ResponseError, match="Can't execute an AOF background rewriting"):
            client.bgrewriteaof()
        client.set("k", "v")
        assert client.info("persistence")["aof_enabled"] == 1
    with rillet.testing.Server(dir=tmp_path, appendonly=True, save="") as again:
        assert again.client().get("k") == b"v"


def test_a_reload_before_the_rewrite_reads_the_old_folder(tmp_path):
    (tmp_path / "b").mkdir()
    allowed = {"enable_protected_configs": "yes", "enable_debug_command": "yes"}
    with rillet.testing.Server(dir=tmp_path, appendonly=True, save="", **allowed) as one:
        client = one.client()
        client.set("k", "v")
        client.config_set("dir", str(tmp_path / "b"))
        client.execute_command("DEBUG LOADAOF")
        assert client.get("k") == b"v"
