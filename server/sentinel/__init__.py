"""Sentinel mode: connections to a master and its replicas, their state, and failovers."""
