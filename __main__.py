"""The command line: ``rillet [redis.conf] [--directive value …]``, as redis-server's."""

from __future__ import annotations

import _thread
import gc
import os
import sys
import time

from . import __version__

TYPE_CHECKING = False  # that of `typing`, which takes milliseconds to load
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence
else:
    # What `signal` wraps. That one loads `enum` first, and Ctrl-C would print a traceback until it has.
    import _signal as signal

_INTERRUPTED = 128 + 2  # the status of a program that Ctrl-C ended, as shells give it
# The module of each tool; its ``main`` takes the words after the verb and returns the exit status.
_TOOLS = {
    "audit": ".testing.auditing.command",
    "cluster": ".testing.cluster_command",
    "console": ".console.command",
    "dev": ".console.dev",
    "pipeline": ".pipeline.cli.main",
    "proxy": ".testing.proxy_command",
    "redrive": ".console.redrive_command",
    "top": ".console.top",
}
_USAGE = """\
Usage: rillet [/path/to/redis.conf] [options] [-]
       rillet - (read config from stdin)
       rillet -v or --version [--verbose]
       rillet -h or --help
       rillet check-aof [--fix] <file.manifest|file.aof>
       rillet check-rdb <dump.rdb>
       rillet cluster [--shards 3] [--replicas 0] [--port 7000]     (for tests of clients)
       rillet proxy redis://…      (faults in front of a real server)
       rillet audit -- <command>  (a worker in any language: does it lose messages?)
       rillet pipeline <verb>     (Spark: --help lists the verbs)
       rillet dev                 (a server in memory and its console)
       rillet console redis://…   (streams and groups in the browser)
       rillet top redis://…       (the same in the terminal)
       rillet redrive redis://… STREAM   (dead letters back to the stream they came from)

Options are directives of redis.conf:
       rillet --port 7000 --appendonly yes --dir /var/lib/rillet
       rillet /etc/redis.conf --loglevel verbose
       rillet --port 0            (a free port, named in the log)

Sentinel mode:
       rillet /path/to/sentinel.conf --sentinel
"""


def main() -> int:
    """Run a server in this process until it stops, or a tool; return 0 after an orderly end."""
    early: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: early.append(number))
    tool = _tool(sys.argv[1]) if len(sys.argv) > 1 else None
    return _serve(early) if tool is None else _use(tool, early)


def _tool(name: str) -> Callable[[list[str]], int] | None:
    """Return what runs a verb of the command line, or None for what a server takes."""
    if name in {"check-aof", "check-rdb"}:
        return _check_aof if name == "check-aof" else _check_rdb
    if name not in _TOOLS:
        return None
    from importlib import import_module

    try:
        tool: Callable[[list[str]], int] = import_module(_TOOLS[name], __package__).main
    except ImportError as error:
        if name not in {"top", "redrive"}:  # the others say themselves which packages they need
            raise
        from .console.command import missing

        status = missing(f"rillet {name}", error)
        return lambda _: status
    return tool


def _use(tool: Callable[[list[str]], int], early: Sequence[int]) -> int:
    """Run a tool; Ctrl-C ends it without a traceback, unless it makes something else of it."""
    sys.unraisablehook = _interrupt_again
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if early:
            return _INTERRUPTED
        return tool(sys.argv[2:])
    except KeyboardInterrupt:
        return _INTERRUPTED
    except RuntimeError as error:
        # So it arrives from `__set_name__`, which each field of a dataclass runs at its import (Python 3.11).
        if isinstance(error.__cause__, KeyboardInterrupt):
            return _INTERRUPTED
        raise
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the interpreter's own end would print a traceback


def _interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Interrupt a moment later, where Ctrl-C fell into a callback of Python's (of an import's lock) that cannot raise."""
    main = _thread.get_ident()  # no other thread gets a KeyboardInterrupt

    def interrupt() -> None:
        time.sleep(0.01)
        if sys.platform == "win32":
            _thread.interrupt_main()
        else:
            signal.pthread_kill(main, signal.SIGINT)  # ends a wait for the system, too

    if lost.exc_type is KeyboardInterrupt:
        _thread.start_new_thread(interrupt, ())
    else:
        sys.__unraisablehook__(lost)


def _serve(early: Sequence[int]) -> int:
    # Loading modules makes much that stays and next to no garbage: to look for some takes 5 % of a start.
    gc.disable()  # until the server tunes it
    from .server.signals import end_on_signals

    end_on_signals(early)
    from .server.config.file import ConfigFileError, asks_for, parse_arguments

    asked = asks_for(sys.argv[1:])
    if asked == "version":
        return _version(sys.argv[2:])
    if asked == "help":
        print(_USAGE, end="")  # noqa: T201 - the requested output
        return 0
    try:
        config = parse_arguments(sys.argv[1:])
    except ConfigFileError as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no log yet
        return 1
    from .server.supervisor import Launch

    launch = Launch(config)
    if launch.status is not None:
        return launch.status
    end_on_signals(config=config)
    from .server.process import say_how_to_look, server_of_this_process

    server = server_of_this_process(config, launch.supervisor)
    server.log.listener = launch.hear if config.daemonize else None

    def on_ready() -> None:
        server.log.listener = None
        launch.ready()
        say_how_to_look(server)

    return server.run(on_ready)


def _version(words: list[str]) -> int:
    """Print the version in redis-server's form, which launchers parse; ``--compat-version`` may follow.

    ``--verbose`` adds where the package was loaded from: a folder of its name may hide it.
    """
    from .commands.spec.versions import compat_with
    from .server.config.file import ConfigFileError, parse_arguments

    verbose = "--verbose" in words
    words = [word for word in words if word != "--verbose"]
    try:
        release = compat_with(parse_arguments(words).compat_version).release
    except ConfigFileError as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no log yet
        return 1
    print(  # noqa: T201 - the requested output
        f"Redis server v={release} sha=00000000:0 malloc=libc bits=64 build=0 (Rillet {__version__})"
    )
    if verbose:
        print(f"Loaded from {os.path.dirname(os.path.abspath(__file__))}")  # noqa: PTH100, PTH120, T201 - as above
        print(f"Python {sys.version.split()[0]} at {sys.executable}")  # noqa: T201 - as above
    return 0


def _check_aof(words: list[str]) -> int:
    """Check append-only files; return 1 if one is not sound."""
    from pathlib import Path

    from .storage.aof.check import check_aof

    fixes = words[:1] == ["--fix"]
    if len(words) != 1 + fixes:
        print("Usage: rillet check-aof [--fix] <file.manifest|file.aof>")  # noqa: T201 - a command-line tool
        return 1
    return 0 if check_aof(Path(words[-1]), print, confirm=_confirm if fixes else None) else 1


def _check_rdb(words: list[str]) -> int:
    """Check an RDB file; return 1 if it is not sound."""
    from pathlib import Path

    from .server.clock import Clock
    from .storage.rdb.check import check_rdb

    if len(words) != 1:
        print("Usage: rillet check-rdb <dump.rdb>")  # noqa: T201 - a command-line tool
        return 1
    return 0 if check_rdb(Path(words[0]), print, now=Clock().now) else 1


def _confirm(question: str) -> bool:
    print(question)  # noqa: T201 - a command-line tool
    return input("Continue? [y/N]: ").lower().startswith("y")


if __name__ == "__main__":
    sys.exit(main())
