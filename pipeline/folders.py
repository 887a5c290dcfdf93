"""Access the folders of jobs on any file system that Spark writes to: local ones with Python, others through Spark.

Others are paths with a scheme that Hadoop knows (``s3a://``, ``gs://``, ``abfss://``, ``hdfs://``), and paths without
a scheme if ``fs.defaultFS`` is not local.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from .error_tokens import LabelledError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME: Final = re.compile(r"file:|[A-Za-z][A-Za-z0-9+.-]*://")


class JobError(LabelledError):
    """A job cannot do what was asked; the text is for the user."""

    label = "JOB_REFUSED"


class LocalFolder:
    """A folder that this process can reach by itself: local or mounted."""

    def __init__(self, path: Path) -> None:
        self.local = path

    def __str__(self) -> str:
        return str(self.local)

    def path(self, *parts: str) -> str:
        """Return an absolute path with its scheme: Spark may run in another folder, with another default file system."""
        return f"file:{self.local.joinpath(*parts).resolve()}"  # not escaped: Hadoop reads it as it is

    def names(self, *parts: str) -> list[str]:
        """Return the names in the folder at a path within this one; [] if there is no such folder."""
        path = self.local.joinpath(*parts)
        return [each.name for each in path.iterdir()] if path.is_dir() else []

    def text(self, *parts: str) -> str:
        """Return the text of a file in the folder."""
        return self.local.joinpath(*parts).read_text(encoding="utf-8")

    def make(self) -> None:
        """Create the folder if it does not exist."""
        self.local.mkdir(parents=True, exist_ok=True)


class SparkFolder:
    """A folder on a file system that only Spark's JVM can reach, such as S3."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001 - as below
        self._jvm = jvm
        try:
            root = jvm.org.apache.hadoop.fs.Path(uri)
            self._files = root.getFileSystem(_hadoop_conf(spark))
            self._root = str(self._files.makeQualified(root).toString())
        except _java_error() as error:
            raise JobError(f"Spark does not reach {uri}: {_first_line(error)}") from error

    def __str__(self) -> str:
        return self._root

    def path(self, *parts: str) -> str:
        """Return the address of a path in the folder."""
        return "/".join([self._root.rstrip("/"), *parts])

    def names(self, *parts: str) -> list[str]:
        """Return the names in the folder at a path within this one; [] if there is no such folder.

        Raises OSError: it cannot be listed.
        """
        try:
            return [each.getPath().getName() for each in self._files.listStatus(self._at(*parts))]
        except _java_error() as error:
            if "java.io.FileNotFoundException" in str(error.java_exception):
                return []
            raise _os_error(self.path(*parts), error) from error

    def text(self, *parts: str) -> str:
        """Return the text of a file in the folder."""
        try:
            stream = self._files.open(self._at(*parts))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()
        except _java_error() as error:
            raise _os_error(self.path(*parts), error) from error

    def make(self) -> None:
        """Create the folder if it does not exist. Raises OSError: it cannot be created."""
        try:
            self._files.mkdirs(self._at())
        except _java_error() as error:
            raise _os_error(self.path(), error) from error

    def _at(self, *parts: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.path(*parts))


Folder = LocalFolder | SparkFolder


def folder_of(word: str, spark: SparkSession | None) -> Folder:
    """Return the folder for a path, or a URI of any file system that Spark knows, from the command line.

    Raises JobError: Spark has no such file system, or cannot reach it.

    Args:
        word: the path or URI as the user wrote it.
        spark: None or a session of Spark Connect: only local folders are possible.
    """
    has_scheme = _SCHEME.match(word) is not None
    path = _local_path(word) if has_scheme else Path(word)
    if spark is None or getattr(spark, "_jvm", None) is None:
        if path is None:
            raise JobError(f"{word} is not on this machine, and there is no JVM of Spark here to reach it")
        return LocalFolder(path)
    if path is not None and (has_scheme or _is_local_by_default(spark)):
        return LocalFolder(path)
    return SparkFolder(spark, word)


def local_folder(word: str) -> Path:
    """Return the path of a local folder from the command line, for verbs that work without Spark.

    Raises JobError: it is on a file system that is not mounted here.
    """
    path = Path(word) if _SCHEME.match(word) is None else _local_path(word)
    if path is None:
        raise JobError(
            f"{word} is not on this machine: what works without Spark needs a folder that is local or mounted"
        )
    return path


def _local_path(word: str) -> Path | None:
    """Return the path in a ``file:`` URI; None for others."""
    parts = urlsplit(word)
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        return None
    return Path(unquote(parts.path))


def _is_local_by_default(spark: SparkSession) -> bool:
    return bool(_hadoop_conf(spark).get("fs.defaultFS", "file:///").startswith("file:"))


def _hadoop_conf(spark: SparkSession) -> Any:
    session: Any = spark._jsparkSession  # noqa: SLF001 - PySpark has no other way to Hadoop's file systems
    return session.sessionState().newHadoopConf()


def _java_error() -> type[Any]:
    """Return Py4J's error for exceptions of Java; imported only where there is a JVM."""
    from py4j.protocol import Py4JJavaError

    found: type[Any] = Py4JJavaError
    return found


def _first_line(error: Any) -> str:
    return str(error.java_exception).splitlines()[0]


def _os_error(path: str, error: Any) -> OSError:
    return OSError(f"{path}: {_first_line(error)}")
