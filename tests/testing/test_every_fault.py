"""`rillet.testing.every_fault`: a fault at each command of a test in turn."""

import asyncio
import contextlib

import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from rillet.testing import every_fault


def work(client, *, by_id: bool) -> None:
    """Do the jobs of a stream: count them before they are acknowledged, or note them by their ID."""
    while True:
        try:
            found = client.xreadgroup("w", "a", {"jobs": "0"}, count=1)
            if not found[0][1]:
                found = client.xreadgroup("w", "a", {"jobs": ">"}, count=1)
            if not found:
                return
            [(entry, _)] = found[0][1]
            if by_id:
                client.set(f"done:{entry}", 1)
            else:
                client.incr("done")
            client.xack("jobs", "w", entry)
        except redis.ConnectionError:
            continue


def prepare(server):
    client = server.client(decode_responses=True, protocol=2, retry=None)
    client.xgroup_create("jobs", "w", "0", mkstream=True)
    for n in range(3):
        client.xadd("jobs", {"n": n})
    return client


def test_a_counter_before_the_acknowledgement_doubles_and_each_place_is_named():
    @every_fault("XREADGROUP", "XACK", "INCRBY", close=("before", "after"))
    def test(server):
        client = prepare(server)
        work(client, by_id=False)
        assert client.get("done") == "3"

    with pytest.raises(AssertionError) as found:
        test()
    text = str(found.value)
    assert text.count("- INCRBY number") == 3
    assert text.count("- XACK number") == 3
    assert "XACK number 1 with close='before'" in text
    assert "INCRBY done 1: it ran, its reply 1 was lost, and the connection was closed" in text
    assert "AssertionError: assert '4' == '3'" in text
    assert "XREADGROUP number" not in text


def test_each_wait_is_reached_although_some_end_without_anything():
    @every_fault("XREADGROUP", close=("before", "after"), error="LOADING")
    def test(server):
        client = prepare(server)
        client.xgroup_setid("jobs", "w", "$")
        for n in range(2):
            assert client.xreadgroup("w", "a", {"jobs": ">"}, block=1) == []
            client.xadd("jobs", {"n": n})
            assert client.xreadgroup("w", "a", {"jobs": ">"}, block=60_000)

    with pytest.raises(AssertionError) as found:
        test()
    text = str(found.value)
    assert text.startswith("12 of 12 faults break the test:")
    assert text.count("the connection was closed") == 8
    assert "the test did not come to this command" not in text


def test_a_note_by_id_holds():
    @every_fault("XREADGROUP", "XACK", "SET", close=("before", "after"))
    def test(server):
        client = prepare(server)
        work(client, by_id=True)
        assert len(client.keys("done:*")) == 3

    test()


@every_fault("GET", "SET", error=("BUSY", "LOADING"), delay=0.001)
def test_errors_and_delays_are_kinds_and_fixtures_are_used(rillet):
    while True:
        try:
            rillet.set("a", 1)
            assert rillet.get("a") == b"1"
        except redis.RedisError:
            continue
        return


@every_fault("INCRBY", close="before")
async def test_asynchronous_tests_with_fixtures(rillet_async, rillet_server):
    while not await rillet_async.exists("n"):
        try:
            await rillet_async.incr("n")
        except redis.ConnectionError:
            await rillet_async.connection_pool.disconnect()
    assert rillet_server.client().get("n") == b"1"


def test_a_coroutine_function_is_given_a_server_in_its_loop():
    runs = []

    @every_fault("SET")
    async def test(server):
        runs.append(asyncio.get_running_loop())
        client = server.client()
        try:
            await client.set("a", 1)
        except redis.ConnectionError:
            await client.connection_pool.disconnect()
            await client.set("a", 1)
        assert await client.get("a") == b"1"

    test()
    assert len(runs) == 3


def test_a_test_that_fails_by_itself_or_sends_nothing_says_so():
    @every_fault("GET")
    def fails(server):
        assert server is None

    with pytest.raises(AssertionError, match="is None"):
        fails()

    @every_fault("GET")
    def sends_nothing(server):
        server.client().set("a", 1)

    with pytest.raises(AssertionError, match="the test never sends GET"):
        sends_nothing()

    @every_fault()
    def sends_nothing_at_all(server):
        del server

    with pytest.raises(AssertionError, match="the test sends no command"):
        sends_nothing_at_all()


