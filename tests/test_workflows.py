"""The workflows of the public CI name what is there: no run of them is possible here."""

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from support.programs.pythons import SUPPORTED

import rillet

ROOT = Path(__file__).parents[1]
FLOWS = ROOT / ".github" / "workflows"


def flow(name: str) -> dict:
    # `on` is a boolean to YAML.
    return yaml.safe_load((FLOWS / name).read_text(encoding="utf-8").replace("\non:", "\n'on':"))


def steps_of(flow: dict) -> list[str]:
    return [step["run"] for job in flow["jobs"].values() for step in job["steps"] if "run" in step]


def test_the_tests_run_on_three_systems_and_each_python_that_is_supported():
    matrix = flow("test.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert [each.partition("-")[0] for each in matrix["system"]] == ["ubuntu", "macos", "windows"]
    assert tuple(matrix["python"]) == SUPPORTED
    assert len(SUPPORTED) == 4


@pytest.mark.parametrize("name", ["test.yml", "publish.yml"])
def test_what_the_steps_name_is_there(name):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for step in steps_of(flow(name)):
        words = [word for word in shlex.split(step) if "=" not in word]
        if words[0] == "make":
            assert set(words[1:]) <= targets, step
        for path in re.findall(r"\btests/\w+", step):
            assert (ROOT / path).is_dir(), step


def test_a_tag_publishes_by_trust_and_no_password():
    publish = flow("publish.yml")
    assert publish["on"] == {"push": {"tags": ["v*"]}}
    job = publish["jobs"]["publish"]
    assert (job["permissions"], job["environment"], job["needs"]) == (
        {"id-token": "write"},
        "pypi",
        "build",
    )
    [upload] = [step for step in job["steps"] if "publish" in step["uses"]]
    assert upload == {"uses": "pypa/gh-action-pypi-publish@release/v1"}
    assert "secrets" not in (FLOWS / "publish.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("tag", "fits"), [(f"v{rillet.__version__}", True), ("v99.0", False)])
def test_a_tag_that_is_not_the_version_publishes_nothing(tag, fits):
    [check] = [step for step in steps_of(flow("publish.yml")) if "GITHUB_REF_NAME" in step]
    done = subprocess.run(
        ["bash", "-c", check], cwd=ROOT, env={"PATH": "/usr/bin:/bin", "GITHUB_REF_NAME": tag}, check=False
    )
    assert (done.returncode == 0) is fits


def test_the_classifiers_name_the_pythons_of_the_workflow_and_the_system_that_the_tests_have_run_on():
    """Windows and macOS join it when the workflow has passed there."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    systems = [each for each in project["classifiers"] if each.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]
    named = [each.rpartition(" ")[2] for each in project["classifiers"] if "Python :: 3." in each]
    [matrix] = re.findall(
        r"^ +python: \[(.*)\]",
        (ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert [f'"{version}"' for version in named] == matrix.split(", ")
    assert project["requires-python"] == f">={named[0]}"
    without_wheels = [each for each in project["dependencies"] if "python_version" in each]
    major, minor = map(int, named[-1].split("."))
    assert {each.partition(">")[0]: each.rpartition("; ")[2] for each in without_wheels} == dict.fromkeys(
        ("lupa", "python-neo-lzf"), f"python_version < '{major}.{minor + 1}'"
    )
