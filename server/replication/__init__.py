"""Replication in both directions; ``state`` holds what the two share."""

from .state import Replication

__all__ = ["Replication"]
