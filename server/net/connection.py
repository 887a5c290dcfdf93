"""One TCP or unix-socket client: input, output, and flow control in both directions."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from itertools import chain, islice
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, cast

from ...commands.runtime.client import FREE_OUTPUT, Client
from ...commands.runtime.state import AWAITING_TURN, CAREFUL, CLOSING, CONGESTED, PLAIN, POSTPONED, State
from ...protocol.requests import RequestParser
from ..config.kinds import OutputLimit
from .peer import address_of, keep_alive

if TYPE_CHECKING:
    from ..server import Server

MAX_CLIENTS: Final = b"-ERR max number of clients reached\r\n"
# A turn ends after this many bytes of replies, so that the server notices a client that does not read.
_ENOUGH: Final = 1 << 20
# libuv reads a socket up to 32 times in a row while each read fills uvloop's 256,000 bytes; TLS uses a few of them.
_MORE_FOLLOWS: Final = 250_000
_UNAUTHENTICATED: Final = OutputLimit(1024, 0, 0)
_LONG: Final = 32 << 10  # bytes; Redis allocates such an argument when its length arrives
PROTECTED: Final = (
    b"-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the "
    b"default user. In this mode connections are only accepted from the loopback interface. If you want to connect "
    b"from external computers, set a password (requirepass), or bind only the addresses you need and switch "
    b"protected mode off with CONFIG SET protected-mode no from the loopback interface.\r\n"
)


class Connection(Client, asyncio.Protocol):
    """A client with a transport.

    Input is parsed and run immediately, for at most one slice of time (``server/execution/turns``). Input waits while the
    client is blocked or postponed, does not read its replies, or has used up its slice: bytes in ``unparsed``, parsed
    commands in ``backlog``. Replies wait until this round of the event loop ends, and leave in one write
    (``server/net/held_replies``).
    """

    __slots__ = (
        "backlog", "has_hung_up", "is_reading", "owed", "parser", "transport", "unparsed", "unparsed_bytes",
    )  # fmt: skip
    server: Server

    def __init__(self, server: Server, *, unix_socket: bool = False) -> None:
        self.parser = RequestParser()
        super().__init__(server, server.clients.next_id())
        self.unix_socket = unix_socket
        self.transport: asyncio.Transport | None = None
        self.backlog: list[list[bytes]] = []
        self.unparsed: deque[bytes | memoryview] = deque()
        # ``owed``: bytes of replies to the first requests of a group that was read together, while the rest of the
        # group waits. They count for the output limit, because Redis would run the whole group before it sends any
        # reply.
        self.unparsed_bytes = self.owed = 0
        self.is_reading = True  # the transport reads from the socket; False while the client must slow down
        # The client sends nothing more, and is closed after all its commands have run.
        self.has_hung_up = False

    # asyncio.Protocol: the life of the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the client, or refuse it: maxclients, protected mode, a stopping server, a fault."""
        self.transport = cast("asyncio.Transport", transport)
        server = self.server
        self._take_addresses()
        if server.stopping:
            self._turn_away(b"")
        elif server.clients.are_full():
            server.stats.connections_rejected += 1
            self._turn_away(MAX_CLIENTS)
        elif (
            server.config.protected_mode
            and server.users.default.is_open
            and not self.unix_socket
            and not self.address.startswith((b"127.", b"[::1]"))
        ):
            server.stats.connections_rejected += 1
            self._turn_away(PROTECTED)
        elif server.interceptor is not None and server.interceptor.refuses(self):
            self.begin_to_close()
            self.transport.abort()
        else:
            server.clients[self.id] = self
            server.stats.connections_received += 1
            self.update_parser()
            server.stats.peak_clients = max(server.stats.peak_clients, len(server.clients))
        server.listeners.welcome(self)

    def _turn_away(self, text: bytes) -> None:
        assert self.transport is not None
        self.begin_to_close()
        self.transport.write(text)
        self.transport.close()

    def _take_addresses(self) -> None:
        assert self.transport is not None
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            self.fd = sock.fileno()
        if self.unix_socket:
            path = str(self.server.config.unixsocket).encode()
            self.address = self.local_address = path + b":0"
            return
        self.address = address_of(self.transport.get_extra_info("peername"))
        self.local_address = address_of(self.transport.get_extra_info("sockname"))
        if sock is not None and self.server.config.tcp_keepalive:
            keep_alive(sock, self.server.config.tcp_keepalive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the client from every registry, so that it consumes no further stream entry."""
        del exc
        self.begin_to_close()
        self.backlog.clear()
        self._forget_unparsed()
        server = self.server
        server.replies.drop(self)
        server.clients.congested.discard(self)
        server.clients.over_soft_limit.pop(self, None)
        server.clients.forget(self)

    def eof_received(self) -> bool:
        """Close a half-closed client after the replies to its commands, as Redis does.

        Return True, which lets asyncio keep the transport open until then.
        """
        if self.state is AWAITING_TURN:
            self.has_hung_up = True
        else:
            self.close()
        return True  # asyncio must not close the transport, because replies may wait for the AOF

    # Input

    def data_received(self, data: bytes) -> None:
        """Parse and run the input, or keep it while the client must wait."""
        size = len(data)
        self.net_in += size
        self.reads += 1
        server = self.server
        if self.state is not PLAIN or size > server.parsed_bytes:
            self._receive_carefully(data)
            return
        parser = self.parser
        batch = parser.feed(data)
        run_single = server.run_single
        if parser.error is not None:
            self._run_in_slices(batch)
        elif run_single is not None and len(batch) == 1:
            # The usual case of `_run` and of `Replies.hold_last`, inlined: one command that returns a reply. Without it a PING
            # takes 2.8 instead of 1.7 us, an XADD 5.3 instead of 4.2.
            self.last_interaction = server.keyspace.now = now = server.clock.tick()
            server.current_client = self
            try:
                reply = run_single(server, self, batch[0])
            finally:
                server.current_client = None
            self.total_commands += 1
            if reply is not None and self.state is PLAIN:
                self.net_out += len(reply)
                self.writes += 1
                replies = server.replies
                if replies.since == now:
                    replies.held.append((self, reply))
                elif replies.at_once:
                    replies.at_once -= 1
                    self.transport.write(reply)  # type: ignore[union-attr]
                else:
                    replies.hold_last(self, reply)
            else:
                self._end_one(batch, reply)
        elif len(batch) > server.tuning.slice_commands or parser.more:
            self._run_in_slices(batch)
        elif batch:
            self._run(batch)
        else:
            self._note_input()

    def _run_in_slices(self, batch: list[list[bytes]]) -> None:
        """Run a long batch, or one before an error, and begin to parse what follows."""
        self.backlog = batch
        self._run_for_a_while()
        if self.parser.error is not None:
            self._give_up_when_done()

    def _note_input(self) -> None:
        """Note input that completes no command: it ends the client's idle time and takes memory."""
        server = self.server
        self.last_interaction = server.keyspace.now = server.clock.tick()
        if server.config.maxmemory_clients:
            server.client_eviction.evicts(self)

    def update_parser(self) -> None:
        """Implement ``Client.update_parser``."""
        self.parser.max_bulk_length = self.server.config.proto_max_bulk_len
        self.parser.max_query_buffer = self.server.config.client_query_buffer_limit

    def _receive_carefully(self, data: bytes) -> None:
        """Receive any number of bytes for a client in any state."""
        if self.state is CLOSING:
            return
        self.unparsed.append(data)
        self.unparsed_bytes += len(data)
        if not self.state.runs:
            self.last_interaction = self.server.keyspace.now = self.server.clock.tick()
            if self.query_buffer > self.server.config.client_query_buffer_limit:
                self.server.stats.query_buffer_disconnections += 1
                self.close(after_reply=False)
            elif self.state is AWAITING_TURN:
                self._pause_reading()
        elif self._run_for_a_while():
            if len(data) > _MORE_FOLLOWS:
                self.resume()  # else the next read would begin another slice in the same round of the event loop
        elif self.server.config.maxmemory_clients:
            self.server.client_eviction.evicts(self)
        if self.parser.error is not None:
            self._give_up_when_done()

    def _parse_some(self) -> list[list[bytes]]:
        """Parse waiting bytes and return the complete commands; empty if the next one is incomplete."""
        parser = self.parser
        if not self.authenticated:
            parser.authenticated = self.server.users.default.is_open
        if parser.more or not self.unparsed:
            return parser.feed(b"")
        data = self.unparsed.popleft()
        self.owed = 0
        size = max(self.server.parsed_bytes, parser.expected)
        if len(data) > size:
            view = memoryview(data)
            self.unparsed.appendleft(view[size:])
            data = view[:size]
        self.unparsed_bytes -= len(data)
        return parser.feed(bytes(data))

    def _forget_unparsed(self) -> None:
        self.unparsed.clear()
        self.unparsed_bytes = 0

    def _run(self, batch: list[list[bytes]]) -> None:
        """Run a short batch, and send or hold the replies."""
        server = self.server
        self.last_interaction = server.keyspace.now = server.clock.tick()
        server.replies.release_old()
        begun = perf_counter_ns()
        out: list[bytes] = []
        server.current_client = self
        try:
            taken = server.dispatcher.run(self, batch, out, begun)
        finally:
            server.current_client = None
        self.total_commands += taken
        self._end_run(batch, b"".join(out), taken)

    def _run_for_a_while(self) -> bool:
        """Parse and run until all is done, the client must wait, or its slice of time is over.

        Return True if it took a command.
        """
        server = self.server
        self.last_interaction = server.keyspace.now = server.clock.tick()
        if self.backlog or self.unparsed_bytes > server.parsed_bytes:
            server.replies.release_early()
        else:
            server.replies.release_old()
        batch, self.backlog = self.backlog, []
        out: list[bytes] = []
        at = taken = size = 0
        slice_commands = server.tuning.slice_commands
        begun = perf_counter_ns()
        server.current_client = self
        try:
            while True:
                if at == len(batch):
                    batch, at = self._parse_some(), 0
                wanted = batch[at : at + slice_commands]
                before = len(out)
                done = server.dispatcher.run(self, wanted, out, begun)
                at += done
                taken += done
                size += sum(map(len, islice(out, before, None)))
                if (
                    done < len(wanted)
                    # Under an output limit, send the replies to the parsed commands before parsing more.
                    or (
                        at == len(batch) and (server.limits_output or not (self.unparsed or self.parser.more))
                    )
                    or not self.state.runs
                    or perf_counter_ns() - begun >= server.turns.slice
                    or size > _ENOUGH
                ):
                    break
        finally:
            server.current_client = None
        self.total_commands += taken
        self._end_run(batch, b"".join(out), at)
        if self.parser.error is not None:
            self._forget_unparsed()
        elif (self.unparsed or self.parser.more) and self.state.runs:
            self.resume()
        return taken > 0

    def _end_one(self, batch: list[list[bytes]], reply: bytes | None) -> None:
        """End a run of one command, and uncount the command if it was postponed."""
        taken = 0 if self.state is POSTPONED else 1
        self.total_commands += taken - 1
        self._end_run(batch, reply, taken)

    def _end_run(self, batch: list[list[bytes]], reply: bytes | None, taken: int) -> None:
        """Send the replies, and keep the commands that have not run."""
        server = self.server
        if reply:
            self.write(reply)
        elif server.persistence.has_unwritten():
            server.replies.flush_later()
        if server.tracking.broadcasts:
            server.tracking.send_broadcasts()
        if taken < len(batch) or self.parser.more:
            self.owed += len(reply or b"")
        else:
            self.owed = 0
        if self.state is CLOSING:
            server.replies.close(self)
        elif taken < len(batch):
            self.backlog = batch[taken:]
            self.resume()

    # Waiting

    def wait(self, state: State) -> None:
        """Implement ``Client.wait``."""
        if self.state is not CLOSING:
            self.state = state

    def end_wait(self) -> None:
        """Implement ``Client.end_wait``; a client that does not read its replies becomes congested."""
        if self.state is not CLOSING:
            self.state = CONGESTED if self.is_congested else self.mode

    def answer(self, reply: bytes) -> None:
        """Implement ``Client.answer``; the waiting input of the client then runs in a slice of its own."""
        if self.reply_mode == "on":
            if self.server.limits_output or self.mode is CAREFUL:
                self.check_output(len(reply))
            self.write(reply)
        elif self.reply_mode == "skip":
            self.reply_mode = "on"
            self.update_state()
        if self.tracking is not None:
            self.tracking.caching = False
        self.send_deferred()
        self.last_interaction = self.server.clock.now
        parser = self.parser
        if self.backlog or self.unparsed or parser.more or parser.error is not None:
            self.resume()

    def resume(self) -> None:
        """Queue the client for a slice in which its waiting commands run; the code that released it finishes first."""
        if self.state.runs:
            self.wait(AWAITING_TURN)
            self.server.turns.add(self)

    def take_turn(self) -> None:
        """Implement ``Client.take_turn``."""
        try:
            if self.state is AWAITING_TURN:
                self.end_wait()
            if self.state.runs:
                self._run_for_a_while()
        except BaseException:
            self.close(after_reply=False)  # as the loop does if new input fails: replies are missing
            raise
        if self.parser.error is not None:
            self._give_up_when_done()
        if self.state is AWAITING_TURN or self.is_congested:
            return
        if self.has_hung_up:
            self.close()
        else:
            self._resume_reading()

    def _pause_reading(self) -> None:
        """Stop reading, and leave the client's input in the socket."""
        if self.is_reading and self.transport is not None and not self.transport.is_closing():
            self.is_reading = False
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self.is_reading and self.transport is not None and not self.transport.is_closing():
            self.is_reading = True
            self.transport.resume_reading()

    def _give_up_when_done(self) -> None:
        """After a protocol error and all earlier commands, send the error and close.

        For some errors the connection closes without a reply.
        """
        assert self.parser.error is not None
        if self.backlog or not self.state.runs:
            return
        if self.parser.error:
            self.server.log.verbose(
                f"Protocol error from client {self.address.decode()}: {self.parser.error!r}"
            )
            self.server.stats.count_error(self.parser.error[1:-2])
            if self.reply_mode == "on":
                self.write(self.parser.error)
        elif self.parser.crossed:
            self.server.log.verbose(
                f"Closing client {self.address.decode()}: POST or Host: is what a browser sends, not a command"
            )
        else:
            self.server.stats.query_buffer_disconnections += 1
        self.close(after_reply=bool(self.parser.error) or self.parser.crossed)

    # Output

    def send(self, data: bytes) -> None:
        """Send a push message: now, or after the reply of the command that this client is running."""
        if self.server.current_client is self or self.server.blocking.is_serving(self):
            self.deferred.append(data)
            self.update_state()  # so that the fast path ends, and `deferred` is sent
        else:
            self.check_output(len(data))
            self.write(data)

    def send_deferred(self) -> None:
        """Implement ``Client.send_deferred``; all push messages leave in one write."""
        if self.deferred:
            pushes = b"".join(self.deferred)
            self.deferred.clear()
            self.update_state()
            self.send(pushes)

    def write(self, data: bytes) -> None:
        """Send data at the end of this round of the event loop, with the replies; at once if that is allowed now."""
        transport = self.transport
        if transport is None or transport.is_closing() or self.parser.crossed:
            return
        self.net_out += len(data)
        self.writes += 1
        replies = self.server.replies
        if replies.at_once and self.server.current_client is None:
            replies.at_once -= 1
            transport.write(data)
        else:  # messages that a running command sends to others must not precede its own reply
            replies.hold(self, data)

    @property
    def unread(self) -> int:
        """Bytes of output held until the end of the round or in the transport's buffer, not counting the socket's."""
        transport = self.transport
        buffered = transport.get_write_buffer_size() if transport is not None else 0
        return buffered + self.server.replies.unsent_bytes(self)

    @property
    def query_buffer(self) -> int:
        """Implement ``Client.query_buffer``."""
        return self.unparsed_bytes + self.parser.buffered - self.parser.held

    @property
    def expected(self) -> int:
        """Implement ``Client.expected``."""
        expected = self.parser.expected - self.unparsed_bytes
        return expected if expected >= _LONG else 0

    @property
    def argument_bytes(self) -> int:
        """Implement ``Client.argument_bytes``."""
        waiting = sum(map(len, chain.from_iterable(self.backlog)))
        return self.argv_bytes + self.parser.held + waiting

    def _output_limit(self) -> OutputLimit:
        """Return the client's limit of unsent output."""
        if not self.authenticated and not self.server.users.default.is_open:
            return _UNAUTHENTICATED
        config = self.server.config
        limits = config.client_output_buffer_limit
        if self.is_replica:
            # A replica may be owed as much as the backlog holds, because the backlog takes that memory anyway.
            limit, backlog = limits.replica, config.repl_backlog_size
            return limit._replace(hard=max(limit.hard, backlog) if limit.hard else 0)
        return limits.pubsub if self.is_subscriber else limits.normal

    def check_output(self, size: int) -> None:
        """Implement ``Client.check_output``."""
        self.check_output_limit(self.server.clock.now, size)

    def check_output_limit(self, now: int, more: int = 0) -> None:
        """Close the client if its unsent output reaches the hard limit, or exceeds the soft limit for too many seconds.

        Args:
            now: the time in milliseconds.
            more: bytes of output that are about to be added.
        """
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        waiting = max(self.unread, self.owed) + more
        if self.replica is not None:
            waiting += self.replica.held_bytes
        else:
            waiting = _in_blocks(waiting)
        hard, soft, seconds = self._output_limit()
        too_long = False
        if soft and waiting >= soft:
            since = self.server.clients.over_soft_limit.setdefault(self, now)
            too_long = now // 1000 - since // 1000 > seconds
        else:
            self.server.clients.over_soft_limit.pop(self, None)
        if too_long or (hard and waiting >= hard):
            self.server.log.warning(
                f"Client id={self.id} addr={self.address.decode()} closed for overcoming of output buffer limits."
            )
            self.server.stats.output_buffer_disconnections += 1
            self.close(after_reply=False)

    def pause_writing(self) -> None:
        """Stop running commands, because the client does not read its replies; a replica's acknowledgements still run."""
        if self.replica is not None:
            self.server.clients.congested.add(self)
            self.replica.pause()
            return
        self.server.clients.congested.add(self)
        if self.state.runs:
            self.wait(CONGESTED)
        self._pause_reading()

    def resume_writing(self) -> None:
        """Run waiting commands again, because the client has read its replies."""
        if self.replica is not None:
            self.server.clients.congested.discard(self)
            self.replica.resume()
            return
        self.server.clients.congested.discard(self)
        if self.state is not AWAITING_TURN:
            self._resume_reading()
        if self.state is CONGESTED:
            self.end_wait()
            self.resume()

    @property
    def is_congested(self) -> bool:
        """Whether the client does not read its replies; False for a replica, whose commands always run."""
        return self in self.server.clients.congested and self.replica is None

    # Closing

    def close(self, *, after_reply: bool = True) -> None:
        """Close, after sending everything written so far; without ``after_reply`` the replies of this round are dropped."""
        self.begin_to_close()
        # Forget it now: before the transport reports the end, other commands may run, and would serve a client that left.
        self.server.blocking.forget(self)
        transport = self.transport
        if transport is None:
            return
        if not after_reply:
            self.server.replies.drop(self)
            transport.abort()
        elif self.server.current_client is not self:
            self.server.replies.close(self)

    def cut(self) -> None:
        """Close the connection and drop the unsent replies; the peer sees the end before this returns."""
        self.server.replies.release_early()
        if self.fd < 0:  # it has no socket
            self.close(after_reply=False)
            return
        # With a given family, `socket` does not query the system for it; `shutdown` does not need the right one.
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, self.fd)
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        sock.detach()
        self.close(after_reply=False)

    def update_state(self) -> None:
        """Implement ``Client.update_state``, and tell the parser whether the client is authenticated."""
        super().update_state()
        if self.parser.authenticated is not self.authenticated:
            self.parser.authenticated = self.authenticated


def _in_blocks(waiting: int) -> int:
    """Return the bytes that Redis counts toward an output limit when ``waiting`` bytes wait."""
    return max(0, -(-waiting // FREE_OUTPUT) - 1) * FREE_OUTPUT
