"""Celery: results, retries, chains, groups, chords, delays, priorities, revocation, and a worker that was killed."""

import time
from tempfile import TemporaryDirectory

from celery import Celery, chain, chord, group
from celery.exceptions import TaskRevokedError
from checks import URL, eventually, worker
from redis import Redis

redis = Redis.from_url(URL)
app = Celery("use_celery", broker=URL, backend=URL)
app.conf.update(
    broker_transport_options={
        "visibility_timeout": 2,
        "unacked_restore_interval": 0.5,
        "unacked_restore_throttle": 1,
        "unacked_mutex_expire": 2,
    },
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    result_expires=600,
    beat_schedule={"ticking": {"task": "use_celery.tick", "schedule": 0.2}},
)


@app.task
def add(one, other):
    return one + other


@app.task
def add_up(numbers):
    return sum(numbers)


@app.task
def tick():
    redis.incr("ticks")


@app.task(bind=True, max_retries=3)
def fail_twice(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return "third time"


@app.task
def fail():
    raise ValueError("as asked")


@app.task
def hang_once():
    if redis.incr("hanging") == 1:
        time.sleep(3600)
    return "at last"


CLI = ("-m", "celery", "-A", "use_celery", "worker", "--pool", "solo", "--loglevel", "WARNING")


def main() -> None:
    with TemporaryDirectory() as folder, worker(*CLI, "--beat", "--schedule", f"{folder}/beat"):
        eventually(lambda: app.control.ping(timeout=1))
        assert [add.delay(number, 1).get(timeout=60) for number in range(5)] == [1, 2, 3, 4, 5]
        assert chain(add.s(1, 2), add.s(10), add.s(100))().get(timeout=60) == 113
        assert group(add.s(number, number) for number in range(5))().get(timeout=60) == [0, 2, 4, 6, 8]
        assert chord((add.s(number, number) for number in range(5)), add_up.s())().get(timeout=60) == 20
        assert fail_twice.delay().get(timeout=60) == "third time"
        failed = fail.delay()
        assert str(failed.get(timeout=30, propagate=False)) == "as asked"
        assert failed.state == "FAILURE"
        assert add.apply_async((20, 1), countdown=1).get(timeout=60) == 21
        revoked = add.apply_async((1, 1), countdown=2)
        revoked.revoke()
        try:
            revoked.get(timeout=60)
        except TaskRevokedError:
            pass
        else:
            raise AssertionError("it ran")
        eventually(lambda: int(redis.get("ticks") or 0) >= 2)
        hanging = hang_once.delay()
        eventually(lambda: redis.get("hanging"))
    assert redis.hlen("unacked") >= 1
    with worker(*CLI):  # takes it up when the visibility timeout has passed
        assert hanging.get(timeout=60) == "at last"
        eventually(lambda: redis.hlen("unacked") == 0)
