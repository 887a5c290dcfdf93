"""``rillet audit``: test a worker in any language against the promises of a stream consumer."""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from ...arguments import Parser
from .bench import TIMEOUT, Plan
from .catalogue import PROMISES
from .messages import Messages, parse
from .producers import PRODUCER_PROMISES
from .report import as_annotations, as_json, as_junit, summary, table
from .results import BROKEN, CannotRunError, Result
from .running import Audit
from .stage import Stage

_CANNOT: Final = 2
_PRODUCER_SECONDS: Final = 60
_DESCRIPTION: Final = """\
Run a worker as it is through the promises of a stream consumer, each on a fresh server with a clock of its own. The worker
finds the server by REDIS_URL or by REDIS_HOST and REDIS_PORT, or by {url}, {host} and {port} in its command; CONSUMER, NAME and
HOSTNAME, or {consumer}, say what to call its consumer. A worker that ends with an error is started again, as a supervisor does.

Exit status: 0, nothing is broken; 1, a promise is broken; 2, it could not be run.
"""


def main(words: list[str]) -> int:
    """Run ``rillet audit`` with these command-line words; return the exit status."""
    options = _options(words)
    logging.getLogger("rillet").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its workers must not outlive it
    try:
        plan = Plan(
            command=options.command,
            environment=dict(options.env),
            stream=options.stream or "",
            group=options.group or "",
            messages=Messages(_templates(options), options.seed),
            done=options.done,
            timeout=options.timeout,
            restarts=not options.no_restart,
            real=options.rillet_url or "",
            may_flush=options.rillet_flush,
        )
        for path in filter(None, (options.json, options.junit)):
            _can_be_written(path)
        progress = _Progress(len(options.names))
        results = Audit(plan, options.jobs, options.catalogue).run(options.names, progress.tell)
    except CannotRunError as error:
        _Progress.clear()
        print(f"rillet audit: {error}", file=sys.stderr)  # noqa: T201 - a command-line tool
        return _CANNOT
    progress.clear()
    colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    print(table(results, colours=colours))  # noqa: T201 - the requested output
    print(f"\n{summary(results, plan)} ({progress.seconds:.0f} s)")  # noqa: T201 - likewise
    if options.github:
        print(as_annotations(results))  # noqa: T201 - likewise
    for path, text in ((options.json, as_json), (options.junit, as_junit)):
        if path == "-":
            print(text(results, plan), end="")  # noqa: T201 - likewise
        elif path:
            Path(path).write_text(text(results, plan), encoding="utf-8")
    return int(any(each.result == BROKEN for each in results))


def _options(words: Sequence[str]) -> Any:
    words, command = _divided(words)
    parser = Parser(
        prog="rillet audit",
        usage="rillet audit [options] -- COMMAND…",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Promises:\n"
        + "\n".join(f"  {each.name:17} {each.story}" for each in PROMISES.values())
        + "\n\nPromises of a producer:\n"
        + "\n".join(f"  {each.name:17} {each.story}" for each in PRODUCER_PROMISES.values()),
    )
    add = parser.add_argument
    add(
        "--env",
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=VALUE",
        help="for the worker; also with {url} …",
    )
    add("--stream", help="that it reads (found by its XREADGROUP)")
    add("--group", help="of its consumer (likewise)")
    add("--send", metavar="JSON", help="what a message is: fields, or a file of messages; {n} is a number")
    add(
        "--producer", nargs="?", const=True, metavar="COMMAND",
        help="what adds messages; those that it adds are sent. Without a command of its own: audit a producer",
    )  # fmt: skip
    add("--done", metavar="KEY", help="where its work is seen (its first write after a delivery)")
    add("--only", type=_names, metavar="NAME,…", help="try these promises")
    add("--skip", type=_names, default=(), metavar="NAME,…", help="do not try these")
    add(
        "--jobs",
        type=int,
        default=os.cpu_count() or 2,
        metavar="N",
        help="experiments at a time (a core each)",
    )
    add("--seed", type=int, default=0, metavar="N", help="changes the numbers of the messages")
    add(
        "--timeout",
        type=float,
        default=TIMEOUT,
        metavar="SECONDS",
        help=f"after which what has not come never comes: longer than the worker's own timers ({TIMEOUT:g})",
    )
    add(
        "--rillet-url",
        metavar="URL",
        help="a real server behind a proxy, instead of a Rillet for each promise: redis://127.0.0.1:6379/5",
    )
    add(
        "--rillet-flush",
        action="store_true",
        help="it may hold data, which is removed; a database in the URL is the audit's own",
    )
    add("--no-restart", action="store_true", help="a worker that ends is not started again")
    add("--json", metavar="FILE", help="write the results; - for standard output")
    add("--junit", metavar="FILE", help="likewise, as JUnit's XML")
    add("--github", action="store_true", help="print annotations for GitHub Actions")
    options = parser.parse_args(words)
    if not command:
        parser.error("name the command of the worker after --")
    if options.send and options.producer:
        parser.error("--send or --producer, not both")
    if options.jobs < 1 or options.timeout <= 0:
        parser.error("--jobs and --timeout are positive")
    options.command = command
    options.catalogue = PRODUCER_PROMISES if options.producer is True else PROMISES
    for each in (*(options.only or ()), *options.skip):
        if each not in options.catalogue:
            parser.error(f"there is no promise {each!r}{_close(each, options.catalogue)}")
    options.names = [each for each in options.only or options.catalogue if each not in options.skip]
    if not options.names:
        parser.error("no promise is left to try")
    return options


