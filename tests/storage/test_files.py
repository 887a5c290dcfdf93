"""Files that are replaced as a whole."""

import os

import pytest

from rillet.storage import files
from rillet.storage.files import replace_file


def test_a_file_gets_new_content_and_permissions_atomically(tmp_path):
    target = tmp_path / "users.acl"
    target.write_bytes(b"old")
    replace_file(target, b"new", 0o600)
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["users.acl"]


@pytest.mark.parametrize("call", ["fsync", "fdopen"])
def test_what_fails_leaves_the_file_as_it_was_and_nothing_beside_it(tmp_path, monkeypatch, call):
    def fail(handle, *_):
        if call == "fdopen":
            os.close(handle)
        raise OSError("disk full")

    target = tmp_path / "users.acl"
    target.write_bytes(b"old")
    monkeypatch.setattr(files.os, call, fail)
    with pytest.raises(OSError, match="disk full"):
        replace_file(target, b"new", 0o600)
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["users.acl"]
