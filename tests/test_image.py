"""The image does what its Dockerfile says, in a plain folder: neither Docker nor root is needed."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest
import yaml
from support.ports import free_port
from support.tool import run_program

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
FINAL = DOCKERFILE.rpartition("\nFROM ")[2]


@pytest.fixture
def image(tmp_path):
    """The folders of the image: its programs as the Dockerfile puts them there, and /data."""
    programs, data = tmp_path / "bin", tmp_path / "data"
    programs.mkdir()
    data.mkdir()
    scripts = Path(sys.executable).parent
    (programs / "rillet").symlink_to(scripts / "rillet")
    (programs / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (programs / "python3").chmod(0o755)
    for target, name in re.findall(r"ln -s (\S+) /usr/local/bin/(\S+)", FINAL):
        (programs / name).symlink_to(target)
    [copied] = re.findall(r"^COPY --chmod=755 (.*) /usr/local/bin/$", FINAL, re.MULTILINE)
    for source in copied.split():
        shutil.copy(ROOT / source, programs)
    return data, {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(data)}


def instruction(name: str) -> list[str]:
    """The words of the exec form of an instruction."""
    [words] = re.findall(rf'^{name} .*?\[(".*")\]$', FINAL, re.MULTILINE)
    return [word.strip().strip('"') for word in words.split(",")]


class Container:
    """What `docker run` does with the words behind the image's name, and `docker exec`."""

    def __init__(self, image, words: list[str]) -> None:
        self.data, self.variables = image
        self.process = subprocess.Popen(
            [*instruction("ENTRYPOINT"), *(words or instruction("CMD"))],
            cwd=self.data, env=self.variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            executable=str(self.data.parent / "bin" / instruction("ENTRYPOINT")[0]),
        )  # fmt: skip
        self.log, self.port = "", ""
        for line in self.process.stdout:
            self.log += line
            if found := re.search(r"port=(\d+)", line):
                self.port = found[1]
            if "Ready to accept connections" in line:
                return

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        name, *words = shlex.split(line)
        words = [name, *(["-p", self.port] if name == "redis-cli" else []), *words]
        program = self.data.parent / "bin" / name
        return run_program(*words, executable=str(program), cwd=self.data, env=self.variables)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        with self.process.stdout as output:
            self.log += output.read()
        self.process.wait(60)


@pytest.mark.parametrize(
    "line",
    [
        "redis-server --port 0",
        "--port 0",
        "redis-server --port 0 --appendonly yes",  # a service of a CI
        "redis-server --requirepass secret --port 0",  # testcontainers with a password
        "--port 0 --requirepass secret",
        "rillet --port 0",
    ],
)
def test_what_starts_a_redis_image_starts_this_one(image, line):
    with Container(image, shlex.split(line)) as container:
        assert container.process.poll() is None, container.log
        password = "-a secret " if "secret" in line else ""
        done = container.run(f"redis-cli {password}ping")
        assert (done.returncode, done.stdout) == (0, "PONG\n"), done.stderr
        assert (
            container.run(f"redis-cli {password}config get protected-mode").stdout == "protected-mode\nno\n"
        )
        assert container.run(f"redis-cli {password}config get dir").stdout == f"dir\n{container.data}\n"
        assert container.run(f"redis-cli {password}save").stdout == "OK\n"
    assert (container.data / "dump.rdb").exists()
    assert container.process.returncode == 0


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("redis-cli --raw incr ping", "1\n"),  # what compose files check
        ("redis-cli --no-auth-warning -a secret ping", "AUTH failed: "),
        ("redis-cli --user default --pass secret -n 1 ping", "PONG\n"),
        ("redis-cli -n 3 set k v", "OK\n"),
        ("redis-cli -n 99 ping", "ERR DB index is out of range\n"),
        ("redis-cli -x", "Usage"),
        ("redis-cli -h", "Usage"),
        ("redis-cli", "Usage"),
    ],
)
def test_health_checks_of_others_run(image, line, printed):
    with Container(image, ["--port", "0"]) as container:
        done = container.run(line)
    assert printed in done.stdout + done.stderr
    assert done.returncode == printed.startswith(("Usage", "ERR"))


