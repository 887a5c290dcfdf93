"""``rillet pipeline package FILE.zip``: pack the code that executors need, for ``spark-submit --py-files``.

The sources and the sink need only hiredis and PyArrow beside it. To read append-only files that begin with an RDB
base, executors also need anycrc, bitarray, python-neo-lzf, sortedcontainers and xxhash.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse

# The zip leaves out the server, its commands and Lua, and the console except the style that the report shares with it.
_ROOMS: Final = ("pipeline", "protocol", "storage", "console/style")
_KINDS: Final = frozenset({".py", ".css", ".html", ".yml", ".typed"})
# Packing twice gives the same bytes.
_MOMENT: Final = (1980, 1, 1, 0, 0, 0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``package``."""
    parser.add_argument(
        "file", metavar="FILE.zip", help="where to write; executors look into files that end so"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the zip for executors; return 1 if they could not import from a file with this name."""
    target = Path(arguments.file)
    if target.suffix != ".zip":
        sys.stderr.write(
            f"rillet pipeline package: {target} does not end with .zip: Spark's Python would not look into it\n"
        )
        return 1
    target.parent.mkdir(parents=True, exist_ok=True)
    count = pack(target)
    sys.stderr.write(f"{target} has {count} files: spark-submit --py-files {target} …\n")
    return 0


def pack(target: Path) -> int:
    """Write the zip for executors, and return the number of files in it."""
    root = Path(__file__).parents[2]
    names = sorted(_files(root))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(f"rillet/{name}", _MOMENT), (root / name).read_bytes())
    return len(names)


def _files(root: Path) -> Iterator[str]:
    yield from (path.name for path in root.iterdir() if path.name in {"__init__.py", "py.typed"})
    yield "console/__init__.py"
    for room in _ROOMS:
        for path in (root / room).rglob("*"):
            if path.suffix in _KINDS and "__pycache__" not in path.parts:
                yield path.relative_to(root).as_posix()