@pytest.mark.parametrize(
    ("named", "missing"),
    [
        (("SET", "INCR"), "INCR"),  # redis-py sends INCRBY
        (("GET", "set", "xgroup|destroy"), "GET, XGROUP DESTROY"),
        (("XGROUP CREATE", "XGROUP DESTROY", "XGROUP"), "XGROUP DESTROY"),
        (("XGROUP", "XGROUP CREATE"), None),
    ],
)
def test_a_named_command_that_the_test_never_sends_is_an_error_and_no_fault_is_tried(named, missing):
    runs = []

    @every_fault(*named, delay=0.001)
    def test(server):
        runs.append(1)
        with server.client() as client:
            client.set("a", 1)
            client.incr("a")
            client.xgroup_create("s", "g", mkstream=True)

    if missing is None:
        test()
    else:
        with pytest.raises(AssertionError, match=f"the test never sends {missing}$"):
            test()
        assert len(runs) == 1


@pytest.mark.parametrize(
    "named", [("XGROUP CREATE", "XGROUP"), ("XGROUP", "XGROUP CREATE"), ("XGROUP", "XGROUP")]
)
def test_a_command_and_its_subcommand_may_both_be_named(named):
    seen = []

    @every_fault(*named, error="ERR no")
    def test(server):
        with server.client() as client:
            done = []
            for call in (
                lambda: client.xgroup_create("s", "g", mkstream=True),
                lambda: client.xgroup_createconsumer("s", "g", "c"),
                lambda: client.xgroup_create("s", "h"),
                lambda: client.xgroup_setid("s", "h", 0),
            ):
                try:
                    call()
                except redis.ResponseError as error:
                    done.append(str(error) == "no" or "NOGROUP")
                else:
                    done.append(False)
            seen.append([at for at, hit in enumerate(done) if hit is True])

    test()
    assert sorted(seen) == [[], [0], [1], [2], [3]]


@pytest.mark.parametrize("named", [(), ("SET",)])
def test_the_set_up_before_from_here_is_spared(named):
    @every_fault(*named, close=("before", "after"))
    def test(server):
        client = server.client(retry=None)
        client.set("set-up", 1)
        client.set("set-up", 2)
        every_fault.from_here()
        client.set("a", 1)

    with pytest.raises(AssertionError) as found:
        test()
    text = str(found.value)
    assert text.startswith("2 of 2 faults break the test:")
    assert text.count("- SET number 3 with close=") == 2
    assert "set-up" not in text


def test_the_set_up_of_asynchronous_tests_is_spared_too():
    @every_fault(close="before")
    async def test(server):
        client = server.client()
        await client.set("set-up", 1)
        every_fault.from_here()
        with contextlib.suppress(redis.ConnectionError):
            await client.set("a", 1)

    test()


def test_a_test_that_sends_nothing_after_from_here_says_so():
    @every_fault("GET")
    def sends_nothing(server):
        server.client().get("a")
        every_fault.from_here()

    with pytest.raises(AssertionError, match=r"the test never sends GET after from_here\(\)"):
        sends_nothing()

    @every_fault()
    def sends_nothing_at_all(server):
        server.client().get("a")
        every_fault.from_here()

    with pytest.raises(AssertionError, match=r"the test sends no command after from_here\(\)"):
        sends_nothing_at_all()
    every_fault.from_here()  # outside it does nothing


def test_bytes_that_are_no_text_do_not_break_the_report():
    @every_fault("SET", close="before")
    def test(server):
        server.client(retry=None).set(b"\xff", 1)

    with pytest.raises(AssertionError) as found:
        test()
    str(found.value).encode()
    assert "\\udcff" in str(found.value)


def test_redis_py_tries_again_without_a_pause():
    @every_fault("SET", close="after")
    def test(server):
        client = server.client(retry=Retry(ConstantBackoff(60), 1))
        for n in range(20):
            client.set("a", n)

    test()


def test_the_parentheses_of_every_fault_may_not_be_left_out():
    with pytest.raises(TypeError, match=r"^every_fault needs parentheses: @every_fault\(\)$"):
        every_fault(lambda server: server.client().ping())  # type: ignore[arg-type]
