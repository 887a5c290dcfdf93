"""Workers of Python source for audits in tests: processes as any, but forked from one that has imported redis-py."""

import itertools
import os
import signal
from contextlib import suppress
from pathlib import Path

from support.forks import Forks

from rillet.testing.auditing.bench import Plan
from rillet.testing.auditing.running import Audit
from rillet.testing.auditing.workers import Worker


class Zygote(Forks):
    def __init__(self):
        super().__init__("redis", "redis.asyncio")
        self._count = itertools.count(1)

    def launcher(self, source, **environment):
        def launch(plan, stage, name):
            del plan
            values = {"REDIS_URL": stage.url, "CONSUMER": name} | environment
            log = Path(self.folder.name) / f"{next(self._count)}-{name}.log"
            return Forked(self, source, values, name, log)

        return launch


class Forked(Worker):
    def __init__(self, zygote, source, environment, name, log):
        super().__init__(name)
        self._log = log
        words = ["-c", f"import os; os.setsid()\n{source}"]
        with log.open("w") as file:
            out = file.fileno()
            self._program = zygote.start(words, str(Path.cwd()), out, out, os.environ | environment)
        self._pid = self.process = self._program.pid

    @property
    def status(self):
        return self._program.poll()

    def _signal(self, number):
        if self.status is None:
            with suppress(ProcessLookupError):
                # Before setsid it is no group yet.
                (os.killpg if os.getpgid(self._pid) == self._pid else os.kill)(self._pid, number)

    def kill(self):
        self._signal(signal.SIGKILL)
        self._program.wait()

    def terminate(self):
        self._signal(signal.SIGTERM)

    def words(self):
        return self._log.read_text() if self._log.exists() else ""


def audit(zygote, source, names, *, timeout, jobs=4):
    """The results of an audit by name."""
    plan = Plan(launch=zygote.launcher(source), timeout=timeout)
    return {each.name: each for each in Audit(plan, jobs).run(names)}
