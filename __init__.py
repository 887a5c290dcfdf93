"""Rillet: a Redis-compatible Streams server for local development and tests.

``rillet.testing`` has servers for tests, ``rillet.pipeline`` the formats for Spark.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
