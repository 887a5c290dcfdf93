"""An experiment: a stage, its workers, what they are sent, and how long the audit waits for what."""

from __future__ import annotations

import inspect
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self

import hiredis

from ..streams import order_of, pairs
from .messages import Message, Messages
from .patience import FairTime
from .sight import SCRIPTS, Sight, Work, consumer_of, entries_in, mentions, read_of
from .verdicts import Cancelled, CannotRunError, NotTried
from .workers import CoroutineWorker, ProcessWorker, ThreadWorker, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from ..faults import Fault
    from ..recording import RecordedCommand
    from .stage import Stage

TIMEOUT: Final = 80.0  # seconds; Docket looks for abandoned messages each 75
_BRIEF_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.02
_HURRY_SECONDS: Final = 0.1
_TRAFFIC_SECONDS: Final = 0.3
_SUPERVISOR_SECONDS: Final = 0.5
_MOST_SUPERVISOR_SECONDS: Final = 3.0
_READY_SECONDS: Final = 40
_GONE_SECONDS: Final = 2.0
_PATIENT_AFTER: Final = 2.0
_SELDOM: Final = 50
_SELDOM_SECONDS: Final = 0.5
_SHOWN: Final = 14
_WIDTH: Final = 220


@dataclass
class Plan:
    """What an audit knows of its worker: what it was told, and what the first promise has shown.

    Attributes:
        command: of a process; empty for a function.
        target: a function or coroutine function; None for a process.
        environment: added to that of the process.
        stream: the key.
        group: its name.
        database: where they are; a worker that takes only host and port uses 0.
        messages: what is sent.
        done: the key at which its work is seen; None: look for it.
        timeout: seconds of fair time after which something never comes: longer than the timers of the worker.
        restarts: whether a worker that ends with an error is started again.
        makes_group: the worker expects somebody else to create the group.
        makes_stream: the worker expects a stream.
        count: of its XREADGROUP; None: without.
        work: where its work is seen; None: nowhere.
        carrier: the command that acknowledges: XACK, XACKDEL or a script; "" with NOACK.
        acks_first: whether it acknowledges before its work.
        is_atomic: work and acknowledgement are one transaction or script.
        uses_scripts: it sends EVALSHA.
        spins: it reads without BLOCK and without a pause, so reads are slowed: else twenty of it at once take all processors.
        patience: what to add to the URL so that its client waits for a reply as long as it takes.
        slots: how many experiments are busy at a time.
        cancelled: ends all of them.
        launch: starts a worker in another way.
        real: the URL of a server that is there, and is used behind a proxy; "" for a Rillet for each experiment.
        may_flush: all its data may be removed, if the URL names no database.
    """

    command: Sequence[str] = ()
    target: Callable[..., Any] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    stream: str = ""
    group: str = ""
    database: int = 0
    messages: Messages = field(default_factory=Messages)
    done: str | None = None
    timeout: float = TIMEOUT
    restarts: bool = True
    makes_group: bool = False
    makes_stream: bool = False
    count: int | None = None
    work: Work | None = None
    carrier: str = ""
    acks_first: bool = False
    is_atomic: bool = False
    uses_scripts: bool = False
    spins: bool = False
    patience: str = ""
    slots: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(2))
    cancelled: threading.Event = field(default_factory=threading.Event)
    launch: Callable[[Plan, Stage, str], Worker] | None = None
    real: str = ""
    may_flush: bool = False

    @property
    def brief(self) -> float:
        """Seconds for something that waits for no timer of the worker."""
        return min(self.timeout, _BRIEF_SECONDS)


class Turn:
    """An experiment's turn: so many are busy at a time.

    Args:
        slots: how many.
    """

    def __init__(self, slots: threading.Semaphore) -> None:
        self._slots = slots
        self._holds = False

    def __enter__(self) -> Self:
        self._slots.acquire()
        self._holds = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        """Let another experiment begin."""
        if self._holds:
            self._holds = False
            self._slots.release()


