"""The Pythons of this machine that the package names: 3.11 to 3.14, on PATH or in pyenv's folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
CURRENT = "{}.{}".format(*sys.version_info)


def pythons() -> dict[str, str]:
    """Return the program of each Python found, by its version; the one that runs this is the one of its version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {CURRENT: sys.executable}
    for version in SUPPORTED:
        for path in (shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))):
            if version not in found and path is not None and _is_version(version, str(path)):
                found[version] = str(path)
    return dict(sorted(found.items()))


def _is_version(version: str, path: str) -> bool:
    """Ask the program: a shim of pyenv may be there without the Python behind it."""
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", question], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() == version
