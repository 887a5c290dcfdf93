"""The interface of command handlers: client, server context, arguments, users."""
