"""CLUSTER, as on a server without cluster mode."""
