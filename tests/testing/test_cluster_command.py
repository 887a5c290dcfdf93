"""`rillet cluster`, as a program."""

import signal
import subprocess
import sys

import pytest
from redis.cluster import RedisCluster


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rillet", "cluster", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_and_names_its_nodes(number):
    process = start(
        "--port", "0", "--shards", "2", "--replicas", "1", "--compat-version", "7.2", "--requirepass", "x"
    )
    assert process.stdout is not None
    lines = []
    while (line := process.stdout.readline().split()) != ["Ready", "to", "accept", "connections"]:
        assert line, process.communicate()
        lines.append(line)
    try:
        assert [role for _, _, role in lines] == ["master", "master", "replica", "replica"]
        port = int(lines[0][0].partition(":")[2])
        with RedisCluster("127.0.0.1", port, password="x") as client:
            assert client.set("key", "value")
            assert client.info("server", target_nodes=RedisCluster.RANDOM)["redis_version"] == "7.2.0"
            assert {node.port for node in client.get_nodes()} == {
                int(line[0].partition(":")[2]) for line in lines
            }
    finally:
        process.send_signal(number)
        out, problems = process.communicate(timeout=60)
    assert (process.returncode, out, problems) == (0, "", "")


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["--shards", "0"], 2, "a cluster has at least one shard"),
        (["appendonly", "yes"], 2, "what is 'appendonly'? A directive begins with --"),
        (["--port", "0", "--no-such-directive", "1"], 1, "no-such-directive"),
        (["--help"], 0, ""),
    ],
)
def test_what_it_does_not_understand_is_named(words, status, text):
    process = start(*words)
    out, problems = process.communicate(timeout=60)
    assert process.returncode == status, out + problems
    assert text in problems
