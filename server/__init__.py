"""The server: configuration, connections, dispatch, blocking and propagation."""
