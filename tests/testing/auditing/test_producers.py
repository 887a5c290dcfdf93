"""`rillet audit --producer -- COMMAND`: what is added is there once, or the producer says that it is not."""

import pytest

from rillet.testing.auditing.bench import Plan
from rillet.testing.auditing.producers import PRODUCER_PROMISES
from rillet.testing.auditing.running import Audit

CORRECT = """\
import os, time, uuid, redis
from redis.backoff import NoBackoff
from redis.retry import Retry
server = redis.Redis.from_url(os.environ["REDIS_URL"], retry=Retry(NoBackoff(), 0))
me = str(uuid.uuid4())
while True:
    try:
        server.execute_command("XADD", "jobs", "IDMP", "shop", me, "MAXLEN", "~", 1000, "*", "order", me)
        break
    except redis.RedisError:
        time.sleep(0.05)
"""
SAYS = """\
import os, redis
from redis.backoff import NoBackoff
from redis.retry import Retry
server = redis.Redis.from_url(os.environ["REDIS_URL"], retry=Retry(NoBackoff(), 0))
server.xadd("jobs", {"order": 1}, maxlen=1000)
"""
LOOP = "server.execute_command"


def broken(zygote, source):
    plan = Plan(launch=zygote.launcher(source), timeout=3)
    results = Audit(plan, 2, PRODUCER_PROMISES).run()
    assert [each.name for each in results] == list(PRODUCER_PROMISES)
    return {each.name: each.what for each in results if each.result != "kept"}


@pytest.mark.parametrize("source", [CORRECT, SAYS])
def test_a_producer_that_repeats_safely_or_ends_with_an_error_keeps_its_promises(zygote, source):
    assert broken(zygote, source) == {}


@pytest.mark.parametrize(
    ("promise", "source", "text"),
    [
        ("reply-lost", CORRECT.replace('"IDMP", "shop", me, ', ""), "is stored 2 times"),
        (
            "readonly",
            SAYS.replace("server.xadd", "try: server.xadd") + "except redis.ReadOnlyError: pass\n",
            "is lost",
        ),
        (
            "oom",
            SAYS.replace("server.xadd", "try: server.xadd") + "except redis.OutOfMemoryError: pass\n",
            "is lost",
        ),
        ("bounded", SAYS.replace(", maxlen=1000", ""), "nothing bounds jobs"),
    ],
)
def test_the_promise_that_a_producer_breaks_is_named_alone(zygote, promise, source, text):
    found = broken(zygote, source)
    assert found.keys() == {promise}
    assert text in found[promise]
