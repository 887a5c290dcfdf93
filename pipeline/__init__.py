"""Redis Streams on Spark: a source, a sink and the delivery ledger, for PySpark.

::

    import rillet.pipeline

    spark = rillet.pipeline.session("orders")
    spark.readStream.format("redis-streams").option("streams", "orders").load()

Importing it does not import PySpark; ``pip install 'rillet[spark]'`` brings what a session needs, and
``rillet[java]`` a Java where the machine has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .group.acknowledger import Acknowledger
    from .monitoring.listener import LagListener
    from .sessions import register, session

__all__ = ["Acknowledger", "LagListener", "register", "session"]
_PLACES: Final = {
    "Acknowledger": ".group.acknowledger",
    "LagListener": ".monitoring.listener",
    "register": ".sessions",
    "session": ".sessions",
}


def __getattr__(name: str) -> Any:
    """Import an exported name when it is first used."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name], __name__), name)
