"""Our verdict on append-only files beside that of redis-server 7.0.15 and valkey-server, on the same bytes."""

from pathlib import Path

import pytest
from support.servers import start_server

from rillet.protocol.replies import command as encode
from rillet.storage.aof.loader import AofLoader
from rillet.storage.aof.manifest import Manifest
from rillet.storage.aof.writer import AppendOnlyFile
from rillet.storage.loading import AofError

FLAGS = ("--appendonly", "yes", "--aof-use-rdb-preamble", "no")


ONE = [b"XADD", b"s", b"1-1", b"a", b"b"]
START = encode([b"SELECT", b"0"]) + encode(ONE)


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
        b"file " + b"x" * 1100 + b" seq 1 type b\n",
        b"file a\0b seq 1 type b\n",
        b"file a seq 1 type b\n\n",
        b" # x\n",
        b'file "a seq 1 type b\n',
        b"file a seq 1 type b x\n",
        b"file a seq 1\n",
        b"file a foo 1 type b\n",
        b"file a seq 0 type b\n",
        b"file a seq abc type b\n",
        b'file a seq 1 type ""\n',
        b"file a/b seq 1 type b\n",
        b'file "a\\\\b" seq 1 type b\n',
        b"file a seq 1 type b\nfile a seq 1 type b\n",
        b"file a seq 2 type i\nfile a seq 2 type i\n",
        b"file a seq -1 type i\n",
        b"file a seq 1 type z\n",
        b"file a seq 1 type B\n",
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
