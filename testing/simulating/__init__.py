"""Deterministic simulation of a test: many seeds, virtual time, a failing network, and a server in the same process."""
