"""Promises about several workers, about their shutdown, and about what they leave behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any, Final, Self

from ...console.entry_history import CLAIMED
from ...console.recorded import RecordedCommand
from .analysis import consumer_of, mentions, read_of
from .bench import Bench
from .results import KEPT, Broken, NotTried
from .workers import Worker

_HELD: Final = 3
_LOOKS: Final = 4  # commands by which a worker looks for messages: claims and reads
_HOLDS: Final = 3  # attempts, if the client gives up before the audit has seen enough
_LATE_SECONDS: Final = 3.0  # a busy machine may stop the worker for one
_SIGNS: Final = 2  # signs of life: a single one may be a coincidence
_AGAIN_SECONDS: Final = 1.0  # the least time after which a worker that reads again has given its work up
_MUFFLED_SECONDS: Final = 5.0  # the time in which a sign of life is repeated unless it waits for a reply
_BYTE_SECONDS: Final = 0.3  # before each byte of an endless reply; redis-rb 5 waits for 1 second
_ENDLESS: Final = f"ERR the audit made this take long{'.' * 4096}"  # 20 minutes
# The time in which a client resends an unanswered command; redis-py waits 10 at most.
_BACKOFF_SECONDS: Final = 12.0
# Queries, which may name their consumer.
_NO_SIGNS: Final = {"XREADGROUP", "XAUTOCLAIM", "XPENDING", "XINFO", "CLIENT"}
_NOT_TAKEN: Final = "a message was not taken from a consumer that was working on it"
_GRACE_SECONDS: Final = 30.0  # the default of Kubernetes; that of Docker is 10
_DEAD: Final = 3
_SENT: Final = 300
_MORE: Final = 1_000
_OLD_MILLISECONDS: Final = 30 * 24 * 3600 * 1000
_SHARE: Final = 0.1
_ROUNDS: Final = 3
_SLOW_SECONDS: Final = 0.02
_AT_MOST: Final = 1_000


def long_job(bench: Bench) -> str:
    """Delay the worker's work beyond the minimum idle time of claims; check that another worker does not take the message."""
    plan = bench.plan
    if plan.work is None:
        raise NotTried(
            "its work is not seen on this server, so it cannot be made long; --done KEY says where it is"
        )
    if plan.acks_first:
        raise NotTried("it acknowledges before its work, so nobody could take a long job from it")
    first = _begin_patient(bench)
    second = bench.begin("w2", fresh=False)
    pace = 0.0
    for _ in range(_HOLDS):
        with _LongJob(bench, first, second) as job:
            try:
                pace = pace or job.pace()
                if pace:
                    return job.keeps_pace(pace)
                taken = job.taken()
            except _LetGo as reason:
                pace, why = pace or job.first_sign, str(reason)
        if not pace:
            break
        _settle(bench, job, first, second)
    else:
        raise NotTried(why)
    if bench.until(job.has_beaten_late, seconds=_LATE_SECONDS):
        raise NotTried("its signs of life wait for its work: behind a lock, or for its only connection")
    if taken:
        raise Broken(taken)
    if job.let_go:
        # A sign of life may come at any time before the lease is over, and the worker has not worked for that long.
        raise NotTried(
            f"its client gave its work up after {job.held:.1f} seconds, before its lease was over: give it a longer timeout"
        )
    _settle(bench, job, first, second)
    # A second job: it is now known how long its client waits for a reply, so the clock can move faster.
    with _LongJob(bench, first, second, only_one=True, watched=job.watched) as job:
        return job.is_taken()


def _begin_patient(bench: Bench) -> Worker:
    """Start the first worker; if its URL can set that, its client waits for a reply as long as it takes."""
    bench.stage.options = bench.plan.patience
    try:
        return bench.begin("w1")
    except NotTried:
        if not bench.plan.patience or not bench.workers[0].can_be_killed:
            raise
    # The worker does not accept this URL.
    bench.stage.options = ""
    bench.kill(bench.workers[0])
    bench.restarts.clear()
    return bench.begin("w1", fresh=False)


def _settle(bench: Bench, job: _LongJob, *workers: Worker) -> None:
    """Let a long job end, and restart workers that ended because their command was not answered."""
    bench.until(partial(bench.is_done, job.entry), hurry=True, seconds=bench.plan.brief)
    for each in workers:
        if bench.current(each).status is not None:
            bench.begin(each.name, fresh=False)


class _LetGo(Exception):  # noqa: N818 - no error of the audit
    """The client gave up the command that should take long."""


