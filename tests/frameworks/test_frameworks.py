"""Each framework in a small real use: its driver, `drivers/use_NAME.py` or `.js`, asserts what it gets."""

import pytest
from support.programs.frameworks import SERVERS, use

# In one environment, "light".
LIGHT = (
    "dramatiq",  # the Lua broker, results, rate limits; a message of a killed worker is queued again
    "faststream",  # stream groups, batches, lists, channels, requests; a lost message is claimed
    "huey",  # list, priority and expiring storages; chains, retries
    "rq",  # queues, results, dependencies, the scheduler; a job of a killed worker is found
    "taskiq",  # three brokers, results, two schedule sources; a task of a killed worker is claimed
    "walrus",  # the tests that it ships: containers, consumer groups, time series, locks, models
)
# Long to install or to run, each in an environment of its own: `make test-frameworks`.
HEAVY = (
    "arq",  # jobs in sorted sets, results, cron, aborts; a job of a killed worker is taken up
    "bullmq",  # queues, flows, schedulers, events; a job of a killed worker runs again
    "celery",  # chains, groups, chords, the result backend; a task of a killed worker is restored
    "channels",  # the layer of sorted sets and Lua, and the one of pub/sub; capacities
    "docket",  # schedules, perpetual tasks, strikes, concurrency limits, leases on a stream; redelivery
    "socketio",  # the streams adapter over ioredis and over node-redis; what a broken connection missed
    "streaq",  # a library of functions over streams; dependencies, aborts; a task of a killed worker is reclaimed
)
# On a real server a driver proves itself, not Rillet.
CASES = [
    *(pytest.param(name, "light", "rillet") for name in LIGHT),
    *(
        pytest.param(name, environment, kind, marks=pytest.mark.frameworks)
        for name, environment, kind in (
            *((name, "light", "redis7") for name in LIGHT),
            *((name, name, kind) for name in HEAVY for kind in SERVERS),
            ("streaq", "streaq", "rillet-7.0"),
        )
    ),
]


@pytest.mark.parametrize(("name", "environment", "kind"), CASES)
def test_its_driver_gets_to_the_end(name, environment, kind):
    use(name, environment, kind)


@pytest.mark.frameworks
@pytest.mark.parametrize(
    ("name", "environment"), [*((name, "light") for name in LIGHT), *((name, name) for name in HEAVY)]
)
def test_its_driver_gets_to_the_end_behind_a_proxy(name, environment):
    use(name, environment, "redis810", behind_proxy=True)
