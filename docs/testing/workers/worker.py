"""A stream consumer that keeps its promises. REDIS_URL says where, CONSUMER who it is."""

import os
import signal
import threading
import time

import redis

STREAM, GROUP, ME = "jobs", "workers", os.environ["CONSUMER"]
LEASE = 30_000  # milliseconds after which a message counts as abandoned
HEARTBEAT = 1  # seconds
MOST_DELIVERIES = 5

server = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
# Acknowledge and delete at once, so that nothing stays in the stream.
finish = server.register_script(
    "redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) return redis.call('XDEL', KEYS[1], ARGV[2])"
)
stopping = threading.Event()


def work(fields):
    server.sadd("done", int(fields["n"]))


def main():
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    while not stopping.is_set():
        try:
            for entry, fields in claim() or read():
                handle(entry, fields)
                if stopping.is_set():
                    break  # the rest stays pending, and another consumer claims it
        except redis.ResponseError as error:
            if str(error).startswith("NOGROUP"):
                make_group()
            else:
                time.sleep(0.1)  # READONLY, LOADING …
        except (redis.ConnectionError, redis.TimeoutError):
            time.sleep(0.1)


def make_group():
    try:
        server.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    except redis.ResponseError as error:
        if not str(error).startswith("BUSYGROUP"):
            raise


def read():
    found = server.xreadgroup(GROUP, ME, {STREAM: ">"}, count=10, block=2000)
    return found[0][1] if found else []


def claim():
    _, entries, _ = server.xautoclaim(STREAM, GROUP, ME, LEASE, count=10)
    if not entries:
        forget_the_dead()
    return entries


def handle(entry, fields):
    with Heartbeat(entry):
        try:
            work(fields)
        except redis.RedisError:
            raise
        except Exception as error:
            [pending] = server.xpending_range(STREAM, GROUP, entry, entry, 1)
            if pending["times_delivered"] < MOST_DELIVERIES:
                return  # it stays pending, and is claimed again later
            server.xadd("jobs:dead", {**fields, "error": repr(error)})
        finish(keys=[STREAM], args=[GROUP, entry])


class Heartbeat:
    """Keeps a message from being claimed while this worker works on it."""

    def __init__(self, entry):
        self.entry, self.over = entry, threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def beat(self):
        while not self.over.wait(HEARTBEAT):
            try:
                server.xclaim(STREAM, GROUP, ME, 0, [self.entry], justid=True)
            except redis.RedisError:
                pass  # the next beat tries again


def forget_the_dead():
    for each in server.xinfo_consumers(STREAM, GROUP):
        if each["name"] != ME and each["pending"] == 0 and each["idle"] > 3_600_000:
            server.xgroup_delconsumer(STREAM, GROUP, each["name"])


if __name__ == "__main__":
    main()