class _LongJob:
    """A message whose work does not end, and another worker that could take it.

    The server's clock is frozen, and moved only by the fair time that has passed: on a busy machine, no lease expires because
    a worker lacked a processor for its sign of life.

    Args:
        first: one worker; either of the two gets the message.
        only_one: hold only one command; other messages can be processed, and a client that resends is answered.
        watched: seconds for which an earlier job was watched.
    """

    def __init__(
        self, bench: Bench, first: Worker, second: Worker, *, only_one: bool = False, watched: float = 0.0
    ) -> None:
        plan = bench.plan
        assert plan.work is not None
        # The command does not run. Its reply, an error, arrives byte by byte and never ends: a client whose timeout
        # applies to each read keeps waiting.
        self._fault = bench.fault(
            plan.carrier if plan.is_atomic else plan.work.carrier,
            key=None if plan.is_atomic else plan.work.key,
            first=1 if only_one else None,
            error=_ENDLESS,
            slow=(1, _BYTE_SECONDS),
        )
        self._bench = bench
        self._workers = first, second
        self.entry = self._holder = ""
        self._moved = 0.0  # the fair time up to which the clock has followed
        self._begin = 0.0
        self._started = self._ended = 0  # the number of the last command before
        self.watched = watched
        self._restarts = len(bench.restarts)
        self.held = 0.0  # for how many seconds the worker's client has waited
        self.let_go = False  # whether the client gave the held command up
        self._quiet_since: float | None = None
        self._blocked: dict[int, float] = {}  # by command, since when it has been blocked
        self._hits = 0
        self._hit = 0.0, 0  # when the command was held last, and the number of the last command then
        self._read_after: float | None = None  # seconds from then until the holder read again
        self._pause = 0.0  # between two of its reads, in seconds
        self._heart_times: list[float] = []  # when each claim that signals life was seen

    def __enter__(self) -> Self:
        self._fault.start()
        try:
            self._start()
        except BaseException:
            self._fault.stop()
            raise
        return self

    def _start(self) -> None:
        bench = self._bench
        self.entry = bench.send()
        bench.until(lambda: self._fault.count > 0, seconds=bench.plan.brief)
        held = bench.pending(self.entry)
        if not self._fault.count or held is None:
            raise NotTried("its work could not be made long")
        self._holder = held[0]
        first, second = self._workers
        if not bench.consumers_of(second):
            raise NotTried(
                f"two workers both call their consumer {self._holder!r}: {{consumer}} or CONSUMER tells them apart"
            )
        self._other = second if self._holder in bench.consumers_of(first) else first
        bench.note(f"{self._holder} works {self.entry} and does not finish")
        bench.stage.freeze()
        self._begin = self._moved = bench.fair.now
        self._started = bench.stage.commands()[-1].number
        self._pause = self._usual_pause()

    def __exit__(self, *_: object) -> None:
        if self._bench.stage.is_up:
            self.watched += self._seconds
            self._ended = self._bench.stage.commands()[-1].number
        self._bench.stage.resume()
        self._fault.stop()

    @property
    def _seconds(self) -> float:
        return self._bench.fair.now - self._begin

    def _taken(self) -> str:
        """Describe who took the message, even if it is done by now; "" if nobody did, or if a worker has ended since."""
        if self._has_ended():
            return ""
        analysis = self._bench.analysis()
        commands = {each.number: each.words for each in analysis.commands}
        for each in analysis.events(self.entry, CLAIMED):
            if each.number <= self._started or "JUSTID" in each.note:
                continue
            if each.consumer != self._holder:
                return f"{each.consumer} took {self.entry} from {self._holder}"
            # As a sign of life, a worker claims its entry by ID with a minimum idle time of 0.
            words = commands[each.number]
            if words[0].upper() != "XCLAIM" or words[4] != "0":
                return f"{self._holder} claimed {self.entry} from itself"
        pending = self._bench.pending(self.entry)
        if pending is not None and pending[0] != self._holder:
            return f"{pending[0]} took {self.entry} from {self._holder}"
        return ""

    def _beats(self) -> int:
        """Count the holder's answered signs of life; a real server may not have run those without an answer."""
        others = self._bench.clients_of(self._other)
        signs = [*self._bench.signs(self.entry), self._holder]
        return sum(
            each.number > self._started
            and each.client_id not in others
            and each.fault is None
            and each.answered is not None
            and each.words[0].upper() not in _NO_SIGNS
            and mentions(each.words, signs)
            for each in self._bench.stage.commands()
        )

    def _hearts(self) -> list[int]:
        """Return the connections of the claims (JUSTID) by which the holder signals that it still works on the message."""
        analysis = self._bench.analysis()
        clients = {each.number: each.client_id for each in analysis.commands}
        return [
            clients[each.number]
            for each in analysis.events(self.entry, CLAIMED)
            if each.number > self._started and each.consumer == self._holder and "JUSTID" in each.note
        ]

    def _note_hearts(self) -> None:
        self._heart_times += [self._seconds] * (len(self._hearts()) - len(self._heart_times))

    def _is_muffled(self) -> bool:
        """Return True if its claims have stopped because they use the connection of the work, which gets no replies."""
        times = self._heart_times
        held = {each.client_id for each in self._fault.hits}
        return (
            bool(times)
            and self._hearts()[-1] in held
            and self._seconds - times[-1] > max(_MUFFLED_SECONDS, times[-1])
        )

    def _is_dropped(self) -> bool:
        """Return True if the client of the held command has given it up, and has not resent it yet."""
        hits = self._fault.hits
        return self._reads_again() or not self._bench.stage.has_client(hits[-1].client_id)

    @property
    def first_sign(self) -> float:
        """The seconds until the first claim that signals life; 0 without one."""
        return self._heart_times[0] if self._heart_times else 0.0

    def _reads(self) -> list[RecordedCommand]:
        return [each for each, read in self._bench.analysis().reads() if read.consumer == self._holder]

    def _usual_pause(self) -> float:
        """Return the median of the seconds between two reads of the holder."""
        pauses = [
            (new.time - old.answered) / 1000
            for old, new in pairwise(self._reads())
            if old.answered is not None
        ]
        return median(pauses) if pauses else 0.0

    def _reads_again(self) -> bool:
        """Return True if the holder read nothing for a while, and then did: its client gave up, on an open connection."""
        now = self._bench.fair.now
        if len(self._fault.hits) != self._hits:
            self._hits = len(self._fault.hits)
            self._hit = now, self._bench.stage.commands()[-1].number
            self._read_after = None
        at, number = self._hit
        if self._read_after is None and any(
            each.number > number or each.answered is None for each in self._reads()
        ):
            self._read_after = now - at
        return self._read_after is not None and self._read_after > max(_AGAIN_SECONDS, 3 * self._pause)

    def _looks(self) -> int:
        """Count the answered commands of the other worker."""
        clients = self._bench.clients_of(self._other)
        return sum(
            each.number > self._started and each.client_id in clients and each.answered is not None
            for each in self._bench.stage.commands()
        )

    def _gave_up(self) -> bool:
        """Return True if the client of the held command gave it up and did not resend it for a while."""
        bench = self._bench
        if self._has_ended():
            return True
        if not self._is_dropped():
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = bench.fair.now
        return self._quiet_since is not None and bench.fair.now - self._quiet_since > _BACKOFF_SECONDS

    def _has_ended(self) -> bool:
        return len(self._bench.restarts) > self._restarts or bool(self._bench.ended())

    def _follow(self) -> None:
        """Move the clock by the fair time that has passed."""
        stage = self._bench.stage
        self._note_hearts()
        if self._is_dropped():
            # At the moment the worker does not work on the message, and so gives no sign of life.
            self._moved = self._bench.fair.now
        else:
            self.held = self._seconds
        passed = int(1000 * (self._bench.fair.now - self._moved))
        if passed > 0 and stage.has_clock:
            stage.later(milliseconds=passed)
            self._moved += passed / 1000
        # Clients wait for the end of BLOCK in real time, and consider a late server dead.
        now = time.monotonic()
        for each in stage.commands():
            read = read_of(each.words) if each.answered is None else None
            if read is not None and read.block:
                since = self._blocked.setdefault(each.number, now)
                if now - since >= read.block / 1000:
                    stage.wake_client(each.client_id)

    def _wait(
        self, condition: Callable[[], Any], seconds: float, progress: Callable[[], Any] | None = None
    ) -> bool:
        def asked() -> bool:
            self._follow()
            return bool(self._taken() or condition() or self._gave_up())

        return self._bench.until(asked, seconds=seconds, progress=progress)

    def taken(self) -> str:
        """Describe which other consumer took the message, and from whom; "" if none did."""
        if not (taken := self._taken()):
            return ""
        quiet = (
            ""
            if self._beats()
            else f" (no sign of life in {max(self.watched + self._seconds, 0.1):.1f} seconds)"
        )
        return f"{taken}, which was alive and working on it{quiet}"

    def _check(self) -> None:
        """Raise Broken if the message was taken."""
        if taken := self.taken():
            raise Broken(taken)

    def _held_out(self) -> str:
        return f"it held out for {self._seconds:.1f} seconds only"

    def pace(self) -> float:
        """Return the seconds of fair time between the worker's signs of life while it works; 0 without any.

        A sign of life is a command that mentions the message or the consumer, above all XCLAIM JUSTID. Wait at most
        until the lease is over, which is the minimum idle time of claims.

        Raises:
            Broken: the message was taken in spite of them.
            NotTried: they wait for the connection of the work.
            _LetGo: the client gave up.
        """
        bench = self._bench
        if not bench.analysis().min_idles():
            if bench.verdict_of("crash-elsewhere") != KEPT:
                return 0  # nobody claims
            self._wait(lambda: self._beats() >= _SIGNS or bench.analysis().min_idles(), bench.plan.timeout)
        # Only claims renew a lease. Other commands that name the worker or its message may be signs of life as well, or mere
        # polls: they count if the message is not taken when the lease is over.
        lease = 1.2 * min(bench.analysis().min_idles(), default=86_400_000) / 1000
        times = self._heart_times
        self._wait(
            lambda: (
                len(times) >= _SIGNS
                or self._is_muffled()
                or (self._beats() >= _SIGNS and self._seconds > lease)
            ),
            bench.plan.timeout,
        )
        self.let_go = self._gave_up()
        if times and (len(times) < _SIGNS or self.let_go):
            if self._is_muffled():
                raise NotTried("its signs of life wait behind its work: they use the same connection")
            if self._is_dropped():
                raise _LetGo(f"{self._held_out()}, though it gave a sign of life")
        if self._beats():
            self._check()
        if self.let_go:
            return 0
        if len(times) >= _SIGNS:
            return max(times[0], *(new - old for old, new in pairwise(times)))
        return self._seconds / self._beats() if self._beats() >= _SIGNS else 0

    def keeps_pace(self, pace: float) -> str:
        """Check that the message is not taken while the worker gives signs of life; return a sentence about it.

        Move the clock in steps that leave time for the next sign, until the lease has passed and the other worker has
        looked for idle messages.

        ``pace``: the seconds between two signs of life.

        Raises:
            Broken: the message was taken.
            _LetGo: the client gave up.
        """
        bench = self._bench
        idle = min(bench.analysis().min_idles(), default=86_400_000)
        born = bench.stage.passed()
        looks = _LOOKS
        claims = any(_is_heartbeat(each.words) for each in bench.stage.commands())

        def signs() -> int:
            return len(self._hearts()) if claims else self._beats()

        def has_passed() -> bool:
            return bench.stage.passed() - born >= 1.2 * idle

        def is_over() -> bool:
            return has_passed() and self._looks() >= looks

        while True:
            step = 0 if has_passed() else int(0.8 * idle - 2000 * pace)
            before = signs()
            if step > 0:
                bench.later(milliseconds=step)
                looks = max(self._looks() + 2, _LOOKS)
            bench.wake(self._other)

            def enough(known: int = before, *, is_moved: bool = step > 0) -> bool:
                return (is_moved and signs() > known) or is_over()

            # One long wait where no step helps: time that a slow check takes counts only within a wait.
            goes_on = self._wait(enough, max(3 * pace, idle / 1000), progress=signs)
            if self._is_dropped() and (self._taken() or self._gave_up()):
                raise _LetGo(self._held_out())
            self._check()
            if is_over():
                return _NOT_TAKEN
            if not goes_on or self._gave_up():
                raise _LetGo(self._held_out())

    def has_beaten_late(self) -> bool:
        """Return True if the worker claimed its message (XCLAIM JUSTID) only after its work could end.

        The work had then blocked its signs of life.
        """
        own = self._bench.consumers_of(self._other)
        return any(
            each.number > self._ended
            and _is_heartbeat(each.words)
            and self.entry in each.words
            and consumer_of(each.words) not in own
            for each in self._bench.stage.commands()
        )

    def is_taken(self) -> str:
        """Check that a message is not taken when its lease expires and its worker gives no signs of life.

        Return a sentence about it.

        Raises:
            Broken: the message was taken.
            NotTried: a worker ended, or the other one looked for no idle messages.
        """
        bench = self._bench
        idle = min(bench.analysis().min_idles(), default=86_400_000)
        claims = bench.verdict_of("crash-elsewhere") == KEPT
        for _ in range(_ROUNDS):
            since = bench.stage.commands()[-1].number
            bench.later(milliseconds=idle + 1)
            bench.until(self._taken, hurry=True, traffic=True, seconds=bench.plan.brief / 4)
            if claims and not self._has_looked(since):
                other = bench.current(self._other)  # it may only claim when it starts
                if other.can_be_killed:
                    bench.kill(other)
                    bench.begin(other.name, fresh=False)
                bench.until(partial(self._has_looked, since), hurry=True, traffic=True)
            self._check()
            if self._has_ended():
                raise NotTried(f"{self._held_out()}{bench.again}")
        if claims and not self._has_looked(self._started):
            raise NotTried(f"{self._other.name} claimed nothing in {self._seconds:.0f} seconds")
        return _NOT_TAKEN

    def _has_looked(self, after: int) -> bool:
        """Return True if the other worker looked for claimable messages, or if the message was taken or a worker ended."""
        clients = self._bench.clients_of(self._other)
        return bool(self._taken() or self._has_ended()) or any(
            each.number > after
            and each.client_id in clients
            and each.answered is not None
            and _claims(each.words)
            for each in self._bench.stage.commands()
        )


