"""rq: jobs and results, retries, dependencies, groups of queues, the scheduler, and a worker that was killed."""

import os
import signal
import time
from datetime import timedelta

from checks import URL, eventually, worker
from redis import Redis
from rq import Callback, Queue, Repeat, Retry, SimpleWorker, Worker
from rq.job import Job, JobStatus
from rq.registry import FailedJobRegistry, ScheduledJobRegistry, StartedJobRegistry

redis = Redis.from_url(URL)


def double(number: int) -> int:
    return number * 2


def fail_twice(name: str) -> str:
    if redis.incr(name) <= 2:
        raise ValueError("not yet")
    return "third time"


def note_success(job: Job, connection: Redis, result: object) -> None:
    connection.rpush("succeeded", str(result))


def hang() -> None:
    redis.set("hanging", os.getpid())
    time.sleep(3600)


def jobs_and_results() -> None:
    high, low = Queue("high", connection=redis), Queue("low", connection=redis)
    later = low.enqueue(double, 2, on_success=Callback(note_success))
    sooner = high.enqueue(double, 1, on_success=Callback(note_success))
    many = low.enqueue_many(
        [Queue.prepare_data(double, (number,), job_id=f"many-{number}") for number in range(10)]
    )
    last = low.enqueue(double, 50, depends_on=many)
    retried = low.enqueue(fail_twice, "tries", retry=Retry(max=3))
    repeated = low.enqueue(double, 7, repeat=Repeat(times=2, interval=0))
    assert last.get_status() == JobStatus.DEFERRED
    assert SimpleWorker([high, low], connection=redis).work(burst=True)
    assert (sooner.return_value(refresh=True), later.return_value(refresh=True)) == (2, 4)
    assert redis.lrange("succeeded", 0, -1) == [b"2", b"4"]
    assert [job.return_value(refresh=True) for job in many] == list(range(0, 20, 2))
    assert last.return_value(refresh=True) == 100
    assert retried.return_value(refresh=True) == "third time"
    assert len(repeated.results()) == 3
    assert retried.latest_result().type.name == "SUCCESSFUL"
    assert redis.get("tries") == b"3"
    assert (len(high), len(low)) == (0, 0)


def scheduler() -> None:
    queue = Queue("timed", connection=redis)
    job = queue.enqueue_in(timedelta(seconds=1), double, 21)
    assert ScheduledJobRegistry(queue=queue).get_job_ids() == [job.id]
    with worker("-m", "rq.cli", "worker", "--url", URL, "--with-scheduler", "timed"):
        assert eventually(lambda: job.return_value(refresh=True)) == 42
    assert ScheduledJobRegistry(queue=queue).get_job_ids() == []


def crash() -> None:
    queue = Queue("dangerous", connection=redis)
    job = queue.enqueue(hang, job_timeout=3600)
    with worker("-m", "rq.cli", "worker", "--url", URL, "dangerous") as killed:
        eventually(lambda: redis.get("hanging"))
        assert Worker.count(queue=queue) == 1
        killed.kill()
        os.kill(int(redis.get("hanging")), signal.SIGKILL)  # a process of a session of its own
    started = StartedJobRegistry(queue=queue)
    assert [each.partition(":")[0] for each in started.get_job_ids(cleanup=False)] == [job.id]
    # As if the minute after which the job counts as abandoned had passed.
    for key in redis.zrange(started.key, 0, -1):
        redis.zadd(started.key, {key: 1}, xx=True)
    started.cleanup()
    assert job.get_status(refresh=True) == JobStatus.FAILED
    assert FailedJobRegistry(queue=queue).get_job_ids() == [job.id]
    job.requeue()
    assert queue.job_ids == [job.id]


def main() -> None:
    jobs_and_results()
    scheduler()
    crash()
