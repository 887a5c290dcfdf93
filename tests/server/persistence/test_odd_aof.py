"""Commands and names in an AOF that no server writes: a line in the log, and never a traceback."""

from __future__ import annotations

import pytest
from support.wire import encode_command

import rillet.testing


def folder(tmp_path, manifest, *commands):
    directory = tmp_path / "appendonlydir"
    directory.mkdir()
    (directory / "appendonly.aof.manifest").write_bytes(manifest)
    (directory / "appendonly.aof.1.incr.aof").write_bytes(
        b"".join(encode_command(*each) for each in commands)
    )
    return rillet.testing.Server(process=True, dir=str(tmp_path), appendonly=True)


@pytest.mark.parametrize("command", [["SHUTDOWN"], ["SHUTDOWN", "NOSAVE"], ["PSYNC", "?", "-1"], ["SYNC"]])
def test_a_command_that_needs_a_client_is_left_out(tmp_path, command):
    manifest = b"file appendonly.aof.1.incr.aof seq 1 type i\n"
    with folder(tmp_path, manifest, ["SET", "a", "1"], command, ["SET", "b", "2"]) as server:
        assert sorted(server.client().keys()) == ["a", "b"] or sorted(server.client().keys()) == [b"a", b"b"]


@pytest.mark.parametrize("kind", ["b", "i", "h"])
@pytest.mark.parametrize("name", [r"\x00", r"a\x00b"])
def test_a_name_with_nul_in_the_manifest_is_refused_in_redis_words(tmp_path, name, kind):
    with pytest.raises(rillet.testing.StartError, match="File can't be a path, just a filename") as error:
        folder(tmp_path, f'file "{name}" seq 1 type {kind}\n'.encode()).start()
    assert "Traceback" not in str(error.value)
