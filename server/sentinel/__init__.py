"""Sentinel mode: connections to a master and its replicas, what is down, and failovers."""
