"""REPLICAOF, PSYNC, WAIT and the handshake between replicas and masters."""
