"""Workers that are built in another way than that of the documentation: what an audit once said of them wrongly."""

import pytest
from support.auditing.forked import audit

from rillet.testing.auditing import fleet

pytestmark = pytest.mark.xdist_group("audits of strange workers")

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
DELETES_BEFORE_IT_ACKNOWLEDGES = """\
while True:
    try:
        for entry, fields in claim() + read(block=500):
            if not fields:
                continue
            r.sadd("done", fields["n"])
            r.xdel("jobs", entry)
            r.xack("jobs", "workers", entry)
    except redis.ConnectionError:
        pass
"""
DELETES_THE_REFERENCES = """\
while True:
    for entry, fields in claim() + read(block=500):
        r.sadd("done", fields["n"])
        r.execute_command("XDELEX", "jobs", "DELREF", "IDS", 1, entry)
"""
SENDS_EVAL_ONCE = """\
FINISH = "return redis.call('XACK', KEYS[1], 'workers', ARGV[1])"
finish = lambda entry: r.eval(FINISH, 1, "jobs", entry)
while True:
    try:
        for entry, fields in claim() + read(block=500):
            r.sadd("done", fields["n"])
            finish(entry)
            finish = lambda entry, sha=r.script_load(FINISH): r.evalsha(sha, 1, "jobs", entry)
    except redis.ConnectionError:
        pass
"""
DIES_AND_STARTS_SLOWLY = """\
time.sleep(1)
while True:
    handle([(entry, {"n": int(fields["n"])}) for entry, fields in read(block=500)])
"""
CLAIMS_BY_ITS_READ = """\
while True:
    words = ["GROUP", "workers", ME, "COUNT", 10, "BLOCK", 500, "CLAIM", 30_000, "STREAMS", "jobs", ">"]
    for _, entries in r.execute_command("XREADGROUP", *words) or []:
        handle([each[:2] for each in entries])
"""
REMOVES_WHAT_WAS_DELETED = """\
while True:
    r.xautoclaim("jobs", "workers", ME, 600_000, justid=True)
    words = ["GROUP", "workers", ME, "COUNT", 10, "BLOCK", 500, "CLAIM", 300_000, "STREAMS", "jobs", ">"]
    for _, entries in r.execute_command("XREADGROUP", *words) or []:
        handle([each[:2] for each in entries])
"""
# The client of its work gives a command up after four signs of life, and sends it no second time.
GIVES_UP = """\
from redis.backoff import NoBackoff
from redis.retry import Retry
impatient = redis.Redis.from_url(URL, retry=Retry(NoBackoff(), 0))
inside, signs = [], 0

def beat():
    global signs
    while True:
        time.sleep(0.5)
        if inside:
            r.xclaim("jobs", "workers", ME, 0, inside, justid=True)
            signs += 1
            if signs >= 4:
                impatient.connection_pool.disconnect()

threading.Thread(target=beat, daemon=True).start()
while True:
    for entry, fields in claim() + read(block=500):
        signs = 0
        inside.append(entry)
        try:
            impatient.sadd("done", fields["n"])
            r.xack("jobs", "workers", entry)
        except redis.RedisError:
            pass  # it stays pending
        inside.clear()
"""
# It names itself in all that it sends, but only a claim each second renews its lease.
SPEAKS_OF_ITSELF = """\
inside = []

def beat():
    while True:
        for _ in range(20):
            time.sleep(0.05)
            r.hset("alive", ME, time.time())
        if inside:
            r.xclaim("jobs", "workers", ME, 0, inside, justid=True)

threading.Thread(target=beat, daemon=True).start()
while True:
    for entry, fields in claim() + read(block=100):
        inside.append(entry)
        try:
            r.sadd("done", fields["n"])
            r.xack("jobs", "workers", entry)
        except redis.RedisError:
            pass  # it stays pending
        inside.clear()
"""
BEATS_BEHIND_A_LOCK = """\
lock = threading.Lock()
inside = []

def beat():
    while True:
        time.sleep(0.2)
        with lock:
            if inside:
                r.xclaim("jobs", "workers", ME, 0, inside, justid=True)

threading.Thread(target=beat, daemon=True).start()
while True:
    for entry, fields in claim() + read(block=500):
        inside.append(entry)
        try:
            with lock:
                r.sadd("done", fields["n"])
            time.sleep(0.1)
            with lock:
                r.xack("jobs", "workers", entry)
        except redis.RedisError:
            time.sleep(0.5)
        inside.clear()
"""
BEATS_AFTER_THE_TIMEOUT_OF_ITS_CLIENT = """\
server = redis.Redis.from_url(URL, socket_timeout=0.5)
inside = []

def beat():
    while True:
        time.sleep(1.5)
        for entry in inside:
            r.xclaim("jobs", "workers", ME, 0, [entry], justid=True)

threading.Thread(target=beat, daemon=True).start()
while True:
    for entry, fields in claim() + read(block=500):
        inside.append(entry)
        try:
            server.sadd("done", fields["n"])
            r.xack("jobs", "workers", entry)
        except redis.RedisError:
            pass  # it stays pending
        inside.clear()
"""
# As clients of Node: all commands on one connection, and a heartbeat that waits for each reply.
ON_ONE_CONNECTION = """\
import hiredis

server = r.connection_pool.connection_kwargs

class Connection:
    async def open(self):
        reader, self.writer = await asyncio.open_connection(server["host"], server["port"])
        self.waiting = []
        asyncio.ensure_future(self.receive(reader))

    async def receive(self, reader):
        parser = hiredis.Reader(encoding="utf-8", notEnoughData=...)
        while data := await reader.read(65536):
            parser.feed(data)
            while (reply := parser.gets()) is not ...:
                self.waiting.pop(0).set_result(reply)

    async def send(self, *words):
        reply = asyncio.get_running_loop().create_future()
        self.waiting.append(reply)
        self.writer.write(hiredis.pack_command(tuple(map(str, words))))
        return await reply

async def main():
    reads, rest = Connection(), Connection()
    await reads.open()
    await rest.open()
    inside = []

    async def beat():
        while True:
            await asyncio.sleep(0.2)
            if inside:
                await rest.send("XCLAIM", "jobs", "workers", ME, 0, *inside, "JUSTID")

    beating = asyncio.ensure_future(beat())
    while True:
        _, entries, _ = await rest.send("XAUTOCLAIM", "jobs", "workers", ME, 30_000, "0-0")
        found = await reads.send("XREADGROUP", "GROUP", "workers", ME, "BLOCK", 500, "STREAMS", "jobs", ">")
        for entry, (_, number) in entries + (found[0][1] if found else []):
            inside.append(entry)
            await rest.send("SADD", "done", number)
            inside.clear()
            await rest.send("XACK", "jobs", "workers", entry)

asyncio.run(main())
"""
# As ioredis with `commandTimeout`: a command that is not answered in time fails, and its connection stays open.
GIVES_UP_ON_AN_OPEN_CONNECTION = (
    ON_ONE_CONNECTION.replace("sleep(0.2)", "sleep(4)")
    .replace(
        """            await rest.send("SADD", "done", number)
            inside.clear()
""",
        """            try:
                await asyncio.wait_for(asyncio.shield(work.send("SADD", "done", number)), 2)
            except TimeoutError:
                continue  # it stays pending
            finally:
                inside.clear()
""",
    )
    .replace(
        "reads, rest = Connection(), Connection()",
        "reads, rest, work = Connection(), Connection(), Connection()\n    await work.open()",
    )
)


