"""Promises about messages: they are processed, before their acknowledgement, and bad messages do no harm."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from .analysis import Analysis, mentions, read_of
from .bench import Bench
from .results import KEPT, Broken, CannotRunError, NotTried
from .workers import Worker

_ASK_SECONDS: Final = 40
_NOTHING_SECONDS: Final = 2
_STARTS: Final = 3
_LATE_SECONDS: Final = 1.5
_LEARNED: Final = 3
_SPINNING: Final = 100  # reads a second
_MOST_IN_BACKLOG: Final = 1_000
_GRACE_SECONDS: Final = 1.0
_DELIVERIES: Final = 25
_CAP_SECONDS: Final = 100  # the time limit for these deliveries, unless two timeouts are longer
_PATIENT_SECONDS: Final = 3600
_REDIS_PY: Final = re.compile(r"redis-py\b")
_FATAL: Final = 2**62  # the delivery count after XNACK FATAL
GIVEN_UP: Final = "given up"


def discover(bench: Bench) -> Worker:
    """Start a worker, find out which stream and group it reads, and return it once it reads.

    Set the plan's stream, group and database, and create the stream or the group if the worker does not.

    Raises CannotRunError: it does not read as a consumer.
    """
    plan = bench.plan
    worker = bench.start("w1")
    bench.until(
        lambda: _finds(bench) or len(bench.restarts) >= _STARTS or bench.ended(),
        seconds=_ASK_SECONDS, hurry=True,
    )  # fmt: skip
    if not _finds(bench):
        plain = any(each.is_a("XREAD") for each in bench.stage.commands())
        why = (
            "it reads with XREAD, so nothing is pending and nothing is promised"
            if plain
            else "no XREADGROUP and no XGROUP CREATE came from it"
        )
        raise CannotRunError(f"{why}. Its last lines:\n{bench.output(worker) or '(nothing printed)'}")

    def ready() -> bool:
        return bench.is_ready(worker)

    if not bench.until(lambda: ready() or _misses_group(bench), seconds=_ASK_SECONDS, hurry=True):
        raise CannotRunError(
            f"it does not read {plan.stream!r} in group {plan.group!r}. Its last lines:\n{bench.output(worker)}"
        )
    if not ready():
        # The deployment may normally create the stream or group; the worker gets time to create them itself first.
        if bench.until(ready, seconds=_NOTHING_SECONDS, hurry=True):
            return worker
        creates = any(each.is_a("XGROUP CREATE") for each in bench.stage.commands())
        plan.makes_stream, plan.makes_group = True, not creates
        bench.prepare()
        if not bench.until(ready, seconds=_ASK_SECONDS, hurry=True):
            raise CannotRunError(f"it does not read. Its last lines:\n{bench.output(worker)}")
    return worker


def _finds(bench: Bench) -> bool:
    """Find the stream and the group in the worker's commands; return True if both are known."""
    plan = bench.plan
    for each in bench.stage.commands():
        read = read_of(each.words)
        misses = _is_without_group(each.error)
        if read is not None and (each.error is None or misses) and read.streams:
            names, group = read.streams, read.group
        elif misses and each.words[0].upper() in {"XAUTOCLAIM", "XPENDING"} and len(each.words) > 2:
            names, group = (each.words[1],), each.words[2]
        elif each.is_a("XGROUP CREATE") and len(each.words) > 4:
            names, group = (each.words[2],), each.words[3]
        else:
            continue
        if plan.stream not in {"", *names} or plan.group not in {"", group}:
            continue
        plan.stream, plan.group, plan.database = plan.stream or names[0], plan.group or group, each.database
        bench.stage.use(plan.database)
        return True
    return bool(plan.stream and plan.group and _misses_group(bench))


def _misses_group(bench: Bench) -> bool:
    return any(
        _is_without_group(each.error) or "requires the key to exist" in (each.error or "")
        for each in bench.stage.commands()
    )


