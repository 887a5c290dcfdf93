"""REPLICAOF, PSYNC, WAIT and what replicas and masters say to each other."""