def _is_heartbeat(words: Sequence[str]) -> bool:
    return words[0].upper() == "XCLAIM" and "JUSTID" in map(str.upper, words)


def _claims(words: Sequence[str]) -> bool:
    read = read_of(words)
    return words[0].upper() in {"XAUTOCLAIM", "XCLAIM", "XPENDING"} or (
        read is not None and read.claim is not None
    )


def shutdown(bench: Bench) -> str:
    """Check that SIGTERM ends the worker while it works and while it waits, and that it loses no message."""
    worker = bench.begin()
    if not worker.can_be_killed:
        raise NotTried("a thread gets no signal: audit a command, or a coroutine")
    with bench.hold() as fault:
        ids = bench.send_all(_HELD, together=True)
        bench.until(lambda: fault.count > 0, hurry=True)
        _ask_to_end(bench, worker)
        bench.until(lambda: worker.status is not None, seconds=0.3)
        if worker.status is not None:
            bench.kill(worker)  # the held command must not run after its death
    _await_end(bench, worker, "while it worked")
    analysis = bench.analysis()
    for entry in ids:
        left = bench.is_delivered(entry) and not bench.pending(entry)
        if left and not (analysis.acknowledged(entry) and bench.is_worked(entry, analysis)):
            raise Broken(f"{entry} {bench.fate(entry)} after SIGTERM")
    again = bench.start(worker.name)
    bench.until(lambda: bench.has_come(again))
    _ask_to_end(bench, again)
    _await_end(bench, again, "while it waited")
    return "it ended after SIGTERM, and what it had was done or stayed pending"