class Bench:
    """A stage with workers.

    Args:
        plan: of the audit.
        stage: a fresh one.
        turn: of the experiment; it is given up while it waits for what may never come.
        verdict_of: gives the result of another promise, which may have to be tried first.
    """

    def __init__(self, plan: Plan, stage: Stage, turn: Turn, verdict_of: Callable[[str], str]) -> None:
        self.plan = plan
        self.stage = stage
        self._verdict_of = verdict_of
        self._turn = turn
        self.workers: list[Worker] = []
        self.sent: dict[str, Message] = {}
        self.restarts: list[str] = []  # why workers were started again
        self._index = 0
        self._printed: dict[str, str] = {}
        self._lives: list[tuple[int, str]] = []  # the last connection before each start
        self._notes: list[tuple[int, str]] = []
        self._down = False
        self._time = 0  # of the server, when it was last there
        self.fair = FairTime(lambda: [each.process for each in self.workers if each.process is not None])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self.workers:
            each.wanted = False
            each.kill()

    def verdict_of(self, name: str) -> str:
        """Return the result of another promise, which is tried now if it was not."""
        self._turn.leave()  # the other one needs it
        return self._verdict_of(name)

    # Workers

    def begin(self, name: str = "w1", *, fresh: bool = True) -> Worker:
        """Start a worker and wait until it reads.

        Raises:
            NotTried: it does not.
        """
        if fresh:
            self.prepare()
        worker = self.start(name)
        if not self.until(lambda: self.is_ready(worker), seconds=_READY_SECONDS, hurry=True):
            raise NotTried(f"{name} did not begin to read: {self.last_words(worker)}")
        return worker

    def prepare(self) -> None:
        """Make what the worker expects somebody else to make."""
        stream, group = self.plan.stream, self.plan.group
        if self.plan.makes_group or self.plan.makes_stream:
            self.stage.run("XGROUP", "CREATE", stream, group, "0", "MKSTREAM")
            if not self.plan.makes_group:
                self.stage.run("XGROUP", "DESTROY", stream, group)

    def start(self, name: str) -> Worker:
        """Start a worker."""
        worker = self._launch(name)
        self.workers.append(worker)
        self.note(f"{name} started")
        return worker

    def _launch(self, name: str) -> Worker:
        self._lives.append((self._last_client(), name))
        plan = self.plan
        if plan.launch is not None:
            return plan.launch(plan, self.stage, name)
        if plan.target is None:
            try:
                return ProcessWorker(plan.command, plan.environment, self.stage, name)
            except OSError as error:
                raise CannotRunError(f"{plan.command[0]}: {error.strerror}") from None
        kind = CoroutineWorker if inspect.iscoroutinefunction(plan.target) else ThreadWorker
        return kind(plan.target, self.stage, name)

    def _last_client(self) -> int:
        """Return the highest ID of a connection so far."""
        return max(self.stage.clients() | {each.client_id for each in self.stage.commands()}, default=0)

    def has_come(self, worker: Worker) -> bool:
        """Whether a worker has sent anything since it was started, beyond the greeting of its client library."""
        since = max(since for since, name in self._lives if name == worker.name)
        return any(each.client_id > since and each.keys for each in self.stage.commands())

    def is_ready(self, worker: Worker) -> bool:
        """Whether a worker has asked for entries since it was started."""
        since = max(since for since, name in self._lives if name == worker.name)
        return any(each.client_id > since for each, _ in self.sight().reads(self.clients_of(worker)))

    def owners(self) -> dict[int, str]:
        """Return which worker each connection belongs to: by the consumer that it speaks for, or by the time."""
        consumers = self._consumers()
        found = {}
        for each in self.stage.commands():
            name = consumer_of(each.words)
            if name in consumers:
                found[each.client_id] = consumers[name]
            else:
                found.setdefault(each.client_id, self._started_before(each.client_id))
        return found

    def _consumers(self) -> dict[str, str]:
        """Return which worker first read under each name."""
        found: dict[str, str] = {}
        for each, read in self.sight().reads():
            found.setdefault(read.consumer, self._started_before(each.client_id))
        return found

    def _started_before(self, client: int) -> str:
        return next((name for since, name in reversed(self._lives) if since < client), "?")

    def clients_of(self, worker: Worker) -> set[int]:
        """Return the connections of a worker, those of its earlier lives too."""
        return {client for client, name in self.owners().items() if name == worker.name}

    def consumers_of(self, worker: Worker) -> list[str]:
        """Return the names that a worker was the first to read under."""
        return [name for name, owner in self._consumers().items() if owner == worker.name]

    def kill(self, worker: Worker) -> None:
        """Kill a worker, and wait until the server knows that its connections are gone.

        Raises:
            NotTried: it cannot be killed.
        """
        if not worker.can_be_killed:
            raise NotTried("a thread cannot be killed: audit a command, or a coroutine")
        worker = self.current(worker)
        worker.wanted = False
        others = {client for client, name in self.owners().items() if name != worker.name}
        alone = not any(each.wanted for each in self.workers)
        own = self.stage.clients() - (set() if alone else others)
        worker.kill()
        self.note(f"{worker.name} killed")
        if worker.is_inside:
            for each in own:
                self.stage.kill_client(each)
        # A connection of another worker, which names no consumer, may be taken for its own: that one stays.
        self.until(lambda: not own & self.stage.clients(), seconds=_GONE_SECONDS)

    def last_words(self, worker: Worker) -> str:
        """Return how a worker ended, or the last line that it printed."""
        words = self.output(worker)
        line = words.splitlines()[-1] if words else "it printed nothing"
        status = worker.status
        return line if status is None else f"it ended with status {status}: {line}"

    def output(self, worker: Worker) -> str:
        """Return the end of what a worker has printed, in its earlier life if it is silent in this one."""
        return self.current(worker).words() or self._printed.get(worker.name, "")

    def _supervise(self) -> None:
        """Start workers again that ended with an error, as a supervisor does; one that ends in order has ended."""
        for place, worker in enumerate(self.workers):
            if not worker.wanted or worker.status is None or worker.ended:
                continue
            status, words = worker.status, worker.words()
            line = words.splitlines()[-1][:120] if words else "nothing printed"
            if status == 0 or not self.plan.restarts:
                worker.ended = f"{worker.name} ended by itself with status {status} ({line})"
                self.note(worker.ended)
                continue
            if time.monotonic() - worker.last_start < min(
                _SUPERVISOR_SECONDS * 1.2 ** len(self.restarts), _MOST_SUPERVISOR_SECONDS
            ):
                continue
            self.note(f"{worker.name} ended with status {status} ({line}) and is started again")
            self.restarts.append(f"status {status}: {line}")
            self._printed[worker.name] = words
            worker.kill()  # what is left of its group
            worker.wanted = False
            self.workers[place] = self._launch(worker.name)

    def current(self, worker: Worker) -> Worker:
        """Return the worker that a supervisor has put in the place of another."""
        return next((each for each in reversed(self.workers) if each.name == worker.name), worker)

    def ended(self) -> str:
        """Return why a worker is not there any more that should be."""
        return next((each.ended for each in self.workers if each.wanted and each.ended), "")

    # Waiting

    def until(
        self,
        condition: Callable[[], Any],
        *,
        seconds: float | None = None,
        hurry: bool = False,
        traffic: bool = False,
        progress: Callable[[], Any] | None = None,
    ) -> bool:
        """Wait until something holds.

        Args:
            condition: asked again and again.
            seconds: of fair time; None: the timeout of the audit.
            hurry: move the clock to whatever somebody waits for, ten times a second.
            traffic: send a message now and then.
            progress: the time begins again when its value changes; five times as much is the end.
        """
        seconds = self.plan.timeout if seconds is None else seconds
        fair = self.fair
        fair.skip()
        begin = fair.now
        end, last = begin + seconds, begin + 5 * seconds
        skipped = sent = begin
        value = progress() if progress is not None else None
        while True:
            if self.plan.cancelled.is_set():
                raise Cancelled
            self._supervise()
            asked = time.monotonic()
            if condition():
                return True
            spent = time.monotonic() - asked
            now = fair.now
            if progress is not None and (new := progress()) != value:
                value, end = new, min(now + seconds, last)
            if now >= end or (not self._someone_works() and now >= begin + _SUPERVISOR_SECONDS):
                return bool(condition())
            if now - begin > _PATIENT_AFTER:
                self._turn.leave()  # what perhaps never comes keeps no other experiment from its work
            if hurry and now - skipped >= _HURRY_SECONDS:
                self.stage.skip()
                skipped = now
            if traffic and now - sent >= max(_TRAFFIC_SECONDS, (now - begin) / 10):
                self.send()
                sent = now
            # A look at much takes no more than half of a core, and what has not come for long is looked for more seldom.
            fair.sleep(max(POLL_SECONDS, spent, min((now - begin) / _SELDOM, _SELDOM_SECONDS)))

    def _someone_works(self) -> bool:
        return (
            not self.workers
            or any(each.wanted and not each.ended for each in self.workers)
            or any(each.status is None for each in self.workers)
        )

    def pause(self, seconds: float) -> None:
        """Let real time pass, for something that is to last."""
        self.until(lambda: False, seconds=seconds)

    def later(self, **units: float) -> None:
        """Move the clock."""
        self.stage.later(**units)
        [(unit, value)] = units.items()
        self.note(f"the clock moved by {value:g} {unit if value != 1 else unit.removesuffix('s')}")

    def wake(self, worker: Worker) -> None:
        """End the read in which a worker waits, as its timeout would; one without a timeout waits on."""
        own = self.clients_of(worker)
        for each in self.stage.commands():
            read = read_of(each.words)
            if read is not None and each.answered is None and each.client_id in own and read.block:
                self.stage.wake_client(each.client_id)

    # Messages

    def send(self, fields: dict[str, str] | None = None) -> str:
        """Add a message to the stream, and return its ID."""
        return self.send_all(1, fields)[0]

    def send_all(
        self,
        count: int,
        fields: dict[str, str] | None = None,
        at: int | None = None,
        *,
        together: bool = False,
    ) -> list[str]:
        """Add messages at once, and return their IDs.

        Args:
            count: how many.
            fields: None: good ones.
            at: milliseconds of the first ID; None: now.
            together: in one transaction, so that a worker that waits gets all that it reads at once.
        """
        made = [Message(fields, "") if fields is not None else self._next() for _ in range(count)]
        words = [
            ("XADD", self.plan.stream, "*" if at is None else f"{at + place}-0", *_flat(each.fields))
            for place, each in enumerate(made)
        ]
        replies = self.stage.run_together(*words) if together else self.stage.run_all(list(words))
        ids = [_id(reply) for reply in replies]
        self.sent |= dict(zip(ids, made, strict=True))
        self.note(f"XADD {self.plan.stream} {ids[0]}" + (f" and {count - 1} more" if count > 1 else ""))
        return ids

    def stick(self, consumer: str, fields: dict[str, str] | None = None) -> str:
        """Add a message, deliver it to a consumer that never learns of it, and return its ID."""
        made = Message(fields, "") if fields is not None else self._next()
        entry, _ = self.stage.run_together(
            ("XADD", self.plan.stream, "*", *_flat(made.fields)),
            ("XREADGROUP", "GROUP", self.plan.group, consumer, "STREAMS", self.plan.stream, ">"),
        )
        self.sent[_id(entry)] = made
        self.note(f"{_id(entry)} delivered to {consumer}, which does not know it")
        return _id(entry)

    def _next(self) -> Message:
        self._index += 1
        return self.plan.messages.good(self._index)

    def signs(self, entry: str) -> list[str]:
        """Return the texts by which a worker's commands are known to be about a message."""
        sign = self.sent[entry].sign
        return [sign, entry] if sign else [entry]

    def is_about_another(self, entry: str, words: Sequence[str]) -> bool:
        """Whether a command is about another message than this one."""
        return any(each != entry and mentions(words, self.signs(each)) for each in self.sent)

    # What became of them

    def sight(self) -> Sight:
        """Return what the recording says now."""
        return Sight(self.stage.commands(), self.plan.stream, self.plan.group, self.stage.database)

    def group(self) -> dict[str, Any] | None:
        """Return the group as XINFO GROUPS has it; None without one."""
        try:
            groups = self.stage.run("XINFO", "GROUPS", self.plan.stream)
        except hiredis.ReplyError:
            return None
        return next((each for each in map(pairs, groups) if each["name"].decode() == self.plan.group), None)

    def is_delivered(self, entry: str) -> bool:
        """Whether the group has passed an entry."""
        found = self.group()
        return found is not None and order_of(found["last-delivered-id"].decode()) >= order_of(entry)

    def is_empty(self, last: str) -> bool:
        """Whether a group has got as far as an entry, and has nothing pending."""
        found = self.group()
        return self.is_delivered(last) and found is not None and not found["pending"]

    def position(self) -> object:
        """Return what changes when the group gets on."""
        found = self.group()
        return found and (found["last-delivered-id"], found["pending"])

    def pending(self, entry: str) -> tuple[str, int] | None:
        """Return the consumer and the delivery count of a pending entry; None for another."""
        try:
            found = self.stage.run("XPENDING", self.plan.stream, self.plan.group, entry, entry, "1")
        except hiredis.ReplyError:
            return None
        if not found:
            return None
        _, consumer, _, count = found[0]
        return consumer.decode(), count

    def is_done(self, entry: str) -> bool:
        """Whether an entry was delivered and acknowledged, and its work seen where that is possible."""
        if not self.is_delivered(entry) or self.pending(entry) is not None:
            return False
        sight = self.sight()
        return sight.acknowledged(entry) and self.is_worked(entry, sight)

    def are_done(self, ids: Sequence[str]) -> bool:
        """Whether all of them are."""
        # A look at the group is cheap, and mostly enough.
        return self.is_delivered(ids[-1]) and not self.pending(ids[-1]) and not self.not_done(ids)

    def not_done(self, ids: Sequence[str]) -> list[str]:
        """Return those that are not done."""
        sight = self.sight()
        return [
            each
            for each in ids
            if not (sight.acknowledged(each) and self.is_worked(each, sight))
            or self.pending(each) is not None
        ]

    def is_worked(self, entry: str, sight: Sight | None = None) -> bool:
        """Whether the work of an entry was seen; also True where nobody can see it."""
        work = self.plan.work
        if work is None or not work.says_which or not self.sent[entry].sign:
            return True
        return (sight or self.sight()).worked(work, self.signs(entry))

    def fate(self, entry: str) -> str:
        """Say in a few words what became of an entry that is not done."""
        if not self.is_delivered(entry):
            return "was not delivered"
        pending = self.pending(entry)
        if pending is not None:
            consumer, count = pending
            times = "once" if count == 1 else f"{count} times"
            return f"stays pending with {consumer or 'no consumer'}, delivered {times}"
        sight = self.sight()
        if not sight.acknowledged(entry):
            return "is no longer pending, though nobody acknowledged it: it is lost"
        return (
            "was acknowledged, though its work was not seen"
            if not self.is_worked(entry, sight)
            else "was done"
        )

    def goes_on(self, **options: Any) -> bool:
        """Send messages until one that was sent from now on is done."""
        known = set(self.sent)
        self.send()

        def done() -> bool:
            new = [each for each in self.sent if each not in known]
            return any(self.is_done(each) for each in new[-40:])

        return self.until(done, traffic=True, hurry=True, **options)

    def hold(self, point: str | None = None) -> Fault:
        """Return a fault that stops a worker between delivery and acknowledgement, for ``with``.

        Args:
            point: ``work`` or ``ack``; None: where the worker's work is seen, if it comes before the acknowledgement.

        Raises:
            NotTried: there is no such place.
        """
        plan = self.plan
        if point is None:
            at_work = plan.work is not None and not plan.acks_first and not plan.is_atomic
            point = "work" if at_work else "ack"
        if point == "work" and plan.work is not None:
            key = None if plan.work.carrier in SCRIPTS else plan.work.key
            return self.fault(plan.work.carrier, key=key, delay=3600)
        if not plan.carrier:
            raise NotTried("it acknowledges nothing (NOACK), and its work is not seen on this server")
        return self.fault(plan.carrier, delay=3600)

    def fault(self, carrier: str, **options: Any) -> Fault:
        """Return a fault that hits a worker's command, for ``with``; the worker reads already."""
        if carrier == "EVALSHA":
            # A client sends EVAL once, as long as it does not know that the server has the script.
            self.goes_on(seconds=self.plan.brief)
        return self.stage.fault(command=carrier, **options)

    def die_in_the_middle(self, worker: Worker) -> str:
        """Send a message, kill the worker while it has it, and return its ID.

        Raises:
            NotTried: it had none.
        """
        if not worker.can_be_killed:
            raise NotTried("a thread cannot be killed: audit a command, or a coroutine")
        with self.hold() as fault:
            entry = self.send()
            self.until(lambda: fault.count > 0 and self.is_delivered(entry), hurry=True)
            if not fault.count or self.current(worker) is not worker:
                raise NotTried("it could not be stopped between the delivery and the acknowledgement")
            self.kill(worker)
        return entry

    # Words

    def note(self, text: str) -> None:
        """Remember what the audit did."""
        self._time = self._time if self._down else self.stage.now()
        self._notes.append((self._time, text))

    def down(self) -> None:
        """Stop the server."""
        self.note("the server stopped")
        self._down = True
        self.stage.down()

    def up(self) -> None:
        """Start it again."""
        self.stage.up()
        self._down = False
        self.note("the server is back")

    @property
    def again(self) -> str:
        """What to add about a worker that was started again."""
        count = len(self.restarts)
        if not count:
            return ""
        times = "once" if count == 1 else f"{count} times"
        return f" (it ended and was started again {times}: {self.restarts[-1]})"

    def evidence(self, what: str) -> tuple[str, ...]:
        """Return what the audit did and what the worker sent that matters, the last lines, in order.

        Args:
            what: the verdict; the commands about the entries that it names are chosen, if it names any.
        """
        named = entries_in(what)
        lines = [
            (when, 0, text)
            for when, text in self._notes
            if not named or not text.startswith("XADD") or any(each in text for each in named)
        ]
        names = self.owners()
        for each in self.stage.commands():
            text = _shown(each)
            if _matters(each) and (not named or any(one in text for one in named)):
                when = each.time if each.answered is None else each.answered
                lines.append((when, each.number, f"{names.get(each.client_id, '?')}: {_cut(text)}"))
        lines.sort(key=lambda each: each[:2])
        return tuple(
            f"{datetime.fromtimestamp(when / 1000, UTC):%H:%M:%S}.{when % 1000:03d} {text}"
            for when, _, text in lines[-_SHOWN:]
        )


