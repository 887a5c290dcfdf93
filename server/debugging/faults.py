"""DEBUG FAULT: apply faults to the commands of clients; ``fault_set.py`` decides which fault hits.

Faults decide about a command when a client has sent it, before all checks. If the command then blocks, that decision does
not count. The faults, including any added since, decide again when its reply is due. A reply is due when there is data for
the command, before the command takes it, or when its wait ends in another way. A fault with NTH, EVERY or FIRST skips a wait
that ends empty (``FaultSpec.passes_empty``). A delay counts when it begins, and the command then belongs to that fault.

A script matches by its own name and keys, because its commands have no reply and no connection. Faults never hit replicas,
masters, the loading of files, DEBUG and control connections.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...commands.runtime.state import BLOCKED, POSTPONED
from ...commands.streams.read_options import ReadOptions, parse_options
from ...protocol.errors import ReplyError
from ...protocol.key_slots import key_slot
from ...storage.groups.claiming import may_claim
from ...storage.streams.ids import parse
from ...storage.streams.stream import Stream
from ..execution.blocking import Waiter
from ..execution.command_entry import IMMEDIATE
from ..net.connection import Connection
from ..server import Server
from .delays import Delays
from .disk import Disk
from .fault import Fault, Hit, Sender, Sent
from .fault_set import Decision, FaultSet
from .recorder import first_id
from .transports import Cut, Slow

if TYPE_CHECKING:
    from .fault_spec import FaultSpec

_NOTHING: Final = frozenset({b"*-1\r\n", b"$-1\r\n", b"_\r\n"})


class Faults(FaultSet):
    """The active faults of one server."""

    def __init__(self, server: Server) -> None:
        super().__init__(first_id(server.run_id))
        self._server = server
        self._disk = Disk(server, self._find_of_disk)
        self._delays = Delays(server)
        # The decision of the faults (`Decision`) about the command that a postponed client will re-run.
        self._decided: dict[Connection, Decision] = {}
        # The decision about a blocked command that a fault has delayed, or whose reply is due.
        self._due: dict[Connection, Decision] = {}

    def add(self, spec: FaultSpec) -> int:
        """Add a fault to the server; return its ID."""
        if not self.active:
            self._decided.clear()  # looks left by an earlier fault or by a recording
        number = super().add(spec)
        self._server.update_checks()
        self._disk.update(is_on=any(fault.spec.disk for fault in self.active.values()))
        return number

    def remove(self, number: int) -> None:
        """Deactivate a fault: release the commands that it delays, and close the connections that it has silenced.

        Raises KeyError: no active fault has this ID.
        """
        fault = self.end(number)
        self._due = {
            client: decision for client, decision in self._due.items() if decision.fault is not fault
        }
        self._server.update_checks()
        self._disk.update(is_on=any(fault.spec.disk for fault in self.active.values()))
        self._delays.release(fault.spec)
        for slow in list(fault.slowed):
            slow.hurry()
        for connection in fault.silenced:
            connection.close(after_reply=False)

    def clear(self) -> None:
        """End all faults of the server."""
        for number in list(self.active):
            self.remove(number)

    def forget(self, client: Connection) -> None:
        """Forget what faults have decided about a client that has disconnected.

        Cancel the delay of its command.
        """
        self._decided.pop(client, None)
        self._due.pop(client, None)
        self._delays.forget(client)

    def next_time(self) -> int | None:
        """Return when the next delay by a fault ends, in milliseconds of the server's clock.

        None if none depends on that clock.
        """
        return self._delays.next_time()

    def time_moved(self) -> None:
        """After a clock change, end the delays that are over by the server's clock."""
        self._delays.reschedule()

    # Commands

    def process(
        self, client: Connection, argv: list[bytes], out: list[bytes]
    ) -> tuple[Fault | None, bytes | None]:
        """Run a command with ``Dispatcher.process``, unless a fault delays, refuses or drops it.

        ``out``: the unsent replies to earlier commands of its batch.
        Return the fault that hits it, or None; and the reply that the command returned, even if it does not reach the
        client.
        """
        dispatcher = self._server.dispatcher
        decision = self._decided.pop(client, None)
        if decision is not None and decision.fault is not None and decision.fault.id not in self.active:
            decision.fault = None
        if decision is None or decision.fault is None:
            decision = self._decide_at_arrival(client, argv, decision)
            if decision.fault is not None and self._postpones(client, decision.fault, client.resume):
                self._decided[client] = decision
                return decision.fault, None
        fault = decision.fault
        if fault is not None and fault.spec.spoils_reply and out:
            client.write(b"".join(out))  # the fault does not affect earlier replies
            out.clear()
        if fault is not None and fault.spec.error is not None:
            entry = dispatcher.find(argv)
            error = dispatcher.refuse(client, entry, self._error(client, fault, Sent(entry.command, argv)))
            if fault.spec.spoils_reply:
                self._spoil(client, fault, error or b"")
            return fault, error
        if fault is not None and fault.spec.close == b"before":
            client.close()
            return fault, None
        reply = dispatcher.process(client, argv)
        if client.state is POSTPONED:
            self._decided[client] = decision
        elif reply is None and client.state is BLOCKED:
            if fault is None or not fault.spec.delays:
                decision.take_back()
                return None, None
            self._due[client] = decision
        elif fault is not None and fault.spec.spoils_reply:
            self._spoil(client, fault, reply or b"")
            if _closes(fault.spec):
                client.close()
        return fault, reply

    def wake(self, client: Connection, waiter: Waiter, run: Callable[[], None]) -> None:
        """Call ``run``, which re-runs a blocked command whose key was signalled, unless a fault delays or replaces it."""
        if not self.active or not _is_due(waiter):
            run()
            return
        decision = self._due.get(client)
        if decision is None:
            decision = self._due[client] = self._decide(client, Sent(waiter.entry.command, waiter.argv))
            if decision.fault is not None and self._delays.begin(
                client, decision.fault.spec, lambda: self._server.blocking.end_hold(waiter)
            ):
                waiter.is_held = True
                return
        if decision.fault is not None and (
            decision.fault.spec.error is not None or decision.fault.spec.close == b"before"
        ):
            self._server.blocking.end_wait(waiter, b"")  # `answer` applies the fault
            return
        run()
        if client.state is BLOCKED and (decision.fault is None or not decision.fault.spec.delays):
            self._due.pop(client, None)
            decision.take_back()  # there was no data for it after all

    def answer(
        self, client: Connection, waiter: Waiter, reply: bytes
    ) -> tuple[Fault | None, bytes | None, bytes | None]:
        """Apply faults to the reply that ends a command's wait.

        Return the fault that hits it; the reply that the command returned (None: it did not run); and the bytes to
        send (None: send nothing now).
        """
        decision = self._due.pop(client, None)
        if decision is None:
            sent = Sent(waiter.entry.command, waiter.argv)
            decision = self._decide(client, sent, is_empty=reply in _NOTHING)
            if decision.fault is not None and self._postpones(
                client, decision.fault, lambda: self._server.blocking.answer(waiter, reply)
            ):
                self._due[client] = decision
                return decision.fault, reply, None
        else:
            self._delays.forget(client)
        fault = decision.fault
        if fault is None:
            return None, reply, reply
        if fault.spec.error is not None:
            error = ReplyError(self._error(client, fault, Sent(waiter.entry.command, waiter.argv)))
            waiter.entry.rejected += 1
            self._server.stats.count_error(error.text)
            if fault.spec.spoils_reply:
                self._spoil(client, fault, error.encoded)
            return fault, error.encoded, error.encoded
        if fault.spec.close == b"before":
            client.close()
            return fault, None, None
        if fault.spec.spoils_reply:
            self._spoil(client, fault, reply)
            if _closes(fault.spec):
                if client.reply_mode == "on":
                    client.write(reply)
                client.close()
                return fault, reply, b""
        return fault, reply, reply

    def _postpones(self, client: Connection, fault: Fault, then: Callable[[], None]) -> bool:
        """Postpone a client for the delay of a fault, then call ``then``; return False if the fault delays nothing."""

        def end() -> None:
            client.end_wait()
            then()

        delays = self._delays.begin(client, fault.spec, end)
        if delays:
            client.wait(POSTPONED)
        return delays

    def _decide(self, client: Connection, sent: Sent, *, is_empty: bool = False) -> Decision:
        return self.decide(self._server.clock.now, _sender(client), [sent], is_empty=is_empty)

    def _decide_at_arrival(self, client: Connection, argv: list[bytes], before: Decision | None) -> Decision:
        """Let the faults decide about a command that a client has sent; for EXEC, also about its queued commands."""
        find = self._server.dispatcher.find
        try:
            entry = find(argv)
        except ReplyError:
            return Decision()
        sent = [Sent(entry.command, argv)]
        transaction = client.transaction
        is_queued = transaction is not None and entry.name not in IMMEDIATE
        if transaction is not None and entry.name == "exec" and not transaction.aborted:
            sent += [Sent(queued.command, words) for queued, words in transaction.commands]
        now = self._server.clock.now
        return self.decide(now, _sender(client), sent, is_queued=is_queued, before=before)

    def _error(self, client: Connection, fault: Fault, sent: Sent) -> bytes:
        """Return the text of an error; MOVED and ASK without a text point to this server."""
        error = fault.spec.error
        assert error is not None
        if b" " in error:
            return error
        address = b"127.0.0.1:%d" % self._server.config.port if client.unix_socket else client.local_address
        return b"%b %d %b" % (error, key_slot(fault.key_of(sent) or b""), address)

    def _spoil(self, client: Connection, fault: Fault, reply: bytes) -> None:
        """Cut off a reply, so that nothing after the cut reaches the client, or send all of it slowly."""
        spec = fault.spec
        if spec.slow is not None:
            fault.slowed.add(Slow(client, self._server.loop, *spec.slow))
            return
        part = {b"after": 0, b"midway": len(reply) // 2}.get(spec.close or b"", spec.reply_bytes or 0)
        # Replies that wait for the end of the turn still pass.
        Cut(client, self._server.replies.held_bytes(client) + min(part, len(reply)))
        if spec.silence:
            fault.silenced.append(client)

    # Connections and the disk

    def refuses(self, client: Connection) -> bool:
        """Return True if a fault hits a new connection, which must then be closed."""
        return self.refuses_connection(self._server.clock.now, client.id)

    def _find_of_disk(self, kind: bytes, call: bytes) -> Fault | None:
        """Return the fault that hits a disk call; may run in the fsync thread."""
        hit = Hit(self._server.clock.now, 0, b"", call, b"")
        faults = [fault for fault in list(self.active.values()) if fault.spec.disk == kind]
        return next((fault for fault in faults if fault.counts(hit)), None)


def _sender(client: Connection) -> Sender:
    return Sender(client.id, client.name, client.user.name, client.lib_name)


def _closes(spec: FaultSpec) -> bool:
    return not spec.silence and spec.slow is None


def _is_due(waiter: Waiter) -> bool:
    """Return True if a blocked command would reply now if it re-ran, with data or an error."""
    values = [waiter.db.peek(key) for key in waiter.keys]
    if waiter.wants is not Stream:
        return any(type(value) is waiter.wants for value in values)
    grouped = waiter.on_missing
    options = parse_options(waiter.client, waiter.argv, grouped=grouped)
    if grouped:
        return any(_is_due_to_group(value, waiter, options) for value in values)
    words = waiter.argv[options.first_key :]
    wanted = zip(words[: options.keys], words[options.keys :], strict=True)
    return any(
        type(value) is Stream and value.last_id > parse(after)
        for key, after in wanted
        if after != b"+" and (value := waiter.db.peek(key)) is not None
    )


def _is_due_to_group(value: object, waiter: Waiter, options: ReadOptions) -> bool:
    if type(value) is not Stream:
        return True  # the stream is gone: an error
    group = value.groups.get(options.group or b"")
    if group is None or group.last_id < value.last_id:
        return True
    claim = None if options.budget is None else options.budget.claim
    if claim is None:
        return False
    latest = waiter.client.server.clock.now - claim
    return may_claim(group, value, latest)