@pytest.fixture(scope="module", autouse=True)
def _quick():
    """No worker here sends a command again, so it is known at once that it gave one up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fleet, "_BACKOFF_SECONDS", 1.0)
        patch.setattr(fleet, "_MUFFLED_SECONDS", 1.0)
        yield


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
        (DELETES_BEFORE_IT_ACKNOWLEDGES, "ack-lost", "kept"),
        (DELETES_THE_REFERENCES, "works-before-ack", "kept"),
        (SENDS_EVAL_ONCE, "ack-lost", "kept"),
        (CLAIMS_BY_ITS_READ, "deleted", "broken"),
        (DIES_AND_STARTS_SLOWLY, "poison", "kept"),
        (REMOVES_WHAT_WAS_DELETED, "idle-claim", "kept"),
        (GIVES_UP, "long-job", "kept"),
        (SPEAKS_OF_ITSELF, "long-job", "kept"),
        (BEATS_BEHIND_A_LOCK, "long-job", "not tried"),
        (BEATS_AFTER_THE_TIMEOUT_OF_ITS_CLIENT, "long-job", "kept"),
        (ON_ONE_CONNECTION, "long-job", "not tried"),
        (GIVES_UP_ON_AN_OPEN_CONNECTION, "long-job", "not tried"),
    ],
    ids=str.split(
        "pool ahead counts behind-a-read start itself timer timer-elsewhere third-start deletes-first deletes-references "
        "eval-once claims-by-read dies removes-deleted gives-up itself-named lock slow-sign one-connection open-connection"
    ),
)
def test_a_worker_of_another_build_is_judged_rightly(zygote, ahead, source, promise, result):
    def work(source, promise, result):
        waits = {CLAIMS_BY_A_TIMER: 20, GIVES_UP_AT_ITS_THIRD_START: 8}.get(source, 4)
        return audit(zygote, BEGIN + source, ["works", promise], timeout=waits)

    found = ahead(work)
    assert found["works"].result == "kept", found["works"]
    assert found[promise].result == result, found[promise]


def test_a_worker_in_another_database_is_followed_there(zygote):
    source = BEGIN.replace("URL, decode", "URL, db=3, decode") + CLAIMS_BY_A_TIMER
    found = audit(zygote, source, ["works", "backlog", "retention"], timeout=1)
    assert {name: each.result for name, each in found.items()} == {
        "works": "kept", "backlog": "kept", "retention": "broken",
    }  # fmt: skip


@pytest.mark.parametrize("first", ["", "handle(claim())"], ids=["reads", "claims"])
def test_a_worker_that_finds_no_group_is_given_one(zygote, first):
    begin = BEGIN.replace('r.xgroup_create("jobs", "workers", "0", mkstream=True)', "pass")
    source = begin + f"while True:\n    {first}\n    handle(read(block=500))\n"
    found = audit(zygote, source, ["works", "backlog"], timeout=5)
    assert {each.result for each in found.values()} == {"kept"}
