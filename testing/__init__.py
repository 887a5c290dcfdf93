"""Rillet in tests: servers that start in milliseconds, on a free port, with a movable clock.

::

    import rillet.testing

    with rillet.testing.Server(appendonly=True) as server:
        client = server.client()              # redis-py; any client can use server.url
        client.xadd("mystream", {"f": "v"})
        server.clock.advance(hours=1)         # idle times, expiry, BLOCK timeouts and auto IDs follow
        server.restart()                      # reloads the data from the AOF

A server runs in a thread of this process, or with ``process=True`` in its own process. Synchronous redis-py clients of a server
in a thread need no socket (docs/testing/transports.md). Several can run at once, and they
leave no files. With pytest, use the fixtures ``rillet_server``, ``rillet`` and ``rillet_async``; they need no import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .clock import Clock
from .control import ControlError
from .faults import Fault, Hit
from .process import StartError, StopError
from .recording import Recording, RecordingError
from .server import AsyncServer, Server
from .snapshot import Snapshot, SnapshotError

if TYPE_CHECKING:
    from ..console.recorded import RecordedCommand
    from .auditing.as_tests import AuditMixin, audit
    from .cluster import Cluster, ClusterNode, ClusterShard
    from .fault_in_turn import every_fault
    from .loop_server import LoopServer
    from .proxy import AsyncProxy, Proxy
    from .sentinel import Sentinel
    from .simulating.decorator import simulation
    from .simulating.simulation import Simulation

__all__ = [
    "AsyncProxy", "AsyncServer", "AuditMixin", "Clock", "Cluster", "ClusterNode", "ClusterShard",
    "ControlError", "Fault", "Hit", "LoopServer", "Proxy", "RecordedCommand", "Recording", "RecordingError",
    "Sentinel", "Server", "Simulation", "Snapshot", "SnapshotError", "StartError", "StopError", "audit",
    "every_fault", "simulation",
]  # fmt: skip
_LATER = {
    "AsyncProxy": ".proxy",
    "AuditMixin": ".auditing.as_tests",
    "Cluster": ".cluster",
    "ClusterNode": ".cluster",
    "ClusterShard": ".cluster",
    "LoopServer": ".loop_server",
    "Proxy": ".proxy",
    "RecordedCommand": "..console.recorded",
    "Sentinel": ".sentinel",
    "Simulation": ".simulating.simulation",
    "audit": ".auditing.as_tests",
    "every_fault": ".fault_in_turn",
    "simulation": ".simulating.decorator",
}


def __getattr__(name: str) -> Any:
    # Few tests need these names. With `process=True` a test needs none of the server's modules; the simulator is an extra.
    if name in _LATER:
        import importlib

        from ..storage.gc_pause import gc_paused

        with gc_paused():  # an import creates no garbage
            return getattr(importlib.import_module(_LATER[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
