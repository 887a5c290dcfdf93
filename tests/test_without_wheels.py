"""A server in a Python for which lupa and python-neo-lzf have no wheels: it starts, reads compressed files, and EVAL says why not."""

import subprocess
import sys

import rillet.testing

RUN = """
import sys
sys.modules.update(dict.fromkeys(("lupa", "lzf")))
import rillet.testing
with rillet.testing.Server(dir=sys.argv[1], dbfilename="dump.rdb") as server:
    client = server.client()
    assert client.get("text") == b"again and " * 50
    assert client.xrange("jobs") == [(b"%d-0" % n, {b"text": b"again and " * 50}) for n in range(1, 200)]
    assert client.restore("copy", 0, client.get("dumped"))
    try:
        client.eval("return 1", 0)
    except Exception as error:
        print(error)
    client.save()
"""


def test_a_server_reads_compressed_files_and_eval_names_what_is_missing(tmp_path):
    with rillet.testing.Server(dir=str(tmp_path), dbfilename="dump.rdb") as server:
        client = server.client()
        client.set("text", "again and " * 50)
        client.set("dumped", client.dump("text"))
        for n in range(1, 200):
            client.xadd("jobs", {"text": "again and " * 50}, id=f"{n}-0")
        client.save()
    assert (tmp_path / "dump.rdb").stat().st_size < 20_000  # it is compressed
    done = subprocess.run(
        [sys.executable, "-c", RUN, tmp_path], capture_output=True, text=True, check=True, timeout=60
    )
    assert (
        done.stdout
        == "scripting is not available in this server: the Python package lupa is not installed (pip install lupa)\n"
    )
    with rillet.testing.Server(dir=str(tmp_path), dbfilename="dump.rdb") as server:
        client = server.client()
        assert client.get("copy") == client.get("text") == b"again and " * 50
        assert client.xlen("jobs") == 199
