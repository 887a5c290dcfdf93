"""Promises of a producer: each message is in the stream once, or the producer reports that it is not."""

from __future__ import annotations

from typing import Any, Final

from .bench import Bench
from .catalogue import Promise
from .results import Broken, CannotRunError, NotTried
from .workers import Worker

_SECONDS: Final = 30
_REFUSALS: Final = 2


def _adds(bench: Bench) -> list[Any]:
    """Return the XADDs so far."""
    return [each for each, _ in bench.analysis().effects if each.words[0].upper() == "XADD"]


def _stored(bench: Bench) -> list[dict[str, str]]:
    """Return the fields of the stream's entries."""
    if not bench.plan.stream:
        return []
    entries = bench.stage.run("XRANGE", bench.plan.stream, "-", "+")
    return [
        dict(zip(map(_text, fields[::2]), map(_text, fields[1::2]), strict=True)) for _, fields in entries
    ]


def _text(word: bytes) -> str:
    return word.decode(errors="surrogateescape")


def _begin(bench: Bench) -> Worker:
    """Start the producer, without restarts: once it ends, its work is done, whatever its exit status."""
    worker = bench.start("p1")
    worker.wanted = False
    return worker


def _settles(bench: Bench, worker: Worker) -> None:
    """Wait until a producer has ended or added another message."""
    known = len(_stored(bench))
    bench.until(lambda: worker.status is not None or len(_stored(bench)) > known, hurry=True)


def _said(worker: Worker) -> bool:
    """Return True if a producer reported an error, by its exit status."""
    return worker.status not in {None, 0}


def stores(bench: Bench) -> str:
    """Check that the producer adds a message, and learn the name of the stream; return a sentence about it.

    Raises CannotRunError: no XADD came from it.
    """
    worker = _begin(bench)
    bench.until(lambda: _adds(bench) or worker.status is not None, seconds=_SECONDS, hurry=True)
    found = [each for each in _adds(bench) if each.error is None]
    if not found:
        raise CannotRunError(
            f"no XADD came from it. Its last lines:\n{worker.words() or '(nothing printed)'}"
        )
    bench.plan.stream = bench.plan.stream or found[0].words[1]
    return f"it adds to {bench.plan.stream}"


def reply_lost(bench: Bench) -> str:
    """Lose the reply to an XADD that ran; check that the producer does not add the message twice."""
    with bench.stage.fault(command="XADD", close="after", first=1) as fault:
        worker = _begin(bench)
        bench.until(lambda: fault.count > 0 or worker.status is not None, seconds=_SECONDS, hurry=True)
        if not fault.count:
            raise NotTried("its XADD is not a command of its own that could lose its reply")
        first = _stored(bench)[0]
        bench.until(lambda: worker.status is not None or len(_stored(bench)) > 1, hurry=True)
    stored = _stored(bench)
    again = stored[1:].count(first)
    if again and not _idempotent(bench):
        raise Broken(f"a message is stored {again + 1} times after the reply to its XADD was lost: {first}")
    if again:
        raise Broken(f"a message is stored {again + 1} times, though its XADD has IDMP: {first}")
    if _said(worker):
        return "the message is stored once, and the producer said that it does not know"
    return "the message is stored once"


def _idempotent(bench: Bench) -> bool:
    return any({"IDMP", "IDMPAUTO"} & set(map(str.upper, each.words[2:8])) for each in _adds(bench))


def _refused(bench: Bench, error: str, name: str) -> str:
    """Refuse XADDs for a while; the producer must add the messages later, or report an error."""
    with bench.stage.fault(command="XADD", error=error) as fault:
        worker = _begin(bench)
        bench.until(
            lambda: fault.count >= _REFUSALS or worker.status is not None, seconds=_SECONDS / 3, hurry=True
        )
        if not fault.count:
            raise NotTried("no XADD came as a command of its own")
    _settles(bench, worker)
    if _stored(bench):
        return f"it adds the message once {name} is over"
    if _said(worker):
        return f"it ends with status {worker.status} at {name}"
    state = "goes on" if worker.status is None else "ends with status 0"
    raise Broken(f"its XADD was refused ({name}), the message is lost, and it {state}")


def readonly(bench: Bench) -> str:
    """Answer XADD with READONLY; check that the producer adds the message later or ends with an error."""
    return _refused(bench, "READONLY", "READONLY")


def oom(bench: Bench) -> str:
    """Answer XADD with OOM; check that the producer adds the message later or ends with an error."""
    return _refused(bench, "OOM", "OOM")


def bounded(bench: Bench) -> str:
    """Check that the producer bounds its stream, and that it reports an XADD with NOMKSTREAM that found no stream."""
    worker = _begin(bench)
    bench.until(lambda: _adds(bench) or worker.status is not None, seconds=_SECONDS, hurry=True)
    adds = _adds(bench)
    if not adds:
        raise NotTried("no XADD came")
    options = set(map(str.upper, adds[0].words[2:6]))
    trims = any(each.is_a("XTRIM") for each in bench.stage.commands())
    if "NOMKSTREAM" in options and not _stored(bench):
        bench.until(lambda: worker.status is not None)
        if not _said(worker):
            raise Broken("with NOMKSTREAM its XADD stored nothing, and it did not say so")
    if not options & {"MAXLEN", "MINID"} and not trims:
        raise Broken(f"nothing bounds {bench.plan.stream}: its XADD has neither MAXLEN nor MINID")
    return "its stream is bounded"


_EVERY: Final = (
    Promise("stores", "it adds a message", stores),
    Promise("reply-lost", "XADD ran, its reply was lost: stored once", reply_lost),
    Promise("readonly", "READONLY: added later, or it says so", readonly),
    Promise("oom", "OOM: added later, or it says so", oom),
    Promise("bounded", "its stream has an end, and NOMKSTREAM is not silent", bounded),
)
PRODUCER_PROMISES: Final = {each.name: each for each in _EVERY}
