"""The client as command handlers see it; ``server/net/connection`` adds the transport."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from ...protocol.errors import WRONG_TYPE, ReplyError
from ...storage.keyspace.database import Database, WatchedKey
from ...storage.keyspace.watches import await_change, was_modified
from ...storage.value_types import Value
from .state import CAREFUL, CLOSING, PLAIN, QUEUEING, State

if TYPE_CHECKING:
    from .context import CommandEntry, Replica, Server
    from .users import User

Kind = TypeVar("Kind", bound="Value")

# Bytes of an idle connection: the object, its parser and the transport.
_BASE_MEMORY: Final = 2048
_QUEUED_BYTES: Final = 128  # of a queued command, without its words
# The bytes that Redis counts for a watched key, a subscription and a prefix, without their names.
_WATCH_BYTES: Final = 80
_SUBSCRIPTION_BYTES: Final = 32
_PREFIX_BYTES: Final = 36
_WATCHED_BYTES: Final = 120  # of a watched key outside the client, without its name
# Redis keeps the first unsent replies in the client itself. The output limits count only the replies that do not fit
# there, in whole blocks of this size.
FREE_OUTPUT: Final = 16 << 10


class Transaction:
    """An open MULTI: the queued commands, and whether one was refused when queued (EXEC then replies EXECABORT)."""

    __slots__ = ("aborted", "commands", "size")

    def __init__(self) -> None:
        self.commands: list[tuple[CommandEntry, list[bytes]]] = []
        self.aborted = False
        self.size = 0  # bytes of the queued arguments


class Tracking:
    """The options of CLIENT TRACKING for one client."""

    __slots__ = ("bcast", "broken_redirect", "caching", "noloop", "optin", "optout", "prefixes", "redirect")

    def __init__(self) -> None:
        self.redirect = 0  # ID of the client that receives the messages; 0: this client
        self.bcast = self.optin = self.optout = self.noloop = False
        self.broken_redirect = False  # the client ``redirect`` no longer existed when a message was due
        # CLIENT CACHING makes the next command (or transaction) the exception to OPTIN or OPTOUT.
        self.caching = False
        # The prefixes of broadcasting mode; the empty prefix matches every key.
        self.prefixes: list[bytes] = []

    @property
    def remembers(self) -> bool:
        """Whether the keys that the current command reads must be recorded, by BCAST, OPTIN, OPTOUT and CLIENT CACHING."""
        return not self.bcast and (not self.optin or self.caching) and not (self.optout and self.caching)


class Client:
    """One connected (or internal) client: identity, protocol, selected database and modes.

    The server subclasses it to add a transport. Handlers read it, change it through its methods, and return the encoded
    reply. ``send`` is only for data that is not this reply (push messages, replies to unblocked clients).
    """

    is_script: ClassVar[bool] = False  # it runs the commands of a script
    __slots__ = (
        "address", "argv_bytes", "asked", "asking", "authenticated", "channels", "created", "db", "deferred",
        "fd", "fieldsets", "id", "in_exec", "last_command", "last_interaction", "lib_name", "lib_ver",
        "local_address", "mode", "monitor", "name", "names_bytes", "net_in", "net_out", "no_evict",
        "no_touch", "patterns", "reads", "reads_replica", "replays", "replica", "reply_mode", "resp",
        "server", "shard_channels", "state", "total_commands", "tracking", "transaction", "trusted",
        "unix_socket", "user", "watched", "watched_bytes", "watched_changed", "watched_touched",
        "write_offset", "writes",
    )  # fmt: skip

    def __init__(self, server: Server, client_id: int = 0) -> None:
        self.server = server
        self.id = client_id
        self.db: Database = server.keyspace.databases[0]
        self.resp = 2  # 2 or 3
        self.user: User = server.users.default  # the logged-in user; ``default`` before any login
        self.authenticated = self.user.is_open
        self.name = b""
        self.lib_name = b""
        self.lib_ver = b""
        self.address = b"?:0"
        self.local_address = b"?:0"
        self.fd = -1
        self.fieldsets: dict[bytes, list[tuple[bytes, int]]] | None = None  # of HIMPORT
        self.unix_socket = False
        self.created = self.last_interaction = server.clock.now
        self.last_command = "NULL"
        self.total_commands = 0
        self.reads = 0  # how often input arrived
        self.net_in = 0
        self.net_out = 0
        self.writes = 0  # replies and pushes that were sent
        self.argv_bytes = 0  # of the command that blocks it
        self.names_bytes = 0  # of its subscriptions, including the server's part of each
        self.transaction: Transaction | None = None
        self.watched: list[WatchedKey] = []
        self.watched_bytes = 0  # of the names of watched keys
        self.watched_changed = False  # before the changes in ``watched_touched``
        self.watched_touched: list[WatchedKey] = []
        self.channels: set[bytes] = set()
        self.patterns: set[bytes] = set()
        self.shard_channels: set[bytes] = set()
        self.tracking: Tracking | None = None
        self.monitor = False
        # ``on``, ``off``, ``skip-next`` (set by CLIENT REPLY SKIP, for the next command), ``skip``.
        self.reply_mode = "on"
        self.no_evict = False
        self.no_touch = False
        # Exempt from the rules for clients: the AOF loader, a master link and DEBUG CONTROL.
        self.trusted = False
        # Its commands come from the AOF or a master: the rules for replays apply (XADD LIMIT without ~).
        self.replays = False
        # ``asking``: on a cluster node, ASKING lets the next command use a slot that is being imported.
        # ``asked``: the same for the current command or transaction.
        # ``reads_replica``: READONLY allows reads from a replica in a cluster.
        self.asking = self.asked = self.reads_replica = False
        self.in_exec = False  # True while EXEC runs its commands: nothing may block
        # The data of its REPLCONF, and its state once it is our replica; None for other clients.
        self.replica: Replica | None = None
        self.write_offset = 0  # the offset of the replication stream after its last write, for WAIT
        self.deferred: list[bytes] = []  # push messages to send after the reply of the current command
        # ``mode``: the state while the client waits for nothing: PLAIN, QUEUEING or CAREFUL.
        # ``state``: what happens to its next command.
        self.mode = self.state = CAREFUL
        self.update_state()

    # Modes

    @property
    def subscriptions(self) -> int:
        """The number of channels and patterns; shard channels are not included."""
        return len(self.channels) + len(self.patterns)

    @property
    def is_subscriber(self) -> bool:
        """Whether the client subscribes to any channel, pattern or shard channel."""
        return bool(self.channels or self.patterns or self.shard_channels)

    @property
    def unread(self) -> int:
        """Bytes of output that the server still holds, because the peer has not read them."""
        return 0

    @property
    def query_buffer(self) -> int:
        """Bytes of the client's requests that are not parsed yet."""
        return 0

    @property
    def expected(self) -> int:
        """Bytes that an incomplete long argument still lacks; as in Redis, they already count as memory."""
        return 0

    @property
    def argument_bytes(self) -> int:
        """Bytes of parsed arguments: of the command that blocks the client, and of requests that wait behind it."""
        return self.argv_bytes

    @property
    def memory(self) -> int:
        """The approximate memory in bytes: ``held_bytes``, and the requests that wait or are incomplete."""
        return self.held_bytes + self.argument_bytes + self.query_buffer + self.expected

    @property
    def held_bytes(self) -> int:
        """The approximate bytes of the client, its transaction, its unread replies and its lists of names.

        As in Redis, the names themselves do not count, and so ``maxmemory-clients`` ignores them, too.
        """
        lists = _WATCH_BYTES * len(self.watched)
        lists += _SUBSCRIPTION_BYTES * (self.subscriptions + len(self.shard_channels))
        if self.tracking is not None:
            lists += _PREFIX_BYTES * len(self.tracking.prefixes)
        queued = 0
        if (transaction := self.transaction) is not None:
            queued = transaction.size + _QUEUED_BYTES * len(transaction.commands)
        return _BASE_MEMORY + queued + self.unread + lists

    @property
    def listed_bytes(self) -> int:
        """The approximate bytes of names stored for the client: its own, watched keys, channels and prefixes."""
        tracking = self.tracking
        prefixes = sum(map(len, tracking.prefixes)) if tracking is not None else 0
        watched = self.watched_bytes + _WATCHED_BYTES * len(self.watched)
        return len(self.name) + self.names_bytes + watched + prefixes

    @property
    def is_replica(self) -> bool:
        """Whether the client is a replica of this server: it has sent PSYNC or SYNC."""
        return self.replica is not None and self.replica.is_replica

    # The state

    def update_state(self) -> None:
        """Set ``mode`` after a change of login, transaction or subscriptions; set ``state``, too, unless the client waits."""
        mode = CAREFUL
        if (
            self.authenticated
            and self.user.is_unlimited
            and self.reply_mode == "on"
            and self.tracking is None
            and not self.is_subscriber
            and not self.monitor
            and not self.deferred
            and not self.no_touch
        ):
            mode = PLAIN if self.transaction is None else QUEUEING
        self.mode = mode
        if self.state.runs:
            self.state = mode

    def begin_to_close(self) -> None:
        """Set the state to CLOSING, so that no further command of the client runs."""
        self.state = CLOSING

    # Waiting: only a connection waits, because only a connection has later input

    def wait(self, state: State) -> None:
        """Let the client wait in ``state`` until ``end_wait``: no command of it runs. A closing client stays CLOSING."""

    def end_wait(self) -> None:
        """Leave the waiting state; the caller calls ``resume`` or ``answer`` next. A closing client stays CLOSING."""

    def take_turn(self) -> None:
        """Run waiting commands for one slice of time, the client's turn; ``Server.turns`` calls this."""

    def resume(self) -> None:
        """Schedule the commands that arrived while the client waited."""

    def answer(self, reply: bytes) -> None:
        """Send a blocked command's encoded reply, unless CLIENT REPLY suppresses it, and resume the client."""

    # Data, with the checks that every command shares

    def read_value(self, key: bytes, kind: type[Kind]) -> Kind | None:
        """Return the value of class ``kind`` (Stream, List …) at a key, for a read; None if the key is missing.

        Raises ReplyError: WRONGTYPE for a value of another class.
        """
        value = self.db.read(key)
        if value is None or type(value) is kind:
            return value
        raise ReplyError(WRONG_TYPE)

    def write_value(self, key: bytes, kind: type[Kind]) -> Kind | None:
        """Return the value of class ``kind`` at a key, for a command that may change it; None if the key is missing.

        Raises ReplyError: WRONGTYPE for a value of another class.
        """
        value = self.db.write(key)
        if value is None or type(value) is kind:
            return value
        raise ReplyError(WRONG_TYPE)

    # Effects

    def propagate(self, argv: Sequence[bytes]) -> None:
        """Propagate one command to the AOF and the replicas, in the selected database."""
        propagation = self.server.propagation
        if propagation.active:
            propagation.add(self.db.index, argv)

    def propagate_with_downgrade(
        self, argv: Sequence[bytes], older: Iterable[Sequence[bytes]] | None
    ) -> None:
        """Propagate ``argv`` to the AOF and the commands in ``older`` to the replicas (None: ``argv`` to both)."""
        if older is None:
            self.propagate(argv)
        else:
            self.server.propagation.add_with_downgrade(self.db.index, argv, older)

    # The reply path

    def send(self, data: bytes) -> None:
        """Send bytes that are not the reply of the running command, such as a push message. Internal clients drop them."""

    def send_deferred(self) -> None:
        """Send the push messages for this client that waited for the reply of its command."""

    def close(self, *, after_reply: bool = True) -> None:
        """Close the connection, by default after all written data is sent."""

    def update_parser(self) -> None:
        """Apply the configured limits (proto-max-bulk-len, client-query-buffer-limit) to the parser of requests."""

    def check_output(self, size: int) -> None:
        """Close the connection if its unread output and ``size`` more bytes exceed the output limit."""

    @property
    def may_block(self) -> bool:
        """Whether the client's commands may block.

        In EXEC and for internal clients they reply at once as on timeout.
        """
        return not self.in_exec and not self.trusted


def watched_key_changed(client: Client) -> bool:
    """Return True if any watched key was modified (the flag ``d`` of CLIENT LIST).

    Every queued command calls this, so it checks only the keys that were touched since the last call.
    """
    touched = client.watched_touched
    while touched and not client.watched_changed:  # a modified key stays modified until UNWATCH
        watched = touched.pop()
        if was_modified(watched):
            client.watched_changed = True
        else:
            await_change(watched)
    return client.watched_changed
