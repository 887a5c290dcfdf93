"""The wheel beside a user's project that has top-level folders of the same names as ours."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from support.programs.frameworks import python_environment
from support.programs.pythons import pythons
from support.programs.readme import file_for_pytest, program, redis_cli, run_server_block, running, story
from support.tool import run_program

import rillet.testing

pytestmark = pytest.mark.xdist_group("wheel")  # which is built once

ROOT = Path(__file__).parents[2]
SOURCES = (
    "__init__.py", "__main__.py", "arguments.py", "pytest_plugin.py", "py.typed", "pyproject.toml", "setup.py", "README.md", "LICENSE",
    "MANIFEST.in", "CHANGELOG.md", "SECURITY.md", "Makefile", "Dockerfile",
    "commands", "console", "pipeline", "protocol", "server", "storage", "testing",
)  # fmt: skip

PYTHONS = pythons()
DEPENDENCIES = (
    "anycrc", "bitarray", "hiredis", "lzf", "uvloop", "sortedcontainers", "xxhash", "redis",
    "pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments",
)  # fmt: skip


def run(*words, cwd, **options):
    return subprocess.run(
        [str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=True, **options
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        there = ROOT / name
        if there.is_dir():
            shutil.copytree(there, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(there, source / name)
    (source / "tests").mkdir()
    (source / "tests" / "test_stray.py").touch()
    return source


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Return what pip and build do for each file, and both make an environment of its own for: a call of the backend.

    It has a Python with nothing but what pyproject.toml requires for it.
    """
    folder = tmp_path_factory.mktemp("builder") / "venv"
    venv.create(folder, with_pip=False)
    with (ROOT / "pyproject.toml").open("rb") as file:
        system = tomllib.load(file)["build-system"]
    pip = [sys.executable, "-m", "pip", "--python", folder, "install", "--quiet", "--no-compile"]
    run(*pip, *system["requires"], cwd=folder)

    def call(hook, source, there):
        there.mkdir(exist_ok=True)
        program = f"import sys; from {system['build-backend']} import {hook}; {hook}(sys.argv[1])"
        run(folder / "bin" / "python", "-c", program, there, cwd=source)
        [made] = there.iterdir()
        return made

    return call


@pytest.fixture(scope="module")
def wheel(source, build):
    return build("build_wheel", source, source / "dist")


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
        for folder in ("commands", "console", "pipeline", "protocol", "server", "storage", "testing")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix != ".pyc"
    } | {f"rillet/{name}" for name in SOURCES[:5]}
    assert inside == expected


def test_the_source_distribution_has_what_the_wheel_is_made_from_and_no_tests(source, wheel, build, tmp_path):
    with tarfile.open(build("build_sdist", source, tmp_path / "sdist")) as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
        inside = {name.partition("/")[2] for name in tar.getnames()} - {""}
    with zipfile.ZipFile(wheel) as built:
        package = {name.removeprefix("rillet/") for name in built.namelist() if name.startswith("rillet/")}
    assert package <= inside
    beside = {name for name in inside - package if (source / name).is_file()}
    documents = {"README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md"}
    assert {name for name in beside if "egg-info" not in name} == {
        *documents, "pyproject.toml", "setup.py", "MANIFEST.in",
    }  # fmt: skip
    [unpacked] = (tmp_path / "unpacked").iterdir()
    with (
        zipfile.ZipFile(build("build_wheel", unpacked, tmp_path / "again")) as again,
        zipfile.ZipFile(wheel) as built,
    ):
        assert again.namelist() == built.namelist()


def test_the_metadata_say_who_where_and_which(wheel):
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("METADATA")]
        metadata = archive.read(name).decode()
    assert f"\nVersion: {rillet.__version__}\n" in metadata
    assert "\nAuthor: Rillet developers\n" in metadata
    assert "\nProject-URL: Repository, https://" in metadata
    assert f"\n## [{rillet.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_links_of_the_package_page_are_absolute_and_lead_into_the_repository(wheel):
    with (ROOT / "pyproject.toml").open("rb") as file:
        home = tomllib.load(file)["project"]["urls"]["Repository"]
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("METADATA")]
        metadata = archive.read(name).decode()
    assert "\nDescription-Content-Type: text/markdown\n" in metadata
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", metadata)
    assert [link for _, link in links if not link.startswith("https://")] == []
    ours = [(mark, link.removeprefix(f"{home}/")) for mark, link in links if link.startswith(home)]
    assert len(ours) > 10
    for mark, link in ours:
        way, _, path = link.partition("/main/")
        assert way == ("raw" if mark else "blob"), link
        assert (ROOT / path.partition("#")[0]).exists(), link


def test_what_the_package_exports_is_there():
    for module in (rillet, rillet.testing):
        assert [name for name in module.__all__ if not hasattr(module, name)] == []


USES = """
from collections.abc import Coroutine
from typing import Any, assert_type

import redis
import rillet
import rillet.testing
from rillet.testing import Fault, RecordedCommand, Server, Simulation, Snapshot, every_fault, simulation

assert_type(rillet.__version__, str)
with Server(port=0, appendonly=True) as server:
    assert_type(server, Server)
    assert_type(server.url, str)
    assert_type(server.port, int)
    server.clock.advance(hours=1)
    client = server.client()
    client.ping()
    with server.fault(command="XACK", close="before") as fault:
        assert_type(fault, Fault)
    with server.recording() as recording:
        assert_type(list(recording), list[RecordedCommand])
    kept = server.snapshot()
    assert_type(kept, Snapshot)
    server.restore(kept)
    server.reset()


@simulation(seeds=3)
async def test_it(sim: Simulation, folder: str) -> None:
    assert_type(sim.seed, int)


@every_fault("SET", close="before")
def test_each(server: Server) -> None:
    every_fault.from_here()


def test_type_is_kept(sim: Simulation) -> None:
    made = assert_type(test_it(sim, "folder"), Coroutine[Any, Any, None])
    made.close()
"""


