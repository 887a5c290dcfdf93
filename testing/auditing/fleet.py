"""Promises about several workers, about their ends, and about what is left behind."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

from .sight import mentions, read_of
from .verdicts import Broken, NotTried

if TYPE_CHECKING:
    from .bench import Bench
    from .workers import Worker

_HELD: Final = 3
_LOOKS: Final = 4  # commands of a worker that looks around: claims and reads
_HOLD_SECONDS: Final = 4.0  # redis-py gives up after 5
_DEAD: Final = 3
_SENT: Final = 300
_MORE: Final = 1_000
_OLD_MILLISECONDS: Final = 30 * 24 * 3600 * 1000
_SHARE: Final = 0.1
_ROUNDS: Final = 3
_SLOW_SECONDS: Final = 0.02
_AT_MOST: Final = 1_000


def long_job(bench: Bench) -> str:
    """Stop its work while another worker is there, and let the time pass that makes a message claimable."""
    plan = bench.plan
    if plan.work is None:
        raise NotTried(
            "its work is not seen on this server, so it cannot be made long; --done KEY says where it is"
        )
    if plan.acks_first:
        raise NotTried("it acknowledges before its work, so nobody could take a long job from it")
    first = bench.begin("w1")
    second = bench.begin("w2", fresh=False)
    # A reply that does not come makes the work long, and lets the rest of the connection go on; but a transaction, or a script,
    # would have acknowledged.
    options = {"delay": 3600} if plan.is_atomic else {"silence": True}
    key = None if plan.is_atomic else plan.work.key
    with bench.stage.fault(
        command=plan.carrier if plan.is_atomic else plan.work.carrier, key=key, **options
    ) as fault:
        entry = bench.send()
        bench.until(lambda: fault.count > 0, seconds=_HOLD_SECONDS)
        held = bench.pending(entry)
        if not fault.count or held is None:
            raise NotTried("its work could not be made long")
        holder = held[0]
        if not bench.consumers_of(second):
            raise NotTried(
                f"two workers both call their consumer {holder!r}: {{consumer}} or CONSUMER tells them apart"
            )
        bench.note(f"{holder} works {entry} and does not finish")
        other = second if holder in bench.consumers_of(first) else first
        _watch_the_job(bench, other, entry, holder)
    return "a message was not taken from a consumer that was working on it"


def _watch_the_job(bench: Bench, other: Worker, entry: str, holder: str) -> None:
    """Let time pass as fast as the signs of life of the consumer allow.

    Raises:
        Broken: the message was taken.
    """
    begin = time.monotonic()
    started = bench.stage.commands()[-1].number

    def taken() -> str:
        pending = bench.pending(entry)
        return "" if pending is None or pending[0] == holder else pending[0]

    def beats() -> list[int]:
        others = bench.clients_of(other)
        signs = [*bench.signs(entry), holder]
        return [
            each.number
            for each in bench.stage.commands()
            if each.number > started
            and each.client_id not in others
            and each.fault is None
            and read_of(each.words) is None
            and mentions(each.words, signs)
        ]

    def looks() -> int:
        clients = bench.clients_of(other)
        return sum(
            each.number > started and each.client_id in clients and each.answered is not None
            for each in bench.stage.commands()
        )

    def moved(known: int) -> bool:
        return bool(taken()) or len(beats()) > known

    def check() -> None:
        if bench.restarts:
            raise NotTried(
                f"it did not hold out while its work took {time.monotonic() - begin:.0f} seconds{bench.again}"
            )
        if thief := taken():
            raise Broken(
                f"{thief} took {entry} from {holder}, which was alive and working on it"
                + (
                    ""
                    if beats()
                    else f" (and sent no sign of life in {time.monotonic() - begin:.1f} seconds)"
                )
            )

    # First without a hurry: real time, in which the worker may show that it lives.
    born = bench.stage.now()
    patience = min(_HOLD_SECONDS, bench.plan.timeout)
    bench.until(lambda: taken() or len(beats()) >= 2, seconds=0.6 * patience)
    bench.until(lambda: taken() or len(beats()) != 1, seconds=0.3 * patience)
    check()
    idle = min(bench.sight().min_idles(), default=None)
    signs = len(beats())
    if not signs or idle is None:
        # A worker with a timer of its own may claim from itself before the other one does.
        for _ in range(1 if idle is None else _ROUNDS):
            bench.later(milliseconds=(idle or 86_400_000) + 1)
            bench.until(taken, hurry=True, seconds=bench.plan.timeout / 4)
            check()
        return
    # Then in steps that leave it the time for its next sign of life, until the other one has looked for what is idle.
    pace = (time.monotonic() - begin) / signs
    while bench.stage.now() - born < 1.2 * idle or looks() < _LOOKS:
        step = int(0.8 * idle - 2000 * pace)
        if step > 0:
            bench.later(milliseconds=step)
        bench.wake(other)
        if not bench.until(partial(moved, len(beats())), seconds=max(3 * pace, idle / 1000)):
            check()
            raise NotTried(f"it held out for {time.monotonic() - begin:.1f} seconds only")
        check()


def shutdown(bench: Bench) -> str:
    """Send SIGTERM while it works, and while it waits."""
    worker = bench.begin()
    if not worker.can_be_killed:
        raise NotTried("a thread gets no signal: audit a command, or a coroutine")
    with bench.hold() as fault:
        ids = bench.send_all(_HELD, together=True)
        bench.until(lambda: fault.count > 0, hurry=True)
        _ask_to_end(bench, worker)
        bench.until(lambda: worker.status is not None, seconds=0.3)
        if worker.status is not None:
            bench.kill(worker)  # what it had sent must not run once it is dead
    _await_end(bench, worker, "while it worked")
    sight = bench.sight()
    for entry in ids:
        left = bench.is_delivered(entry) and not bench.pending(entry)
        if left and not (sight.acknowledged(entry) and bench.is_worked(entry, sight)):
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
    if not bench.until(lambda: worker.status is not None, hurry=True):
        raise Broken(f"SIGTERM {when} did not end it in {bench.plan.timeout:g} seconds")
    bench.kill(worker)


def consumers(bench: Bench) -> str:
    """Let workers of several names die; look whether their names stay."""
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
    """Let it acknowledge many messages, all a month old, and look whether they stay."""
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
            hurry=True, traffic=at is None, seconds=None if at is None else bench.plan.timeout / 10,
        ):  # fmt: skip
            left = bench.stage.run("XLEN", stream)
            return f"acknowledged entries go: of {len(bench.sent)} the stream keeps {left}"
    raise Broken(
        f"{bench.stage.run('XLEN', stream)} acknowledged entries stay in the stream, {_SENT} of them a month old, and "
        "nobody trims it"
    )


def _keeps_few(bench: Bench) -> bool:
    """Whether the stream has lost at least half of its entries, or the worker trims it."""
    return _trims(bench) or bench.stage.run("XLEN", bench.plan.stream) < len(bench.sent) / 2


def _trims(bench: Bench) -> bool:
    stream = bench.plan.stream
    for each, _ in bench.sight().effects:
        name, words = each.words[0].upper(), [word.upper() for word in each.words]
        if stream not in each.words[1:2] or each.error is not None:
            continue
        if name == "XTRIM" or (name == "XADD" and {"MAXLEN", "MINID"} & set(words[2:5])):
            return True
    return False


def fair(bench: Bench) -> str:
    """Let two workers share what comes while both are there."""
    first = bench.begin("w1")
    second = bench.start("w2")
    # One that waits for the other to go is not fair, but it is there.
    bench.until(lambda: bench.is_ready(second), seconds=2 * bench.plan.timeout)
    if not bench.has_come(second):
        raise NotTried(f"w2 sent nothing: {bench.last_words(second)}")
    shares: dict[str, int] = {}
    count = min(max(60, 5 * (bench.plan.count or 40)), _AT_MOST)
    carrier = bench.plan.carrier or (bench.plan.work.carrier if bench.plan.work else "XREADGROUP")
    for _ in range(_ROUNDS):
        shares = {"w1": 0, "w2": 0}
        with bench.stage.fault(command=carrier, delay=_SLOW_SECONDS):  # work takes time
            ids = bench.send_all(count)
            bench.until(partial(bench.is_delivered, ids[-1]), progress=bench.position)
        if not bench.is_delivered(ids[-1]):
            raise Broken(f"two workers together do not get on: {ids[-1]} {bench.fate(ids[-1])}{bench.again}")
        both = {each: bench.clients_of(worker) for each, worker in (("w1", first), ("w2", second))}
        sight = bench.sight()
        numbers = {each.number: each.client_id for each in sight.commands}
        for entry in ids:
            events = sight.events(entry)
            client = numbers.get(events[0].number) if events else None
            for name, own in both.items():
                shares[name] += client in own
        if min(shares.values()) >= _SHARE * sum(shares.values()):
            return f"two workers shared {count} messages: {shares['w1']} and {shares['w2']}"
    lazy = min(shares, key=lambda each: shares[each])
    raise Broken(f"of {count} messages {lazy} got {shares[lazy]}, the other worker the rest")
