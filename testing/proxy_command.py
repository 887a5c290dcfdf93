"""``rillet proxy``: a command that runs a proxy with faults in front of a real server, for clients in any language."""

from __future__ import annotations

import contextlib
import logging
import shlex
import signal
import sys
import threading
from pathlib import Path
from typing import Final

from ..arguments import Parser
from ..protocol.errors import ReplyError
from ..server.debugging.fault_spec import parse_fault
from .process import StartError
from .proxy import Proxy

_DESCRIPTION: Final = """\
Stand in front of a real Redis or Valkey, and let commands fail as --fault or a client's DEBUG FAULT says. Everything else
passes unchanged. A fault is a command and options of DEBUG FAULT: 'XACK close=after nth=3', 'GET key=user:* error=LOADING',
'slow=10,100 client=worker-*'; times are milliseconds. At the end it names the faults that hit nothing.
"""

_FLAGS: Final = frozenset(("SILENCE", "EMPTY"))


def main(words: list[str]) -> int:
    """Run a proxy until SIGTERM or SIGINT; return the exit status, 0 after a clean shutdown."""
    parser = Parser(prog="rillet proxy", description=_DESCRIPTION)
    parser.add_argument(
        "url", help="of the server: redis://, rediss:// or unix://, with the password of clients"
    )
    parser.add_argument("--port", type=int, default=7000, help="of the proxy; 0: a free one (7000)")
    parser.add_argument("--bind", default="127.0.0.1", help="its address (127.0.0.1: this machine alone)")
    parser.add_argument(
        "--fault", action="append", default=[], metavar="FAULT", help="'XACK close=after nth=3'"
    )
    parser.add_argument("--record", metavar="FILE", help="append a line for each command and its reply")
    parser.add_argument(
        "--no-debug", action="store_true", help="let DEBUG FAULT and DEBUG RECORD pass to the server"
    )
    options = parser.parse_args(words)
    try:
        faults = [words_of(fault) for fault in options.fault]
        for each in faults:
            parse_fault(each)
        proxy = Proxy(options.url, port=options.port, host=options.bind, answers_debug=not options.no_debug)
    except ValueError as error:
        parser.error(str(error))
    except ReplyError as error:
        parser.error(error.text.decode().removeprefix("ERR "))
    # Set handlers before the start, so that a signal during the start ends the proxy, too.
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    try:
        with contextlib.ExitStack() as stack:
            if options.record is not None:
                # Line-buffered, so that readers see each command at once.
                file = stack.enter_context(Path(options.record).open("a", buffering=1, encoding="utf-8"))
            stack.enter_context(proxy)
            if options.record is not None:
                proxy.record_to(file)
            made = [proxy.fault_in_words(*each).start() for each in faults]
            print(f"{proxy.host}:{proxy.port} -> {proxy.server_name}")  # noqa: T201 - a command-line tool
            print("Ready to accept connections", flush=True)  # noqa: T201 - what launchers wait for
            ended.wait()
            unused = [
                fault for fault in proxy.faults if fault.id in {each.id for each in made} and not fault.count
            ]
    except (StartError, ValueError, OSError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command-line tool
        return 1
    for fault in unused:
        print(f"the fault hit nothing: {fault.options}", file=sys.stderr)  # noqa: T201 - a command-line tool
    return 0


def words_of(fault: str) -> list[bytes]:
    """Convert a command-line fault (``XACK close=after nth=3``) to the words of DEBUG FAULT ADD."""
    names: list[str] = []
    words: list[str] = []
    for word in shlex.split(fault):
        name, equals, value = word.partition("=")
        option = name.upper().replace("_", "-")
        if equals:
            words += [option, *(value.split(",") if option == "SLOW" else [value])]
        elif option in _FLAGS:
            words.append(option)
        else:
            names.append(word)
    if names:
        words = ["COMMAND", " ".join(names), *words]
    return [word.encode() for word in words]
