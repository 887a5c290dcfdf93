"""dramatiq: results, retries, delays, groups and pipelines, dead letters, and a worker that was killed."""

import time

import dramatiq
from checks import URL, eventually, worker
from dramatiq import group, pipeline
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits import ConcurrentRateLimiter
from dramatiq.rate_limits.backends import RedisBackend as LimitBackend
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend as ResultBackend
from redis import Redis

redis = Redis.from_url(URL)
# Every command does the maintenance that finds the messages of workers not heard of for a second.
broker = RedisBroker(url=URL, heartbeat_timeout=1000, maintenance_chance=1_000_000)
broker.add_middleware(Results(backend=ResultBackend(url=URL)))
limits = LimitBackend(url=URL)
broker.add_middleware(GroupCallbacks(limits))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def double(number):
    return number * 2


@dramatiq.actor(store_results=True)
def add_up(numbers):
    return sum(numbers)


@dramatiq.actor(store_results=True, max_retries=3, min_backoff=10, max_backoff=20)
def fail_twice():
    if redis.incr("tries") <= 2:
        raise ValueError("not yet")
    return "third time"


@dramatiq.actor(max_retries=0)
def fail():
    raise ValueError("as asked")


@dramatiq.actor
def finished():
    redis.set("finished", 1)


@dramatiq.actor(store_results=True, queue_name="dangerous")
def hang_once():
    if redis.incr("hanging") == 1:
        time.sleep(3600)
    return "at last"


CLI = "-m dramatiq use_dramatiq --processes 1 --threads 2 --worker-shutdown-timeout 100".split()


def main() -> None:
    sent = [double.send(number) for number in range(20)]
    retried = fail_twice.send()
    fail.send()
    later = double.send_with_options(args=(21,), delay=500)
    piped = pipeline([double.message(1), double.message(), double.message()]).run()
    together = group([double.message(number) for number in range(5)])
    together.add_completion_callback(finished.message())
    together.run()
    with worker(*CLI) as first:
        assert [message.get_result(block=True, timeout=60_000) for message in sent] == list(range(0, 40, 2))
        assert retried.get_result(block=True, timeout=60_000) == "third time"
        assert later.get_result(block=True, timeout=60_000) == 42
        assert piped.get_result(block=True, timeout=60_000) == 8
        assert list(together.get_results(block=True, timeout=60_000)) == [0, 2, 4, 6, 8]
        eventually(lambda: redis.get("finished"))
        eventually(lambda: redis.zcard("dramatiq:default.XQ") == 1)
        hanging = hang_once.send()
        eventually(lambda: redis.get("hanging"))
        first.kill()
    with worker(*CLI):
        assert hanging.get_result(block=True, timeout=60_000) == "at last"

    limiter = ConcurrentRateLimiter(limits, "a mutex", limit=1, ttl=60_000)
    with limiter.acquire(), limiter.acquire(raise_on_failure=False) as second:
        assert not second
    with limiter.acquire() as again:
        assert again
    broker.flush_all()
