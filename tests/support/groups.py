"""A stream with a group, and the XCLAIM that states one entry, for tests of the group commands."""

from support.fake_server import make_client, run

from rillet.commands.runtime.client import Client


def group_client(entries: int = 3, resp: int = 2, start: str = "0") -> Client:
    """A client of a server with stream s (1-0, 2-0, …, each a=b) and group g; what made them is forgotten."""
    client = make_client(resp)
    for ms in range(1, entries + 1):
        run(client, "XADD", "s", f"{ms}-0", "a", "b")
    run(client, "XGROUP", "CREATE", "s", "g", start, "MKSTREAM")
    forget(client)
    return client


def forget(client: Client) -> None:
    """Drop recorded effects, events and changes."""
    client.server.propagation.take()
    client.server.events.clear()
    client.server.keyspace.dirty = 0


def effects(client: Client) -> list[str]:
    """What was propagated since, one readable line each."""
    return [b" ".join(argv).decode() for argv in client.server.propagation.take()]


def stated(consumer: str, word: str, *, count: int, last: str, ms: int | str = 1_700_000_000_000) -> str:
    """Return the XCLAIM that propagates one entry of stream s, group g."""
    return f"XCLAIM s g {consumer} 0 {word} TIME {ms} RETRYCOUNT {count} FORCE JUSTID LASTID {last}"
