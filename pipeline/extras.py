"""Which extra of ours brings which package, for messages that say what to install."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from .error_tokens import LabelledError

EXTRAS: Final = {
    **dict.fromkeys(
        ("pyspark", "py4j", "pyarrow", "pandas", "jinja2", "markupsafe", "prometheus_client", "redis"),
        "spark",
    ),
    **dict.fromkeys(("deltalake", "pyiceberg", "sqlalchemy"), "lake"),
    **dict.fromkeys(("grpc", "grpc_status", "zstandard"), "connect"),
}  # fmt: skip


class MissingPackageError(LabelledError, ImportError):
    """A package of an extra is not installed; the text says how to install it."""

    label = "MISSING_PACKAGE"


def need(*packages: str, by: str = "rillet.pipeline", extra: str | None = None) -> None:
    """Stop early and clearly where a package is not installed.

    Args:
        packages: as they are imported.
        by: what needs them.
        extra: which brings all of them; None: the one that brings the missing package.

    Raises:
        MissingPackageError: with the command that installs it.
    """
    for name in packages:
        if find_spec(name) is None:
            raise MissingPackageError(f"{by} needs {name}: {install(extra or EXTRAS[name])}", name=name)


def install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'rillet[{extra}]'"
