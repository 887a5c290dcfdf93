"""Advice in words for the user if a server cannot be read."""

from __future__ import annotations

from typing import Final

ACCESS: Final = "docs/console.md, Users of the ACL"

# A part of the reason, in lower case, and the advice; the first match counts.
_STEPS: Final = (
    ("username-password", "Check the user and the password; REDISCLI_AUTH holds a password, too."),
    ("wrongpass", "Check the user and the password; REDISCLI_AUTH holds a password, too."),
    ("authentication required", "Give a password: in the address, redis://user:password@host, or in REDISCLI_AUTH."),
    ("noauth", "Give a password: in the address, redis://user:password@host, or in REDISCLI_AUTH."),
    ("no permissions", f"Allow this user the commands that it needs ({ACCESS})."),
    ("noperm", f"Allow this user the commands that it needs ({ACCESS})."),
    ("db index", "The server has no database of this number: the address ends with /0 to /15, unless it is set up with more."),
    ("invalid database", "The server has no database of this number: the address ends with /0 to /15, unless it is set up with more."),
    ("'sentinel'", "This is a server, not a sentinel: write redis://host:port."),
    ("no master found", "Check that a sentinel runs at the address, and the name of its service at the end of it."),
    ("cluster support disabled", "This server is not a node of a cluster: write redis://host:port."),
    ("no slots yet", "Create the cluster first: redis-cli --cluster create …"),
    ("certificate verify failed", "Name the authority that signed the server's certificate: ?ssl_ca_certs=ca.crt after the address."),
    ("certificate required", "Give a certificate of the client: ?ssl_certfile=client.crt&ssl_keyfile=client.key."),
    ("ssl", "Check that this port speaks TLS; without it the address begins with redis://."),
    ("name or service", "Check the name of the host."),
    ("name resolution", "Check the name of the host."),
    ("no address", "Check the name of the host."),
    ("error 111", "Nothing listens there: check host and port, or start a server with: rillet."),
    ("refused", "Nothing listens there: check host and port, or start a server with: rillet."),
    ("error 2 ", "Check the path of the socket, and that the server has one (unixsocket)."),
    ("loading", "The server loads its data. Wait until it has."),
    ("denied", "Log in with a password, or ask from the server's own machine (protected-mode)."),
)  # fmt: skip
# What becomes of a plain connection to a port with TLS: a read finds it closed or, on a busy machine, a write does.
_CLOSED: Final = ("closed by server", "reset by peer", "connection lost", "broken pipe")


def next_step(reason: str, address: str) -> str:
    """Return a sentence of advice about a server that cannot be read.

    Args:
        reason: the text of a GoneError.
        address: the address as the user gave it; its scheme says whether TLS was tried.
    """
    said = reason.lower()
    tls = address.startswith("rediss")
    if "timeout connecting" in said and tls:
        return (
            "Check host and port, and that the port speaks TLS; without TLS the address begins with redis://."
        )
    if any(words in said for words in _CLOSED) and not tls:
        return "If this port speaks TLS, the address begins with rediss://."
    found = next((step for words, step in _STEPS if words in said), "")
    return found or "Check host and port, and that the server runs and is not too busy to reply."


def cannot_read(shown: str, error: Exception) -> str:
    """Return a line for the terminal about a server that cannot be read; ``shown`` is its address without the password."""
    return f"{shown} cannot be read: {error}. {next_step(str(error), shown)}"
