"""CLUSTER, and what a node of a cluster answers in place of commands whose keys are elsewhere."""
