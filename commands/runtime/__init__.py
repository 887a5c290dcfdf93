"""What a handler is given: its client, the server as it may see it, arguments, users."""
