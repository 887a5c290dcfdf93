"""An experiment: a stage, its workers, the messages that they are sent, and how long the audit waits."""

from __future__ import annotations

import contextlib
import inspect
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Self

import hiredis

from ...console.recorded import RecordedCommand
from ..faults import Fault
from ..streams import order_of, pairs
from .analysis import SCRIPTS, Analysis, Work, consumer_of, entries_in, mentions, read_of
from .fair_time import FairTime
from .messages import Message, Messages
from .results import Cancelled, CannotRunError, NotTried
from .stage import Stage
from .workers import CoroutineWorker, ProcessWorker, ThreadWorker, Worker

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
    """What an audit knows about its worker: the caller's options, and the findings of the first promise."""

    command: Sequence[str] = ()  # the words that start a process; empty for a function
    target: Callable[..., Any] | None = None  # a function or coroutine function; None for a process
    # Variables to add to the process's environment.
    environment: Mapping[str, str] = field(default_factory=dict)
    stream: str = ""  # the key
    group: str = ""  # the name of the consumer group
    database: int = 0  # the database of the stream; a worker that takes only host and port uses 0
    messages: Messages = field(default_factory=Messages)  # the messages to send
    done: str | None = None  # the key at which the worker's work shows; None: find it
    # Seconds of fair time after which the audit stops waiting; longer than the worker's own timers.
    timeout: float = TIMEOUT
    restarts: bool = True  # whether a worker that ends with an error is restarted
    makes_group: bool = False  # whether the audit creates the group, because the worker does not
    makes_stream: bool = False  # whether the audit creates the stream, because the worker does not
    count: int | None = None  # the COUNT of its XREADGROUP; None without one
    work: Work | None = None  # the sign of its work; None if its work does not show
    carrier: str = ""  # the command that acknowledges: XACK, XACKDEL or a script; "" with NOACK
    acks_first: bool = False  # whether it acknowledges before its work
    is_atomic: bool = False  # whether work and acknowledgement are one transaction or script
    uses_scripts: bool = False  # whether it sends EVALSHA
    # Whether it polls without BLOCK and without a pause. Its reads are slowed, or twenty workers would take all
    # processors.
    spins: bool = False
    # A query string for the URL that makes its client wait for a reply as long as it takes.
    patience: str = ""
    # The semaphore that limits how many experiments are busy at a time.
    slots: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(2))
    cancelled: threading.Event = field(default_factory=threading.Event)  # ends all experiments when set
    launch: Callable[[Plan, Stage, str], Worker] | None = None  # starts a worker in another way
    # The URL of an existing server to use behind a proxy; "" for a new Rillet for each experiment.
    real: str = ""
    # Whether all data of the existing server may be removed if the URL names no database.
    may_flush: bool = False

    @property
    def brief(self) -> float:
        """The timeout in seconds of fair time (``fair_time.py``) for what depends on no timer of the worker."""
        return min(self.timeout, _BRIEF_SECONDS)


