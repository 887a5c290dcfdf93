"""Spark beyond one JVM, from what pip installed: a SPARK_HOME of one's own, and a standalone cluster on this machine."""

import os
import subprocess
from pathlib import Path
from typing import Self

from support.ports import free_port
from support.spark.quick import quick_home
from support.until import until

FAST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Cluster:
    """A master and a worker of Spark's standalone cluster; executors are JVMs that the worker starts.

    `.url` is the master's, `.home` the SPARK_HOME.
    """

    def __init__(self, folder: Path, java_home: str) -> None:
        self.home = quick_home(folder, "python")  # executors leave their logs in a folder of it
        self._folder = folder
        self._environment = os.environ | {
            "JAVA_HOME": java_home, "SPARK_HOME": str(self.home), "SPARK_DAEMON_JAVA_OPTS": FAST,
            "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1",
        }  # fmt: skip
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = f"spark://127.0.0.1:{free_port()}"

    def __enter__(self) -> Self:
        port = self.url.rpartition(":")[2]
        self._start("master.Master", "--host", "127.0.0.1", "--port", port)
        until(lambda: "started service 'sparkMaster'" in self.log("master"), 600)
        work = ("--work-dir", str(self._folder / "work"))
        self._start("worker.Worker", self.url, "--host", "127.0.0.1", "--cores", "2", "--memory", "1g", *work)
        until(lambda: "registered with master" in self.log("worker"), 600)
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def log(self, who: str) -> str:
        return (self._folder / f"{who}.log").read_text().replace("Successfully ", "")

    def _start(self, name: str, *words: str) -> None:
        who = name.partition(".")[0]
        log = (self._folder / f"{who}.log").open("wb")
        with log:
            self._processes.append(
                subprocess.Popen(
                    [self.home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *words, "--webui-port", "0"],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment,
                )
            )  # fmt: skip
