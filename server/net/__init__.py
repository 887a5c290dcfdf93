"""Sockets: listeners, connections, TLS."""