class Bench:
    """One experiment: its server (the stage), its workers, the messages that it sends, and its waits.

    Args:
        turn: the experiment's slot; it is released when the experiment waits for something that may never come.
        verdict_of: returns the result of another promise, after trying it if necessary.
    """

    def __init__(
        self, plan: Plan, stage: Stage, turn: contextlib.ExitStack, verdict_of: Callable[[str], str]
    ) -> None:
        self.plan = plan
        self.stage = stage
        self._verdict_of = verdict_of
        self._turn = turn
        self.workers: list[Worker] = []
        self.sent: dict[str, Message] = {}
        self.restarts: list[str] = []  # why workers were restarted
        self._index = 0
        self._printed: dict[str, str] = {}
        self._lives: list[tuple[int, str]] = []  # per start: the last connection before, the name
        self._notes: list[tuple[int, str]] = []
        self._down = False
        self._time = 0  # the server's time when it last ran
        self.fair = FairTime(lambda: [each.process for each in self.workers if each.process is not None])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.workers:
            each.wanted = False
            each.kill()

    def verdict_of(self, name: str) -> str:
        """Return the result of another promise: ``kept``, ``broken`` or ``not tried``. Try it now if necessary."""
        self._turn.close()  # the other experiment needs it
        return self._verdict_of(name)

    # Workers

    def begin(self, name: str = "w1", *, fresh: bool = True) -> Worker:
        """Start a worker and wait until it sends its first XREADGROUP.

        ``fresh``: first create the stream and the group if the worker needs them.
        Raises NotTried: it does not read in time.
        """
        if fresh:
            self.prepare()
        worker = self.start(name)
        if not self.until(lambda: self.is_ready(worker), seconds=_READY_SECONDS, hurry=True):
            raise NotTried(f"{name} did not begin to read: {self.last_words(worker)}")
        return worker

    def prepare(self) -> None:
        """Create the stream and the group if the worker expects them to exist."""
        stream, group = self.plan.stream, self.plan.group
        if self.plan.makes_group or self.plan.makes_stream:
            self.stage.run("XGROUP", "CREATE", stream, group, "0", "MKSTREAM")
            if not self.plan.makes_group:
                self.stage.run("XGROUP", "DESTROY", stream, group)

    def start(self, name: str) -> Worker:
        """Start a worker without waiting, and record the start for the evidence.

        Raises CannotRunError: its command cannot be run.
        """
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
        """Return the highest connection ID so far."""
        return max(self.stage.clients() | {each.client_id for each in self.stage.commands()}, default=0)

    def has_come(self, worker: Worker) -> bool:
        """Return True if a worker has connected since its last start: it has sent a command with a key."""
        since = max(since for since, name in self._lives if name == worker.name)
        return any(each.client_id > since and each.keys for each in self.stage.commands())

    def is_ready(self, worker: Worker) -> bool:
        """Return True if a worker has sent an XREADGROUP for the stream and the group since its last start."""
        since = max(since for since, name in self._lives if name == worker.name)
        return any(each.client_id > since for each, _ in self.analysis().reads(self.clients_of(worker)))

    def owners(self) -> dict[int, str]:
        """Map client IDs to worker names.

        A connection belongs to the worker whose consumer its commands name, otherwise to the last worker that was
        started before it.
        """
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
        """Map consumer names to the worker that first read under each."""
        found: dict[str, str] = {}
        for each, read in self.analysis().reads():
            found.setdefault(read.consumer, self._started_before(each.client_id))
        return found

    def _started_before(self, client: int) -> str:
        return next((name for since, name in reversed(self._lives) if since < client), "?")

    def clients_of(self, worker: Worker) -> set[int]:
        """Return the client IDs of a worker's connections, including those from before its restarts."""
        return {client for client, name in self.owners().items() if name == worker.name}

    def consumers_of(self, worker: Worker) -> list[str]:
        """Return the consumers whose first XREADGROUP came from this worker."""
        return [name for name, owner in self._consumers().items() if owner == worker.name]

    def kill(self, worker: Worker) -> None:
        """Kill a worker, and wait until the server has noticed that its connections are closed.

        Raises NotTried: it cannot be killed.
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
        # Another worker's connection that names no consumer may be mistaken for one of its own; it stays open.
        self.until(lambda: not own & self.stage.clients(), seconds=_GONE_SECONDS)

    def last_words(self, worker: Worker) -> str:
        """Return the last line of a worker's output, after the exit status if it has ended."""
        words = self.output(worker)
        line = words.splitlines()[-1] if words else "it printed nothing"
        status = worker.status
        return line if status is None else f"it ended with status {status}: {line}"

    def output(self, worker: Worker) -> str:
        """Return the end of a worker's output. If it has printed nothing since its restart, return the output before it."""
        return self.current(worker).words() or self._printed.get(worker.name, "")

    def _supervise(self) -> None:
        """Restart workers that ended with an error, as a supervisor does, but not those that ended with status 0."""
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
            worker.kill()  # the rest of its process group
            worker.wanted = False
            self.workers[place] = self._launch(worker.name)

    def current(self, worker: Worker) -> Worker:
        """Return the worker that now has the name of ``worker``: a restart creates a new object."""
        return next((each for each in reversed(self.workers) if each.name == worker.name), worker)

    def ended(self) -> str:
        """Return why a worker that should run has ended and is not restarted; "" if there is none."""
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
        """Wait until a condition holds; return False on a timeout. Meanwhile, restart workers that failed.

        Raises Cancelled: the audit was interrupted.

        Args:
            condition: polled until it returns a true value.
            seconds: the timeout in fair time (see ``fair_time.py``); None: that of the audit.
            hurry: ten times a second, move the clock to the next time at which something is due.
            traffic: send a message now and then.
            progress: restart the timeout when its value changes, for at most five times ``seconds`` in all.
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
                self._turn.close()  # do not block other experiments while waiting for something that may never come
            if hurry and now - skipped >= _HURRY_SECONDS:
                self.stage.skip()
                skipped = now
            if traffic and now - sent >= max(_TRAFFIC_SECONDS, (now - begin) / 10):
                self.send()
                sent = now
            # Expensive conditions take at most half of a core, and long waits poll less often.
            fair.sleep(max(POLL_SECONDS, spent, min((now - begin) / _SELDOM, _SELDOM_SECONDS)))

    def _someone_works(self) -> bool:
        return (
            not self.workers
            or any(each.wanted and not each.ended for each in self.workers)
            or any(each.status is None for each in self.workers)
        )

    def pause(self, seconds: float) -> None:
        """Wait for a number of seconds of fair time."""
        self.until(lambda: False, seconds=seconds)

    def later(self, **units: float) -> None:
        """Move the server's clock, or age the pending entries of a real server. ``units`` is one unit: ``days=1``."""
        self.stage.later(**units)
        [(unit, value)] = units.items()
        self.note(f"the clock moved by {value:g} {unit if value != 1 else unit.removesuffix('s')}")

    def wake(self, worker: Worker) -> None:
        """End a worker's blocked reads, as their timeouts would; reads without a timeout stay blocked."""
        own = self.clients_of(worker)
        for each in self.stage.commands():
            read = read_of(each.words)
            if read is not None and each.answered is None and each.client_id in own and read.block:
                self.stage.wake_client(each.client_id)

    # Messages

    def send(self, fields: dict[str, str] | None = None) -> str:
        """Add a message to the stream, by default the next good one, and return its entry ID."""
        return self.send_all(1, fields)[0]

    def send_all(
        self,
        count: int,
        fields: dict[str, str] | None = None,
        at: int | None = None,
        *,
        together: bool = False,
    ) -> list[str]:
        """Add messages at once, and return their entry IDs.

        Args:
            fields: the fields of each message; None: the next good messages.
            at: the ID of the first is ``<at>-0`` and each further one has a millisecond more; None: automatic IDs.
            together: use one transaction, so that a waiting worker can read all of them at once.
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

    def stick(self, consumer: str) -> str:
        """Add a message, and let a consumer own it that no worker uses, as if its worker had died.

        Return its entry ID.
        """
        made = self._next()
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
        """Return the words by which commands refer to a message: its number (if its fields have one) and its entry ID."""
        sign = self.sent[entry].sign
        return [sign, entry] if sign else [entry]

    def is_about_another(self, entry: str, words: Sequence[str]) -> bool:
        """Return True if a command's words refer to a message other than ``entry``."""
        return any(each != entry and mentions(words, self.signs(each)) for each in self.sent)

    # What became of them

    def analysis(self) -> Analysis:
        """Return an analysis of all the workers' commands recorded so far."""
        return Analysis(self.stage.commands(), self.plan.stream, self.plan.group, self.stage.database)

    def group(self) -> dict[str, Any] | None:
        """Return the group's fields from XINFO GROUPS; None without a group."""
        try:
            groups = self.stage.run("XINFO", "GROUPS", self.plan.stream)
        except hiredis.ReplyError:
            return None
        return next((each for each in map(pairs, groups) if each["name"].decode() == self.plan.group), None)

    def is_delivered(self, entry: str) -> bool:
        """Return True if the group's last delivered ID is at least this entry's."""
        found = self.group()
        return found is not None and order_of(found["last-delivered-id"].decode()) >= order_of(entry)

    def is_empty(self, last: str) -> bool:
        """Return True if the group has delivered the entry ``last``, and nothing is pending."""
        found = self.group()
        return self.is_delivered(last) and found is not None and not found["pending"]

    def position(self) -> object:
        """Return a value that changes when the group makes progress.

        It consists of the group's last delivered ID and its number of pending entries.
        """
        found = self.group()
        return found and (found["last-delivered-id"], found["pending"])

    def pending(self, entry: str) -> tuple[str, int] | None:
        """Return the consumer and the delivery count of a pending entry; None if it is not pending."""
        try:
            found = self.stage.run("XPENDING", self.plan.stream, self.plan.group, entry, entry, "1")
        except hiredis.ReplyError:
            return None
        if not found:
            return None
        _, consumer, _, count = found[0]
        return consumer.decode(), count

    def is_done(self, entry: str) -> bool:
        """Return True if an entry was delivered and acknowledged, and its work was seen (or cannot be seen)."""
        if not self.is_delivered(entry) or self.pending(entry) is not None:
            return False
        analysis = self.analysis()
        return analysis.acknowledged(entry) and self.is_worked(entry, analysis)

    def are_done(self, ids: Sequence[str]) -> bool:
        """Return True if all entries are done, as by ``is_done``; ``ids`` are in the order of the stream."""
        # A check of the last entry is cheap, and usually enough.
        return self.is_delivered(ids[-1]) and not self.pending(ids[-1]) and not self.not_done(ids)

    def not_done(self, ids: Sequence[str]) -> list[str]:
        """Return the IDs of the entries that are pending, not acknowledged, or whose work was not seen."""
        analysis = self.analysis()
        return [
            each
            for each in ids
            if not (analysis.acknowledged(each) and self.is_worked(each, analysis))
            or self.pending(each) is not None
        ]

    def is_worked(self, entry: str, analysis: Analysis | None = None) -> bool:
        """Return True if a worker's work on an entry was seen, or cannot be seen or assigned to this entry."""
        work = self.plan.work
        if work is None or not work.says_which or not self.sent[entry].sign:
            return True
        return (analysis or self.analysis()).worked(work, self.signs(entry))

    def fate(self, entry: str) -> str:
        """Describe in a few words what happened to an entry, e.g. "stays pending with w1, delivered twice"."""
        if not self.is_delivered(entry):
            return "was not delivered"
        pending = self.pending(entry)
        if pending is not None:
            consumer, count = pending
            times = "once" if count == 1 else f"{count} times"
            return f"stays pending with {consumer or 'no consumer'}, delivered {times}"
        analysis = self.analysis()
        if not analysis.acknowledged(entry):
            return "is no longer pending, though nobody acknowledged it: it is lost"
        return (
            "was acknowledged, though its work was not seen"
            if not self.is_worked(entry, analysis)
            else "was done"
        )

    def goes_on(self, **options: Any) -> bool:
        """Send messages until one of them is done; return False on a timeout. ``options`` are those of ``until``."""
        known = set(self.sent)
        self.send()

        def done() -> bool:
            new = [each for each in self.sent if each not in known]
            return any(self.is_done(each) for each in new[-40:])

        return self.until(done, traffic=True, hurry=True, **options)

    def hold(self, point: str | None = None) -> Fault:
        """Return a fault, for ``with``, that delays the worker's work or its acknowledgement by an hour.

        ``point``: the command to delay: ``work`` or ``ack``. None: ``work`` if it shows and is a command of its own
        before the acknowledgement, else ``ack``.
        Raises NotTried: the worker sends neither: it reads with NOACK, and its work does not show.
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
        """Return a fault that hits a worker's command, for ``with``; the worker must already read.

        Args:
            carrier: the command. Before EVALSHA, messages are sent until one is done: a client may begin with EVAL.
            options: further arguments of ``rillet.testing.Server.fault``.
        """
        if carrier == "EVALSHA":
            # A client may send EVAL until it knows that the server has the script.
            self.goes_on(seconds=self.plan.brief)
        return self.stage.fault(command=carrier, **options)

    def die_in_the_middle(self, worker: Worker) -> str:
        """Send a message, kill the worker between its delivery and its acknowledgement, and return the entry ID.

        Raises NotTried: the worker could not be killed at that point.
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
        """Record an action of the audit for the evidence."""
        self._time = self._time if self._down else self.stage.now()
        self._notes.append((self._time, text))

    def down(self) -> None:
        """Shut the experiment's server down cleanly, and record that for the evidence."""
        self.note("the server stopped")
        self._down = True
        self.stage.down()

    def up(self) -> None:
        """Restart the experiment's server, and record that for the evidence."""
        self.stage.up()
        self._down = False
        self.note("the server is back")

    @property
    def again(self) -> str:
        """A text about the workers' restarts, to append to a verdict; "" without restarts."""
        count = len(self.restarts)
        if not count:
            return ""
        times = "once" if count == 1 else f"{count} times"
        return f" (it ended and was started again {times}: {self.restarts[-1]})"

    def evidence(self, what: str) -> tuple[str, ...]:
        """Return the last relevant actions of the audit and commands of the workers, as lines in chronological order.

        ``what``: the verdict. If it names entries, include only the commands and messages that mention one of these.
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
    """Return True if a reply contains more than a cursor."""
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