def _is_without_group(error: str | None) -> bool:
    return "NOGROUP" in (error or "")


def works(bench: Bench) -> str:
    """Check that the worker processes three messages, and learn from them how it works: the fields of the plan.

    Return a sentence about it. Raise Broken, or CannotRunError if it does not read as a consumer.
    """
    plan = bench.plan
    worker = discover(bench)
    ids = []
    for _ in range(_LEARNED):
        entry = bench.send()
        ids.append(entry)
        is_done = partial(bench.is_done, entry)
        # The worker may wait until it has several messages.
        if not bench.until(is_done, hurry=True, seconds=plan.brief) and not bench.until(
            is_done, hurry=True, traffic=True
        ):
            raise Broken(f"{entry} {bench.fate(entry)}{_hint(bench, worker)}{bench.again}")
    analysis = bench.analysis()
    reads = [read for _, read in analysis.reads()]
    plan.count = max((each.count for each in reads if each.count is not None), default=None)
    plan.spins = _spins(analysis)
    plan.patience = _patience(analysis)
    plan.uses_scripts = any(each.is_a("EVALSHA") for each in analysis.commands)
    acks = analysis.acks(ids[-1])
    if acks:
        _, ack, inside = acks[0]
        plan.carrier = inside.rpartition(" ")[2] or ack.words[0].upper()
    messages = [(each, bench.signs(each)) for each in ids]
    # If the worker acknowledges first, the last work may still come.
    bench.until(
        lambda: bench.analysis().find_work(messages, plan.done), seconds=min(_LATE_SECONDS, plan.timeout)
    )
    analysis = bench.analysis()
    plan.work = analysis.find_work(messages, plan.done)
    if plan.done is not None and plan.work is None:
        raise Broken(f"nothing was written at {plan.done}, where its work is to be seen")
    plan.acks_first, plan.is_atomic = _order(bench, analysis, ids)
    seen = f" ({plan.work})" if plan.work else ""
    return f"{len(ids)} messages were delivered, worked{seen} and acknowledged" + bench.again


def _spins(analysis: Analysis) -> bool:
    """Return True if the worker polls without BLOCK and without a pause."""
    times = [each.time for each, read in analysis.reads() if read.block is None]
    return bool(times) and len(times) > _SPINNING * max(1.0, (times[-1] - times[0]) / 1000)


def _patience(analysis: Analysis) -> str:
    """Return a URL query that makes redis-py wait for a reply as long as it takes; by default it gives up after 5 seconds."""
    names = {each.words[3] for each in analysis.commands if each.is_a("CLIENT SETINFO LIB-NAME")}
    return f"?socket_timeout={_PATIENT_SECONDS}" if any(map(_REDIS_PY.match, names)) else ""


def _order(bench: Bench, analysis: Analysis, ids: list[str]) -> tuple[bool, bool]:
    """Return whether acknowledgements come before the work, and whether both are one transaction or script."""
    work = bench.plan.work
    if work is None:
        return False, False
    first = atomic = 0
    done = analysis.works(work)
    for index, entry in enumerate(ids):
        acks = analysis.acks(entry)
        mine = [each for each in done if _is_about(analysis, bench, each, ids, index)]
        if not acks or not mine:
            continue
        atomic += acks[0][1].number == mine[0][1].number
        first += acks[0][0] < mine[0][0] and acks[0][1].number != mine[0][1].number
    return first > 0, atomic > 0


def _is_about(analysis: Analysis, bench: Bench, work: tuple, ids: list[str], index: int) -> bool:  # type: ignore[type-arg]
    """Return True if a sign of work belongs to the message with this index; the messages were sent one after another."""
    place, command, _ = work
    assert bench.plan.work is not None
    if bench.plan.work.says_which:
        return mentions(command.words, bench.signs(ids[index]))
    begin = analysis.delivery(ids[index])
    end = analysis.delivery(ids[index + 1]) if index + 1 < len(ids) else None
    return begin is not None and begin < place and (end is None or place < end)


