"""The extras of the package (``rillet[spark]`` …), and the error that tells how to install a missing one."""

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
    """Raise an error that says how to install a missing package, if one of these packages is missing.

    Raises MissingPackageError: a package is missing; the text has the command that installs it.

    Args:
        packages: names to import.
        by: the code that needs them, for the text.
        extra: the extra that installs all of them; None: the one that installs the missing package.
    """
    for name in packages:
        if find_spec(name) is None:
            raise MissingPackageError(f"{by} needs {name}: {install(extra or EXTRAS[name])}", name=name)


def install(extra: str) -> str:
    """Return the shell command that installs an extra: ``pip install 'rillet[spark]'``."""
    return f"pip install 'rillet[{extra}]'"