def _divided(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words before and after ``--``."""
    words = list(words)
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _close(name: str, names: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {close[0]}?" if close else ""


def _templates(options: Any) -> list[dict[str, str]]:
    """Return the templates of messages. Raises CannotRunError: they cannot be read, or the producer creates none."""
    if options.producer is True:
        return []
    if options.producer:
        return _produced(options)
    if not options.send:
        return []
    text = options.send
    try:
        if not text.lstrip().startswith(("{", "[")):
            text = Path(text).read_text(encoding="utf-8")
        return parse(text)
    except (OSError, ValueError) as error:
        raise CannotRunError(f"--send {options.send}: {error}") from None


def _produced(options: Any) -> list[dict[str, str]]:
    """Run the producer once, and return the messages that it added."""
    with Stage() as stage:
        environment = os.environ | {
            "REDIS_URL": stage.url, "REDIS_HOST": stage.host, "REDIS_PORT": str(stage.port), **dict(options.env),
        }  # fmt: skip
        try:
            done = subprocess.run(  # noqa: S603 - the caller's own command
                shlex.split(options.producer),
                env=environment,
                capture_output=True,
                text=True,
                timeout=_PRODUCER_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotRunError(f"--producer {options.producer}: {error}") from None
        streams = [options.stream] if options.stream else stage.streams()
        for stream in streams:
            entries = stage.run("XRANGE", stream, "-", "+", "COUNT", "100")
            if entries:
                return [
                    {name.decode(): value.decode(errors="surrogateescape") for name, value in _twos(fields)}
                    for _, fields in entries
                ]
        raise CannotRunError(
            f"--producer {options.producer} added nothing:\n{done.stdout}{done.stderr}".rstrip()
        )


def _can_be_written(path: str) -> None:
    """Raise CannotRunError before the audit if its results cannot be written to this path."""
    if path != "-":
        try:
            Path(path).touch()
        except OSError as error:
            raise CannotRunError(f"{path}: {error.strerror}") from None


def _twos(words: list[bytes]) -> list[tuple[bytes, bytes]]:
    return list(zip(words[::2], words[1::2], strict=True))


class _Progress:
    """A line that shows the progress of the audit, if standard error is a terminal."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._begin = time.monotonic()
        self._show("")

    @property
    def seconds(self) -> float:
        """The duration of the audit so far."""
        return time.monotonic() - self._begin

    def tell(self, result: Result) -> None:
        """Count a result, and show it in the line."""
        self._done += 1
        self._show(f"{result.name} {result.result}")

    def _show(self, text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[K{self._done} of {self._total}  {text}", end="", file=sys.stderr, flush=True)  # noqa: T201

    @staticmethod
    def clear() -> None:
        """Erase the line from the terminal."""
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)  # noqa: T201 - a command-line tool
