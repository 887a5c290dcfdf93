"""What starts a redis-server starts Rillet: wrappers in environments of their own, and plain processes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import needs
from support.programs.frameworks import node_environment, python_environment
from support.servers import require_binary
from support.tool import run_program

PAGE = Path(__file__).parents[2] / "docs" / "testing" / "other-languages.md"
BEGINNING = """
const net = require("node:net");

function ask(port, ...words) {
  const text = words.map((word) => `$${word.length}\\r\\n${word}\\r\\n`).join("");
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, "127.0.0.1", () => socket.write(`*${words.length}\\r\\n${text}`));
    socket.once("data", (data) => { socket.end(); resolve(String(data)); });
    socket.once("error", reject);
  });
}
"""


def environment_of(**more: str) -> dict[str, str]:
    """The variables of a process that finds `rillet` by its name."""
    return os.environ | {"PATH": f"{require_binary('rillet').parent}{os.pathsep}{os.environ['PATH']}", **more}


def run_node(tmp_path: Path, program: str, **variables: str) -> str:
    if not shutil.which("node"):
        needs.leave_out("node")
    file = tmp_path / "program.js"
    file.write_text(BEGINNING + program)
    done = run_program("node", file, cwd=tmp_path, env=environment_of(**variables))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def block_with(word: str) -> str:
    """The block of the page for Node that has a word in it."""
    blocks = re.findall(r"^```js\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return next(block for block in blocks if word in block)


def test_a_process_of_node_finds_the_port_in_the_log(tmp_path):
    ends = """
startRillet().then(async ({ child, port }) => {
  console.log(await ask(port, "PING"));
  child.removeAllListeners("exit");
  child.once("exit", (code) => console.log(`ended ${code}`));
  child.kill();
});
"""
    assert run_node(tmp_path, block_with("startRillet") + ends) == "+PONG\n\nended 0\n"


@pytest.mark.frameworks
def test_redis_memory_server_starts_and_stops_rillet(tmp_path):
    modules = node_environment("redis_memory_server") / "node_modules"
    example = block_with("RedisMemoryServer").replace("/path/to/rillet", str(require_binary("rillet")))
    program = f"""(async () => {{
{example}
console.log(await ask(port, "SET", "k", "v"));
console.log(/rillet_version/.test(await ask(port, "INFO", "server")));
const pid = server.getInstanceInfo().childProcess.pid;
console.log(await server.stop());
try {{ process.kill(pid, 0); console.log("still there"); }} catch {{ console.log("gone"); }}
}})();"""
    said = run_node(tmp_path, program, NODE_PATH=str(modules))
    assert said == "+OK\n\ntrue\ntrue\ngone\n"


@pytest.mark.frameworks
def test_redis_memory_server_takes_rillet_from_its_variable(tmp_path):
    modules = node_environment("redis_memory_server") / "node_modules"
    program = """(async () => {
const { RedisMemoryServer } = require("redis-memory-server");
const server = await RedisMemoryServer.create();
console.log(/rillet_version/.test(await ask(await server.getPort(), "INFO", "server")));
await server.stop();
})();"""
    rillet = str(require_binary("rillet"))
    assert run_node(tmp_path, program, NODE_PATH=str(modules), REDISMS_SYSTEM_BINARY=rillet) == "true\n"


@pytest.mark.frameworks
def test_pytest_redis_starts_rillet(tmp_path):
    python = python_environment("launchers") / "bin" / "python"
    (tmp_path / "test_it.py").write_text(
        "def test_it(redisdb):\n"
        "    redisdb.set('k', 'v')\n"
        "    assert redisdb.get('k') == b'v'\n"
        "    assert 'rillet_version' in redisdb.info('server')\n"
        "def test_it_is_empty_again(redisdb):\n"
        "    assert redisdb.keys() == []\n"
    )
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--redis-exec={require_binary('rillet')}"]
    done = run_program(python, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.frameworks
def test_testcontainers_starts_the_image_as_it_is_tested_without_docker(tmp_path):
    """What its module gives to the image is one of the lines of tests/test_image.py; then it pings."""
    program = """
from testcontainers.redis import RedisContainer
import testcontainers.core.container as core
core.DockerClient = lambda **options: None
for password in (None, "secret"):
    container = RedisContainer("rillet", password=password)
    print(container.image, container._command, sorted(container.ports), type(container._wait_strategy).__name__)
"""
    python = python_environment("launchers") / "bin" / "python"
    done = run_program(python, "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    plain, with_password = done.stdout.splitlines()
    assert plain == "rillet None ['6379'] PingWaitStrategy"
    line = "redis-server --requirepass secret"
    assert with_password == f"rillet {line} ['6379'] PingWaitStrategy"
    tested = (Path(__file__).parents[1] / "test_image.py").read_text(encoding="utf-8")
    assert f'"{line} --port 0"' in tested


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM")
def test_what_embedded_wrappers_of_java_and_rust_rely_on_holds(tmp_path):
    """A file of directives as the only word, the line of readiness, and the end by SIGTERM with status 0."""
    conf = tmp_path / "embedded.conf"
    conf.write_text(f"port 0\nbind 127.0.0.1\ndir {tmp_path}\nappendonly no\nsave ''\n")
    with subprocess.Popen(
        ["rillet", conf], env=environment_of(), stdout=subprocess.PIPE, text=True
    ) as process:
        ready = next(
            line for line in process.stdout if re.fullmatch(r".*(R|r)eady to accept connections.*\n", line)
        )
        assert ready
        process.terminate()
        process.stdout.read()
        assert process.wait(30) == 0


def test_a_sentinel_of_an_embedded_wrapper_prints_its_id(tmp_path):
    conf = tmp_path / "sentinel.conf"
    conf.write_text("port 0\nsentinel monitor m 127.0.0.1 1 1\n")
    command = ["rillet", conf, "--sentinel"]
    with subprocess.Popen(command, env=environment_of(), stdout=subprocess.PIPE, text=True) as process:
        seen = ""
        for line in process.stdout:
            seen += line
            if re.search(r"Sentinel (runid|ID) is \w{40}", line):
                break
        process.terminate()
        process.stdout.read()
        assert process.wait(30) == 0
    assert "Running mode=sentinel" in seen
