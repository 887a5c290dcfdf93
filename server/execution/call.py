"""The one way to run a command: what a command passes, in which order.

1. **Check** whether it may run. Each caller has its own rules: ``Dispatcher.process`` those of a client
   (``checks.check``), ``call_queued`` those of EXEC, ``redis.call`` those of a script; what a file or a master sends
   is only looked up.
2. **Begin**: it becomes the current command, and its time starts.
3. Its **handler** runs. Every exception becomes a reply.
4. **Finish**: count it; report it to MONITOR and tracking, and to SLOWLOG and LATENCY if it was slow.
5. **Propagate** the effects of its unit to the AOF and the replicas.
6. **Serve** the clients that it wakes: each runs its blocked command again from step 2, as a unit of its own.

``Calls.call`` is 2 to 4, ``propagate`` is 5, ``end_unit`` is 5 and 6. A unit is one command of a client, with all that
EXEC or a script runs in it, or a transaction of a master. ``fast_path.py`` is the one specialised copy. What an
append-only file holds has passed all this before: ``aof_replay.py`` runs only the handlers.
"""

from __future__ import annotations

from itertools import islice, takewhile
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from ...commands.runtime.deferral import Deferred
from ...commands.runtime.denials import refusal_in_exec
from ...commands.runtime.state import BLOCKED, POSTPONED
from ...commands.spec.command import keys_of
from ...protocol.errors import ReplyError
from ..admin.monitor import monitor_line

if TYPE_CHECKING:
    from ...commands.runtime.client import Client
    from ...commands.spec.command import Handler
    from ..server import Server
    from .entry import CommandEntry

INTERNAL_ERROR: Final = b"-ERR internal error\r\n"


