"""Spark Connect: a client without a JVM of its own reads through a server (make test-spark: an extra of its own)."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest
from support.servers import start_server
from support.spark import connect_reader


@pytest.mark.many_jvms
def test_streams_and_ledger_are_read_through_connect(tmp_path):
    missing = [name for name in ("pandas", "grpc", "grpc_status", "zstandard") if find_spec(name) is None]
    assert not missing, f"pip install --editable '.[connect]' brings {missing}"
    with (
        start_server("rillet", "--appendonly", "yes", folder=tmp_path) as server,
        server.wire() as connection,
    ):
        connection.call("XGROUP", "CREATE", "orders", "g", "0", "MKSTREAM")
        for n in range(1, 101):
            connection.call("XADD", "orders", f"{n}-0", "n", str(n))
        connection.call("XREADGROUP", "GROUP", "g", "bob", "COUNT", "30", "STREAMS", "orders", ">")
        connection.call("XACK", "orders", "g", *(f"{n}-0" for n in range(1, 21)))
        done = subprocess.run(
            [sys.executable, connect_reader.__file__, str(server.port), str(tmp_path / "appendonlydir"), str(tmp_path)],
            capture_output=True, text=True, timeout=400, check=False, cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    assert found["session"].startswith("pyspark.sql.connect")
    assert found["typed"] == 5050
    assert found["some"] == ["11-0", "12-0", "13-0"]
    assert {"added": 100, "delivered": 30, "acked": 20}.items() <= found["events"].items()
    assert found["streamed"] == [100, 100]
    assert found["followed"] == sum(found["events"].values())