def _ask_to_end(bench: Bench, worker: Worker) -> None:
    worker.wanted = False
    worker.terminate()
    bench.note("SIGTERM")


def _await_end(bench: Bench, worker: Worker, when: str) -> None:
    seconds = min(bench.plan.timeout, _GRACE_SECONDS)
    if not bench.until(lambda: worker.status is not None, hurry=True, seconds=seconds):
        raise Broken(f"SIGTERM {when} did not end it in {seconds:g} seconds")
    bench.kill(worker)


def consumers(bench: Bench) -> str:
    """Kill workers with several names; check that their consumers are removed from the group after a month."""
    if not bench.stage.has_clock:
        raise NotTried("a consumer gets no older on this server, which has no clock to move")
    names: set[str] = set()
    for number in range(_DEAD):
        worker = bench.begin(f"w{number + 1}", fresh=not number)
        if not bench.goes_on():
            raise NotTried("it did not get so far")
        names |= set(bench.consumers_of(worker))
        bench.kill(bench.current(worker))
    dead = sorted(names)
    bench.later(days=30)
    last = bench.begin(f"w{_DEAD + 1}", fresh=False)
    bench.goes_on()
    if not bench.consumers_of(last):
        return f"each of its lives has the same names: {', '.join(dead)}"

    def left() -> list[str]:
        there = bench.stage.run("XINFO", "CONSUMERS", bench.plan.stream, bench.plan.group)
        known = {dict(zip(each[::2], each[1::2], strict=True))[b"name"].decode() for each in there}
        return [each for each in dead if each in known]

    if not bench.until(lambda: not left(), hurry=True, traffic=True):
        raise Broken(f"consumers that died a month ago stay in the group: {', '.join(left())}{bench.again}")
    return f"the names of dead consumers go{bench.again}"


