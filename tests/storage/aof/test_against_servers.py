"""Our verdict on append-only files beside that of redis-server 7.0.15 and valkey-server, on the same bytes."""

import shutil
import time
from itertools import pairwise
from pathlib import Path

import pytest
from support.servers import start_server
from support.wire import encode_command

from rillet.storage.aof.loader import AofLoader
from rillet.storage.aof.manifest import Manifest
from rillet.storage.aof.writer import AppendOnlyFile
from rillet.storage.loading import AofError

FLAGS = ("--appendonly", "yes", "--aof-use-rdb-preamble", "no")


def encode(command: list[bytes]) -> bytes:
    return encode_command(*command)


ONE = [b"XADD", b"s", b"1-1", b"a", b"b"]
START = encode([b"SELECT", b"0"]) + encode(ONE)


@pytest.fixture(scope="module")
def real_run(tmp_path_factory) -> Path:
    """The folder of a real run: a base in command form and two incr files, the last one with transactions."""
    root = tmp_path_factory.mktemp("real")
    with start_server("redis7", *FLAGS, folder=root) as server, server.wire() as wire:
        wire.call("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
        for number in range(1, 6):
            wire.call("XADD", "s", f"{number}-1", "field", "value")
        wire.call("XREADGROUP", "GROUP", "g", "c", "COUNT", "2", "STREAMS", "s", ">")
        wire.call("BGREWRITEAOF")
        manifest = root / "appendonlydir" / "appendonly.aof.manifest"
        for _ in range(500):
            if b"2.base.aof" in manifest.read_bytes() and b"type h" not in manifest.read_bytes():
                break
            time.sleep(0.01)
        wire.call("XADD", "s", "6-1", "field", "value")
    # Our writer adds the second incr file, and Redis goes on in it.
    aof = AppendOnlyFile.open(root, "appendonlydir", "appendonly.aof")
    aof.start_new_incr()
    aof.close()
    with start_server("redis7", *FLAGS, folder=root) as server, server.wire() as wire:
        wire.call("XADD", "s", "7-1", "field", "value")
        wire.call("MULTI")
        wire.call("XADD", "s", "8-1", "field", "value")
        wire.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
        wire.call("EXEC")
        wire.call("XADD", "s", "9-1", "multi\r\n", "*1\r\n$4\r\nEXEC\r\n")
    return root


def copy(source: Path, target: Path) -> Path:
    shutil.copytree(source / "appendonlydir", target / "appendonlydir")
    return target


def sizes(root: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in (root / "appendonlydir").glob("*.aof")}


def ours(root: Path, **options) -> tuple[bool, list[list[bytes]], str]:
    """Whether we start with these files, the commands, and the text if not."""
    commands: list[list[bytes]] = []
    try:
        for batch in AofLoader(root, "appendonlydir", "appendonly.aof", **options).batches():
            commands += batch
    except AofError as error:
        return False, [], str(error)
    return True, commands, ""


def theirs(kind: str, root: Path, *flags: str) -> tuple[bool, object, str]:
    """Whether a real server starts with these files, what stream `s` then holds, and its log if not."""
    try:
        with start_server(kind, *FLAGS, *flags, folder=root) as server, server.wire() as wire:
            return True, wire.call("XRANGE", "s", "-", "+"), ""
    except RuntimeError as error:
        return False, None, str(error)


def replayed(server, commands: list[list[bytes]]) -> object:
    """What stream `s` holds once a real server was given our commands."""
    with server.wire() as wire:
        wire.call("FLUSHALL")
        for command in commands:
            wire.call(*command)
        return wire.call("XRANGE", "s", "-", "+")


def boundaries(data: bytes) -> list[int]:
    """The starts of the commands of a file."""
    found, at = [], 0
    while at < len(data):
        found.append(at)
        at += len(encode(next_command(data, at)))
    return [*found, len(data)]


def next_command(data: bytes, at: int) -> list[bytes]:
    end = data.index(b"\r\n", at)
    count = int(data[at + 1 : end])
    at, words = end + 2, []
    for _ in range(count):
        end = data.index(b"\r\n", at)
        length = int(data[at + 1 : end])
        words.append(data[end + 2 : end + 2 + length])
        at = end + 4 + length
    return words


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
def test_a_real_run_cut_anywhere_starts_alike_and_ends_at_the_same_size(kind, real_run, tmp_path, running):
    last = "appendonly.aof.3.incr.aof"
    data = (real_run / "appendonlydir" / last).read_bytes()
    starts = boundaries(data)
    words = [next_command(data, at)[0] for at in starts[:-1]]
    begin, end = starts[words.index(b"MULTI")], starts[words.index(b"EXEC") + 1]
    cuts = {1, 5, len(data) - 1, len(data), begin - 3, begin, begin + 1, end - 2, end}
    cuts |= {(left + right) // 2 for left, right in pairwise(starts)}
    for cut in sorted(cuts):
        mine, real = (copy(real_run, tmp_path / f"{who}-{cut}") for who in ("ours", kind))
        for root in (mine, real):
            (root / "appendonlydir" / last).write_bytes(data[:cut])
        started, commands, _ = ours(mine)
        real_started, stream, _ = theirs(kind, real)
        assert (started, real_started) == (True, True), cut
        assert replayed(running("redis7"), commands) == stream, cut
        if (
            kind == "redis7"
            and begin < cut < end
            and cut not in starts
            and cut > starts[starts.index(begin) + 1]
        ):
            # 7.0 leaves the open MULTI in the file, and what it appends behind that is lost; Valkey mended it.
            assert sizes(mine)[last] == begin
            assert begin < sizes(real)[last] <= cut
        else:
            assert sizes(mine) == sizes(real), cut


FILES = {
    "bytes that are no command": (b"", START + b"PING\r\n" + START),
    "a hole of zeros": (b"", START + bytes(100)),
    "no arguments": (b"", START + b"*0\r\n" + START),
    "lenient numbers": (b"", b"*02x\n$6\nSELECT\r\n$1\r\n0XX" + encode(ONE)),
    "a long annotation": (b"", START + b"#" + b"x" * 1022 + b"\n" + encode(ONE)),
    "a just short enough annotation": (b"", START + b"#" + b"x" * 1021 + b"\n" + encode(ONE)),
    "torn behind an annotation": (b"", START + b"#TS:1\r\n*3"),
    "a length beyond the end": (b"", START + b"*1\r\n$99999999999\r\n"),
    "DISCARD ends no transaction": (b"", START + encode([b"MULTI"]) + encode(ONE) + encode([b"DISCARD"])),
    "EXEC alone": (b"", START + encode([b"EXEC"])),
    "a transaction over two files": (START + encode([b"MULTI"]), encode(ONE) + encode([b"EXEC"])),
    "torn but not last": (START[:-1], START),
    "torn before an empty last": (START[:-1], b""),
    "missing": (START, None),
    "both empty": (b"", b""),
}


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize("name", FILES)
def test_odd_files_get_the_verdict_of_redis(name, truncate, tmp_path):
    base, incr = FILES[name]
    roots = [tmp_path / "ours", tmp_path / "theirs"]
    manifest = Manifest().with_new_base("appendonly.aof").with_new_incr("appendonly.aof")
    for root in roots:
        (folder := root / "appendonlydir").mkdir(parents=True)
        manifest.persist(folder, "appendonly.aof")
        (folder / "appendonly.aof.1.base.aof").write_bytes(base)
        if incr is not None:
            (folder / "appendonly.aof.1.incr.aof").write_bytes(incr)
    started, _, text = ours(roots[0], truncate=truncate)
    real_started, _, log = theirs("redis7", roots[1], "--aof-load-truncated", "yes" if truncate else "no")
    assert started == real_started
    if not started:
        assert text.split(" (")[0] in log
    if started or not truncate:
        assert sizes(roots[0]) == sizes(roots[1])
    else:  # what we refuse we leave as it is; Redis cuts a torn file that is not the last all the same
        assert sizes(roots[0])["appendonly.aof.1.base.aof"] == len(base)


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"file appendonly.aof.1.base.aof seq 1 type b",
        b"file a seq 1 type b\n\n",
        b"file a/b seq 1 type b\n",
        b'file "a seq 1 type b\n',
        b"file a seq 1 type b x\n",
        b"file a seq 1 type b\nfile a seq 1 type b\n",
        b"file a seq 2 type i\nfile a seq 2 type i\n",
        b"file a seq 1 type z\n",
    ],
)
def test_bad_manifests_are_refused_with_the_words_of_redis(manifest, tmp_path):
    (tmp_path / "appendonlydir").mkdir()
    (tmp_path / "appendonlydir" / "appendonly.aof.manifest").write_bytes(manifest)
    started, _, text = ours(tmp_path)
    real_started, _, log = theirs("redis7", tmp_path)
    assert (started, real_started) == (False, False)
    assert all(line in log for line in text.splitlines())


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
@pytest.mark.parametrize("name", ["appendonly.aof", "a b.aof", "a'é\".aof"])
def test_real_servers_load_what_we_write_whatever_it_is_called(kind, name, tmp_path):
    aof = AppendOnlyFile.open(tmp_path, "appendonlydir", name, timestamps=True)
    aof.append(encode([b"SELECT", b"0"]))
    aof.annotate(1_700_000_000_000)
    aof.append(encode(ONE))
    aof.close()
    with (
        start_server(kind, "--appendonly", "yes", "--appendfilename", name, folder=tmp_path) as server,
        server.wire() as wire,
    ):
        assert wire.call("XLEN", "s").value == b"1"


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
def test_we_load_what_a_real_server_writes_on_its_first_start(kind, tmp_path):
    with start_server(kind, "--appendonly", "yes", folder=tmp_path) as server, server.wire() as wire:
        wire.call("XADD", "s", "1-1", "a", "b")
    assert (tmp_path / "appendonlydir" / "appendonly.aof.1.base.rdb").exists()
    assert ours(tmp_path) == (True, [[b"SELECT", b"0"], ONE], "")
