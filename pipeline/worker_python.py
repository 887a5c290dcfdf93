"""Check that the Python of Spark's workers on this machine can import Rillet."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Final

_TRY: Final = "import sys, rillet.pipeline.redis.connection; print('%d.%d' % sys.version_info[:2])"
_SECONDS: Final = 60


def what_is_wrong(worker: str) -> tuple[str, str] | None:
    """Try the Python of Spark's workers.

    Return what is wrong with it and what helps, or None if it can import Rillet.

    ``worker``: a path, or a name on PATH.
    """
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    try:
        done = subprocess.run(  # noqa: S603 - a program that Spark runs
            [worker, "-c", _TRY], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{worker} does not run: {error}", "unset PYSPARK_PYTHON, or name a Python with Rillet"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"{worker} cannot import rillet: {last}", f"{worker} -m pip install 'rillet[spark]'"
    if done.stdout.strip() != own:
        return f"{worker} is {done.stdout.strip()}, this is {own}", "Spark needs the same version in both"
    return None


def is_this_one(worker: str) -> bool:
    """Return True if the worker's program is this process' Python.

    Only paths are compared, because environments may link to the same Python.
    """
    found = shutil.which(worker)
    return found is not None and os.path.abspath(found) == os.path.abspath(sys.executable)  # noqa: PTH100 - does not follow links
