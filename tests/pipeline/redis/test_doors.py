"""Only the room that is patient makes connections: whoever else could ask one node would not wait for a master that died."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3] / "pipeline"
# What makes a connection, or the address of one node; others have `shards.connect`, and `Connection` as a type only.
OURS = {"Connection", "ClusterConnection", "SentinelConnection", "_NodeConnection"}
DOOR = re.compile(r"endpoint\.at$|connection\._(node|nodes|ask)$")
# Changes how the JVM's connection to Python acknowledges.
NO_SERVERS = {"tcp_quick_ack.py"}


def at_run_time(tree):
    """All parts of a module but for types: annotations, and the arguments of what is generic."""
    types = set()
    for node in ast.walk(tree):
        of_types = [getattr(node, name, None) for name in ("annotation", "returns")]
        of_types += [node.slice] if isinstance(node, ast.Subscript) else []
        types |= {part for each in of_types if each is not None for part in ast.walk(each)}
    return [node for node in ast.walk(tree) if node not in types]


def opened_by(source):
    """What in a module can open a connection of its own."""
    for node in at_run_time(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            yield from {"socket"} & {node.module}
            yield from OURS & {each.name for each in node.names if each.asname}
        elif isinstance(node, ast.Import):
            yield from {"socket"} & {each.name for each in node.names}
        elif isinstance(node, ast.Name):
            yield from OURS & {node.id}
        elif isinstance(node, ast.Attribute) and (node.attr in OURS or DOOR.search(ast.unparse(node))):
            yield ast.unparse(node)


def test_nothing_outside_the_room_opens_a_connection_of_its_own():
    files = [path for path in sorted(ROOT.rglob("*.py")) if path.parent != ROOT / "redis"]
    assert len(files) > 80
    opened = {
        str(path.relative_to(ROOT)): found for path in files if (found := sorted(opened_by(path.read_text())))
    }
    assert opened.keys() == NO_SERVERS, opened


def test_what_opens_a_connection_is_seen():
    for source in (
        "from ..redis.connection import Connection\nConnection(endpoint)",
        "from ..redis.connection import Connection\npartial(Connection, endpoint)",
        "import socket",
        "from ..redis import cluster\ncluster.ClusterConnection(endpoint)",
        "connect(endpoint.at(place))",
        "connection._node(place)",
    ):
        assert list(opened_by(source))
    assert not list(opened_by("from ..redis.connection import Connection\ndef read(at: Connection): ..."))
