"""Workers that are built in another way than that of the documentation: what an audit once said of them wrongly."""

from __future__ import annotations

import pytest
from support.auditing.forked import audit

BEGIN = """\
import asyncio, os, redis, threading, time
from concurrent.futures import ThreadPoolExecutor
ME, URL = os.environ["CONSUMER"], os.environ["REDIS_URL"]
r = redis.Redis.from_url(URL, decode_responses=True)
try:
    r.xgroup_create("jobs", "workers", "0", mkstream=True)
except redis.ResponseError:
    pass

def handle(entries):
    for entry, fields in entries:
        r.sadd("done", fields["n"])
        r.xack("jobs", "workers", entry)

def claim():
    return r.xautoclaim("jobs", "workers", ME, 30_000)[1]

def read(**options):
    found = r.xreadgroup("workers", ME, {"jobs": ">"}, count=10, **options)
    return found[0][1] if found else []

"""
IN_A_POOL = """\
def work(fields):
    time.sleep(0.5)
    r.lpush("out", fields["n"])

with ThreadPoolExecutor(2) as pool:
    while True:
        for entry, fields in read(block=500):
            pool.submit(work, fields)
            r.xack("jobs", "workers", entry)
"""
READS_AHEAD = """\
ahead = []
while True:
    ahead += read(block=300)
    if len(ahead) >= 3:
        handle([ahead.pop(0)])
"""
COUNTS = """\
while True:
    for entry, fields in read():  # without BLOCK and without a pause
        r.incr("total")
        r.xack("jobs", "workers", entry)
"""
CLAIMS_BEHIND_A_READ = """\
while True:
    handle(found := read(block=500))
    if found:
        handle(claim())
"""
CLAIMS_AT_THE_START = """\
handle(claim())
while True:
    handle(read(block=500))
"""
CLAIMS_FROM_ITSELF = """\
def again():
    while True:
        handle(claim())
        time.sleep(0.2)

threading.Thread(target=again, daemon=True).start()
while True:
    handle(read(block=500))
"""
CLAIMS_BY_A_TIMER = """\
begin = time.monotonic()
while True:
    if time.monotonic() - begin > 3:
        begin = time.monotonic()
        handle(claim())
    handle(read(block=500))
"""
GIVES_UP_AT_ITS_THIRD_START = """\
for entry, fields in r.xreadgroup("workers", ME, {"jobs": "0"}, count=10)[0][1]:
    if r.xpending_range("jobs", "workers", entry, entry, 1)[0]["times_delivered"] > 2:
        r.xack("jobs", "workers", entry)
    elif "n" in fields and fields["n"].isdigit():
        handle([(entry, fields)])
while True:
    handle([each for each in read(block=500) if each[1].get("n", "").isdigit()])
"""


@pytest.mark.parametrize(
    ("source", "promise", "result"),
    [
        (IN_A_POOL, "works-before-ack", "broken"),
        (READS_AHEAD, "works", "kept"),
        (COUNTS, "works-before-ack", "kept"),
        (CLAIMS_BEHIND_A_READ, "long-job", "broken"),
        (CLAIMS_AT_THE_START, "long-job", "broken"),
        (CLAIMS_FROM_ITSELF, "long-job", "broken"),
        (CLAIMS_BY_A_TIMER, "idle-claim", "kept"),
        (CLAIMS_BY_A_TIMER, "crash-elsewhere", "kept"),
        (GIVES_UP_AT_ITS_THIRD_START, "poison-capped", "kept"),
    ],
    ids=str.split("pool ahead counts behind-a-read start itself timer timer-elsewhere third-start"),
)
def test_a_worker_of_another_build_is_judged_rightly(zygote, source, promise, result):
    waits = 20 if source == CLAIMS_BY_A_TIMER else 4
    found = audit(zygote, BEGIN + source, ["works", promise], timeout=waits)
    assert found["works"].result == "kept", found["works"]
    assert found[promise].result == result, found[promise]
