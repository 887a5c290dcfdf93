"""What one lost reply does to workers of frameworks: each row of the table in docs/testing/frameworks.md."""

import asyncio
import contextlib
import functools
import sys
from pathlib import Path

import pytest

if sys.version_info < (3, 12):
    pytest.skip("the simulator needs Python 3.12: make test-simulation", allow_module_level=True)

from support.simulated_workers import arq, claiming, faststream, reading, streaq, taskiq
from support.until import until

from rillet.testing import Server, every_fault, simulation

pytestmark = pytest.mark.frameworks  # make test-simulation installs them

ROOT = Path(__file__).parents[2]


def test_the_page_names_the_versions_that_are_tested():
    page = (ROOT / "docs/testing/frameworks.md").read_text(encoding="utf-8")
    versions = (ROOT / "tests/frameworks/environments/simulation.txt").read_text(encoding="utf-8")
    for name in (
        "taskiq-redis", "faststream", "streaq", "arq", "huey", "kombu", "celery", "rq", "dramatiq", "pydocket", "bullmq",
        "channels-redis", "python-socketio", "walrus",
    ):  # fmt: skip
        [version] = [line.partition("==")[2] for line in versions.splitlines() if line.split("==")[0] == name]
        assert f"{name} {version}" in page


def meet(worker, send, command, close, *, number=0, seconds=60, again=False):
    """Let two workers do a job, and a command of theirs fail: the first that is answered with something.

    Args:
        worker: a coroutine function of the URL, a name, and what does a job.
        send: sends the job of a number.
        command: by name.
        close: before or after it ran.
        number: instead of it the how manieth, from 1, of those that are answered after the job was sent.
        seconds: of virtual time until the end.
        again: send a second job after them, and wait as long for it.

    Returns:
        The jobs that have run.
    """
    done: list[int] = []
    nth = 0

    async def do(n):
        done.append(n)

    async def test(sim):
        nonlocal nth
        fault = (
            sim.server.fault(client="!driver", command=command, nth=nth, close=close, empty=True)
            if nth
            else None
        )
        with sim.server.recording() as seen, fault or contextlib.nullcontext():
            for name in "ab":
                sim.start(name, worker, sim.url, name, do)
            await asyncio.sleep(2)
            await send(sim.url, 1)
            await asyncio.sleep(seconds)
            if again:
                await send(sim.url, 2)
                await asyncio.sleep(seconds)
            if fault is None:
                theirs = [each for each in seen.of(command=command) if each.client != "driver"]
                if number:
                    sent = next(each.number for each in seen if each.client == "driver")
                    wanted = [
                        each for each in theirs if each.number > sent and each.encoded and not each.error
                    ]
                    nth = theirs.index(wanted[number - 1]) + 1
                else:
                    nth = next(nth for nth, each in enumerate(theirs, 1) if each.reply)
            else:
                assert [each for each in seen if each.fault == fault.id]

    simulation(seeds=[0], chaos=0)(test)()
    assert done[:1] == [1], "without a fault the job runs"
    done.clear()
    simulation(seeds=[0], chaos=0)(test)()
    return done


def test_taskiq_claims_only_after_a_read_that_found_something():
    from taskiq_redis import RedisStreamBroker

    lost = functools.partial(
        meet, *taskiq(RedisStreamBroker, idle_timeout=1000, xread_block=500), "XREADGROUP", "after"
    )
    assert lost() == []
    assert sorted(lost(again=True)) == [1, 2]


def test_a_list_of_taskiq_loses_a_job():
    from taskiq_redis import ListQueueBroker

    assert meet(*taskiq(ListQueueBroker), "BRPOP", "after") == []


def test_a_list_of_faststream_loses_a_message():
    assert meet(*faststream(lambda _: [{"list": "jobs"}], list="jobs"), "BLPOP", "after") == []


def test_a_stream_group_of_faststream_keeps_a_message_that_nobody_claims():
    assert meet(*faststream(reading, stream="jobs"), "XREADGROUP", "after") == []
    assert meet(*faststream(claiming, stream="jobs"), "XREADGROUP", "after") == [1]
    assert meet(*faststream(claiming, stream="jobs"), "XACK", "before") == [1, 1]


