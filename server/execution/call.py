"""The one way to run a command: the steps that each command passes, in order.

1. **Check** whether it may run. Each caller has its own rules: ``Dispatcher.process`` applies those for clients
   (``checks.check``), ``call_queued`` those for EXEC, ``redis.call`` those for scripts. Commands from a file or a master
   are only looked up.
2. **Begin**: make it the current command, and start its time.
3. Run its **handler**. Every exception becomes a reply.
4. **Finish**: count it, and report it to MONITOR and tracking, and to SLOWLOG and LATENCY if it was slow.
5. **Propagate** the effects of its unit to the AOF and the replicas.
6. **Serve** the clients that it wakes: each re-runs its blocked command from step 2, as a unit of its own.

``Calls.call`` covers steps 2 to 4, ``propagate`` step 5, and ``end_unit`` steps 5 and 6. A unit is one command of a client,
including everything that EXEC or a script runs, or one transaction of a master. ``fast_path.py`` is the only specialised
copy. The commands in an append-only file have passed all steps before, so ``aof_replay.py`` runs only the handlers.
"""

from __future__ import annotations

from itertools import islice, takewhile
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from ...commands.runtime.client import Client
from ...commands.runtime.deferral import Deferred
from ...commands.runtime.denials import refusal_in_exec
from ...commands.runtime.state import BLOCKED, POSTPONED
from ...commands.spec.command import REGISTRY, keys_of
from ...protocol.errors import ReplyError
from ..admin.monitor import monitor_line
from .command_entry import CommandEntry

if TYPE_CHECKING:
    from ...commands.spec.command import Handler
    from ..server import Server

INTERNAL_ERROR: Final = b"-ERR internal error\r\n"


class Calls:
    """Runs the commands of one server."""

    __slots__ = ("_server", "current")

    def __init__(self, server: Server) -> None:
        self._server = server
        # The command that is running; between commands, the last one; before the first, a stand-in.
        self.current = CommandEntry(REGISTRY["ping"])

    # Begin, handler, finish

    def call(
        self, client: Client, entry: CommandEntry, argv: list[bytes], handler: Handler | None = None
    ) -> bytes | None:
        """Run a command that passed its checks; every failure of the handler becomes a reply.

        ``handler``: replaces the entry's handler, for versions that serve blocked clients by other rules.
        Return the encoded reply; None without one, or if the client blocks or is postponed.
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
        """Let the command's batch handler run several commands of a batch, with the outcome of ``call`` for each.

        Each command is charged an equal share of the time.

        Return the encoded replies of the commands that ran; None, without any effect, if there is no batch handler,
        it refuses these commands, or the next command has another key.

        Args:
            entry: the command at ``batch[at]``.
            batch: the words of commands; the handler runs successive ones with the same name and key.
        """
        handler, server = entry.batch_handler, self._server
        if handler is None or len(batch) <= at + 1 or server.has_observers:
            return None
        following = batch[at + 1]
        if len(following) < 2 or following[1] != batch[at][1]:
            return None  # usually the next command already shows that there is no run
        outer = self.current
        self.current = entry
        started = perf_counter_ns()
        try:
            answers = handler(client, batch, at)
        except Exception as error:  # noqa: BLE001 - every failure ends here
            # Each command may or may not have run: all get the error, and none is re-run.
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
        """Run commands of a transaction, after another check of permissions, which may have changed since they were queued.

        Return the encoded replies.

        Args:
            commands: the commands to run, all or a part of the queue.
            ends: the last command of the transaction is among them; EXEC counts as failed only if that one is
                refused.
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
        """Count the running command as failed, because its reply contains an error."""
        self.current.failed += 1

    def failed(
        self, client: Client, entry: CommandEntry, argv: list[bytes], error: Exception
    ) -> bytes | None:
        """Handle an exception of a handler: count and log it, and return the encoded reply.

        ``Deferred`` is no failure: a background job runs before the command re-runs. The return value is then None.
        """
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
        """Report a command to MONITOR, tracking, SLOWLOG and LATENCY, as far as they need it.

        Return True if the caller must count the call, False if the command blocks or is postponed.
        """
        server = self._server
        if client.state is POSTPONED:
            return False
        if server.has_observers:
            # MONITOR sees a blocking command once, as sent, when it blocks. Tracking records the keys when the
            # command blocks and again when it is served, because the change that woke it has removed them from the table.
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
        """Pass the effects of a unit to the AOF and the replicas; WAIT of ``client`` then waits for them."""
        server = self._server
        if server.propagation.effects:
            server.propagation.flush()
            if client is not None:
                client.write_offset = server.replication.offset

    def end_unit(self, client: Client | None = None) -> None:
        """Propagate the effects of a unit, then serve the clients that are blocked on keys that it signalled."""
        self.propagate(client)
        if self._server.keyspace.ready:
            self._server.blocking.serve()

    def end_command(self, client: Client, argv: list[bytes], reply: bytes | None, out: list[bytes]) -> None:
        """End the unit of a client's command: propagate, serve blocked clients, append the reply and any pushes to ``out``.

        ``out``: the replies that the client has not been sent yet.
        """
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
        if client.tracking is not None or server.tracking.own:
            server.tracking.finish(client, argv)
            pushed = True
        if client.deferred:
            # Push messages to the client that runs the command follow its reply.
            out.extend(client.deferred)
            client.deferred.clear()
            pushed = True
        if pushed:
            client.update_state()

    def end_alone(self, client: Client, argv: list[bytes], reply: bytes | None) -> bytes | None:
        """Like ``end_command``, for a command that is alone in its batch; return the bytes to send, None for none."""
        out: list[bytes] = []
        self.end_command(client, argv, reply, out)
        return b"".join(out) or None

    # Observers

    def feed_monitors(self, client: Client, argv: list[bytes]) -> None:
        """Send the line of a command to the clients in MONITOR mode; a script precedes the commands that it runs."""
        server = self._server
        if server.clients.monitors and not client.trusted:
            line = monitor_line(server.clock.unix_seconds(), client, argv)
            for monitor in list(server.clients.monitors):
                if monitor.reply_mode == "on":
                    monitor.send(line)

    def track(
        self, client: Client, entry: CommandEntry, argv: list[bytes], *, script: list[bytes] | None = None
    ) -> None:
        """Remember the keys that a read command names, if its client uses tracking.

        In a script, each command is tracked on its own. In 7.0, a read command instead records the keys that the script
        call declares; ``script`` is that call.
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
