"""What a test does with a proxy besides faults: age, spies, the loop of the test."""

import asyncio

import hiredis
import pytest
import redis

import rillet.testing


def fill(client, number=3):
    client.xgroup_create("s", "g", mkstream=True)
    for at in range(1, number + 1):
        client.xadd("s", {"n": at}, id=f"{at}-0")
    client.xreadgroup("g", "a", {"s": ">"}, count=number - 1)
    client.xreadgroup("g", "b", {"s": ">"})


def test_age_is_the_same_on_a_test_server():
    with rillet.testing.Server() as server:
        test_age_changes_idle_times_alone(server)


def test_age_changes_idle_times_alone(proxy):
    client = proxy.client()
    fill(client)
    client.xclaim("s", "g", "b", 0, ["2-0"])
    client.xdel("s", "1-0")
    before = client.xpending_range("s", "g", "-", "+", 10)
    assert proxy.age("s", b"g", hours=1, minutes=1, seconds=1.5) == 2
    after = client.xpending_range("s", "g", "-", "+", 10)
    same = ("message_id", "consumer", "times_delivered")
    assert [[each[name] for name in same] for each in after] == [
        [each[name] for name in same] for each in before
    ]
    older = [
        new["time_since_delivered"] - old["time_since_delivered"] >= 3_661_500
        for new, old in zip(after, before, strict=True)
    ]
    assert older == [False, True, True]  # the first was deleted: XCLAIM would drop it
    assert client.xlen("s") == 2
    assert client.xautoclaim("s", "g", "c", 3_661_500)[1] == [(b"2-0", {b"n": b"2"}), (b"3-0", {b"n": b"3"})]


def test_age_of_thousands(proxy):
    client = proxy.client()
    fill(client, 2500)
    assert proxy.age("s", "g", hours=1) == 2500
    assert (
        min(each["time_since_delivered"] for each in client.xpending_range("s", "g", "-", "+", 5000))
        >= 3_600_000
    )


def test_age_wants_a_time_and_a_group(proxy):
    with pytest.raises(ValueError, match="more than 0"):
        proxy.age("s", "g")
    with pytest.raises(hiredis.ReplyError, match="NOGROUP"):
        proxy.age("s", "g", hours=1)
    with pytest.raises(ValueError, match="a push has at least"):
        proxy.push()


def test_spies_see_the_real_server_and_what_passed(proxy):
    client = proxy.client(client_name="Bob")
    with proxy.recording():
        fill(client)
        client.xack("s", "g", "1-0")
        lived = str(proxy.history("s", "1-0"))
        assert "acknowledged" in lived
        assert "Bob" in lived or "a" in lived
        proxy.assert_acked("s", "g", "1-0")
        with pytest.raises(AssertionError, match="2-0"):
            proxy.assert_acked("s", "g", "2-0")
        proxy.assert_delivered_once("s", "g")
        client.xack("s", "g", "2-0", "3-0")
        proxy.wait_until_idle("s", "g", timeout=60)
    assert proxy.streams() == ["s"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"command": "XAKC", "error": "OOM"}, "There is no command 'xakc'"),
        ({"disk": "append"}, "A proxy has no"),
        ({"clock_delay": 5, "command": "GET"}, "A proxy has no"),
    ],
)
def test_a_fault_that_it_cannot_have_is_refused(proxy, options, why):
    with pytest.raises(ValueError, match=why), proxy.fault(**options):
        pass


def test_a_client_like_that_of_the_application_sends_again(proxy):
    client = proxy.client(like=redis.Redis)
    with proxy.fault(command="XADD", close="after", first=1):
        client.xadd("orders", {"item": "7"})
    assert client.xlen("orders") == 2


def test_a_proxy_may_be_stopped_and_started_and_says_when_it_does_not_run(proxy):
    port = proxy.port
    proxy.stop()
    proxy.stop()
    with pytest.raises(rillet.testing.ControlError, match="not running"):
        proxy.partition()
    assert proxy.start() is proxy.start()
    assert proxy.port == port
    assert proxy.client().ping()


async def test_in_the_loop_of_the_test(real):
    async with rillet.testing.AsyncProxy(f"redis://127.0.0.1:{real.port}/5") as proxy:
        client = proxy.client(retry=None)
        await client.flushdb()
        with proxy.fault(command="INCRBY", close="after", first=1) as fault, proxy.recording() as seen:
            with pytest.raises(redis.ConnectionError):
                await client.incr("n")
            assert await client.get("n") == b"1"
            assert fault.count == seen.count("INCRBY") == 1
        proxy.partition()
        waiting = asyncio.create_task(client.incr("n"))
        await asyncio.sleep(0)
        assert not waiting.done()
        proxy.heal()
        assert await waiting == 2
        assert proxy._command(b"GET", b"n") == b"2"
        await client.aclose()
    with pytest.raises(rillet.testing.ControlError, match="not running"):
        proxy.heal()


async def test_a_server_that_is_not_there_is_an_error_in_the_loop_too():
    with pytest.raises(rillet.testing.StartError, match="cannot be reached"):
        async with rillet.testing.AsyncProxy("redis://127.0.0.1:1"):
            pass