def test_the_image_is_built_from_the_wheel_in_two_stages_and_labelled():
    first, second = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]
    assert "pip wheel" in first
    assert "/wheels/*.whl" in second
    assert not re.search(r"^COPY \. ", second, re.MULTILINE)
    labels = re.findall(r'org\.opencontainers\.image\.(\w+)="', second)
    assert labels == ["title", "description", "licenses"]


def test_the_programs_of_the_image_are_those_that_it_names(image):
    _, variables = image
    [health] = re.findall(r"^HEALTHCHECK .* CMD \[(.*)\]$", FINAL, re.MULTILINE)
    assert health == '"redis-cli", "ping"'
    for name in ("redis-server", "redis-cli", *instruction("ENTRYPOINT")):
        assert shutil.which(name, path=variables["PATH"].partition(":")[0]), name
    assert instruction("CMD") == ["redis-server"]
    assert re.search(r"^USER rillet$", FINAL, re.MULTILINE)


def test_a_configuration_file_and_other_programs_are_run_as_they_are(image):
    data, _ = image
    (data / "redis.conf").write_text("port 0\nprotected-mode yes\n")
    with Container(image, ["redis-server", "redis.conf"]) as container:
        assert container.run("redis-cli config get protected-mode").stdout == "protected-mode\nyes\n"
    with Container(image, ["redis-server", "--version"]) as container:
        pass
    assert container.log.startswith("Redis server v=")
    with Container(image, ["sh", "-c", "echo mine"]) as container:
        pass
    assert container.log == "mine\n"


def test_the_health_check_fails_where_no_server_is(image):
    data, variables = image
    program = data.parent / "bin" / "redis-cli"
    done = run_program(program, "-p", 1, "ping", cwd=data, env=os.environ | variables)
    assert done.returncode == 1
    assert "Could not connect to Redis at 127.0.0.1:1" in done.stderr


# docs/how-to/containers.md

PAGE = (ROOT / "docs" / "how-to" / "containers.md").read_text(encoding="utf-8")
BLOCKS = [
    (kind, yaml.safe_load(text))
    for kind, text in re.findall(r"^```yaml\n# (\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
]
JOBS = [block["jobs"]["test"] for kind, block in BLOCKS if kind == "github"]


def test_every_block_of_a_ci_is_one_of_these():
    assert PAGE.count("```yaml") == len(BLOCKS) == 4
    for job in JOBS:
        assert job["runs-on"]
        assert all(step.keys() & {"run", "uses"} for step in job["steps"])


def test_a_service_of_github_starts_and_becomes_healthy(image):
    [service] = [job["services"]["redis"] for job in JOBS if "services" in job]
    words = shlex.split(service["options"])
    options = dict(zip(words[::2], words[1::2], strict=True))
    assert set(options) == {"--health-cmd", "--health-interval", "--health-timeout", "--health-retries"}
    with Container(image, ["--port", "0"]) as container:  # GitHub gives no command; the port is to be free
        assert container.run(options["--health-cmd"]).stdout == "PONG\n"


def test_a_service_of_gitlab_starts(image):
    [service] = [block["test"]["services"][0] for kind, block in BLOCKS if kind == "gitlab"]
    with Container(image, [*service["command"], "--port", "0"]) as container:
        assert container.run("redis-cli config get appendonly").stdout == "appendonly\nyes\n"


def test_the_steps_that_start_a_server_beside_the_tests_do(tmp_path):
    [job] = [job for job in JOBS if "env" in job and "services" not in job]
    installs, starts, tests = [step["run"] for step in job["steps"] if "run" in step]
    assert (installs, tests) == ('pip install "rillet[testing]"', "pytest")
    port = str(free_port())
    check = "import os, redis; print(redis.from_url(os.environ['REDIS_URL']).xadd('s', {'n': 1}, id='1-0'))"
    script = f'set -e\n{starts}server=$!\npython -c "{check}"\nkill $server\nwait $server\n'.replace(
        "7000", port
    )
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {"PATH": scripts, "REDIS_URL": job["env"]["REDIS_URL"].replace("7000", port)}
    done = run_program("bash", "-c", script, cwd=tmp_path, env=os.environ | variables)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "b'1-0'"), done.stderr
