"""What command handlers use: client, server context, arguments, users."""
