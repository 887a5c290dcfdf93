"""One client of a proxy, and its own connection to the server.

Bytes pass unchanged and in order. While no fault and no recording is on, requests and replies are only counted, in batches
after they have passed, so that a fault that starts later can match replies to requests.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...commands.runtime.redaction import redacted
from ...protocol.framing import PUSH, Framer, FramingError
from ...protocol.key_slots import key_slot
from ...server.debugging.fault import Fault, Sent
from ...server.debugging.fault_set import Decision
from ...server.debugging.recorder import Recorded, Recording, finish
from ...server.debugging.transports import Cut, Slow
from ...server.execution.command_entry import IMMEDIATE
from .known import BLOCKING, MOST_HELD, command_of, may_wait
from .relay import Relay
from .requests import Requests
from .session import LEARNED, SUBSCRIPTIONS, Session
from .unanswered import Unanswered, changes_replies, ends_matching, is_silent

if TYPE_CHECKING:
    from .listener import Listener

_NOTHING: Final = frozenset({b"*-1\r\n", b"$-1\r\n", b"_\r\n"})
# Commands that change the number of replies or the client's session, and those that may block.
_SPECIAL: Final = BLOCKING | frozenset(
    b"SUBSCRIBE UNSUBSCRIBE PSUBSCRIBE PUNSUBSCRIBE SSUBSCRIBE SUNSUBSCRIBE MONITOR HELLO RESET CLIENT AUTH MULTI "
    b"SELECT EXEC DISCARD PSYNC SYNC SCRIPT DEBUG REPLCONF".split()
)
# Finds one of these names at the beginning of a line, or a quote, because inline commands may be quoted. The lookahead
# for the first letter saves 1.4 us per GET.
_MAY_BE_SPECIAL: Final = re.compile(
    rb"\n\s*(?=[%b\"'])(?:[\"']|(?:%b)\b)" % (bytes({name[0] for name in _SPECIAL}), b"|".join(_SPECIAL))
).search
_STAR, _NEWLINE = b"*\n"
_HEADERS: Final = b"*$"
_MANY: Final = 4096
"""Bytes of both directions between counts, about 100 GETs: counting takes 1.2 us each in a batch, and 3.3 us for one alone."""
# Whether these are answered depends on earlier replies: RESP2 subscribers may not send CLIENT REPLY, MULTI may have been
# refused, a monitor's second MONITOR has no reply, and Redis 8.10.2 does not answer a wrong password behind other replies.
_WAITS_FOR_OTHERS: Final = frozenset(("client|reply", "monitor", "replconf", "auth"))
_UNSEEN: Final = frozenset(("psync", "sync", "replconf"))
_DEBUG: Final = frozenset((b"FAULT", b"RECORD", b"CONTROL"))
_EMPTY: Final = re.compile(rb"\s*\n|\*(0|-\d+)\r\n").fullmatch  # a request
_PING: Final = b"*1\r\n$4\r\nPING\r\n"
_EXECABORT: Final = b"-EXECABORT Transaction discarded because of previous errors.\r\n"


class Link(Relay):
    """One client of the proxy: matches the server's replies to its requests, and passes both to faults and recordings."""

    def __init__(self, listener: Listener, number: int) -> None:
        super().__init__(listener, number)
        self.is_control = False  # the client has sent DEBUG CONTROL: no fault hits it, and it is not recorded
        self._requests = Requests()
        self._replies = Framer()
        self._unanswered: deque[Unanswered | None] = deque()  # None: a reply that is only counted
        self._looked_at = 0  # how many of them are not None
        self._unsent: list[bytes] = []
        # Whether bytes may pass before they are counted; the bytes that have passed, and their number.
        self._counts_later = False
        self._asked: list[bytes] = []
        self._answered: list[bytes] = []
        self._uncounted = 0
        self._drops_rest = False  # whether to drop the rest of a long request
        self._value = bytearray()  # the beginning of an incomplete value
        self._passes = False  # whether the rest of a value passes whose beginning has passed
        self._is_reply_passing: bool | None = None  # None: it is a reply unless it is a push
        self._matches = True
        self._pushes: list[bytes] = []
        self._mode = "on"  # CLIENT REPLY
        self._transaction: list[Sent] | None = None
        self._later: list[tuple[int, str, list[bytes]]] = []  # its commands that change the session
        self._is_refused = False  # whether the proxy refused a command of the transaction
        self._when_answered: Callable[[], None] | None = None  # continues once no reply is outstanding

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect to the server, unless a fault refuses the client."""
        super().connection_made(transport)
        if self._listener.accepts(self):
            self._listener.keep(self._connect())
        else:
            self.close()

    def close(self, *, at_once: bool = False) -> None:
        """Send the requests that have arrived, then close both connections."""
        if not self._is_closed:
            self._counts_later = False
            self._send()
            super().close(at_once=at_once)
            self._listener.forget(self)

    # Requests

    def eof_received(self) -> bool:
        """Pass the client's end of input on to the server, which decides when to close the connection.

        Held requests that wait for earlier replies are sent first. Return True if the client's side stays open for
        replies.
        """
        if self._when_answered is not None:
            # Waiting longer would let a command block for a client that has left.
            self._match_no_more()
            self._go_on_if_answered()
        return super().eof_received()

    def data_received(self, data: bytes) -> None:
        """Process bytes from the client: apply faults, record, and send the requests to the server."""
        server = self._server
        if (
            self._counts_later
            and self._uncounted < 16 * _MANY
            and server is not None
            # An incomplete request must have its name in these bytes: it is counted now, and its rest passes.
            and data[0] == _STAR
            and data[-1] == _NEWLINE
            and _MAY_BE_SPECIAL(data.upper()) is None
            and data[data.rfind(b"\n", 0, -1) + 1] not in _HEADERS
        ):
            server.write(data)
            self._asked.append(data)
            self._uncounted += len(data)
            return
        if self._is_held:
            self._unread += data
            self._pause("held")
            return
        if server is None or self._is_closed:
            return
        self.count()
        if not self._matches:
            server.write(data)
            return
        at = 0
        for raw, argv, end in self._requests.feed(data):
            at = end
            if argv:
                self._take(raw, argv, None)
            elif not self._drops_rest:
                if self._mode == "skip" and _EMPTY(raw):
                    self._mode = "on"
                self._unsent.append(raw)
            if not self._requests.is_in_rest:
                self._drops_rest = False
            if self._is_held or self._is_closed:
                break
        self._send()
        if self._is_held and at < len(data):
            self._unread = data[at:] + self._unread
            self._pause("held")
        self._settle()

    def _settle(self) -> None:
        """Let bytes pass before they are counted if nothing examines them and each request has exactly one reply."""
        self._counts_later = (
            not (self._listener.examines or self._looked_at or self._pushes or self._value)
            and not (self._is_held or self._is_closed or self._requests.has_failed)
            and self._matches
            and self._mode == "on"
            and self._transaction is None
            and self._requests.is_between
            and not self.session.gets_messages
        )

    def count(self) -> None:
        """Match the requests and replies that passed unexamined, so that later replies find their requests."""
        if not (self._asked or self._answered):
            self._settle()
            return
        asked, answered = b"".join(self._asked), b"".join(self._answered)
        self._asked.clear()
        self._answered.clear()
        self._uncounted = 0
        self._unanswered.extend([None] * self._requests.begun(asked))
        try:
            for _ in range(min(self._replies.count(answered), len(self._unanswered))):
                self._unanswered.popleft()
        except FramingError:
            self._match_no_more()
        self._passes, self._is_reply_passing = not self._replies.is_between, None
        self._settle()

    def _send(self) -> None:
        """Send the requests that arrived together to the server together: it may answer single ones differently."""
        if self._unsent and self._server is not None and not self._server.is_closing():
            self._server.write(b"".join(self._unsent))
        self._unsent.clear()

    def _take(self, raw: bytes, argv: list[bytes], before: Decision | None) -> None:
        """Let a request pass, unless a fault hits it.

        ``before``: the earlier decision of a request that was delayed.
        """
        if not self._matches:
            self._unsent.append(raw)
            return
        listener, command = self._listener, command_of(argv)
        name = command.name
        if (
            listener.answers_debug
            and name.startswith("debug")
            and len(argv) > 1
            and argv[1].upper() in _DEBUG
        ):
            self._drops_rest = self._requests.is_in_rest
            self._answer(listener.debug(argv, self))
            return
        logs_in = name == "hello" and len(argv) > 2
        if (name in _WAITS_FOR_OTHERS or logs_in) and self._mode == "on" and self._awaits_reply():
            self._hold()
            self._when_answered = lambda: self._go_on(raw, argv, before)
            return
        is_queued = self._transaction is not None and name not in IMMEDIATE
        waits = not is_queued and may_wait(command, argv)
        seen = not (self.is_control or name in _UNSEEN or name.partition("|")[0] == "debug")
        sent = Sent(command, argv)
        decision = before
        if (
            decision is not None
            and decision.fault is not None
            and decision.fault.id not in listener.faults.active
        ):
            decision.fault = None
        if seen and listener.faults.active and (decision is None or decision.fault is None):
            every = [sent, *self._transaction] if name == "exec" and self._transaction else [sent]
            decision = listener.faults.decide(
                listener.now(), self.session.sender, every, is_queued=is_queued, before=decision,
                only=_acts_before if waits else None,
            )  # fmt: skip
            if decision.fault is not None and decision.fault.spec.delays:
                self._hold()
                found = decision
                listener.delays.begin(self, decision.fault.spec, lambda: self._go_on(raw, argv, found))
                return
        fault = None if decision is None else decision.fault
        self._run(raw, sent, argv, decision, fault, is_queued=is_queued, waits=waits, seen=seen)

    def _go_on(self, raw: bytes, argv: list[bytes], decision: Decision | None) -> None:
        """Continue with a request that had to wait."""
        self._is_held = False
        self._take(raw, argv, decision)
        self._send()
        if not self._is_held:
            self._release()

    def _run(
        self, raw: bytes, sent: Sent, argv: list[bytes], decision: Decision | None, fault: Fault | None,
        *, is_queued: bool, waits: bool, seen: bool,
    ) -> None:  # fmt: skip
        name = sent.command.name
        listener = self._listener
        recorded = self._record(argv, fault) if seen and listener.recorder.recordings else None
        request = Unanswered(name, argv, decision, fault, None, recorded)
        if fault is not None and fault.spec.error is not None:
            self._drops_rest = self._requests.is_in_rest
            text = self._error(fault, sent)
            if name == "exec":
                request.instead = b"-EXECABORT Transaction discarded because of: %b\r\n" % text.removeprefix(
                    b"ERR "
                )
                raw = b"*1\r\n$7\r\nDISCARD\r\n"
            else:
                self._is_refused = self._is_refused or self._transaction is not None
                self._answer(b"-%b\r\n" % text, request)
                return
        elif fault is not None and fault.spec.close == b"before":
            self._drops_rest = self._requests.is_in_rest
            request.closes = True
            request.own = b""
            self._hold()
            self._append(request)
            self._answer_due()
            return
        elif name == "exec" and self._is_refused:
            request.instead = _EXECABORT
            raw = b"*1\r\n$7\r\nDISCARD\r\n"
        self._unsent.append(raw)
        is_accepted = sent.command.accepts(len(argv))
        later = self._later
        if is_accepted and not is_queued:
            is_unruly = name == "exec" and any(map(changes_replies, later))
            request.ends_matching = is_unruly or ends_matching(name, argv)
        if is_accepted or name == "exec":  # EXEC ends the transaction even with wrong arguments
            self._note_transaction(request, sent, is_queued=is_queued)
        expects = self._expects_reply(request, is_accepted=is_accepted, is_queued=is_queued)
        spoils = fault is not None and fault.spec.spoils_reply
        if not expects:
            if is_accepted and not is_queued:
                self._assume(request, later)
            if request.own is None:
                self._finish(request, None)
            if request.ends_matching:
                self._match_no_more()
            if spoils and fault is not None and not fault.spec.silence and fault.spec.slow is None:
                self.close()
            return
        if name == "exec" and later:
            request.later = later
        if waits and seen:
            request.sent = sent
            sent.keys  # noqa: B018 - computed now, so that the words need not be kept
            request.holds = any(not _acts_before(each.spec) for each in listener.faults.active.values())
        if spoils and fault is not None and not fault.spec.silence and fault.spec.slow is None:
            request.holds = True
        if request.holds:
            self._hold()
        is_plain = (
            fault is None
            and recorded is None
            and request.sent is None
            and request.instead is None
            and not request.ends_matching
            and request.later is None
            and name not in LEARNED
            and name not in SUBSCRIPTIONS
            and name != "multi"
        )
        if is_plain:
            self._unanswered.append(None)
        else:
            self._append(request)

    def _append(self, request: Unanswered) -> None:
        self._unanswered.append(request)
        self._looked_at += 1

    def _note_transaction(self, request: Unanswered, sent: Sent, *, is_queued: bool) -> None:
        name = request.name
        if (
            name == "multi"
            and self._transaction is None
            and (self._mode == "on" or not self._is_subscriber())
        ):
            request.transaction = self._transaction = []
            self._later, self._is_refused = [], False
        elif name in {"exec", "discard", "reset", "quit"}:
            self._transaction, self._later, self._is_refused = None, [], False
        elif is_queued and self._transaction is not None:
            is_unlike = name in LEARNED or name in SUBSCRIPTIONS or name == "client|reply"
            if is_unlike or is_silent(name, request.argv):
                self._later.append((len(self._transaction), name, request.argv))
            sent.forget_words()
            self._transaction.append(sent)

    def _expects_reply(self, request: Unanswered, *, is_accepted: bool, is_queued: bool) -> bool:
        """Return True if the server will reply to a request, given CLIENT REPLY; update that mode from the request."""
        mode, name = self._mode, request.name
        if mode == "skip":
            self._mode = "on"
        if is_queued or not is_accepted:
            return mode == "on"
        if name in SUBSCRIPTIONS:
            request.is_unsure = mode != "on"
            return True
        if self.session.monitors and name in {"monitor", "psync", "sync"}:
            request.ends_matching = False
            return False
        if name == "reset" and mode == "off":
            self._mode = "on"
            return True
        request.is_unsure = name == "auth" or (name == "hello" and len(request.argv) > 2)
        if name == "client|reply" and not self._is_subscriber():
            choice = request.argv[2].upper()
            if choice == b"ON":
                self._mode = "on"
                return True
            if choice == b"OFF":
                self._mode = "off"
                return False
            if choice == b"SKIP":
                self._mode = "off" if mode == "off" else "skip"
                return False
        return mode == "on" and not is_silent(name, request.argv)

    def _is_subscriber(self) -> bool:
        """Return True if the client will be a RESP2 subscriber once its pending subscriptions are confirmed."""
        if self.session.resp == 3:
            return False
        unsure = [each for each in self._unanswered if each is not None and each.is_unsure]
        return self.session.will_be_subscribed(
            (each.name, each.argv) for each in unsure if each.name in SUBSCRIPTIONS
        )

    def _assume(self, request: Unanswered, later: list[tuple[int, str, list[bytes]]]) -> None:
        """Assume that a command without a reply succeeds, once the commands before it have their replies."""
        name = request.name
        if name == "exec":
            request.later = later
        elif name not in LEARNED or (name != "reset" and self._is_subscriber()):
            return
        request.own, request.is_unsure = b"", True
        self._append(request)
        self._answer_due()

    def _answer(self, reply: bytes, request: Unanswered | None = None) -> None:
        """Reply in place of the server, after the outstanding replies."""
        mode = self._mode
        if mode == "skip":
            self._mode = "on"
            self._unsent.append(_PING)  # otherwise the server would skip the reply to the next command
        made = Unanswered("", []) if request is None else request
        made.own = reply if mode == "on" else b""
        if mode != "on":
            self._finish(made, None)
            return
        self._append(made)
        self._answer_due()

    def _error(self, fault: Fault, sent: Sent) -> bytes:
        error = fault.spec.error
        assert error is not None
        if b" " in error:
            return error
        slot = key_slot(fault.key_of(sent) or b"")
        return b"%b %d %b:%d" % (error, slot, self._listener.host.encode(), self._listener.port)

    # Recordings

    def _record(self, argv: list[bytes], fault: Fault | None) -> tuple[Recorded, list[Recording]]:
        number = 0 if fault is None else fault.id
        words, session = redacted(argv), self.session
        entry = Recorded(
            0, self._listener.now(), None, session.database, session.id, session.name, words, None, number
        )
        return entry, self._listener.recorder.keep(entry)

    def _finish(self, request: Unanswered, reply: bytes | None) -> None:
        if request.recorded is not None:
            entry, recordings = request.recorded
            fault = 0 if request.fault is None else request.fault.id
            finish(entry, recordings, self._listener.now(), reply, fault)
            self._listener.recorder.finished(entry)

    # Replies

    def server_data(self, data: bytes) -> None:
        """Process bytes from the server: match replies to requests, apply faults, record, and send them to the client."""
        transport = self.transport
        if self._counts_later and transport is not None:
            transport.write(data)
            self._answered.append(data)
            self._uncounted += len(data)
            if self._uncounted > _MANY:
                self._uncounted = 0
                self._listener.loop.call_soon(self.count)  # after they are written
            return
        if self._is_closed:
            return
        if not self._matches:
            self._write(data)
            return
        at, framer = 0, self._replies
        while at < len(data):
            if self._begins_unruly(data[at : at + 2]):
                self._match_no_more()
                self._write(data[at:])
                return
            try:
                end = framer.next(data, at)
            except FramingError:
                self._match_no_more()
            if not self._matches:
                self._write(bytes(self._value) + data[at:])
                self._value.clear()
                return
            piece = data[at:end] if end >= 0 else data[at:]
            at = end if end >= 0 else len(data)
            self._take_value(piece, is_whole=end >= 0)
            if self._is_closed:
                return
        self._go_on_if_answered()
        self._settle()

    def _begins_unruly(self, data: bytes) -> bool:
        """Return True if the reply to a transaction begins that has more or fewer values than its header says."""
        head = self._unanswered[0] if self._unanswered else None
        is_unruly = head is not None and head.ends_matching and head.name == "exec"
        return is_unruly and self._replies.is_between and data[:1] == b"*" and data[1:] != b"-"

    def _awaits_reply(self) -> bool:
        """Return True if a reply is certain to come."""
        return any(each is None or not each.is_unsure for each in self._unanswered)

    def _go_on_if_answered(self) -> None:
        if self._when_answered is not None and not self._awaits_reply():
            go_on, self._when_answered = self._when_answered, None
            go_on()

    def _match_no_more(self) -> None:
        """Let everything pass unexamined from now on, because replies can no longer be matched to requests."""
        self._matches = False
        if self._when_answered is not None or any(
            each is not None and each.holds for each in self._unanswered
        ):
            self._listener.loop.call_soon(self._let_go)
        self._unanswered.clear()
        self._looked_at = 0

    def _let_go(self) -> None:
        if self._is_closed:
            return
        if self._when_answered is None:
            self._release()
        else:
            self._go_on_if_answered()

    def _take_value(self, piece: bytes, *, is_whole: bool) -> None:
        if self._passes:
            self._write(piece)
            if is_whole:
                self._passes = False
                is_reply = self._is_reply_passing
                if self._unanswered and (self._replies.kind != PUSH if is_reply is None else is_reply):
                    self._pop()
                self._answer_due()
            return
        if not is_whole:
            self._value += piece
            if len(self._value) > MOST_HELD:
                self._begin_long()
            return
        value = bytes(self._value) + piece if self._value else piece
        self._value.clear()
        self._whole(value)
        self._answer_due()

    def _begin_long(self) -> None:
        """Let a long value pass in pieces, unless a fault needs all of it."""
        value = bytes(self._value)
        head = self._answered_by(value)
        is_reply = self._replies.kind != PUSH and self._is_reply(value)
        fault = None
        if is_reply and head is not None:
            if head.sent is not None:
                self._look_at_reply(head, value)
            fault = head.fault
            head.sent = None
            if fault is not None and (fault.spec.close == b"midway" or fault.spec.slow is not None):
                return
        self._value.clear()
        self._passes, self._is_reply_passing = True, is_reply
        if fault is not None and fault.spec.spoils_reply:
            self._spoil(fault, value)
        else:
            self._write(value)

    def _is_reply(self, value: bytes) -> bool:
        """Return True if a value other than a push is a reply; the beginning of it suffices."""
        return bool(self._unanswered) and not self.session.is_message(value)

    def _pop(self) -> None:
        """Finish the request whose long reply has passed."""
        request = self._unanswered.popleft()
        if request is not None:
            self._looked_at -= 1
            self._finish(request, None)
            if request.holds and not self._is_closed:
                self._release()

    def _whole(self, value: bytes) -> None:
        name = Session.confirmed(value)
        head = self._answered_by(value)
        is_expected = head is not None and head.name == name
        if name and (is_expected or self._replies.kind == PUSH):
            self._confirm(head if is_expected else None, name, value)
        elif self._replies.kind == PUSH or not self._is_reply(value):
            if value[:1] == b"-" and self._mode == "off":
                self._mode = "on"  # CLIENT REPLY OFF was refused
            self._write(value)
        else:
            self._reply(value)

    def _answered_by(self, value: bytes) -> Unanswered | None:
        """Return the oldest request that a value may answer, and finish those before it: they get no reply.

        The beginning of the value suffices.
        """
        while (head := self._unanswered[0] if self._unanswered else None) is not None and head.is_unsure:
            if self._may_answer(head, value):
                break
            self._unanswered.popleft()
            self._looked_at -= 1
            self._finish(head, None)
            self._answer_own()
        return head

    def _may_answer(self, request: Unanswered, value: bytes) -> bool:
        if self._replies.kind == PUSH or self.session.is_message(value):
            return True
        if request.name in SUBSCRIPTIONS:
            return request.confirmations > 0 or request.name == Session.confirmed(value)
        return value[:1] == b"-" or (value[:1] in b"*%" if request.name == "hello" else value == b"+OK\r\n")

    def _confirm(self, request: Unanswered | None, name: str, value: bytes) -> None:
        """Process a confirmation of an (un)subscription; without a request, the server itself ended the subscription."""
        if request is not None and request.confirmations < 0:
            request.confirmations = self.session.confirmations(name, request.argv)
        self.session.confirm(name, value)
        if request is None:
            self._write(value)
            return
        request.confirmations -= 1
        request.value += value
        if not request.confirmations:
            self._reply(request.value)

    def _reply(self, value: bytes) -> None:
        """Send the client the reply to its oldest pending request, as faults modify it."""
        request = self._unanswered.popleft()
        if request is None:
            self._write(value)
            return
        self._looked_at -= 1
        if request.name in LEARNED:
            self.session.learn(request.name, request.argv, value)
        elif request.transaction is not None and value != b"+OK\r\n":
            if request.transaction is self._transaction:
                self._transaction = None
        elif request.later is not None and value[:1] == b"*" and value not in _NOTHING:
            self._learn_later(request.later, value)
        if request.instead is not None:
            value = request.instead
        if request.sent is not None:
            self._look_at_reply(request, value)
        self._finish(request, value)
        if request.ends_matching and value[:1] != b"-" and value not in _NOTHING:
            self._match_no_more()
        fault = request.fault
        if fault is not None and fault.spec.spoils_reply:
            self._spoil(fault, value)
        else:
            self._write(value)
        if request.holds and not self._is_closed:
            self._release()

    def _learn_later(self, later: list[tuple[int, str, list[bytes]]], value: bytes) -> None:
        """Update the session from the replies to a transaction's commands."""
        framer, ends = Framer(), [value.index(b"\n") + 1]
        while ends[-1] < len(value):
            ends.append(framer.next(value, ends[-1]))
        for place, name, argv in later:
            if name in LEARNED and place + 1 < len(ends):
                self.session.learn(name, argv, value[ends[place] : ends[place + 1]])

    def _look_at_reply(self, request: Unanswered, value: bytes) -> None:
        """Let the faults look at the reply of a command that may have waited."""
        faults, sent, decision = self._listener.faults, request.sent, request.decision
        if decision is not None and value in _NOTHING:
            decision.pass_empty()
        if request.fault is not None or sent is None or not faults.active:
            return
        request.fault = faults.decide(
            self._listener.now(), self.session.sender, [sent], is_empty=value in _NOTHING, only=_acts_on_reply
        ).fault

    def _spoil(self, fault: Fault, value: bytes) -> None:
        """Send the client only a part of a reply, or all of it slowly.

        If the fault has ended since the request, close the connection instead of silencing it, and send a slow reply
        at once.
        """
        spec, has_ended = fault.spec, fault.id not in self._listener.faults.active
        if spec.slow is not None:
            if not has_ended:
                fault.slowed.add(Slow(self, self._listener.loop, *spec.slow))
            self._write(value)
            return
        part = {b"after": 0, b"midway": len(value) // 2}.get(spec.close or b"", spec.reply_bytes or 0)
        self._write(value[:part])
        if spec.silence and not has_ended:
            Cut(self, 0)
            fault.silenced.append(self)
        else:
            self.close()

    def _answer_due(self) -> None:
        """Write the proxy's own replies that are due, and the test's pushes, but never inside a value."""
        if not (self._passes or self._value) and self._replies.is_between:
            self._answer_own()

    def _answer_own(self) -> None:
        while self._unanswered and (head := self._unanswered[0]) is not None and head.own is not None:
            self._unanswered.popleft()
            self._looked_at -= 1
            self._finish(head, head.own or None)
            for _, name, argv in head.later or [(0, head.name, head.argv)]:
                if head.is_unsure and name in LEARNED:
                    self.session.assume(name, argv)
            if head.own and head.fault is not None and head.fault.spec.spoils_reply:
                self._spoil(head.fault, head.own)
            else:
                self._write(head.own)
            if head.closes:
                self.close()
                return
        if self._pushes:
            self._write(b"".join(self._pushes))
            self._pushes.clear()

    def push(self, data: bytes) -> None:
        """Send the client an encoded RESP3 push from the test, between two replies."""
        self.count()
        self._pushes.append(data)
        self._answer_due()
        self._settle()


def _acts_before(spec: Any) -> bool:
    return bool(spec.acts_before)


def _acts_on_reply(spec: Any) -> bool:
    return not spec.acts_before