def test_streaq_runs_a_task_again_whose_end_was_not_written():
    assert meet(*streaq(), "EXEC", "before") == [1, 1]


def test_arq_waits_for_the_end_of_a_mark():
    import redis

    assert meet(*arq(), "GET", "after", seconds=30) == []
    assert meet(*arq(), "GET", "after", seconds=60) == [1]
    with pytest.raises(redis.WatchError):
        meet(*arq(), "ZSCORE", "after")


def test_huey_loses_a_task():
    import redis
    from huey import RedisHuey

    def body(server):
        done: list[int] = []
        huey = RedisHuey("h", url=server.url, read_timeout=0.1)
        huey.task(name="job")(done.append)(1)
        for _ in range(3):
            with contextlib.suppress(redis.ConnectionError):
                task = huey.dequeue()
                if task is not None:
                    huey.execute(task)
        assert done == [1]

    with pytest.raises(AssertionError, match=r"(?s)1 of 6 faults break.*BRPOP number 1 with close='after'"):
        every_fault("BRPOP")(body)()


def test_kombu_loses_a_message():
    import redis
    from kombu import Connection

    def body(server):
        done = []
        with Connection(server.url) as connection, connection.SimpleQueue("jobs") as queue:
            queue.put(1)
            for _ in range(3):
                with contextlib.suppress(redis.ConnectionError, queue.Empty):
                    message = queue.get(timeout=1)
                    done.append(message.payload)
                    message.ack()
        assert done == [1]

    with pytest.raises(AssertionError, match=r"BRPOP number 1 with close='after'"):
        every_fault("BRPOP", close="after")(body)()


done_by_rq: list[int] = []


def job_of_rq(n):
    done_by_rq.append(n)


def test_rq_runs_no_job_again_whose_beginning_was_cut_off():
    import redis
    from rq import Queue, SimpleWorker

    def body(server):
        done_by_rq.clear()
        queue = Queue("q", connection=redis.Redis.from_url(server.url))
        queue.enqueue(job_of_rq, 1)
        for _ in range(2):
            with contextlib.suppress(redis.ConnectionError):
                SimpleWorker([queue], connection=redis.Redis.from_url(server.url)).work(
                    burst=True, logging_level="CRITICAL"
                )
        assert done_by_rq == [1]

    with pytest.raises(AssertionError, match="2 of 2 faults break"):
        every_fault("PERSIST")(body)()


def test_docket_runs_a_task_again_whose_end_was_not_written():
    from datetime import timedelta

    from docket import Docket, Worker

    def docket_of(url, do):
        docket = Docket("d", url, heartbeat_interval=timedelta(seconds=1))

        async def job(n: int) -> None:
            await do(n)

        docket.register(job)
        return docket, job

    async def work(url, name, do):
        docket, _ = docket_of(url, do)
        async with docket, Worker(docket, name=name, redelivery_timeout=timedelta(seconds=5)) as worker:
            await worker.run_forever()

    async def send(url, n):
        docket, job = docket_of(url, None)
        async with docket:
            await docket.add(job)(n)

    assert meet(work, send, "XREADGROUP", "after") == [1]
    assert meet(work, send, "EVALSHA", "before", number=1) == [1, 1]


def test_bullmq_waits_for_another_job_once_its_marker_is_lost():
    from bullmq import Queue, Worker

    async def work(url, name, do):
        async def job(job, token):
            await do(job.data["n"])

        await Worker("q", job, {"connection": url, "autorun": False, "stalledInterval": 1000}).run()

    async def send(url, n):
        queue = Queue("q", {"connection": url})
        await queue.add("job", {"n": n})
        await queue.close()

    assert meet(work, send, "BZPOPMIN", "after", seconds=600) == []
    assert sorted(meet(work, send, "BZPOPMIN", "after", again=True)) == [1, 2]