def _hint(bench: Bench, worker: Worker) -> str:
    words = bench.last_words(bench.current(worker))
    fields = bench.plan.messages.good(0).fields
    return f" (it was sent {fields}; --send says what it understands; its last line: {words})"


def backlog(bench: Bench) -> str:
    """Check that the worker processes more messages than it reads at once if they were in the stream before its start."""
    plan = bench.plan
    count = min(2 * (plan.count or 10) + 5, _MOST_IN_BACKLOG)
    if plan.makes_group:
        bench.prepare()
    ids = bench.send_all(count)
    bench.begin(fresh=False)
    done = bench.until(partial(bench.are_done, ids), progress=bench.position)
    if not done:
        missing = bench.not_done(ids)
        raise Broken(
            f"{len(missing)} of {count} entries from before its start are not done; {missing[0]} "
            f"{bench.fate(missing[0])}{bench.again}"
        )
    return f"all of {count} entries from before its start were done{bench.again}"


def works_before_ack(bench: Bench) -> str:
    """Check that the worker acknowledges only after its work: hold the work command, and expect no acknowledgement."""
    plan = bench.plan
    if not plan.carrier:
        raise Broken("it reads with NOACK: a message counts as acknowledged when it is delivered")
    if plan.work is None:
        raise NotTried("its work is not seen on this server; --done KEY says where it is")
    if plan.acks_first:
        bench.begin()
        entry = bench.send()
        bench.until(partial(bench.is_done, entry), hurry=True)
        raise Broken(f"it acknowledges before its work: {plan.carrier} came before {plan.work}")
    if plan.is_atomic:
        return "work and acknowledgement are one transaction or script"
    bench.begin()
    with bench.hold("work") as fault:
        entry = bench.send()
        bench.until(lambda: fault.count > 0, hurry=True)
        if not fault.count:
            raise NotTried(f"its work ({plan.work}) was not seen a second time")
        if bench.until(
            lambda: bench.is_delivered(entry) and not bench.pending(entry), seconds=_GRACE_SECONDS
        ):
            raise Broken(f"it acknowledged {entry} while its work ({plan.work}) had not run")
    bench.until(partial(bench.is_done, entry), hurry=True)
    return f"{plan.carrier} comes after {plan.work}"


def poison(bench: Bench) -> str:
    """Send bad messages, and check that the good ones after them are processed."""
    bench.begin()
    bad = _send_bad(bench)
    for when in ("after a bad one", "after a bad one was tried again"):
        good = bench.send()
        # In real time: if the clock were moved, a worker that dies of a bad message would claim it again at each start.
        if not bench.until(partial(bench.is_done, good)):
            raise Broken(f"{good}, {when}, {bench.fate(good)}{bench.again}")
        if not _tried_again(bench, bad):
            break
    _ask_whether_bad(bench, bad)
    return f"messages after a bad one are processed{bench.again}"


def _tried_again(bench: Bench, bad: list[str]) -> bool:
    """Let enough time pass for pending messages to be retried; return True if one is."""
    before = {each: bench.pending(each) for each in bad if bench.pending(each)}
    if not before:
        return False
    bench.later(days=1)
    bench.until(
        lambda: any(bench.pending(each) != was for each, was in before.items()),
        seconds=bench.plan.brief / 5, hurry=True,
    )  # fmt: skip
    return True


def _send_bad(bench: Bench) -> list[str]:
    bad = [bench.send(fields) for fields in bench.plan.messages.bad()]
    for entry in bad:
        # The first message may kill a worker that starts slowly. Wait, so that no read returns the second one together
        # with a good message.
        bench.until(partial(bench.is_delivered, entry), hurry=True, seconds=bench.plan.brief)
    return bad


def _ask_whether_bad(bench: Bench, bad: list[str]) -> list[str]:
    """Return the messages that the worker could not process. Raises NotTried: there are none."""
    found = [each for each in bad if _is_bad(bench, each)]
    if not found:
        raise NotTried(
            "it took each message that was to be a bad one, so what it does with bad ones was not seen"
        )
    return found


