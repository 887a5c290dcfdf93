"""``rillet console``: the console for a server, on the command line."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

from ..arguments import Parser

PORT: Final = 8379
_DESCRIPTION: Final = """\
A console for streams and consumer groups in the browser, for Rillet, Redis from 6.2 on and Valkey from 7.2 on. It listens
on loopback. It changes nothing, unless the server is a Rillet with debug commands, or --allow-writes is given.
"""


def parser(prog: str, *short: str) -> Parser:
    """Return the parser for the options of the web server, which ``rillet dev`` shares.

    ``short`` are other names of ``--console-port``: a command that starts no server can use ``--port`` for it.
    """
    made = Parser(prog=prog, description=_DESCRIPTION)
    made.add_argument(
        *("--console-port", "-p", *short), type=int, default=PORT, help=f"of the page; 0: a free one ({PORT})"
    )
    bind = ["--bind"] if short else []
    made.add_argument("--console-bind", *bind, default="127.0.0.1", help="address to listen on (127.0.0.1)")
    made.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a Host that a proxy sends; may repeat",
    )
    made.add_argument(
        "--wait", action="store_true", help="start although the server cannot be read yet, and wait for it"
    )
    made.add_argument(
        "--token-file", metavar="FILE", help="its first line is asked for; also RILLET_CONSOLE_TOKEN"
    )
    made.add_argument(
        "--token", default="", help="asked for once in each browser; other users can see it in ps"
    )
    return made


def main(words: list[str]) -> int:
    """Serve the console until SIGINT or SIGTERM; return 0 after an orderly end."""
    made = parser("rillet console", "--port")
    made.add_argument(
        "url", help="redis://user@host:port/db, rediss://, unix://, redis+sentinel://, redis+cluster://"
    )
    changes = made.add_mutually_exclusive_group()
    changes.add_argument(
        "--read-only", action="store_const", const=True, dest="read_only", help="change nothing"
    )
    changes.add_argument(
        "--allow-writes", action="store_const", const=False, dest="read_only", help="let actions run"
    )
    options = made.parse_args(words)
    try:
        from .serving import serve

        return serve(with_password(options.url), options, read_only=options.read_only, say=say)
    except ValueError as error:
        made.error(str(error))
    except ImportError as error:
        return missing("rillet console", error)


def missing(tool: str, error: ImportError) -> int:
    """Print how to install a missing tool; return the exit status, 1."""
    print(f"{tool} needs more packages: pip install 'rillet[console]' ({error})", file=sys.stderr)  # noqa: T201 - a command-line tool
    return 1


def with_password(url: str) -> str:
    """Return an address with the password of REDISCLI_AUTH if it has none: other users could see a password in ps."""
    password = os.environ.get("REDISCLI_AUTH")
    parts = urlsplit(url)
    if not password or parts.password is not None:
        return url
    place = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{parts.username or ''}:{quote(password, safe='')}@{place}").geturl()


def token_of(options: argparse.Namespace) -> str:
    """Return the token from the options or the environment; empty if there is none.

    Raises ValueError: the file is empty or cannot be read.
    """
    if options.token_file:
        try:
            token = Path(options.token_file).read_text(encoding="utf-8").partition("\n")[0].strip()
        except OSError as error:
            raise ValueError(f"--token-file: {error}") from error
        if not token:
            raise ValueError("--token-file: its first line is empty")
        return token
    return str(options.token or os.environ.get("RILLET_CONSOLE_TOKEN", ""))


def say(line: str) -> None:
    """Print a line and flush it, even into a pipe, so that it appears at once."""
    print(line, flush=True)  # noqa: T201 - a command-line tool
