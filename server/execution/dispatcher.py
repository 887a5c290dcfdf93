"""Turn parsed commands into replies: look each command up, check it, then run it or queue it for EXEC.

``Dispatcher.run`` serves a batch. Plain commands of a plain client take the fast path (``fast_path.py``). ``process``
looks up every other command, checks it (``checks.check``) and calls it (``call.py``).
"""

from __future__ import annotations

from itertools import chain, islice, repeat
from operator import itemgetter
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from ...commands.runtime.client import Client
from ...commands.runtime.state import BLOCKED, CAREFUL, PLAIN, POSTPONED, QUEUEING
from ...commands.spec.command import REGISTRY, SENTINEL, Command, batch_handler_for, handler_for, load
from ...commands.spec.versions import NEWEST, Compat
from ...commands.transactions.handlers import discard_transaction, must_fail
from ...protocol import replies
from ...protocol.errors import ReplyError, shown, wrong_arity
from .checks import GONE, check
from .command_entry import IMMEDIATE, CommandEntry, not_yet_found
from .fast_path import run_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..server import Server

_ARGUMENTS_SHOWN: Final = 128
_WORDS: Final = itemgetter(1)
_CANNOT_LOAD: Final = (
    b"ERR can't load the command now, perhaps for want of open files; the server's log has the reason"
)


