"""An audit as tests: a parametrized pytest test, and a unittest mixin."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from .bench import TIMEOUT, Plan
from .catalogue import PROMISES
from .messages import Messages
from .results import BROKEN, NOT_TRIED, Result
from .running import Audit


def audit(
    *,
    command: Sequence[str] = (),
    target: Callable[..., Any] | None = None,
    stream: str = "",
    group: str = "",
    send: Mapping[str, str] | Sequence[Mapping[str, str]] = (),
    done: str | None = None,
    env: Mapping[str, str] | None = None,
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    xfail: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    restart: bool = True,
) -> Callable[[str], None]:
    """Return a pytest test that is parametrized with the promises of a stream consumer.

    ::

        test_my_worker = rillet.testing.audit(command=[sys.executable, "worker.py"], xfail={"poison": "issue 12"})

    Args:
        command: the command that starts the worker, as for ``rillet audit``.
        target: a coroutine function or a function instead of a command. It is called with the URL of the server and, if it
            takes two arguments, the name of its consumer. A coroutine runs in its own event loop and thread, and can be
            killed by stopping the loop; a function runs in a thread, which cannot be killed.
        stream: the key; "" finds it from the worker's XREADGROUP.
        group: the consumer group; "" likewise.
        send: the fields of a message, or several messages; ``{n}`` in a value becomes a number.
        done: the key at which the worker's work shows; None: that of its first write after a delivery.
        env: environment variables of the command; may contain ``{url}``, ``{host}``, ``{port}``, ``{consumer}``.
        only: the names of the promises to try; by default all.
        skip: the names of promises to leave out.
        xfail: the names of promises that are known to be broken, with reasons. Such a test fails if the promise is kept.
        timeout: seconds after which the audit stops waiting; must be longer than the worker's own timers.
        restart: whether a worker that ends with an error is restarted, as a supervisor does.

    Raises:
        ValueError: there is no such promise, or neither a command nor a target.
    """
    import pytest

    known = dict(xfail or {})
    names = chosen(only, skip, known)
    run = Audit(_plan(command, target, stream, group, send, done, env, timeout, restart=restart), jobs=2)
    parameters = [
        pytest.param(
            name, marks=[pytest.mark.xfail(reason=known[name], strict=True)] if name in known else []
        )
        for name in names
    ]

    @pytest.mark.parametrize("promise", parameters)
    def test_audit(promise: str) -> None:
        result = run.result(promise)
        if result.result == NOT_TRIED:
            pytest.skip(result.what)
        if result.result == BROKEN:
            pytest.fail(described(result), pytrace=False)

    return test_audit


class AuditMixin(unittest.TestCase):
    """A class of tests, one for each promise of a stream consumer; put it before ``unittest.TestCase``.

    ::

        class TestMyWorker(AuditMixin, unittest.TestCase):
            audit_options = {"command": [sys.executable, "worker.py"], "xfail": {"poison": "issue 12"}}

    Attributes:
        audit_options: the arguments of ``rillet.testing.audit``.
    """

    audit_options: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        """Create the tests of a subclass that has ``audit_options``."""
        super().__init_subclass__(**options)
        if "audit_options" not in vars(cls):
            return
        given = dict(cls.audit_options)
        known = dict(given.pop("xfail", {}))
        names = chosen(given.pop("only", ()), given.pop("skip", ()), known)
        values: dict[str, Any] = {
            "command": (), "target": None, "stream": "", "group": "", "send": (), "done": None, "env": None,
            "timeout": TIMEOUT, "restart": True,
        }  # fmt: skip
        if unknown := given.keys() - values.keys():
            raise TypeError(f"audit_options has no {', '.join(sorted(unknown))}")
        run = Audit(_plan(**values | given), jobs=2)
        for name in names:
            test = _test_of(run, name)
            setattr(
                cls,
                f"test_{name.replace('-', '_')}",
                unittest.expectedFailure(test) if name in known else test,
            )


def chosen(only: Iterable[str], skip: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the names of the promises to try, in catalogue order: those in ``only`` (empty: all) but not in ``skip``.

    Raises ValueError: a name in ``only``, ``skip`` or ``known`` is not a promise.
    """
    only, skip = list(only), list(skip)
    for name in (*only, *skip, *known):
        if name not in PROMISES:
            raise ValueError(f"there is no promise {name!r}: {', '.join(PROMISES)}")
    return [name for name in PROMISES if (not only or name in only) and name not in skip]


def described(result: Result) -> str:
    """Return the promise's name, its verdict and the evidence, as lines of text."""
    return "\n".join([f"{result.name}: {result.what}", *(f"  {each}" for each in result.evidence)])


def _plan(
    command: Sequence[str],
    target: Callable[..., Any] | None,
    stream: str,
    group: str,
    send: Mapping[str, str] | Sequence[Mapping[str, str]],
    done: str | None,
    env: Mapping[str, str] | None,
    timeout: float,
    *,
    restart: bool,
) -> Plan:
    if bool(command) == (target is not None):
        raise ValueError("audit takes a command or a target")
    templates = [send] if hasattr(send, "keys") else list(send)
    return Plan(
        command=command,
        target=target,
        environment=dict(env or {}),
        stream=stream,
        group=group,
        messages=Messages(templates),  # type: ignore[arg-type]  # either is a mapping
        done=done,
        timeout=timeout,
        restarts=restart,
    )


def _test_of(run: Audit, name: str) -> Callable[[unittest.TestCase], None]:
    def test(self: unittest.TestCase) -> None:
        result = run.result(name)
        if result.result == NOT_TRIED:
            self.skipTest(result.what)
        if result.result == BROKEN:
            self.fail(described(result))

    test.__doc__ = PROMISES[name].story
    return test
