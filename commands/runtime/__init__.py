"""The tools of handlers: client, server context, arguments, users."""
