"""Workers that are built in another way than that of the documentation: what an audit once said of them wrongly."""

import pytest
from support.auditing.forked import audit

from rillet.testing.auditing import fleet

pytestmark = pytest.mark.xdist_group("audits of strange workers")

BEGIN = """\
import asyncio, os, redis, threading, time
from concurrent.futures import ThreadPoolExecutor
from redis.backoff import NoBackoff
from redis.retry import Retry
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

inside, signs = [], []  # what it works on, and its signs of life since then

def sign():
    if inside:
        r.xclaim("jobs", "workers", ME, 0, inside, justid=True)
        signs.append(time.time())

def beating(seconds, beat):
    def run():
        while True:
            time.sleep(seconds)
            beat()

    threading.Thread(target=run, daemon=True).start()

def work_by(server):
    while True:
        for entry, fields in claim() + read(block=500):
            signs.clear()
            inside.append(entry)
            try:
                server.sadd("done", fields["n"])
                r.xack("jobs", "workers", entry)
            except redis.RedisError:
                pass  # it stays pending
            inside.clear()

"""
# What a worker is, the promise and the verdict.
WORKERS = {
    ("pool", "works-before-ack", "broken"): """\
def work(fields):
    time.sleep(0.5)
    r.lpush("out", fields["n"])

with ThreadPoolExecutor(2) as pool:
    while True:
        for entry, fields in read(block=500):
            pool.submit(work, fields)
            r.xack("jobs", "workers", entry)
""",
    ("ahead", "works", "kept"): """\
ahead = []
while True:
    ahead += read(block=300)
    if len(ahead) >= 3:
        handle([ahead.pop(0)])
""",
    ("counts", "works-before-ack", "kept"): """\
while True:
    for entry, fields in read():  # without BLOCK and without a pause
        r.incr("total")
        r.xack("jobs", "workers", entry)
""",
    ("behind-a-read", "long-job", "broken"): """\
while True:
    handle(found := read(block=500))
    if found:
        handle(claim())
""",
    ("start", "long-job", "broken"): """\
handle(claim())
while True:
    handle(read(block=500))
""",
    ("itself", "long-job", "broken"): """\
beating(0.2, lambda: handle(claim()))
while True:
    handle(read(block=500))
""",
    ("timer", "idle-claim", "kept"): """\
begin = time.monotonic()
while True:
    if time.monotonic() - begin > 3:
        begin = time.monotonic()
        handle(claim())
    handle(read(block=500))
""",
    ("third-start", "poison-capped", "kept"): """\
for entry, fields in r.xreadgroup("workers", ME, {"jobs": "0"}, count=10)[0][1]:
    if r.xpending_range("jobs", "workers", entry, entry, 1)[0]["times_delivered"] > 2:
        r.xack("jobs", "workers", entry)
    elif "n" in fields and fields["n"].isdigit():
        handle([(entry, fields)])
while True:
    handle([each for each in read(block=500) if each[1].get("n", "").isdigit()])
""",
    ("deletes-first", "ack-lost", "kept"): """\
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
""",
    ("deletes-references", "works-before-ack", "kept"): """\
while True:
    for entry, fields in claim() + read(block=500):
        r.sadd("done", fields["n"])
        r.execute_command("XDELEX", "jobs", "DELREF", "IDS", 1, entry)
""",
    ("eval-once", "ack-lost", "kept"): """\
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
""",
    ("claims-by-read", "deleted", "broken"): """\
while True:
    words = ["GROUP", "workers", ME, "COUNT", 10, "BLOCK", 500, "CLAIM", 30_000, "STREAMS", "jobs", ">"]
    for _, entries in r.execute_command("XREADGROUP", *words) or []:
        handle([each[:2] for each in entries])
""",
    ("dies", "poison", "kept"): """\
time.sleep(1)
while True:
    handle([(entry, {"n": int(fields["n"])}) for entry, fields in read(block=500)])
""",
    ("removes-deleted", "idle-claim", "kept"): """\
while True:
    r.xautoclaim("jobs", "workers", ME, 600_000, justid=True)
    words = ["GROUP", "workers", ME, "COUNT", 10, "BLOCK", 500, "CLAIM", 300_000, "STREAMS", "jobs", ">"]
    for _, entries in r.execute_command("XREADGROUP", *words) or []:
        handle([each[:2] for each in entries])
""",
    # The client of its work gives a command up after four signs of life, and sends it no second time.
    ("gives-up", "long-job", "kept"): """\
impatient = redis.Redis.from_url(URL, retry=Retry(NoBackoff(), 0))

def beat():
    sign()
    if inside and len(signs) >= 4:
        impatient.connection_pool.disconnect()

beating(0.5, beat)
work_by(impatient)
""",
    # It names itself in all that it sends, but only a claim each second renews its lease.
    ("itself-named", "long-job", "kept"): """\
def beat():
    for _ in range(20):
        time.sleep(0.05)
        r.hset("alive", ME, time.time())
    sign()

beating(0, beat)
work_by(r)
""",
    ("lock", "long-job", "not tried"): """\
lock = threading.Lock()

def beat():
    with lock:
        sign()

beating(0.2, beat)
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
""",
    ("slow-sign", "long-job", "kept"): """\
beating(1.5, sign)
work_by(redis.Redis.from_url(URL, socket_timeout=0.5))
""",
    # As clients of Node: all commands on one connection, and a heartbeat that waits for each reply.
    ("one-connection", "long-job", "not tried"): """\
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
""",
}
WORKERS["timer-elsewhere", "crash-elsewhere", "kept"] = WORKERS["timer", "idle-claim", "kept"]
# As ioredis with `commandTimeout`: a command that is not answered in time fails, and its connection stays open.
WORKERS["open-connection", "long-job", "not tried"] = (
    WORKERS["one-connection", "long-job", "not tried"]
    .replace("sleep(0.2)", "sleep(4)")
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
        patch.setattr(fleet, "_MUFFLED_SECONDS", 3.0)  # a busy machine stops a worker for two
        yield


@pytest.mark.parametrize(("name", "promise", "result"), WORKERS)
def test_a_worker_of_another_build_is_judged_rightly(zygote, ahead, name, promise, result):
    def work(name, promise, result):
        waits = {"timer": 20, "timer-elsewhere": 20, "third-start": 8}.get(name, 4)
        source = WORKERS[name, promise, result]
        return audit(zygote, BEGIN + source, ["works", promise], timeout=waits)

    found = ahead(work)
    assert found["works"].result == "kept", found["works"]
    assert found[promise].result == result, found[promise]


def test_a_worker_in_another_database_is_followed_there(zygote):
    source = BEGIN.replace("URL, decode", "URL, db=3, decode") + WORKERS["timer", "idle-claim", "kept"]
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