def _is_bad(bench: Bench, entry: str) -> bool:
    """Return True if a worker could not process a message: it is pending, was redelivered, or left without the usual work."""
    analysis = bench.analysis()
    if bench.pending(entry) is not None or len(analysis.delivered_to(entry)) > 1:
        return True
    work = bench.plan.work
    if work is None:
        return False
    begin = analysis.delivery(entry)
    acks = analysis.acks(entry)
    if begin is None or not acks:
        return True
    end = None if bench.plan.acks_first or not work.says_which else acks[0][0]
    return not any(
        begin < place
        and (end is None or place < end or inside)
        and not bench.is_about_another(entry, each.words)
        for place, each, inside in analysis.works(work)
    )


def poison_capped(bench: Bench) -> str:
    """Check that a bad message leaves the PEL after a limited number of deliveries (fewer than 25)."""
    worker = bench.begin()
    bad = _send_bad(bench)
    most = 1

    def state() -> list[object]:
        nonlocal most
        found: list[object] = []
        for each in bad:
            pending = bench.pending(each)
            if pending is not None and pending[1] < _FATAL:
                most = max(most, pending[1])
                found.append(pending)
            else:
                found.append(GIVEN_UP if bench.is_delivered(each) else None)
        return found

    def is_over(found: list[object]) -> bool:
        return all(each == GIVEN_UP for each in found)

    def changed(before: list[object]) -> bool:
        return state() != before

    bench.until(lambda: is_over(state()), seconds=bench.plan.brief / 10)
    begin = bench.fair.now
    is_slow = False  # whether it redelivers while it runs, but rarely, by a timer
    # None: it redelivers while it runs; else the names of workers whose start redelivers.
    lives: list[str] | None = None
    # Check and remember the state in one step: otherwise a change between the check and the note would be missed until
    # the timeout.
    while not is_over(before := state()):
        if most >= _DELIVERIES:
            raise Broken(f"{most} deliveries of one bad message, and it is not given up{bench.again}")
        bench.later(days=1)
        asked = bench.fair.now
        changes = bench.until(
            partial(changed, before),
            hurry=True, traffic=True, seconds=bench.plan.timeout if lives is None else bench.plan.brief,
        )  # fmt: skip
        if changes and bench.fair.now - begin > max(2 * bench.plan.timeout, _CAP_SECONDS):
            raise NotTried(f"only {most} deliveries in {bench.fair.now - begin:.0f} seconds; see --timeout")
        if changes and lives is None and (is_slow or bench.fair.now - asked < bench.plan.brief):
            continue
        if lives is None:
            bench.note("it is delivered again rarely" if changes else "nothing delivers it again")
            # The worker may check pending messages only when it starts, or only other consumers' messages; or a restart may find
            # them sooner.
            is_slow = changes
            helpers = (("crash", "w1"), ("crash-elsewhere", "w2"))
            lives = [name for promise, name in helpers if bench.verdict_of(promise) == KEPT]
        elif not changes:
            lives.pop(0)
        if is_slow and not (lives and worker.can_be_killed):
            lives = None
            continue
        if not lives or not worker.can_be_killed:
            left = bad[next(place for place, each in enumerate(before) if each != GIVEN_UP)]
            raise Broken(f"a bad message is never given up: {left} {bench.fate(left)}{bench.again}")
        bench.kill(worker)
        worker = bench.start(lives[0])
    lost = [each for each in bad if not bench.pending(each) and not bench.analysis().acknowledged(each)]
    if lost:
        raise Broken(f"{lost[0]} {bench.fate(lost[0])}")
    really = _ask_whether_bad(bench, bad)
    most = max(len(bench.analysis().delivered_to(each)) for each in really)
    return f"a bad message is given up after {most} {'delivery' if most == 1 else 'deliveries'}{bench.again}"
