"""The workers of the documentation keep all promises, in each language."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import needs
from support.programs.clients import node_modules

from rillet.testing.auditing.bench import Plan
from rillet.testing.auditing.catalogue import PROMISES
from rillet.testing.auditing.running import Audit

WORKERS = Path(__file__).parents[3] / "docs" / "testing" / "workers"
_RUNS = int(os.environ.get("RILLET_AUDITS", "1"))  # 20 to look for a flake


def _of_node(name):
    return ["node", str(WORKERS / name)], {"NODE_PATH": str(node_modules())}


def _of_ruby(name):
    command = ["ruby", "-e", 'require "redis"']
    try:
        found = (
            not needs.none_wanted()
            and not subprocess.run(command, capture_output=True, check=False).returncode
        )
    except OSError:
        found = False
    if not found:
        needs.leave_out("ruby")
    return ["ruby", str(WORKERS / name)], {}


def _of_python(name):
    return [sys.executable, str(WORKERS / name)], {}


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("worker_async.py", _of_python),
        ("worker-ioredis.js", _of_node),
        ("worker-node-redis.js", _of_node),
        ("worker.rb", _of_ruby),
    ],
)
@pytest.mark.parametrize("run", range(_RUNS))
def test_a_worker_of_the_documentation_keeps_its_promises(name, how, run):
    command, environment = how(name)
    plan = Plan(command=command, environment=environment, timeout=30)
    found = {each.name: each for each in Audit(plan, 2).run(PROMISES)}
    assert {each.name: each.what for each in found.values() if each.result != "kept"} == {
        "scripts": "it sends no EVALSHA"
    }
