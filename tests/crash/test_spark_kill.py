"""SIGKILL of drivers, executors and Python processes under load: nothing missing, nothing doubled, nothing pending.

One driver runs four queries, range and group mode to Parquet and to a stream, so that each kill hits all of them
wherever they are. Another driver stands by, with its JVM running, and goes on where the killed one was.

RILLET_SPARK_KILLS says how many kills (`make crash`: 100), of which each server gets its half and executors in JVMs of
their own a fifth; RILLET_SEED gives other choices. Of three, a driver, its tasks and what Spark plans with are killed once each.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.servers import start_server
from support.spark.killed_spark import (
    Drivers,
    Producer,
    await_moment,
    check_all_written,
    make_groups,
    wait_for_progress,
    wait_for_the_end,
)

from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark's own processes")]

KILLS = int(os.environ.get("RILLET_SPARK_KILLS", "3"))
SEED = int(os.environ.get("RILLET_SEED", "1"))


class Series(NamedTuple):
    """So many kills of Spark at work on one kind of server, one after the other."""

    server: str
    master: str
    kinds: tuple[str, ...]
    kills: int


LOCAL = ("driver", "workers", "planners", "workers")
CLUSTER = ("executors", "planners", "executors", "driver", "workers")
SERIES = [Series("rillet", "local[2,8]", LOCAL, KILLS)]
if KILLS >= 20:
    SERIES = [
        Series("rillet", "local[2,8]", LOCAL, KILLS * 2 // 5),
        Series("redis7", "local[2,8]", LOCAL, KILLS * 2 // 5),
        Series("rillet", "local-cluster[2,1,512]", CLUSTER, KILLS - KILLS * 2 // 5 * 2),
    ]


@pytest.fixture(params=SERIES, ids=lambda series: f"{series.server}-{series.master.partition('[')[0]}")
def series(request) -> Series:
    return request.param


@pytest.fixture
def port(series) -> Iterator[int]:
    with start_server(series.server) as server:
        yield server.port


@pytest.fixture
def connection(port) -> Iterator[Connection]:
    with Connection(Endpoint(port=port)) as found:
        make_groups(found)
        yield found


@pytest.fixture
def producer(port, connection) -> Iterator[Producer]:
    found = Producer(f"redis://127.0.0.1:{port}")
    found.start()
    yield found
    found.finish()


@pytest.fixture
def drivers(series, port, connection, tmp_path) -> Iterator[Drivers]:
    found = Drivers(f"redis://127.0.0.1:{port}", tmp_path, series.master)
    yield found
    found.end()


def test_nothing_is_lost_or_doubled_when_spark_is_killed(series, connection, producer, drivers, tmp_path):
    chance = random.Random(SEED)
    kinds = [kind for kind, _ in zip(itertools.cycle(series.kinds), range(series.kills), strict=False)]
    killed = Counter(kinds)
    begun = time.monotonic()
    for number, kind in enumerate(kinds):
        if "driver" in kinds[number : number + 2]:
            drivers.prepare()
        # Kills of what has not recovered from the kill before count, too.
        wait_for_progress(tmp_path, drivers, chance.choice([all, any]))
        drivers.driver.check()
        await_moment(connection, chance)
        if kind == "driver":
            drivers.again()
        else:
            # The driver lives, and tries their tasks or the query again.
            killed[f"{kind}' processes"] += drivers.driver.kill_some(kind)
        print(f"{time.monotonic() - begun:7.1f} s: kill {number + 1} of {series.kills}: {kind}")  # noqa: T201 - with -s
    count = producer.finish()
    wait_for_the_end(connection, tmp_path, drivers, count, f"RILLET_SEED={SEED}")
    print(f"{time.monotonic() - begun:7.1f} s: all {count} of each query are there; {dict(killed)}")  # noqa: T201 - with -s
    assert all(killed[f"{kind}' processes"] for kind in kinds if kind != "driver"), killed
    check_all_written(connection, tmp_path, count)
