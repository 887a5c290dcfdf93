"""``rillet cluster``: a command that runs a cluster for tests of clients in any language."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from typing import Final

from ..arguments import Parser
from .cluster import Cluster
from .process import StartError

_DESCRIPTION: Final = """\
Start the nodes of a Redis Cluster in this process, for tests of clients. Any directive of redis.conf may follow, for all
nodes: --compat-version 7.2 --requirepass secret --appendonly yes. There is no gossip and no failover without CLUSTER
FAILOVER: this is no cluster for production.
"""


def main(words: list[str]) -> int:
    """Run a cluster until SIGTERM or SIGINT; return the exit status, 0 after a clean shutdown."""
    parser = Parser(prog="rillet cluster", description=_DESCRIPTION)
    parser.add_argument("--shards", type=int, default=3, help="masters (3)")
    parser.add_argument("--replicas", type=int, default=0, help="replicas of each master (0)")
    parser.add_argument("--port", type=int, default=7000, help="of the first node; 0: free ones (7000)")
    options, rest = parser.parse_known_args(words)
    try:
        cluster = Cluster(options.shards, options.replicas, port=options.port, **_directives(rest))
    except ValueError as error:
        parser.error(str(error))
    # Set handlers before the start, so that a signal during the start ends the cluster, too.
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    logging.getLogger("rillet").setLevel(logging.ERROR)  # the usual lines of each node would hide those below
    try:
        cluster.start()
    except StartError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command-line tool
        return 1
    try:
        for node in cluster.nodes:
            print(f"{node.host}:{node.port} {node.id} {node.role}")  # noqa: T201 - a command-line tool
        print("Ready to accept connections", flush=True)  # noqa: T201 - what launchers wait for
        ended.wait()
    finally:
        cluster.stop_all()
    return 0


def _directives(words: list[str]) -> dict[str, str | list[str]]:
    """Return directives as ``rillet.testing.Server`` takes them.

    Raises ValueError: the words do not begin with a directive.
    """
    found: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            values = found.setdefault(word[2:].replace("-", "_"), [])
        elif not found:
            raise ValueError(f"what is {word!r}? A directive begins with --")
        else:
            values.append(word)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}
