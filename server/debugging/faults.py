"""DEBUG FAULT at work: which commands a fault hits, and its effects on them.

A fault looks at a command when a client has sent it, before every check. The first fault in the order of adding that
hits a command has it to itself, and later ones do not count it. Inside MULTI an error refuses a command when it is to
be queued, as Redis does; every other fault hits EXEC as a whole if one of its commands fits, for they run then. A
script fits by its own name and keys: its commands have no reply and no connection. A blocked command is hit when its
reply is due. Replicas, masters, the loading of files, DEBUG and control connections are never hit.
"""

from __future__ import annotations

from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING

from ...commands.runtime.state import BLOCKED, POSTPONED
from ...protocol.errors import ReplyError
from ...protocol.key_slots import key_slot
from ..execution.entry import IMMEDIATE
from .delays import Delays
from .disk import Disk
from .fault import Fault, Hit, Sent
from .recorder import first_id
from .transports import Cut, Slow

if TYPE_CHECKING:
    from ..net.connection import Connection
    from ..server import Server
    from .fault_spec import FaultSpec


class Faults:
    """The faults of one server.

    Attributes:
        active: by their ID, in the order of adding.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.active: dict[int, Fault] = {}
        # The faults of commands, by the name that they look for; None: any.
        self._of_commands: dict[str | None, list[Fault]] = {}
        self._disk = Disk(server, self._find_of_disk)
        self._ids = count(first_id(server))
        self._delays = Delays(server)
        # The decision about the command that a postponed client will run again.
        self._decided: dict[Connection, Fault | None] = {}
        # The fault that awaits the reply of a blocked command.
        self._due: dict[Connection, Fault] = {}

    def add(self, spec: FaultSpec) -> int:
        """Begin a fault; returns its ID."""
        if not self.active:
            self._decided.clear()  # of commands that an earlier fault was to hit, or a recording saw
        number = next(self._ids)
        fault = self.active[number] = Fault(number, spec)
        if spec.is_of_commands:
            self._of_commands.setdefault(spec.command, []).append(fault)
        self._server.update_checks()
        self._disk.update(is_on=any(fault.spec.disk for fault in self.active.values()))
        return number

    def remove(self, number: int) -> None:
        """End a fault: what it delays goes on, and connections that it has silenced are closed.

        Raises:
            KeyError: there is none with this ID.
        """
        fault = self.active.pop(number)
        if fault.spec.is_of_commands:
            same = self._of_commands[fault.spec.command]
            same.remove(fault)
            if not same:
                del self._of_commands[fault.spec.command]
        self._due = {client: due for client, due in self._due.items() if due is not fault}
        self._server.update_checks()
        self._disk.update(is_on=any(fault.spec.disk for fault in self.active.values()))
        self._delays.release(fault.spec)
        for slow in list(fault.slowed):
            slow.hurry()
        for connection in fault.silenced:
            connection.close(after_reply=False)

    def clear(self) -> None:
        """End all faults."""
        for number in list(self.active):
            self.remove(number)

    def forget(self, client: Connection) -> None:
        """Remove a client whose connection is gone."""
        self._decided.pop(client, None)
        self._due.pop(client, None)
        self._delays.forget(client)

    def next_time(self) -> int | None:
        """Return when the next delay by the server's clock is over."""
        return self._delays.next_time()

    def time_moved(self) -> None:
        """Let commands run whose time has come by the server's clock."""
        self._delays.look()

    # Commands

    def process(
        self, client: Connection, argv: list[bytes], out: list[bytes]
    ) -> tuple[Fault | None, bytes | None]:
        """Run a command as ``Dispatcher.process`` does, unless a fault hits it.

        Args:
            out: the replies of its batch that are not sent yet.

        Returns:
            The fault, and the reply as the command gave it, also where it does not reach the client.
        """
        dispatcher = self._server.dispatcher
        if client in self._decided:
            fault = self._decided.pop(client)
            if fault is not None and fault.id not in self.active:
                fault = None
        else:
            fault = self._find(client, argv)
            if fault is not None and self._delays.begin(client, fault.spec):
                self._decided[client] = fault
                return fault, None
        if fault is not None and fault.spec.error is not None:
            entry = dispatcher.find(argv)
            return fault, dispatcher.refuse(client, entry, self._error(client, fault, Sent(entry, argv)))
        if fault is not None and fault.spec.close == b"before":
            client.close()
            return fault, None
        if fault is not None and fault.spec.spoils_reply and out:
            client.write(b"".join(out))  # these replies arrive
            out.clear()
        reply = dispatcher.process(client, argv)
        if client.state is POSTPONED:
            self._decided[client] = fault
        elif fault is not None and fault.spec.spoils_reply:
            if reply is None and client.state is BLOCKED:
                self._due[client] = fault
            else:
                self._spoil(client, fault, reply or b"")
                if _closes(fault.spec):
                    client.close()
        return fault, reply

    def answer(self, client: Connection, reply: bytes) -> tuple[Fault | None, bytes]:
        """Return the fault that hits the reply of a command that was blocked, and the bytes left to send."""
        fault = self._due.pop(client, None)
        if fault is None:
            return None, reply
        self._spoil(client, fault, reply)
        if not _closes(fault.spec):
            return fault, reply
        if client.reply_mode == "on":
            client.write(reply)
        client.close()
        return fault, b""

    def _find(self, client: Connection, argv: list[bytes]) -> Fault | None:
        """Return the first fault that hits a command."""
        try:
            entry = self._server.dispatcher.find(argv)
        except ReplyError:
            return None
        sent = [Sent(entry, argv)]
        transaction = client.transaction
        is_queued = transaction is not None and entry.name not in IMMEDIATE
        if transaction is not None and entry.name == "exec" and not transaction.aborted:
            sent += [Sent(*each) for each in transaction.commands]
        now = self._server.clock.now
        for fault in self._looking_for(sent):
            is_error = fault.spec.error is not None
            if is_queued and not is_error:
                continue
            if any(fault.takes(now, client, each) for each in (sent[:1] if is_error else sent)):
                return fault
        return None

    def _looking_for(self, sent: list[Sent]) -> list[Fault]:
        """Return the faults that may hit one of some commands, in the order of adding."""
        names = {None, *(name for each in sent for name in each.names)}
        found = [fault for name in names for fault in self._of_commands.get(name, ())]
        found.sort(key=attrgetter("id"))
        return found

    def _error(self, client: Connection, fault: Fault, sent: Sent) -> bytes:
        """Return the text of an error; MOVED and ASK alone lead to this very server."""
        error = fault.spec.error
        assert error is not None
        if b" " in error:
            return error
        address = b"127.0.0.1:%d" % self._server.config.port if client.unix_socket else client.local_address
        return b"%b %d %b" % (error, key_slot(fault.key_of(sent) or b""), address)

    def _spoil(self, client: Connection, fault: Fault, reply: bytes) -> None:
        """Let only a part of a reply, and nothing after it, reach a client, or all of it slowly."""
        spec = fault.spec
        if spec.slow is not None:
            fault.slowed.add(Slow(client, *spec.slow))
            return
        part = {b"after": 0, b"midway": len(reply) // 2}.get(spec.close or b"", spec.reply_bytes or 0)
        # Replies that wait for the end of the turn are still to pass.
        Cut(client, self._server.replies.held_bytes(client) + min(part, len(reply)))
        if spec.silence:
            fault.silenced.append(client)

    # Connections and the disk

    def refuses(self, client: Connection) -> bool:
        """Whether a fault hits a new connection."""
        hit = Hit(self._server.clock.now, client.id, b"", b"CONNECT", b"")
        return any(fault.counts(hit) for fault in self.active.values() if fault.spec.connections)

    def _find_of_disk(self, kind: bytes, call: bytes) -> Fault | None:
        """Return the fault that hits a call of the disk; may run in the thread that syncs."""
        hit = Hit(self._server.clock.now, 0, b"", call, b"")
        faults = [fault for fault in list(self.active.values()) if fault.spec.disk == kind]
        return next((fault for fault in faults if fault.counts(hit)), None)


def _closes(spec: FaultSpec) -> bool:
    return not spec.silence and spec.slow is None
