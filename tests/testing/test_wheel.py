"""The wheel beside a user's project that has top-level folders of the same names as ours."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (
    "__init__.py", "__main__.py", "pytest_plugin.py", "py.typed", "pyproject.toml", "setup.py", "README.md", "LICENSE",
    "commands", "pipeline", "protocol", "server", "storage", "testing",
)  # fmt: skip

DEPENDENCIES = (
    "anycrc", "bitarray", "hiredis", "uvloop", "sortedcontainers", "xxhash", "redis",
    "pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments",
)  # fmt: skip


def run(*words, cwd, **options):
    return subprocess.run(
        [str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=True, **options
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        there = ROOT / name
        if there.is_dir():
            shutil.copytree(there, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(there, source / name)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", ".", cwd=source)
    return next((source / "dist").glob("rillet-*.whl"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory, wheel):
    """A fresh environment that borrows our dependencies but not our editable install."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=False)
    site = next(folder.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    for dependency in DEPENDENCIES:
        origin = Path(importlib.util.find_spec(dependency).origin)
        there = origin.parent if origin.name == "__init__.py" else origin
        (site / there.name).symlink_to(there)
    return folder / "bin" / "python"


def test_everything_in_the_wheel_is_inside_the_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"rillet"}


def test_the_wheel_has_every_module_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if name.startswith("rillet/")}
    expected = {
        f"rillet/{path.relative_to(ROOT).as_posix()}"
        for folder in ("commands", "pipeline", "protocol", "server", "storage", "testing")
        for kind in ("*.py", "*.lua", "*.css", "*.html", "*.yml")
        for path in (ROOT / folder).rglob(kind)
    } | {
        "rillet/__init__.py",
        "rillet/__main__.py",
        "rillet/pytest_plugin.py",
        "rillet/py.typed",
    }
    assert inside == expected


def test_a_project_with_folders_of_the_same_names_is_not_disturbed(environment, tmp_path):
    for name in ("server", "commands", "pipeline", "protocol", "storage", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"MINE = {name!r}\n")
    (tmp_path / "main.py").write_text(
        "import server, commands, protocol, storage, tests\n"
        "import rillet.testing\n"
        "with rillet.testing.Server() as running:\n"
        "    running.client().set('k', 'v')\n"
        "import server, commands\n"
        "print(server.MINE, commands.MINE, protocol.MINE, storage.MINE, tests.MINE)\n"
    )
    out = run(environment, "main.py", cwd=tmp_path).stdout
    assert out.split() == ["server", "commands", "protocol", "storage", "tests"]


def test_the_fixtures_are_there_without_an_import(environment, tmp_path):
    (tmp_path / "test_mine.py").write_text("def test_it(rillet):\n    assert rillet.ping()\n")
    out = run(environment, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path).stdout
    out = run(environment, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path).stdout
    assert "1 passed" in out


def test_the_module_runs_as_a_program(environment, tmp_path):
    assert run(environment, "-m", "rillet", "--version", cwd=tmp_path).stdout.startswith("Redis server v=")


def test_without_spark_the_pipeline_says_how_to_get_it(environment, tmp_path):
    output = run(environment, "-m", "rillet", "pipeline", "--help", cwd=tmp_path).stdout
    assert "doctor" in output
    done = subprocess.run(
        [str(environment), "-m", "rillet", "pipeline", "doctor", "--port", "1"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "WRONG   pyspark: not installed\n          -> pip install 'rillet[spark]'" in done.stdout
    program = "import rillet.pipeline; rillet.pipeline.session()"
    done = subprocess.run(
        [str(environment), "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "rillet.pipeline needs pyspark: pip install 'rillet[spark]'" in done.stderr