class Dispatcher:
    """Looks up, checks and runs the commands that the clients of one server send."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._in_sentinel = server.mode == "sentinel"
        self._registry = SENTINEL if self._in_sentinel else REGISTRY
        if self._in_sentinel:
            load(SENTINEL["sentinel"].room)  # it also serves commands of other families
        # Entries of any version by full name. A command gets one at its first use, as most servers use few of the 400.
        self.found: dict[str, CommandEntry] = {}
        self.use_version(server.compat)

    def use_version(self, compat: Compat) -> None:
        """Know only the commands that a version of Redis has, with its arities and flags."""
        # Every command and subcommand by full name, containers included.
        if compat.knows(NEWEST):
            self.commands = dict(self._registry)
        else:
            from ...commands.spec.older import known_commands

            self.commands = known_commands(compat, self._registry)
        for name, entry in self.used():
            entry.handler = not_yet_found
            entry.declare(self.commands[name])
        # Raw command name to entry, in upper case and in lower case. A command enters it at its first use, unless it
        # is a container; scripts are absent while ``check_scripts`` needs them to be. ``find`` serves all other
        # spellings.
        self.table: dict[bytes, CommandEntry] = {}
        self._scripts: dict[bytes, CommandEntry] = {}
        # The names that have subcommands.
        self.containers = {name.partition("|")[0] for name in self._registry if "|" in name}
        renamed = self.server.config.renamed
        self._owners = {new: own for own, new in renamed.items() if new}
        # ``commands`` without those that rename-command disabled. All keys here are Redis' own names.
        self.listed = {
            name: command
            for name, command in self.commands.items()
            if renamed.get(name.partition("|")[0]) != ""
        }

    def used(self) -> list[tuple[str, CommandEntry]]:
        """Return the names and the entries of this version's commands that a client or a file has sent so far, by name."""
        return sorted((name, entry) for name, entry in self.found.items() if name in self.commands)

    def entry(self, name: str) -> CommandEntry | None:
        """Return the entry of a command or subcommand by its full name; None if this version has no such handler."""
        return self._entry_among(self.commands, name)

    def _entry_among(self, commands: Mapping[str, Command], name: str) -> CommandEntry | None:
        command = commands.get(name)
        if command is None or not command.is_served:
            return None
        if name not in self.found:
            self.found[name] = CommandEntry(command)
        return self.found[name]

    def _served(self, entry: CommandEntry) -> CommandEntry:
        """Return the entry with its handler; the first call imports the handler, before the command's time starts.

        Raises ReplyError: its modules cannot be read now; the next call retries.
        """
        if entry.handler is not not_yet_found:
            return entry
        name = entry.name
        try:
            handler = handler_for(entry.command, self.server.compat.knows, in_sentinel=self._in_sentinel)
        except (ImportError, OSError) as error:
            self.server.log.warning(f"Can't load the command {name}: {error}")
            raise ReplyError(_CANNOT_LOAD) from error
        entry.serve(handler, batch_handler_for(entry.command))
        # COMMAND also runs without a subcommand, but its lookup must see the subcommand. The fast path does not check
        # whether a command is enabled (DEBUG, MODULE).
        plain = "|" not in name and name not in self.containers and "protected" not in entry.command.flags
        if plain and name in self.commands:
            typed = self.server.config.renamed.get(name, name)
            spellings = dict.fromkeys((typed.encode("latin-1"), typed.upper().encode("latin-1")), entry)
            if entry.runs_script:
                self._scripts.update(spellings)
            if not (entry.runs_script and self.server.listeners.arriving):
                self.table.update(spellings)
        return entry

    def check_scripts(self, *, needed: bool) -> None:
        """Take EVAL, FCALL and the like out of ``table``, so that ``process`` runs them, or put them back.

        ``process`` postpones them while an accepted client has no transport yet, because a slow script could not serve it.

        ``needed``: True to take them out.
        """
        if not needed:
            self.table.update(self._scripts)
        else:
            for spelling in self._scripts:
                self.table.pop(spelling, None)

    # Lookup

    def find(self, argv: list[bytes]) -> CommandEntry:
        """Return the entry of a command, given the words that a client sent.

        Raises ReplyError: unknown command or subcommand, or a container without subcommand.
        """
        found = self.table.get(argv[0])
        return found if found is not None else self._served(self._find(argv))

    def own_name(self, typed: bytes) -> str | None:
        """Return Redis' own name of the command (no subcommand) that clients call ``typed``; None if there is none.

        The two differ after rename-command.
        """
        name = typed.lower().decode("latin-1")
        owner = self._owners.get(name)
        if owner is None and name not in self.server.config.renamed:
            owner = name
        return None if owner is None or "|" in owner or owner not in self.commands else owner

    def _find(self, argv: list[bytes]) -> CommandEntry:
        name = self.own_name(argv[0])
        if name is None:
            raise ReplyError(_unknown(argv, self.server.compat))
        return self._find_own(name, argv)

    def _find_own(self, name: str, argv: list[bytes]) -> CommandEntry:
        if len(argv) > 1:
            entry = self.entry(f"{name}|{argv[1].lower().decode('latin-1')}")
            if entry is not None:
                return entry
        entry = self.entry(name)
        if entry is not None and (len(argv) == 1 or name not in self.containers):
            return entry
        if len(argv) == 1:
            raise wrong_arity(name)
        raise ReplyError(
            b"ERR unknown subcommand '%b'. Try %b HELP." % (shown(argv[1])[:128], argv[0].upper())
        )

    def find_of_any_version(self, argv: list[bytes]) -> CommandEntry:
        """Like ``find``, for commands from files: also find commands of other versions, and renamed ones."""
        try:
            return self.find(argv)
        except ReplyError:
            name = argv[0].lower().decode("latin-1")
            if name in self.server.config.renamed and name in self.commands:
                return self._served(self._find_own(name, argv))
            entry = None if "|" in name else self._entry_among(self._registry, name)
            if entry is None:
                raise
            return self._served(entry)

    # The batch

    def run(self, client: Client, batch: list[list[bytes]], out: list[bytes], begun: int) -> int:
        """Run commands of one client until all have run, the client must wait, or its slice of time is used up.

        Args:
            batch: the words of the commands; only long ones (``LONG_COMMAND``) check the time, so keep the batch short.
            out: receives the encoded replies, in order.
            begun: when the client's slice began, in nanoseconds of ``perf_counter_ns``.

        Returns:
            The number of commands that ran.
        """
        server = self.server
        at = 0
        while at < len(batch) and client.state.runs:
            if at and perf_counter_ns() - begun > server.turns.slice:
                break
            before = at
            if not server.needs_all_checks:
                if client.state is PLAIN:
                    at = run_plain(server, client, batch, at, out, begun)
                elif client.state is QUEUEING:
                    at += self._queue_run(client, batch, at, out)
            if at > before or not client.state.runs:
                continue
            argv = batch[at]
            if server.interceptor is None:
                reply = self.process(client, argv)
            else:
                reply = server.interceptor.process(client, argv, out)
            if client.state is POSTPONED:
                server.calls.propagate(client)
                break
            at += 1
            server.calls.end_command(client, argv, reply, out)
            if server.limits_output or client.mode is CAREFUL:
                client.check_output(sum(map(len, out)))
        return at

    def run_alone(self, client: Client, argv: list[bytes]) -> bytes | None:
        """Run a command that is alone in its batch; return the bytes to send, None for none."""
        out: list[bytes] = []
        self.run(client, [argv], out, perf_counter_ns())
        return b"".join(out) or None

    def process(self, client: Client, argv: list[bytes]) -> bytes | None:
        """Look up and check one command, then run or queue it: the slow path, and the specification of the fast one.

        Return the encoded reply; None if there is none, or if the client now is blocked, postponed or closed.
        """
        server = self.server
        transaction = client.transaction
        try:
            entry = self.find(argv)
        except ReplyError as error:
            client.last_command = self._container_of(argv)
            if client.last_command != "NULL":
                server.stats.without_subcommand[client.last_command] += 1
            return self.refuse(client, None, error.text)
        client.last_command = entry.name
        refusal = self.check(client, entry, argv)
        if refusal is not None:
            return None if refusal is GONE else self.refuse(client, entry, refusal)
        if server.pause.concerns(client, entry, argv):
            server.pause.postpone(client)
            return None
        arriving = server.listeners.arriving
        if arriving and self._runs_script(client, entry) and server.listeners.postpone(client):
            return None
        if transaction is not None and entry.name not in IMMEDIATE:
            reply = self._queue(client, entry, argv)
            if reply is None:
                return None
        else:
            if client.no_touch:
                server.keyspace.touching = False
            try:
                reply = server.calls.call(client, entry, argv)
            finally:
                # The command may have set another policy.
                server.keyspace.touching = not server.keyspace.by_modification
        return None if client.state is POSTPONED else self._mind_reply_mode(client, reply)

    def _container_of(self, argv: list[bytes]) -> str:
        """Return the container that was sent without a subcommand, else ``NULL`` (no command)."""
        name = self.own_name(argv[0])
        return name if name is not None and len(argv) == 1 and name in self.containers else "NULL"

    def _runs_script(self, client: Client, entry: CommandEntry) -> bool:
        """Return True if a command may block the loop for so long that ``net/busy_script`` has to serve the other clients."""
        transaction = client.transaction
        if entry.name != "exec" or transaction is None:
            return entry.runs_script and transaction is None
        return any(queued.runs_script for queued, _ in transaction.commands)

    def _queue(self, client: Client, entry: CommandEntry, argv: list[bytes]) -> bytes | None:
        """Queue a command for EXEC, unless EXEC must fail; None if the transaction is too large and the client was closed."""
        transaction = client.transaction
        assert transaction is not None
        client.total_commands -= 1  # EXEC counts it
        if must_fail(client):
            return replies.QUEUED
        transaction.commands.append((entry, argv))
        transaction.size += sum(map(len, argv))
        if transaction.size > self.server.config.client_query_buffer_limit:
            self.server.log.warning(
                f"Closing client id={client.id}: its transaction is over client-query-buffer-limit"
            )
            self.server.stats.query_buffer_disconnections += 1
            client.close(after_reply=False)
            return None
        return replies.QUEUED

    def _queue_run(self, client: Client, batch: list[list[bytes]], at: int, out: list[bytes]) -> int:
        """Queue all consecutive commands of a batch like ``_queue``.

        Return the number of commands taken; 0 if the first one needs more than queueing.

        Args:
            client: a client that is in a transaction and otherwise plain.
            at: the index of the first command to queue.
        """
        queued: list[tuple[CommandEntry, list[bytes]]] = []
        for argv in islice(batch, at, None):
            entry = self.table.get(argv[0])
            if entry is None or not entry.queued or not entry.minimum <= len(argv) <= entry.maximum:
                break
            queued.append((entry, argv))
        if not queued:
            return 0
        client.last_command = queued[-1][0].name
        transaction = client.transaction
        assert transaction is not None
        client.total_commands -= len(queued)
        if must_fail(client):
            out += repeat(replies.QUEUED, len(queued))
            return len(queued)
        size = transaction.size + sum(map(len, chain.from_iterable(map(_WORDS, queued))))
        if size > self.server.config.client_query_buffer_limit:
            client.total_commands += len(queued)
            reply = self._queue(client, *queued[0])
            out += [] if reply is None else [reply]
            return 1
        transaction.commands += queued
        transaction.size = size
        out += repeat(replies.QUEUED, len(queued))
        return len(queued)

    def check(self, client: Client, entry: CommandEntry, argv: list[bytes]) -> bytes | None:
        """Return the text of the error that a command gets now, or None if it may run; scripts also call this."""
        return check(self.server, client, entry, argv)

    def refuse(self, client: Client, entry: CommandEntry | None, text: bytes) -> bytes | None:
        """Count a refused command, abort the client's open transaction, if any, and return the encoded error.

        Return None if the client has switched replies off. ``entry`` is None for an unknown command.
        """
        client.total_commands -= 1  # it does not run
        if entry is not None:
            entry.rejected += 1
        error = ReplyError(text)
        if client.transaction is not None:
            client.transaction.aborted = True
        else:
            client.asking = False  # ASKING was for this command, which does not run
        if entry is not None and entry.name == "exec":
            # A refused EXEC discards its transaction, if there is one, and unwatches all keys.
            discard_transaction(client)
            if not self._is_redirection(text):
                error = ReplyError(
                    b"EXECABORT Transaction discarded because of: " + text.removeprefix(b"ERR ")
                )
        self.server.stats.count_error(error.text)
        return self._mind_reply_mode(client, error.encoded)

    def _is_redirection(self, text: bytes) -> bool:
        """Return True if a refusal sends the client to another node of the cluster."""
        if not self.server.config.cluster_enabled:
            return False
        from ..cluster.redirects import is_redirection

        return is_redirection(text)

    @staticmethod
    def _mind_reply_mode(client: Client, reply: bytes | None) -> bytes | None:
        mode = client.reply_mode
        if mode == "on":
            return reply
        if mode == "skip-next":
            client.reply_mode = "skip"
        elif mode == "skip" and client.state is not BLOCKED:
            client.reply_mode = "on"
            client.update_state()
        return None


def _unknown(argv: list[bytes], compat: Compat) -> bytes:
    if len(argv) == 1 and compat.names_unknown_command_only:
        return b"ERR unknown command '%b'" % shown(argv[0])[:128]
    beginning = b""
    for word in argv[1:]:
        if len(beginning) >= _ARGUMENTS_SHOWN:
            break
        beginning += b"'%b' " % shown(word)[: _ARGUMENTS_SHOWN - len(beginning)]
    return b"ERR unknown command '%b', with args beginning with: %b" % (shown(argv[0])[:128], beginning)
