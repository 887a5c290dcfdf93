"""The fast path: a copy of ``Calls`` (``call.py``, its specification) for the plain commands of plain clients.

1. It runs a command only if its spelling is in ``table``, its arity is right, the client is plain (it has no mode and
   waits for nothing) and the server does not need all checks. Then every check of ``checks.check`` is known to pass.
2. It does what ``call`` and ``end_command`` do, in the same order: begin, handler, finish, propagate, serve.
3. It inlines only the usual case. The methods of ``Calls`` handle an exception, a missing reply, an observer, a slow
   command, a single command for a batch handler, keys to serve and any change of the client's state.
4. It stops at the first command that it may not run, and leaves that command to ``Dispatcher.run``.
5. It stops after a command that changes the client's state, and after a slow command that ends the client's slice of time.
6. Only the time shows which path a command took: ``tests/server/execution/test_fast_path.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from ...commands.runtime.client import Client
from ...commands.runtime.state import PLAIN, POSTPONED
from ...commands.spec.command import SHORTEST_RUN

if TYPE_CHECKING:
    from ..server import Server

    RunSingle = Callable[[Server, Client, list[bytes]], bytes | None]

# A batch handler is asked only if this many commands follow the second one of a run. Without this limit, three XADDs take
# 4.2 us each instead of 3.6.
_REST: Final = SHORTEST_RUN - 2


def run_one(server: Server, client: Client, argv: list[bytes]) -> bytes | None:
    """Run the only command of a batch; ``Server.run_single`` while no check may refuse it and no client observes.

    Return the bytes to send, None for none.
    """
    # Through ``Dispatcher.run`` a PING takes 2.2 instead of 1.6 us, an XADD 4.75 instead of 4.2.
    entry = server.dispatcher.table.get(argv[0])
    if entry is None or not entry.minimum <= len(argv) <= entry.maximum:
        return server.dispatcher.run_alone(client, argv)
    calls = server.calls
    calls.current = entry
    client.last_command = entry.name
    started = perf_counter_ns()
    try:
        reply = entry.handler(client, argv)
    except Exception as error:  # noqa: BLE001 - every failure ends here
        reply = calls.failed(client, entry, argv, error)
    nanoseconds = perf_counter_ns() - started
    if (reply is not None and nanoseconds < server.slow_nanoseconds) or calls.finish(
        client, entry, argv, reply, nanoseconds
    ):
        entry.calls += 1
        entry.nanoseconds += nanoseconds
        entry.histogram[nanoseconds.bit_length()] += 1
    if server.propagation.effects:
        server.propagation.flush()
        client.write_offset = server.replication.offset
    if server.keyspace.ready or client.state is not PLAIN:
        return calls.end_alone(client, argv, reply)
    return reply


def run_plain(
    server: Server, client: Client, batch: list[list[bytes]], at: int, out: list[bytes], begun: int
) -> int:
    """Run commands of a plain client, from an index of a batch on, until one needs the slow path.

    Return the index of the first command that did not run.

    Args:
        out: receives the encoded replies, in order.
        begun: when the client's slice of time began, in nanoseconds of ``perf_counter_ns``.
    """
    # Through ``Dispatcher.process`` each of sixteen PINGs takes 2.0 instead of 1.0 us, an XADD 4.3 instead of 2.0.
    table = server.dispatcher.table
    calls = server.calls
    propagation = server.propagation
    keyspace = server.keyspace
    started = perf_counter_ns()  # the end of one command is the start of the next
    number = len(batch)
    while at < number:
        argv = batch[at]
        entry = table.get(argv[0])
        if entry is None or server.needs_all_checks or not entry.minimum <= len(argv) <= entry.maximum:
            return at
        at += 1
        calls.current = entry
        client.last_command = entry.name
        if entry.batch_handler is not None and at + _REST < number:
            answers = calls.call_run(client, entry, batch, at - 1)
            if answers is not None:
                out += answers
                at += len(answers) - 1
                started = perf_counter_ns()
                if started - begun > server.turns.slice:
                    return at
                continue
        try:
            reply = entry.handler(client, argv)
        except Exception as error:  # noqa: BLE001 - every failure ends here
            reply = calls.failed(client, entry, argv, error)
        ended = perf_counter_ns()
        nanoseconds = ended - started
        is_usual = reply is not None and nanoseconds < server.slow_nanoseconds and not server.has_observers
        if is_usual or calls.finish(client, entry, argv, reply, nanoseconds):
            entry.calls += 1
            entry.nanoseconds += nanoseconds
            entry.histogram[nanoseconds.bit_length()] += 1
        started = ended
        if propagation.effects:
            propagation.flush()
            client.write_offset = server.replication.offset
        if keyspace.ready or client.state is not PLAIN:
            if client.state is POSTPONED:
                return at - 1
            calls.end_command(client, argv, reply, out)
            if client.state is not PLAIN:
                return at
            started = perf_counter_ns()
        elif reply is not None:
            out.append(reply)
        if not is_usual and started - begun > server.turns.slice:
            return at
    return at
