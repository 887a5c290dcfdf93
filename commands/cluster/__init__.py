"""CLUSTER, as a server without a cluster answers it."""
