"""A running server as a node of a cluster."""
