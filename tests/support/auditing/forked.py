"""Workers of Python source for audits in tests: processes as any, but forked from one that has imported redis-py."""

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from rillet.testing.auditing.bench import Plan
from rillet.testing.auditing.running import Audit
from rillet.testing.auditing.workers import Worker


class Zygote:
    def __init__(self):
        self._lock = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="rillet-zygote-")
        self._count = itertools.count(1)
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("zygote.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **request):
        with self._lock:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def launcher(self, source, **environment):
        def launch(plan, stage, name):
            del plan
            values = {"REDIS_URL": stage.url, "CONSUMER": name} | environment
            log = Path(self._folder.name) / f"{next(self._count)}-{name}.log"
            return Forked(self, source, values, name, log)

        return launch

    def close(self):
        with self._process:
            self._process.stdin.close()
        self._folder.cleanup()


class Forked(Worker):
    def __init__(self, zygote, source, environment, name, log):
        super().__init__(name)
        self._zygote, self._log, self._status = zygote, log, None
        self._pid = self.process = zygote.ask(source=source, environment=environment, log=str(log))

    @property
    def status(self):
        if self._status is None:
            self._status = self._zygote.ask(status=self._pid)
        return self._status

    def _signal(self, number):
        if self.status is None:
            with suppress(ProcessLookupError):
                # Before setsid it is no group yet.
                (os.killpg if os.getpgid(self._pid) == self._pid else os.kill)(self._pid, number)

    def kill(self):
        self._signal(signal.SIGKILL)
        while self.status is None:
            threading.Event().wait(0.002)

    def terminate(self):
        self._signal(signal.SIGTERM)

    def words(self):
        return self._log.read_text() if self._log.exists() else ""


def audit(zygote, source, names, *, timeout, jobs=4):
    """The results of an audit by name."""
    plan = Plan(launch=zygote.launcher(source), timeout=timeout)
    return {each.name: each for each in Audit(plan, jobs).run(names)}
