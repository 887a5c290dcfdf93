"""Rillet: a Redis-compatible Streams server for local development and tests."""

__version__ = "0.1.0"
