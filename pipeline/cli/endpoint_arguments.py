"""Declare the address of Redis: the endpoint options of the Spark formats as command-line arguments, with dashes."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ..redis.options import FLAG, SECRETS, Endpoint, records

if TYPE_CHECKING:
    import argparse


def add_endpoint_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare arguments for the address of Redis and the login."""
    group = parser.add_argument_group("Redis")
    for each in records(Endpoint).values():
        word = "--" + re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", each.name)
        if each.kind is FLAG:
            group.add_argument(word, dest=each.name, action="store_const", const="true", help=each.meaning)
        else:
            default = "" if each.default is None else f" (default {each.default})"
            group.add_argument(word, dest=each.name, metavar=word[2:].upper(), help=each.meaning + default)


def endpoint_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the parsed endpoint arguments as options of the Spark formats.

    Without a password argument, the environment variable REDIS_PASSWORD is used.
    """
    found = {name: value for name in records(Endpoint) if (value := getattr(arguments, name)) is not None}
    password = os.environ.get("REDIS_PASSWORD")
    if password and "@" not in found.get("url", "") and not any(name in found for name in SECRETS):
        found["password"] = password
    return found
