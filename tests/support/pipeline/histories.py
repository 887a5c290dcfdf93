"""What tests have in common in which a stream is not what it was: numbered entries, earlier states, a replica that is promoted."""

import contextlib

from support.deployments.replication import Proxy, follow, in_step, start


def add(connection, first, count, stream="s"):
    """Add entries with ids of these numbers."""
    connection.pipeline(
        [("XADD", stream, f"{number}-0", "n", number) for number in range(first, first + count)]
    )


def numbers(rows):
    """Return the numbers of the rows' ids."""
    return [int(row["id"].split("-")[0]) for row in rows]


def put_back(connection, dump, stream="s"):
    """Give a stream the state that DUMP returned earlier."""
    connection.call("RESTORE", stream, 0, dump, "REPLACE")


@contextlib.contextmanager
def cut_off(kind):
    """Yield a master, its replica, and a function that cuts the replica off once it has what there is."""
    with start(kind) as master, start(kind) as replica, Proxy(master.port) as proxy:
        follow(replica, proxy.port)

        def cut():
            in_step(master, replica)
            proxy.is_open = False
            proxy.cut()

        yield master, replica, cut
