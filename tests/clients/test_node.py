"""node-redis and ioredis: connect (RESP2 and RESP3), streams and groups, blocking reads, pub/sub, transactions."""

from __future__ import annotations

import os
import subprocess

import pytest
from support.clients import NODE_FOLDER, node_modules
from support.live import LiveServer


@pytest.mark.parametrize("script", ["node-redis.js", "ioredis.js"])
def test_a_client_of_node_gets_what_it_expects(script):
    modules = node_modules()
    with LiveServer() as server:
        done = subprocess.run(
            ["node", NODE_FOLDER / script, str(server.port)],
            env=os.environ | {"NODE_PATH": str(modules), "RILLET_CHECK": str(NODE_FOLDER / "check.js")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "all as expected\n", "")