def _shown(command: RecordedCommand) -> str:
    reply = command.error if command.error is not None else command.reply
    lost = "" if command.fault is None else " (hit by a fault)"
    return f"{' '.join(command.words)} -> {'no reply yet' if command.answered is None else reply}{lost}"


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def _matters(command: RecordedCommand) -> bool:
    name = command.words[0].upper()
    if name == "CLIENT":
        return False
    if command.error is not None:
        return not command.error.startswith("BUSYGROUP")
    if name in {"XREADGROUP", "XAUTOCLAIM", "XCLAIM"}:
        return _has_entries(command.reply)
    return name not in {"MULTI", "HELLO", "PING", "INFO", "AUTH", "SELECT", "XINFO", "XPENDING", "COMMAND"}


def _has_entries(reply: Any) -> bool:
    """Whether there is more in a reply than a cursor."""
    if isinstance(reply, (list, dict)):
        return any(map(_has_entries, reply.values() if isinstance(reply, dict) else reply))
    return isinstance(reply, str) and reply != "0-0"


def _flat(fields: Mapping[str, str]) -> Iterator[str]:
    for name, value in fields.items():
        yield name
        yield value


def _id(reply: Any) -> str:
    if isinstance(reply, Exception):
        raise reply
    return str(reply.decode())
