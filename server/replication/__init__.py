"""Replication: replicas that follow us, and our link to a master; ``state`` holds what both share."""

from .state import Replication

__all__ = ["Replication"]