def retention(bench: Bench) -> str:
    """Let the worker acknowledge many messages, some a month old; check that it trims or deletes them."""
    bench.begin()
    stream = bench.plan.stream
    for count, at in ((_SENT, bench.stage.now() - _OLD_MILLISECONDS), (_MORE, None)):
        ids = bench.send_all(count, at=at)
        bench.until(
            partial(bench.is_empty, ids[-1]),
            progress=bench.position, hurry=True,
        )  # fmt: skip
        if bench.until(
            partial(_keeps_few, bench),
            hurry=True, traffic=at is None, seconds=None if at is None else bench.plan.brief / 10,
        ):  # fmt: skip
            left = bench.stage.run("XLEN", stream)
            return f"acknowledged entries go: of {len(bench.sent)} the stream keeps {left}"
    raise Broken(
        f"{bench.stage.run('XLEN', stream)} acknowledged entries stay in the stream, {_SENT} of them a month old, and "
        "nobody trims it"
    )


def _keeps_few(bench: Bench) -> bool:
    """Return True if the stream has lost more than half of its entries, or if the worker trims it."""
    return _trims(bench) or bench.stage.run("XLEN", bench.plan.stream) < len(bench.sent) / 2


def _trims(bench: Bench) -> bool:
    stream = bench.plan.stream
    for each, _ in bench.analysis().effects:
        name, words = each.words[0].upper(), [word.upper() for word in each.words]
        if stream not in each.words[1:2] or each.error is not None:
            continue
        if name == "XTRIM" or (name == "XADD" and {"MAXLEN", "MINID"} & set(words[2:5])):
            return True
    return False


