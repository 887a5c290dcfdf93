"""Where Redis is, as words of the command line: the endpoint options of the Spark formats, written with dashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add_endpoint_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where Redis is, for verbs that need it."""
    group = parser.add_argument_group("Redis")
    group.add_argument("--url", help="redis://, redis+cluster:// or redis+sentinel://…; rediss… with TLS")
    group.add_argument("--host", help="default 127.0.0.1")
    group.add_argument("--port", help="default 6379")
    group.add_argument("--username")
    group.add_argument("--password", help="better left to the environment variable REDIS_PASSWORD")
    group.add_argument("--db")
    group.add_argument("--sentinel-username", dest="sentinelUsername")
    group.add_argument("--sentinel-password", dest="sentinelPassword")
    group.add_argument("--unix-socket", dest="unixSocket")
    group.add_argument("--tls", action="store_const", const="true")
    group.add_argument("--tls-ca-cert", dest="tlsCaCert")
    group.add_argument("--tls-cert", dest="tlsCert")
    group.add_argument("--tls-key", dest="tlsKey")
    group.add_argument("--tls-skip-verify", dest="tlsSkipVerify", action="store_const", const="true")


def endpoint_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Return what ``add_endpoint_arguments`` read, as options of the Spark formats."""
    import os

    from ..redis.options import Endpoint, records

    found = {
        name: str(value)
        for name in records(Endpoint)
        if (value := getattr(arguments, name, None)) is not None
    }
    if "password" not in found and (password := os.environ.get("REDIS_PASSWORD")):
        found["password"] = password
    return found
