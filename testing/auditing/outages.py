"""Promises about server outages: refused writes, restarts, lost connections, lost data and scripts."""

from __future__ import annotations

from typing import Final

from .bench import Bench
from .losing import blame
from .results import Broken, NotTried

_REFUSALS: Final = 3
_DOWN_SECONDS: Final = 1.0


def failover(bench: Bench) -> str:
    """Make the server a replica, which refuses writes, then a master again; check that the worker goes on."""
    bench.begin()
    before = bench.stage.commands()[-1].number

    def refusals() -> int:
        return sum("READONLY" in (each.error or "") for each in bench.analysis().errors(before))

    with bench.stage.read_only():
        bench.note("the server became a replica: READONLY")
        bench.until(lambda: refusals() >= _REFUSALS, hurry=True, seconds=bench.plan.brief / 3)
    bench.note("it became a master again")
    if not bench.goes_on():
        raise Broken(f"{_stopped(bench)} after READONLY, though the server is a master again{bench.again}")
    if not bench.analysis().errors(before):
        raise NotTried("it sent nothing that a replica refuses")
    return f"it went on when there was a master again{bench.again}"


def restart(bench: Bench) -> str:
    """Stop the server for a second and restart it with its data; check that the worker goes on."""
    bench.begin()
    bench.down()
    bench.pause(_DOWN_SECONDS)
    bench.up()
    if not bench.goes_on():
        blame(bench, "cut")
        blame(bench, "scripts")
        raise Broken(f"{_stopped(bench)} after its server was away for a second{bench.again}")
    return f"it went on when the server was back{bench.again}"


def cut(bench: Bench) -> str:
    """Reset the worker's connections twice while it waits; check that it connects again and goes on."""
    bench.begin()
    for _ in range(2):
        bench.stage.cut()
        bench.note("all its connections were reset")
        if not bench.goes_on():
            raise Broken(f"{_stopped(bench)} after its connections were reset{bench.again}")
    return f"it connected again{bench.again}"


def flushed(bench: Bench) -> str:
    """Remove all data, including the worker's group; check that the worker creates the group again and goes on."""
    bench.begin()
    if not bench.goes_on():
        raise NotTried("it did not get so far")
    bench.stage.empty()
    bench.note("FLUSHALL")
    if not bench.goes_on():
        raise Broken(f"{_stopped(bench)} after FLUSHALL: {_state(bench)}{bench.again}")
    return f"it made its group again{bench.again}"


def _state(bench: Bench) -> str:
    if bench.group() is None:
        return f"the group {bench.plan.group} was not made again"
    return "no message sent since then is done"


def scripts(bench: Bench) -> str:
    """Remove the worker's scripts from the server; check that it loads them again and goes on."""
    if not bench.plan.uses_scripts:
        raise NotTried("it sends no EVALSHA")
    bench.begin()
    if not bench.goes_on():
        raise NotTried("it did not get so far")
    bench.stage.forget_scripts()
    bench.note("SCRIPT FLUSH")
    if not bench.goes_on():
        raise Broken(f"{_stopped(bench)} after SCRIPT FLUSH{bench.again}")
    return f"it loaded its script again{bench.again}"


def _stopped(bench: Bench) -> str:
    return bench.ended() or "it does nothing more"
