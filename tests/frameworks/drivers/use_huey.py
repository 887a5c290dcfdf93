"""huey: results, retries, delays, pipelines, locks, priorities and expiring results on four storages."""

from checks import PORT, URL, eventually, worker
from huey import PriorityRedisHuey, RedisExpireHuey, RedisHuey
from huey.exceptions import TaskException
from redis import Redis

redis = Redis.from_url(URL)
plain = RedisHuey("plain", host="127.0.0.1", port=PORT, notify_result=True)
urgent = PriorityRedisHuey("urgent", host="127.0.0.1", port=PORT)
fading = RedisExpireHuey("fading", host="127.0.0.1", port=PORT, expire_time=600)


@plain.task()
def add(one: int, other: int) -> int:
    return one + other


@plain.task(retries=2)
def fail_twice() -> str:
    if redis.incr("tries") <= 2:
        raise ValueError("not yet")
    return "third time"


@plain.task()
def locked() -> str:
    with plain.lock_task("only one"):
        return "got it"


@urgent.task()
def note(word: str) -> None:
    redis.rpush("noted", word)


@fading.task()
def double(number: int) -> int:
    return number * 2


@plain.task()
def hang() -> None:
    redis.set("hanging", 1)
    redis.blpop("never")


def settled(result):
    try:
        return result.get()
    except TaskException:  # of a try that was not the last one
        result.reset()
        return None


CONSUMER = ("-m", "huey.bin.huey_consumer", "--delay", "0.1", "--scheduler-interval", "1")


def main() -> None:
    sum_of_two = add(1, 2)
    pipeline = plain.enqueue(add.s(1, 2).then(add, 10).then(add, 100))
    retried = fail_twice()
    later = add.schedule((20, 1), delay=1)
    cancelled = add(5, 5)
    cancelled.revoke()
    got_lock = locked()
    assert plain.pending_count() == 6
    with worker(*CONSUMER, "use_huey.plain") as consumer:
        assert sum_of_two.get(blocking=True, timeout=60) == 3
        assert pipeline.get(blocking=True, timeout=60) == [3, 13, 113]
        assert eventually(lambda: settled(retried)) == "third time"
        assert later.get(blocking=True, timeout=60) == 21
        assert got_lock.get(blocking=True, timeout=60) == "got it"
        hang()
        eventually(lambda: redis.get("hanging"))
        consumer.kill()
    after = add(3, 4)
    with worker(*CONSUMER, "use_huey.plain"):
        assert after.get(blocking=True, timeout=60) == 7
    assert cancelled.get() is None
    assert plain.scheduled_count() == 0

    for word, priority in (("third", 1), ("second", 5), ("first", 9)):
        note(word, priority=priority)
    with worker(*CONSUMER, "use_huey.urgent"):
        eventually(lambda: redis.llen("noted") == 3)
    assert redis.lrange("noted", 0, -1) == [b"first", b"second", b"third"]

    doubled = double(4)
    with worker(*CONSUMER, "use_huey.fading"):
        assert doubled.get(blocking=True, timeout=60) == 8
    assert 0 < redis.ttl(fading.storage.result_key(doubled.id)) <= 600
    assert fading.storage.result_store_size() == 1