def test_channels_loses_a_message_or_delivers_it_twice():
    from channels_redis.core import RedisChannelLayer

    async def work(url, name, do):
        layer = RedisChannelLayer(hosts=[url])
        while True:
            with contextlib.suppress(OSError):
                await do((await layer.receive("jobs"))["n"])

    async def send(url, n):
        await RedisChannelLayer(hosts=[url]).send("jobs", {"type": "job", "n": n})

    assert meet(work, send, "BZPOPMIN", "after") == []
    assert meet(work, send, "ZADD", "before") == []
    assert meet(work, send, "ZPOPMIN", "before") == [1, 1]


def test_socketio_emits_an_event_twice():
    from socketio import AsyncRedisManager, AsyncServer

    class Manager(AsyncRedisManager):
        async def _handle_emit(self, message):
            await self.do(*message["data"])

    async def work(url, name, do):
        if name == "a":
            manager = Manager(url)
            manager.do = do
            AsyncServer(client_manager=manager).manager.initialize()
        else:
            await asyncio.sleep(2)
            await AsyncRedisManager(url, write_only=True).emit("job", 1)
        await asyncio.Event().wait()

    async def send(url, n):
        """Leave it to the second worker, whose command is to fail."""

    assert meet(work, send, "SUBSCRIBE", "after") == [1]
    assert meet(work, send, "PUBLISH", "after") == [1, 1]


def test_a_group_of_walrus_keeps_an_entry_that_nobody_claims():
    import redis
    from walrus import Database

    def body(server, *, claims):
        done = []
        with server.client() as client:
            client.xgroup_create("jobs", "w", "0", mkstream=True)
            client.xadd("jobs", {"n": 1})
        group = Database(host=server.host, port=server.port).consumer_group("w", ["jobs"], consumer="a")
        reads = [lambda: [entry for _, entries in group.read() for entry in entries]]
        if claims:
            reads.append(lambda: group.jobs.autoclaim("b", 0)[1])
        for read in reads * 3:
            with contextlib.suppress(redis.ConnectionError):
                for entry, fields in read():
                    done.append(int(fields[b"n"]))
                    group.jobs.ack(entry)
        assert done == [1]

    with pytest.raises(
        AssertionError, match=r"(?s)1 of 6 faults break.*XREADGROUP number 1 with close='after'"
    ):
        every_fault("XREADGROUP")(functools.partial(body, claims=False))()
    every_fault("XREADGROUP")(functools.partial(body, claims=True))()


def test_dramatiq_keeps_a_message_for_the_worker_that_never_saw_it(monkeypatch):
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker

    monkeypatch.setattr("dramatiq.worker.CONSUMER_RESTART_DELAY_SECS", 0.1)
    done: list[int] = []

    def begin(url):
        # Every command does the maintenance that finds the messages of workers not heard of for a second.
        broker = RedisBroker(url=url, heartbeat_timeout=1000, maintenance_chance=1_000_000, middleware=[])
        job = dramatiq.actor(done.append, actor_name="job", broker=broker)
        return job, dramatiq.Worker(broker, worker_threads=1, worker_timeout=100)

    with Server() as server, server.client() as client:
        job, worker = begin(server.url)
        job.send(1)
        # All of them: it also fetches from a queue of delayed messages, in no certain order.
        with server.fault(command="EVALSHA", close="after"):
            worker.start()
            until(lambda: not client.llen("dramatiq:default"))
        job.send(2)
        until(lambda: done)
        worker.stop()
        assert done == [2]
        _, another = begin(server.url)
        another.start()
        until(lambda: len(done) == 2)
        another.stop()
    assert done == [2, 1]


def test_a_worker_of_celery_loses_a_task():
    from celery import Celery
    from celery.contrib.testing.worker import start_worker

    done: list[int] = []
    with Server() as server, server.client() as client:
        app = Celery(broker=server.url, set_as_current=False)
        app.conf.task_ignore_result = app.conf.task_acks_late = app.conf.broker_connection_retry = True

        @app.task(name="job")
        def job(n):
            done.append(n)

        job.delay(1)
        fault = server.fault(command="BRPOP", nth=1, close="after")
        with fault, start_worker(app, perform_ping_check=False):
            until(lambda: fault.hits)
            job.delay(2)
            until(lambda: done)
        assert (done, client.llen("celery"), client.hlen("unacked")) == ([2], 0, 0)
