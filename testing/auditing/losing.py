"""Promises about messages that were delivered but not finished: dead consumers, lost replies, claims."""

from __future__ import annotations

from functools import partial
from typing import Final

from .bench import Bench
from .results import BROKEN, Broken, NotTried

_ATTEMPTS: Final = 10
_GHOST: Final = "gone"  # a dead consumer, which never had a process


def _comes_to_an_end(bench: Bench, entry: str) -> bool:
    """Let a day pass, send other messages, and return True once an entry is done."""
    bench.later(days=1)
    return bench.until(partial(bench.is_done, entry), hurry=True, traffic=True)


def crash(bench: Bench) -> str:
    """Check that a worker killed while it has a message processes it after a restart under the same name."""
    worker = bench.begin()
    entry = bench.die_in_the_middle(worker)
    bench.later(days=1)
    bench.start(worker.name)
    if not _comes_to_an_end(bench, entry):
        raise Broken(
            f"{entry} {bench.fate(entry)} after the worker died and came back under its name{bench.again}"
        )
    return f"what it had when it died was done when it came back{bench.again}"


def crash_elsewhere(bench: Bench) -> str:
    """Check that another worker processes the message of a killed one."""
    worker = bench.begin()
    entry = bench.die_in_the_middle(worker)
    holder = (bench.pending(entry) or ("", 0))[0]
    bench.later(days=1)
    other = bench.begin("w2", fresh=False)
    if not bench.consumers_of(other):
        raise NotTried(
            f"two workers both call their consumer {holder!r}: let it take the name from {{consumer}} in its command or "
            "an --env, or from CONSUMER"
        )
    if not _comes_to_an_end(bench, entry):
        raise Broken(f"{entry} of a dead consumer {bench.fate(entry)}{bench.again}")
    return f"another consumer did what a dead one had{bench.again}"


def delivery_lost(bench: Bench) -> str:
    """Lose the reply of an XREADGROUP that delivered an entry, and check that the entry is processed."""
    bench.begin()
    lost = ""
    bench.stage.unpace()
    with bench.stage.fault(command="XREADGROUP", key=bench.plan.stream, close="after"):
        for _ in range(_ATTEMPTS):
            entry = bench.send()
            if not bench.until(partial(bench.is_delivered, entry), hurry=True):
                break
            # A read that was blocked before the fault began may have received its reply.
            deliveries = bench.analysis().events(entry)
            if deliveries and deliveries[0].lost:
                lost = entry
                break
    bench.stage.pace()
    if not lost:
        raise NotTried("no reply with an entry could be lost: XREADGROUP is not sent as a command of its own")
    bench.note(f"the reply that delivered {lost} was lost")
    if not _comes_to_an_end(bench, lost):
        blame(bench, "cut")
        raise Broken(f"{lost}, whose delivery was lost, {bench.fate(lost)}{bench.again}")
    return f"a message whose delivery was lost was done{bench.again}"


def ack_lost(bench: Bench) -> str:
    """Lose an acknowledgement before it runs, then the reply to another; check that the worker goes on after each.

    The first message must be processed again.
    """
    if not bench.plan.carrier:
        raise NotTried("it acknowledges nothing (NOACK)")
    bench.begin()
    with bench.fault(bench.plan.carrier, close="before", first=1) as fault:
        entry = bench.send()
        bench.until(lambda: fault.count > 0, hurry=True)
        if not fault.count:
            raise NotTried(f"no {bench.plan.carrier} came")
    if not _comes_to_an_end(bench, entry):
        blame(bench, "cut")
        raise Broken(f"{entry}, whose acknowledgement was lost, {bench.fate(entry)}{bench.again}")
    with bench.fault(bench.plan.carrier, close="after", first=1) as fault:
        bench.send()
        bench.until(lambda: fault.count > 0, hurry=True)
    if not bench.goes_on():
        blame(bench, "cut")
        raise Broken(f"it stopped after the reply to an acknowledgement was lost{bench.again}")
    return f"a message whose acknowledgement was lost was done{bench.again}"


def blame(bench: Bench, other: str) -> None:
    """Explain the failure of an experiment by another promise of the audit, if the worker has broken that one and stopped.

    Raises NotTried, which names the other promise. Otherwise return: the failure has a cause of its own.
    """
    if bench.verdict_of(other) == BROKEN and not bench.goes_on(seconds=bench.plan.brief / 5):
        raise NotTried(f"it stops before that: see {other}")


def idle_claim(bench: Bench) -> str:
    """Leave entries pending with a dead consumer and with the worker's own; check that it claims them when idle.

    No other message is sent meanwhile.
    """
    worker = bench.begin()
    own = bench.consumers_of(worker)[-1]
    stuck = {_GHOST: bench.stick(_GHOST), own: bench.stick(own)}
    bench.later(days=1)
    if not bench.until(lambda: all(map(bench.is_done, stuck.values())), hurry=True):
        # The worker may run XAUTOCLAIM JUSTID with a longer idle time, to remove deleted entries: that has reset their
        # idle time.
        bench.later(milliseconds=min(bench.analysis().min_idles(), default=0) + 1)
        bench.until(lambda: all(map(bench.is_done, stuck.values())), hurry=True, seconds=bench.plan.brief)
    idle = {name for name, entry in stuck.items() if bench.is_done(entry)}
    if len(idle) < len(stuck):
        bench.note("messages are sent again")
        bench.until(
            lambda: all(map(bench.is_done, stuck.values())),
            hurry=True, traffic=True, seconds=bench.plan.brief,
        )  # fmt: skip
    late = [name for name, entry in stuck.items() if name not in idle and bench.is_done(entry)]
    if late:
        raise Broken(
            f"{stuck[late[0]]} was taken from {late[0]} only when something new arrived{bench.again}"
        )
    if not idle:
        entry = stuck[_GHOST]
        raise Broken(f"{entry} {bench.fate(entry)}, though nothing else was to do{bench.again}")
    return f"what is stuck is taken though nothing new arrives{bench.again}"


def deleted(bench: Bench) -> str:
    """Delete pending entries before they are claimed; check that the worker goes on and they leave the PEL."""
    worker = bench.begin()
    own = bench.consumers_of(worker)[-1]
    again = worker.name
    if worker.can_be_killed:
        bench.kill(worker)
    gone = {name: bench.stick(name) for name in (_GHOST, own)}
    twins = {name: bench.stick(name) for name in (_GHOST, own)}
    if not bench.stage.has_clock:
        bench.later(days=1)  # first, because `Proxy.age` skips deleted entries
    bench.stage.run("XDEL", bench.plan.stream, *gone.values())
    bench.note(f"XDEL {bench.plan.stream} {' '.join(gone.values())}, which are pending")
    if bench.stage.has_clock:
        bench.later(days=1)
    if worker.can_be_killed:
        bench.start(again)
    if not bench.goes_on():
        raise Broken(f"it does nothing more once a pending entry was deleted{bench.again}")

    def open_() -> list[str]:
        return [
            name
            for name, entry in gone.items()
            if bench.is_done(twins[name]) and bench.pending(entry) is not None
        ]

    bench.until(
        lambda: all(map(bench.is_done, twins.values())) and not open_(),
        hurry=True, traffic=True,
    )  # fmt: skip
    if left := open_():
        raise Broken(f"{gone[left[0]]}, which was deleted, {bench.fate(gone[left[0]])}{bench.again}")
    if not any(map(bench.is_done, twins.values())):
        raise NotTried("it takes nothing that is pending, so a deleted entry never came to it")
    return f"it goes on, and entries that were deleted do not stay pending{bench.again}"
