"""What ties it together: configuration, connections, dispatch, blocking and propagation."""
