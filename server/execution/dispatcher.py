"""From parsed commands to replies: lookup, checks, the call, statistics, propagation.

``run`` serves a batch. A *plain* client (authenticated, no transaction, no special mode) of a server in no special
state goes directly from lookup and arity to the call; all others pass ``checks.check``, which implements Redis' order
of checks. Both end in ``call``.
"""

from __future__ import annotations

from itertools import chain, islice, repeat, takewhile
from operator import itemgetter
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from ...commands.admin.monitor import monitor_line
from ...commands.runtime.deferral import Deferred
from ...commands.runtime.denials import refusal_in_exec
from ...commands.spec.command import REGISTRY, handler_for, keys_of
from ...commands.spec.versions import known_commands
from ...protocol import replies
from ...protocol.errors import ReplyError, shown, wrong_arity
from .checks import check
from .entry import IMMEDIATE, Entry
from .turns import NEVER

if TYPE_CHECKING:
    from ...commands.runtime.client import Client
    from ...commands.spec.command import Command
    from ...commands.spec.versions import Compat
    from ..server import Server

INTERNAL_ERROR: Final = b"-ERR internal error\r\n"
_ARGUMENTS_SHOWN: Final = 128
_WORDS: Final = itemgetter(1)
_TIME_IS_OVER: Final = -1


