"""Redis Streams on Spark: a source, a sink and the delivery ledger, for PySpark.

::

    import rillet.pipeline

    spark = rillet.pipeline.session("orders")
    spark.readStream.format("redis-streams").option("streams", "orders").load()

Importing it does not import PySpark; ``pip install 'rillet[spark]'`` brings all that a session needs, Java included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .sessions import register, session

__all__ = ["register", "session"]


def __getattr__(name: str) -> Any:
    """The two functions, imported when they are first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(".sessions", __name__), name)
