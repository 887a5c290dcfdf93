"""Secrets that are not in options: read from the environment, a file or a provider for each new connection.

The driver and every executor read them when they connect. So the next connection uses a changed password, and no
password is in a plan, a checkpoint or a task.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any


def read(
    username: str | None, *, env: str | None, file: str | None, provider: str | None
) -> tuple[str | None, str]:
    """Read the current user name and password from their source.

    Raises ValueError: they cannot be read; the text names the source.

    Args:
        username: the user name, unless the provider returns one.
        env: the name of an environment variable, or None.
        file: a path, or None.
        provider: a function as ``package.module:name``, if neither is given.
    """
    if env:
        password = os.environ.get(env)
        if password is None:
            raise ValueError(f"option 'passwordEnv': this process has no environment variable {env}")
        return username, password
    if file:
        try:
            return username, Path(file).read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            raise ValueError(f"option 'passwordFile': {error}") from error
    assert provider is not None
    return _ask(provider, username)


def _ask(provider: str, username: str | None) -> tuple[str | None, str]:
    """Call ``package.module:name`` without arguments; it returns a password, or a user name and a password."""
    module, _, name = provider.partition(":")
    try:
        found: Any = getattr(import_module(module), name)()
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"option 'credentialsProvider' {provider!r}: {error}") from error
    if isinstance(found, str):
        return username, found
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], str):
        return found
    raise ValueError(
        f"option 'credentialsProvider' {provider!r} returned {type(found).__name__}, not a password or (user name, password)"
    )
