"""Ports for the servers of tests: no two processes of a run share one, nor is one a port that Linux gives away."""

import socket
import subprocess
import sys
from pathlib import Path

from support.ports import free_port

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_two_processes_are_never_given_the_same_port():
    command = [
        sys.executable,
        "-c",
        "from support.ports import free_port; print(*[free_port() for _ in range(500)])",
    ]
    here = Path(__file__).parents[1]
    mine = {free_port() for _ in range(500)}
    others = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True).stdout
    assert mine.isdisjoint(map(int, others.split()))


def test_linux_gives_none_of_these_ports_to_a_socket_that_asks_for_any():
    lowest = int(EPHEMERAL.read_text().split()[0])
    bus = 10_000  # a node of a cluster listens there, above its port
    assert all(port + bus < lowest for port in {free_port() for _ in range(500)})


def test_a_port_where_a_server_listens_is_passed_over():
    ports = [free_port() for _ in range(250)]
    with socket.create_server(("127.0.0.1", ports[0])):
        assert ports[0] not in {free_port() for _ in range(500)}