def fair(bench: Bench) -> str:
    """Check that two workers share the messages that arrive while both run: each must get a tenth at least."""
    first = bench.begin("w1")
    second = bench.start("w2")
    # A worker that waits for the other to end never reads. That is unfair, but the worker still runs.
    bench.until(lambda: bench.is_ready(second), seconds=2 * bench.plan.brief)
    if not bench.has_come(second):
        raise NotTried(f"w2 sent nothing: {bench.last_words(second)}")
    both = {"w1": first, "w2": second}
    count = min(max(60, 5 * (bench.plan.count or 40)), _AT_MOST)
    begin, rounds = bench.fair.now, 0
    while rounds < _ROUNDS:
        started = bench.stage.commands()[-1].number
        shares = _shares(bench, both, count)
        if min(shares.values()) >= _SHARE * sum(shares.values()):
            return f"two workers shared {count} messages: {shares['w1']} and {shares['w2']}"
        lazy = min(shares, key=lambda each: shares[each])
        # A round counts only if the lazy worker asked for messages; one that never asks is judged after the timeout.
        rounds += _asked(bench, both[lazy], started) or bench.fair.now - begin > bench.plan.timeout
    raise Broken(f"of {count} messages {lazy} got {shares[lazy]}, the other worker the rest")


def _shares(bench: Bench, both: Mapping[str, Worker], count: int) -> dict[str, int]:
    """Send messages whose processing is slowed down, and return how many each worker received."""
    carrier = bench.plan.carrier or (bench.plan.work.carrier if bench.plan.work else "XREADGROUP")
    with bench.stage.fault(command=carrier, delay=_SLOW_SECONDS):
        ids = bench.send_all(count)
        bench.until(partial(bench.is_delivered, ids[-1]), progress=bench.position)
    if not bench.is_delivered(ids[-1]):
        raise Broken(f"two workers together do not get on: {ids[-1]} {bench.fate(ids[-1])}{bench.again}")
    own = {name: bench.clients_of(worker) for name, worker in both.items()}
    analysis = bench.analysis()
    numbers = {each.number: each.client_id for each in analysis.commands}
    takers = [numbers.get(events[0].number) for events in map(analysis.events, ids) if events]
    return {name: sum(client in clients for client in takers) for name, clients in own.items()}


def _asked(bench: Bench, worker: Worker, started: int) -> bool:
    """Return True if a worker was waiting for messages when they were sent, or has asked for some since."""
    reads = bench.analysis().reads(bench.clients_of(worker))
    return any(each.number > started or each.answered is None for each, _ in reads)