class Dispatcher:
    """Runs the commands of all clients of one server.

    Attributes:
        table: raw command name to entry; holds the upper-case and lower-case spelling of each command that is
            not a container. Any other spelling goes through ``find``.
        entries: every command and subcommand that has a handler, by full name; ``all`` has those of every version.
        commands: every command and subcommand, containers too.
        current: the entry that is running.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.all = {
            name: Entry(command, command.handler)
            for name, command in REGISTRY.items()
            if command.handler is not None
        }
        self.limit_to(server.compat)
        self.current = self.entries["ping"]

    def limit_to(self, compat: Compat) -> None:
        """Restrict the commands to those of one version of Redis."""
        self.commands = known_commands(compat)
        self.entries = {name: entry for name, entry in self.all.items() if name in self.commands}
        for name, entry in self.entries.items():
            entry.handler = handler_for(entry.command, compat.knows)
            entry.minimum = abs(self.commands[name].arity)
        self.table = {}
        containers = {name.partition("|")[0] for name in REGISTRY if "|" in name}
        for name, entry in self.entries.items():
            # COMMAND also runs without a subcommand, but must be looked up with it. The fast path has no check for
            # commands that must be enabled first.
            if "|" not in name and name not in containers and "protected" not in entry.command.flags:
                self.table[name.encode()] = entry
                self.table[name.upper().encode()] = entry

    # Lookup

    def find(self, argv: list[bytes]) -> Entry:
        """Return the entry of a command as it was sent.

        Raises:
            ReplyError: unknown command or subcommand, or a container without subcommand.
        """
        name = argv[0].lower().decode("latin-1")
        if name not in self.commands or "|" in name:
            raise ReplyError(_unknown(argv))
        if len(argv) > 1:
            entry = self.entries.get(f"{name}|{argv[1].lower().decode('latin-1')}")
            if entry is not None:
                return entry
        entry = self.entries.get(name)
        if entry is not None:
            return entry
        if len(argv) == 1:
            raise wrong_arity(name)
        raise ReplyError(
            b"ERR unknown subcommand '%b'. Try %b HELP." % (shown(argv[1])[:128], name.upper().encode())
        )

    # The batch

    def run(self, client: Client, batch: list[list[bytes]], budget: int = NEVER) -> tuple[list[bytes], int]:
        """Run the commands of one client until all are done, it has to wait, or its time is over.

        Args:
            client: the client that sent them.
            batch: commands.
            budget: its time in nanoseconds. The clock is checked only after long commands (``LONG_COMMAND``), so a
                batch should be short.

        Returns:
            The replies, in order, and the number of commands taken.
        """
        server = self.server
        table = self.table
        propagation = server.propagation
        keyspace = server.keyspace
        out: list[bytes] = []
        taken = together = 0
        begun = started = perf_counter_ns()  # the end of one command is the start of the next
        for argv in batch:
            if together:
                if together == _TIME_IS_OVER:
                    break
                together -= 1
                continue
            taken += 1
            entry = table.get(argv[0])
            if (
                entry is not None
                and client.fast_path_ok
                and not server.needs_all_checks
                and entry.minimum <= len(argv) <= entry.maximum
            ):
                self.current = entry
                client.last_command = entry.name
                if entry.batch_handler is not None and not server.has_observers:
                    answers = self._run_together(client, entry, batch, taken - 1, started)
                    if answers is not None:
                        out += answers
                        together = len(answers) - 1
                        taken += together
                        started = perf_counter_ns()
                        if started - begun > budget:
                            break
                        continue
                try:
                    reply = entry.handler(client, argv)
                except Exception as error:  # noqa: BLE001 - every failure ends here
                    reply = self._failed(client, entry, argv, error)
                ended = perf_counter_ns()
                # The usual case of `_finish`, inlined.
                if reply is None or server.has_observers or ended - started >= server.slow_nanoseconds:
                    reply = self._finish(client, entry, argv, reply, ended - started)
                    if ended - begun > budget:
                        together = _TIME_IS_OVER
                else:
                    entry.calls += 1
                    entry.nanoseconds += ended - started
                    entry.histogram[(ended - started).bit_length()] += 1
                started = ended
            elif (
                entry is not None
                and client.queueing
                and entry.queued
                and not server.needs_all_checks
                and entry.minimum <= len(argv) <= entry.maximum
            ):
                number = self._queue_run(client, batch, taken - 1)
                if number:
                    out += repeat(replies.QUEUED, number)
                    together = number - 1
                    taken += together
                    continue
                reply = None
            else:
                reply = self.process(client, argv)
                started = perf_counter_ns()
                if started - begun > budget:
                    together = _TIME_IS_OVER
            if propagation.effects:
                propagation.flush()
                client.write_offset = server.replication.offset
            if keyspace.ready or not client.fast_path_ok:
                if client.postponed:
                    taken -= 1
                    break
                self._end_unusually(client, argv, reply, out)
                if client.blocked is not None or client.close_asap:
                    break
                started = perf_counter_ns()
            elif reply is not None:
                out.append(reply)
        return out, taken

    def run_one(self, client: Client, argv: list[bytes]) -> bytes | None:
        """Run a batch of one command: the usual case of ``run``, without the loop.

        The client must be plain, and the server without `needs_all_checks` and `has_observers`.

        Returns:
            The bytes to send, None if there are none.
        """
        entry = self.table.get(argv[0])
        if entry is None or not entry.minimum <= len(argv) <= entry.maximum:
            return b"".join(self.run(client, [argv])[0]) or None
        server = self.server
        self.current = entry
        client.last_command = entry.name
        started = perf_counter_ns()
        try:
            reply = entry.handler(client, argv)
        except Exception as error:  # noqa: BLE001 - every failure ends here
            reply = self._failed(client, entry, argv, error)
        nanoseconds = perf_counter_ns() - started
        if reply is None or nanoseconds >= server.slow_nanoseconds:
            reply = self._finish(client, entry, argv, reply, nanoseconds)
        else:
            entry.calls += 1
            entry.nanoseconds += nanoseconds
            entry.histogram[nanoseconds.bit_length()] += 1
        if server.propagation.effects:
            server.propagation.flush()
            client.write_offset = server.replication.offset
        if server.keyspace.ready or not client.fast_path_ok:
            out: list[bytes] = []
            self._end_unusually(client, argv, reply, out)
            return b"".join(out) or None
        return reply

    def _end_unusually(
        self, client: Client, argv: list[bytes], reply: bytes | None, out: list[bytes]
    ) -> None:
        """Order the replies after a command that wakes others, or of a client that is not plain."""
        server = self.server
        if server.keyspace.ready:
            if reply is not None:
                # The reply precedes those of clients that it wakes, and later replies to this client.
                out.append(reply)
                reply = None
            server.blocking.serve()
        if reply is not None:
            out.append(reply)
        if client.tracking is not None:
            server.tracking.finish(client, argv)
        if client.deferred:
            # Push messages to the client that runs the command follow its reply.
            if reply is None or server.compat.sends_own_pushes_after_reply:
                out.extend(client.deferred)
            else:
                out[-1:-1] = client.deferred
            client.deferred.clear()
            client.update_fast_path()

    def _run_together(
        self, client: Client, entry: Entry, batch: list[list[bytes]], at: int, started: int
    ) -> list[bytes] | None:
        """Let the command's batch handler run as many of a batch as it can; None if it takes none.

        Each command is counted with the same share of the time.
        """
        assert entry.batch_handler is not None
        if len(batch) <= at + 1 or batch[at + 1][:2] != batch[at][:2]:
            return None  # usually the next command shows already that there is no run
        try:
            answers = entry.batch_handler(client, batch, at)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends here
            # Each of them may have run or not: all get the error, and none runs again.
            failed = takewhile(batch[at][:2].__eq__, (argv[:2] for argv in islice(batch, at, None)))
            reply = self._failed(client, entry, batch[at], error) or b""
            return [reply for _ in failed]
        if answers is None:
            return None
        number = len(answers)
        nanoseconds = perf_counter_ns() - started
        mean = nanoseconds // number
        server = self.server
        if mean >= server.slow_nanoseconds:
            for argv, answer in zip(batch[at : at + number], answers, strict=True):
                self._finish(client, entry, argv, answer, mean)
        else:
            entry.calls += number
            entry.nanoseconds += nanoseconds
            entry.histogram[mean.bit_length()] += number
        if server.propagation.active:
            client.write_offset = server.replication.offset
        return answers

    def process(self, client: Client, argv: list[bytes]) -> bytes | None:
        """Run one command with all checks: the slow path, and the specification of the fast one."""
        server = self.server
        transaction = client.transaction
        try:
            entry = self._subcommand_or_find(argv)
        except ReplyError as error:
            return self._refuse(client, None, error.text)
        refusal = self.check(client, entry, argv)
        if refusal is not None:
            return self._refuse(client, entry, refusal)
        if server.pause.concerns(entry, client):
            server.pause.postpone(client)
            return None
        arriving = server.listeners.arriving
        if arriving and self._runs_script(client, entry) and server.listeners.postpone(client):
            return None
        if transaction is not None and entry.name not in IMMEDIATE:
            reply = self._queue(client, entry, argv)
            if reply is None:
                return None
        elif client.no_touch:
            server.keyspace.touching = False
            try:
                reply = self.call(client, entry, argv)
            finally:
                # The command may have set another policy.
                server.keyspace.touching = not server.keyspace.by_modification
        else:
            reply = self.call(client, entry, argv)
        return None if client.postponed else self._mind_reply_mode(client, reply)

    def _runs_script(self, client: Client, entry: Entry) -> bool:
        """Whether a command may block the loop so long that ``net/busy_script`` serves the others."""
        transaction = client.transaction
        if entry.name != "exec" or transaction is None:
            return entry.runs_script and transaction is None
        return any(self.all[command.name].runs_script for command, _ in transaction.commands)

    def _queue(self, client: Client, entry: Entry, argv: list[bytes]) -> bytes | None:
        """Keep a command for EXEC; None if the client asked for too much and was closed."""
        transaction = client.transaction
        assert transaction is not None
        transaction.commands.append((entry.command, argv))
        transaction.size += sum(map(len, argv))
        if transaction.size > self.server.config.client_query_buffer_limit:
            self.server.log.warning(
                f"Closing client id={client.id}: its transaction is over client-query-buffer-limit"
            )
            client.close(after_reply=False)
            return None
        return replies.QUEUED

    def _queue_run(self, client: Client, batch: list[list[bytes]], at: int) -> int:
        """Queue all consecutive commands of a batch like ``_queue``.

        Args:
            client: in a transaction, and otherwise plain.
            batch: commands.
            at: index of one that can be queued.

        Returns:
            The number of queued commands, 0 if the client was closed.
        """
        queued: list[tuple[Command, list[bytes]]] = []
        for argv in islice(batch, at, None):
            entry = self.table.get(argv[0])
            if entry is None or not entry.queued or not entry.minimum <= len(argv) <= entry.maximum:
                break
            queued.append((entry.command, argv))
        transaction = client.transaction
        assert transaction is not None
        size = transaction.size + sum(map(len, chain.from_iterable(map(_WORDS, queued))))
        if size <= self.server.config.client_query_buffer_limit:
            transaction.commands += queued
            transaction.size = size
            return len(queued)
        return 0 if self._queue(client, self.table[batch[at][0]], batch[at]) is None else 1

    def _subcommand_or_find(self, argv: list[bytes]) -> Entry:
        return self.table.get(argv[0]) or self.find(argv)

    def check(self, client: Client, entry: Entry, argv: list[bytes]) -> bytes | None:
        """Return why a command may not run now, None if it may; scripts also call this."""
        return check(self.server, client, entry, argv)

    def _refuse(self, client: Client, entry: Entry | None, text: bytes) -> bytes | None:
        if entry is not None:
            entry.rejected += 1
        error = ReplyError(text)
        if client.transaction is not None:
            client.transaction.aborted = True
        if entry is not None and entry.name == "exec":
            # EXEC itself was refused: its transaction, if there is one, is discarded.
            if client.transaction is not None:
                self.entries["discard"].handler(client, [b"DISCARD"])
            error = ReplyError(b"EXECABORT Transaction discarded because of: " + text.removeprefix(b"ERR "))
        self.server.stats.count_error(error.text)
        return self._mind_reply_mode(client, error.encoded)

    @staticmethod
    def _mind_reply_mode(client: Client, reply: bytes | None) -> bytes | None:
        mode = client.reply_mode
        if mode == "on":
            return reply
        if mode == "skip-next":
            client.reply_mode = "skip"
        elif mode == "skip" and client.blocked is None:
            client.reply_mode = "on"
            client.update_fast_path()
        return None

    # The call

    def call(self, client: Client, entry: Entry, argv: list[bytes]) -> bytes | None:
        """Run a command that passed its checks; returns a reply for every failure of the handler.

        Scripts use it too, and ``Blocking`` to run a command again.
        """
        outer = self.current
        self.current = entry
        if not client.in_exec:
            client.last_command = entry.name
        started = perf_counter_ns()
        try:
            reply = entry.handler(client, argv)
        except Exception as error:  # noqa: BLE001 - every failure ends here
            reply = self._failed(client, entry, argv, error)
        self.current = outer
        return self._finish(client, entry, argv, reply, perf_counter_ns() - started)

    def call_queued(self, client: Client, commands: list[tuple[Command, list[bytes]]]) -> list[bytes]:
        """Run the commands of a transaction; permissions may have changed since they were queued."""
        server = self.server
        entries = self.all
        outer = self.current
        batch = [argv for _, argv in commands]
        answers: list[bytes] = []
        started = perf_counter_ns()
        for at, (command, argv) in enumerate(commands):
            if at < len(answers):
                continue
            if not client.user.is_unlimited and not client.trusted:
                denial = client.user.check(command, argv)
                if denial is not None:
                    server.acl_log.note_denial(client, denial)
                    answers.append(ReplyError(refusal_in_exec(denial)).encoded)
                    continue
            self.current = entry = entries[command.name]
            if entry.batch_handler is not None and not server.has_observers:
                together = self._run_together(client, entry, batch, at, started)
                if together is not None:
                    answers += together
                    started = perf_counter_ns()
                    continue
            try:
                reply = entry.handler(client, argv)
            except Exception as error:  # noqa: BLE001 - every failure ends here
                reply = self._failed(client, entry, argv, error)
            ended = perf_counter_ns()
            answers.append(self._finish(client, entry, argv, reply, ended - started) or b"")
            started = ended
        self.current = outer
        return answers

    def _failed(self, client: Client, entry: Entry, argv: list[bytes], error: Exception) -> bytes | None:
        """Return the reply for an exception of a handler; None if the command is only deferred."""
        server = self.server
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

    def _finish(
        self, client: Client, entry: Entry, argv: list[bytes], reply: bytes | None, nanoseconds: int
    ) -> bytes | None:
        """Count a command that ran, and report it to MONITOR and tracking."""
        server = self.server
        if client.postponed:
            return None
        if server.has_observers and not server.blocking.resuming:
            # A blocking command is reported when it blocks, as it was sent, and not again when it is served.
            self._observe(client, entry, argv)
        if reply is None and client.blocked is not None:
            return None  # counted when it completes
        entry.calls += 1
        entry.nanoseconds += nanoseconds
        entry.histogram[nanoseconds.bit_length()] += 1
        if nanoseconds >= server.slow_nanoseconds:
            self._note_slow(client, entry, argv, nanoseconds)
        return reply

    def _observe(self, client: Client, entry: Entry, argv: list[bytes]) -> None:
        """Report a command to MONITOR and client tracking."""
        server = self.server
        if server.monitors and entry.feeds_monitor:
            self.feed_monitors(client, argv)
        if client.tracking is not None:
            self.track(client, entry, argv)

    def feed_monitors(self, client: Client, argv: list[bytes]) -> None:
        """Send a command to monitors; a script precedes the commands that it runs."""
        server = self.server
        if server.monitors and not client.trusted:
            line = monitor_line(server.clock.unix_seconds(), client, argv)
            for monitor in list(server.monitors):
                if monitor.reply_mode == "on":
                    monitor.send(line)

    def track(self, client: Client, entry: Entry, argv: list[bytes]) -> None:
        """Record the keys that a command has read, for a client with tracking."""
        if client.tracking is not None and entry.readonly:
            keys = [argv[reference.index] for reference in keys_of(entry.command, argv)]
            if keys:
                self.server.tracking.remember(client, keys)

    def _note_slow(self, client: Client, entry: Entry, argv: list[bytes], nanoseconds: int) -> None:
        """Update SLOWLOG and LATENCY for a command above ``Server.slow_nanoseconds``."""
        server = self.server
        microseconds = nanoseconds // 1000
        threshold = server.config.slowlog_log_slower_than
        if 0 <= threshold <= microseconds and entry.slowlogged:
            server.slowlog.add(client, argv, microseconds)
        latency = server.config.latency_monitor_threshold
        if latency and microseconds >= latency * 1000:
            event = "fast-command" if "fast" in entry.command.flags else "command"
            server.latency.add(event, microseconds // 1000)


def _unknown(argv: list[bytes]) -> bytes:
    beginning = b""
    for word in argv[1:]:
        if len(beginning) >= _ARGUMENTS_SHOWN:
            break
        beginning += b"'%b' " % shown(word)[: _ARGUMENTS_SHOWN - len(beginning)]
    return b"ERR unknown command '%b', with args beginning with: %b" % (shown(argv[0])[:128], beginning)