class Calls:
    """Runs the commands of one server.

    Attributes:
        current: the command that is running; between commands, the last one.
    """

    __slots__ = ("_server", "current")

    def __init__(self, server: Server, current: CommandEntry) -> None:
        self._server = server
        self.current = current

    # Begin, handler, finish

    def call(
        self, client: Client, entry: CommandEntry, argv: list[bytes], handler: Handler | None = None
    ) -> bytes | None:
        """Run a command that passed its checks; returns a reply for every failure of the handler.

        Args:
            client: the client that it runs for.
            entry: the command.
            argv: its words.
            handler: runs in place of the entry's, if a version serves blocked clients by other rules.

        Returns:
            The encoded reply; None if there is none, or not yet: the client blocks or is postponed.
        """
        server = self._server
        outer = self.current
        self.current = entry
        started = perf_counter_ns()
        try:
            reply = (handler or entry.handler)(client, argv)
        except Exception as error:  # noqa: BLE001 - every failure ends here
            reply = self.failed(client, entry, argv, error)
        nanoseconds = perf_counter_ns() - started
        self.current = outer
        is_usual = reply is not None and nanoseconds < server.slow_nanoseconds and not server.has_observers
        if is_usual or self.finish(client, entry, argv, reply, nanoseconds):
            entry.calls += 1
            entry.nanoseconds += nanoseconds
            entry.histogram[nanoseconds.bit_length()] += 1
        return reply

    def call_run(
        self, client: Client, entry: CommandEntry, batch: list[list[bytes]], at: int
    ) -> list[bytes] | None:
        """Let the command's batch handler run as many of a batch as it can, as ``call`` would one by one.

        Each command is counted with the same share of the time.

        Returns:
            Their replies; None, and nothing is done, if there is no batch handler or it takes none.
        """
        handler, server = entry.batch_handler, self._server
        if handler is None or len(batch) <= at + 1 or server.has_observers:
            return None
        following = batch[at + 1]
        if len(following) < 2 or following[1] != batch[at][1]:
            return None  # usually the next command shows already that there is no run
        outer = self.current
        self.current = entry
        started = perf_counter_ns()
        try:
            answers = handler(client, batch, at)
        except Exception as error:  # noqa: BLE001 - every failure ends here
            # Each of them may have run or not: all get the error, and none runs again.
            failed = takewhile(batch[at][:2].__eq__, (argv[:2] for argv in islice(batch, at, None)))
            reply = self.failed(client, entry, batch[at], error) or b""
            return [reply for _ in failed]
        finally:
            self.current = outer
        if answers is None:
            return None
        number = len(answers)
        nanoseconds = perf_counter_ns() - started
        mean = nanoseconds // number
        if mean >= server.slow_nanoseconds:
            for argv, answer in zip(batch[at : at + number], answers, strict=True):
                self.finish(client, entry, argv, answer, mean)
        entry.calls += number
        entry.nanoseconds += nanoseconds
        entry.histogram[mean.bit_length()] += number
        if server.propagation.active:
            client.write_offset = server.replication.offset
        return answers

    def call_queued(
        self, client: Client, commands: list[tuple[CommandEntry, list[bytes]]], *, ends: bool = True
    ) -> list[bytes]:
        """Run commands of a transaction; permissions may have changed since they were queued.

        EXEC counts as failed if its last command (``ends``) is refused; one that runs behind a refusal takes that back.
        """
        server = self._server
        batch = [argv for _, argv in commands]
        answers: list[bytes] = []
        while len(answers) < len(commands):
            entry, argv = commands[len(answers)]
            if not client.user.is_unlimited and not client.trusted:
                denial = client.user.check(entry.command, argv)
                if denial is not None:
                    server.acl_log.note_denial(client, denial)
                    error = ReplyError(refusal_in_exec(denial))
                    server.stats.count_error(error.text)
                    answers.append(error.encoded)
                    if ends and len(answers) == len(commands):
                        self.note_failure()
                    continue
            client.total_commands += 1
            if entry.batch_handler is not None:
                together = self.call_run(client, entry, batch, len(answers))
                if together is not None:
                    client.total_commands += len(together) - 1
                    answers += together
                    continue
            answers.append(self.call(client, entry, argv) or b"")
        return answers

    def note_failure(self) -> None:
        """Count the running command as failed, although it replies: its reply has an error."""
        self.current.failed += 1

    def failed(
        self, client: Client, entry: CommandEntry, argv: list[bytes], error: Exception
    ) -> bytes | None:
        """Return the reply for an exception of a handler; None if the command is only deferred."""
        server = self._server
        if isinstance(error, Deferred):
            server.background_jobs.run_before(client, error.step)
            return None
        entry.failed += 1
        if isinstance(error, ReplyError):
            server.stats.count_error(error.text)
            return error.encoded
        # A bug of ours, or out of memory: the client gets an error, the log the traceback, connections survive.
        server.stats.count_error(b"ERR")
        server.stats.unexpected_errors += 1
        server.mending.mend(client, entry, argv, error)
        return INTERNAL_ERROR

    def finish(
        self, client: Client, entry: CommandEntry, argv: list[bytes], reply: bytes | None, nanoseconds: int
    ) -> bool:
        """Report a command that is observed or slow; return False if it is not done and must not be counted yet."""
        server = self._server
        if client.state is POSTPONED:
            return False
        if server.has_observers:
            # A blocking command is fed when it blocks, as it was sent, and not again when it is served: then the keys
            # that it reads are recorded once more, as the change that wakes it has removed them.
            resuming = server.blocking.resuming
            if server.clients.monitors and entry.feeds_monitor and not resuming:
                self.feed_monitors(client, argv)
            if not resuming or server.compat.reruns_blocked_command:
                self.track(client, entry, argv)
        if reply is None and client.state is BLOCKED:
            server.blocking.note_blocked(client, entry, nanoseconds)
            return False
        if nanoseconds >= server.slow_nanoseconds:
            self._note_slow(client, entry, argv, nanoseconds)
        return True

    # Propagate, serve

    def propagate(self, client: Client | None = None) -> None:
        """Pass the effects of a unit, of a client or of the server itself, to the AOF and the replicas."""
        server = self._server
        if server.propagation.effects:
            server.propagation.flush()
            if client is not None:
                client.write_offset = server.replication.offset

    def end_unit(self, client: Client | None = None) -> None:
        """Propagate a unit, then serve the clients that it wakes."""
        self.propagate(client)
        if self._server.keyspace.ready:
            self._server.blocking.serve()

    def end_command(self, client: Client, argv: list[bytes], reply: bytes | None, out: list[bytes]) -> None:
        """End the unit of a client's command, and append the reply in its place among pushes and other replies."""
        server = self._server
        self.propagate(client)
        if server.keyspace.ready:
            if reply is not None:
                # The reply precedes those of clients that it wakes, and later replies to this client.
                out.append(reply)
                reply = None
            server.blocking.serve()
        if reply is not None:
            out.append(reply)
        pushed = False
        if client.deferred and reply is not None and not server.compat.sends_own_messages_after_reply:
            out[-1:-1] = client.deferred
            client.deferred.clear()
            pushed = True
        if client.tracking is not None:
            server.tracking.finish(client, argv)
            pushed = True
        if client.deferred:
            # Push messages to the client that runs the command follow its reply.
            out.extend(client.deferred)
            client.deferred.clear()
            pushed = True
        if pushed:
            client.update_state()

    # Observers

    def feed_monitors(self, client: Client, argv: list[bytes]) -> None:
        """Send a command to monitors; a script precedes the commands that it runs."""
        server = self._server
        if server.clients.monitors and not client.trusted:
            line = monitor_line(server.clock.unix_seconds(), client, argv)
            for monitor in list(server.clients.monitors):
                if monitor.reply_mode == "on":
                    monitor.send(line)

    def track(
        self, client: Client, entry: CommandEntry, argv: list[bytes], *, script: list[bytes] | None = None
    ) -> None:
        """Record the keys that a command has read, for a client with tracking.

        Of a script, each command that it runs is tracked. As 7.0, one that reads records the keys that the call of
        the script declares; ``script`` is that call.
        """
        if client.tracking is not None and entry.readonly and not entry.runs_script:
            if script is not None and not self._server.compat.tracks_reads_of_scripts:
                entry, argv = self._server.dispatcher.find(script), script
            keys = [argv[reference.index] for reference in keys_of(entry.command, argv)]
            if keys:
                self._server.tracking.remember(client, keys)

    def _note_slow(self, client: Client, entry: CommandEntry, argv: list[bytes], nanoseconds: int) -> None:
        """Update SLOWLOG and LATENCY for a command above ``Server.slow_nanoseconds``."""
        server = self._server
        microseconds = nanoseconds // 1000
        threshold = server.config.slowlog_log_slower_than
        if 0 <= threshold <= microseconds and entry.slowlogged and client not in server.clients.controls:
            server.slowlog.add(client, entry.name, argv, microseconds)
        latency = server.config.latency_monitor_threshold
        if latency and microseconds >= latency * 1000:
            event = "fast-command" if "fast" in entry.command.flags else "command"
            server.latency.add(event, microseconds // 1000)