def test_the_types_of_the_public_names_are_there_for_a_users_mypy(environment, tmp_path):
    (tmp_path / "uses.py").write_text(USES, encoding="utf-8")
    words = [sys.executable, "-m", "mypy", "--strict", "--python-executable", environment, "uses.py"]
    done = run_program(*words, seconds=300, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    (tmp_path / "uses.py").write_text(USES + "server.clock.advance(hours='1')\n", encoding="utf-8")
    done = run_program(*words, seconds=300, cwd=tmp_path)
    # The types are seen: Any would allow it.
    assert f"uses.py:{len(USES.splitlines()) + 1}: error" in done.stdout


@pytest.fixture
def project(tmp_path):
    """The folder of a user who has a `server` and `commands`, too, and more folders named like ours."""
    for name in ("server", "commands", "pipeline", "protocol", "storage", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"MINE = {name!r}\n")
    return tmp_path


# `make test` has the Python that runs it, `make test-heavy` and `make test-frameworks` all that there are.
OWN = ".".join(map(str, sys.version_info[:2]))


@pytest.mark.parametrize(
    "version",
    [pytest.param(each, marks=[] if each == OWN else [pytest.mark.heavy]) for each in PYTHONS],
)
def test_installed_in_each_python_it_runs_the_blocks_of_the_readme_beside_that_project(
    version, wheel, project
):
    with (ROOT / "pyproject.toml").open("rb") as file:
        names = tomllib.load(file)["project"]
    packages = [*names["dependencies"], *names["optional-dependencies"]["testing"]]
    known = python_environment(f"wheel-{version}", packages, PYTHONS[version])
    fresh = project / "venv"
    run(PYTHONS[version], "-m", "venv", "--without-pip", fresh, cwd=project)
    run(
        sys.executable, "-m", "pip", "--python", fresh, "install", "--quiet", "--no-deps", "--no-index", "--no-compile",
        wheel, cwd=project,
    )  # fmt: skip
    site = next(fresh.glob("lib/python*/site-packages"))
    (site / "dependencies.pth").write_text(str(next(known.glob("lib/python*/site-packages"))))
    python = fresh / "bin" / "python"

    said = run(python, "-m", "rillet", "--version", "--verbose", cwd=project).stdout
    assert f"Loaded from {site / 'rillet'}\n" in said
    assert f"Python {version}." in said
    (project / "program.py").write_text(program())
    run(python, "program.py", cwd=project)
    application = (
        "import commands, protocol, server, storage, tests\n\n\nclass my_application:\n    def run(url):\n"
    )
    application += "        mine = [each.MINE for each in (commands, protocol, server, storage, tests)]\n"
    application += "        assert mine == ['commands', 'protocol', 'server', 'storage', 'tests']\n\n\n"
    (project / "test_mine.py").write_text(file_for_pytest(application))
    assert "1 passed" in run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project).stdout
    (project / "data").mkdir()
    assert "is valid" in run_server_block(fresh / "bin", project / "data")[-1]
    variables = os.environ | {"PATH": f"{fresh / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    with running(["rillet", "--port", "0"], variables, project) as port:
        for line, expected in story():
            assert redis_cli(port, line) == expected, line
        redis_cli(port, "SHUTDOWN NOSAVE")


@pytest.mark.frameworks
def test_uvx_runs_it_without_an_installation(wheel, tmp_path):
    uv = python_environment("uv", ["uv==0.13.9"]) / "bin" / "uv"
    variables = os.environ | {"UV_CACHE_DIR": str(tmp_path / "cache")}
    said = run(
        uv, "tool", "run", "--from", wheel, "rillet", "--version", cwd=wheel.parent, env=variables
    ).stdout
    assert said.startswith("Redis server v=")


def test_a_folder_of_the_same_name_does_not_hide_the_package_without_a_word(environment, tmp_path):
    inside = next(environment.parents[1].glob("lib/python*/site-packages/rillet"))
    said = run(environment, "-m", "rillet", "--version", "--verbose", cwd=tmp_path).stdout
    assert f"Loaded from {inside}\n" in said
    assert f"Python {sys.version.split()[0]} at " in said
    (tmp_path / "rillet").mkdir()
    said = run(environment, "-m", "rillet", "--version", "--verbose", cwd=tmp_path).stdout
    assert f"Loaded from {inside}\n" in said  # a folder that is no package hides nothing
    (tmp_path / "rillet" / "__init__.py").touch()
    program = "import sys; sys.path.pop(0); from rillet.__main__ import main; sys.exit(main())"  # as the entry point
    said = run(environment, "-c", program, "--version", "--verbose", cwd=tmp_path).stdout
    assert f"Loaded from {inside}\n" in said


def test_without_spark_the_pipeline_says_how_to_get_it(environment, tmp_path):
    output = run(environment, "-m", "rillet", "pipeline", "--help", cwd=tmp_path).stdout
    assert "doctor" in output
    done = run_program(environment, "-m", "rillet", "pipeline", "doctor", "--port", "1", cwd=tmp_path)
    assert done.returncode == 1
    assert "WRONG   pyspark: not installed\n          -> pip install 'rillet[spark]'" in done.stdout
    program = "import rillet.pipeline; rillet.pipeline.session()"
    done = run_program(environment, "-c", program, cwd=tmp_path)
    assert "rillet.pipeline needs pyspark: pip install 'rillet[spark]'" in done.stderr
