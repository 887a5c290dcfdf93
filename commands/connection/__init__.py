"""The connection of a client: HELLO, AUTH, SELECT, CLIENT and tracking."""
