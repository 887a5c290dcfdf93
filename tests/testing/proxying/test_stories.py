"""The stories of docs/testing/faults.md: on a test server and on a real one behind a proxy, with the same outcome."""

from datetime import timedelta

import pytest
import redis
from support.background import aside
from support.until import until

import rillet.testing

STORIES = []


def story(function):
    STORIES.append(function)
    return function


def outcome(call):
    """What a call returns, or the name of its error."""
    try:
        return call()
    except (redis.RedisError, OSError) as error:
        return type(error).__name__, str(error) if isinstance(error, redis.ResponseError) else ""


def hits(fault):
    return [(hit.client, hit.command, hit.key) for hit in fault.hits], fault.count, fault.fitted


@story
def lost_reply(server):
    bob = server.client(client_name="Bob", retry=None)
    bob.xgroup_create("orders", "billing", mkstream=True)
    order = bob.xadd("orders", {"item": "7"}, id="1-1")
    bob.xreadgroup("billing", "Bob", {"orders": ">"})
    with server.fault(command="XACK", close="after") as fault:
        lost = outcome(lambda: bob.xack("orders", "billing", order))
    return lost, hits(fault), bob.xpending("orders", "billing")["pending"]


def one_command(**options):
    def told(server):
        with server.client(retry=None, socket_timeout=None) as client:
            client.rpush("k", *range(50))
            with server.fault(command="LPUSH", **options) as fault:
                first = outcome(lambda: client.lpush("k", "a"))
                second = outcome(lambda: client.lpush("k", "b"))
            return first, second, client.lrange("k", 0, 2), hits(fault)

    name = "_".join(f"{name}_{value}" for name, value in options.items())
    told.__name__ = f"one_command_{name}".replace(" ", "_")
    return told


ENDS = [
    *({"error": name} for name in "LOADING READONLY MISCONF OOM BUSY NOAUTH CLUSTERDOWN TRYAGAIN".split()),
    {"error": "CODE a text"},
    *({"close": when} for when in ("before", "after", "midway")),
    *({"reply_bytes": 0}, {"reply_bytes": 3}, {"slow": (2, 0.001)}, {"delay": 0.001}),
    *({"error": "CODE a text", "slow": (2, 0.001)}, {"delay": timedelta(milliseconds=1), "close": "after"}),
]
STORIES += [one_command(**end) for end in ENDS]
WHICH = (
    *({"nth": 1}, {"nth": 2}, {"every": 2}, {"first": 1}, {"probability": 0.5, "seed": 3}),
    *({"key": "k*"}, {"key": "other"}, {"client": "nobody"}, {"client": "!nobody"}),
)
STORIES += [one_command(error="OOM", **which) for which in WHICH]


def silent(server, **options):
    client = server.client(retry=None, socket_timeout=None)
    client.ping()
    with server.fault(command="SET", silence=True, first=1, **options) as fault:
        setting = aside(outcome, lambda: client.set("k", "v"))
        until(lambda: server.client().get("k"))
        until(lambda: fault.count)
        seen = hits(fault), setting.done()
    return seen, setting.result(60)  # the end of the fault closes the connection


@story
def silence(server):
    return silent(server)


@story
def silence_with_a_part(server):
    return silent(server, reply_bytes=2)


@story
def connections_refused(server):
    with server.fault(connections="refuse", first=1) as fault:
        return outcome(server.client(retry=None).ping), server.client().ping(), fault.count


@story
def an_error_inside_a_transaction(server):
    client = server.client(retry=None)
    with server.fault(command="SET", error="OOM", first=1) as fault:
        pipe = client.pipeline().incr("a").set("b", 1).incr("a")
        lost = outcome(pipe.execute)
    return lost[0], client.get("a"), outcome(client.pipeline().incr("a").execute), hits(fault)


@story
def the_transaction_whose_command_was_refused_aborts(server):
    client = server.client(retry=None)
    connection = client.connection_pool.get_connection()

    def call(*words):
        connection.send_command(*words)
        return outcome(connection.read_response)

    with server.fault(command="SET", error="OOM", first=1):
        seen = [call("MULTI"), call("INCR", "a"), call("SET", "b", "1"), call("INCR", "a"), call("EXEC")]
    seen += [call("EXEC"), call("GET", "a"), call("MULTI"), call("INCR", "a"), call("EXEC")]
    with server.fault(command="EXEC", error="OOM"):
        seen += [call("WATCH", "a"), call("MULTI"), call("INCR", "a"), call("EXEC"), call("GET", "a")]
    return seen


@story
def a_transaction_is_hit_as_a_whole(server):
    client = server.client(retry=None)
    with server.fault(command="SET", close="after", first=1) as fault:
        lost = outcome(client.pipeline().incr("a").set("b", 1).execute)
    return lost, client.mget("a", "b"), hits(fault)


@story
def a_discarded_transaction_is_not_hit(server):
    client = server.client(retry=None)
    connection = client.connection_pool.get_connection()
    with server.fault(command="SET", close="after") as fault:
        seen = []
        for words in (["MULTI"], ["SET", "a", "1"], ["DISCARD"]):
            connection.send_command(*words)
            seen.append(outcome(connection.read_response))
    return seen, hits(fault)


@story
def a_pipeline_ends_where_its_connection_does(server):
    client = server.client(retry=None)
    with server.fault(command="SET", key="b", close="after") as fault:
        lost = outcome(client.pipeline(transaction=False).set("a", 1).set("b", 1).set("c", 1).execute)
    return lost, client.mget("a", "b", "c"), hits(fault)


@story
def the_replies_before_an_error_come_first(server):
    client = server.client(retry=None)
    with server.fault(command="SET", nth=2, error="OOM") as fault:
        pipe = client.pipeline(transaction=False)
        for number in range(4):
            pipe.set(f"k{number}", number).get(f"k{number}")
        replies = [str(reply) for reply in pipe.execute(raise_on_error=False)]
    return replies, hits(fault)


@story
def the_first_of_two_faults_has_a_command_to_itself(server):
    client = server.client(retry=None)
    with (
        server.fault(command="GET", nth=1, error="A a") as one,
        server.fault(command="GET", error="B b") as two,
    ):
        seen = [outcome(lambda: client.get("k")) for _ in range(3)]
    return seen, hits(one), hits(two)


@story
def a_subcommand_and_a_script(server):
    client = server.client(retry=None)
    with server.fault(command="XGROUP CREATE", error="OOM") as fault:
        first = outcome(lambda: client.xgroup_create("s", "g", mkstream=True))
    with (
        server.fault(command="EVAL", key="k", close="after") as script,
        server.fault(command="SET", error="OOM") as inner,
    ):
        second = outcome(lambda: client.eval("return redis.call('SET', KEYS[1], 1)", 1, "k"))
    return first, hits(fault), second, hits(script), hits(inner), client.get("k")


@story
def the_client_by_its_name_its_user_and_its_library(server):
    client = server.client(retry=None, client_name="worker-1")
    outcome(lambda: client.execute_command("CLIENT", "SETINFO", "LIB-NAME", "mine"))
    client.acl_setuser("ann", enabled=True, nopass=True, commands=["+@all"], keys=["*"])
    seen = []
    for glob in ("worker-*", "default", "mine*", "ann", "!worker-*", str(client.client_id())):
        with server.fault(command="GET", client=glob, error="OOM"):
            seen.append(outcome(lambda: client.get("k")))
    ann = server.client(username="ann", password="x", retry=None)
    with server.fault(command="GET", client="ann", error="OOM"):
        seen.append(outcome(lambda: ann.get("k")))
    client.acl_deluser("ann")
    return seen


@story
def a_fault_that_begins_while_a_command_waits(server):
    worker, client = server.client(retry=None), server.client()
    client.xgroup_create("jobs", "w", mkstream=True)
    reading = aside(outcome, lambda: worker.xreadgroup("w", "a", {"jobs": ">"}, block=60_000))
    until(lambda: client.info("clients")["blocked_clients"])
    with server.fault(command="XREADGROUP", close="after", first=1) as fault:
        client.xadd("jobs", {"n": 1})
        got = reading.result(60)
    return got, hits(fault), client.xpending("jobs", "w")["pending"]


@story
def an_empty_poll_uses_up_no_count(server):
    client = server.client(retry=None)
    client.xgroup_create("jobs", "w", mkstream=True)
    with server.fault(command="XREADGROUP", close="after", first=1) as fault:
        empty = outcome(lambda: client.xreadgroup("w", "a", {"jobs": ">"}, block=1))
        client.xadd("jobs", {"n": 1})
        lost = outcome(lambda: client.xreadgroup("w", "a", {"jobs": ">"}, block=1))
    with server.fault(command="BLPOP", close="after", first=1, empty=True) as counted:
        lost_too = outcome(lambda: client.blpop("nothing", timeout=0.001))
    return empty, lost, hits(fault), lost_too, hits(counted)


@story
def a_poll_that_is_refused_counts(server):
    client = server.client(retry=None)
    with server.fault(command="BLPOP", nth=2, error="OOM") as fault:
        client.rpush("k", 1, 2, 3)
        seen = [outcome(lambda: client.blpop("k", timeout=1)) for _ in range(3)]
    return seen, hits(fault)


@story
def messages_are_no_replies(server):
    client, listener = server.client(), server.client(retry=None).pubsub()
    listener.subscribe("c")
    seen = [listener.get_message(timeout=60)]
    with server.fault(client="nobody", close="after"):
        client.publish("c", "1")
        seen.append(listener.get_message(timeout=60))
    with server.fault(command="SUBSCRIBE", key="*", close="after") as fault:
        listener.subscribe("d")
        seen.append(listener.get_message(timeout=60))
    return seen, hits(fault)


@story
def what_was_recorded(server):
    client = server.client(client_name="Bob", db=2, retry=None)
    with server.recording() as seen, server.fault(command="GET", error="OOM"):
        client.set("k", "v")
        outcome(lambda: client.get("k"))
        client.pipeline().incr("a").lpush("a", 1).execute(raise_on_error=False)
    shown = [each for each in seen if each.words[0] not in {"HELLO", "CLIENT", "SELECT"}]
    assert {each.database for each in shown} == {2}
    return [
        (each.words, str(each.reply), each.error, each.keys, each.client, bool(each.fault)) for each in shown
    ]


@pytest.mark.parametrize("told", STORIES, ids=lambda told: told.__name__)
def test_a_story_ends_as_on_a_test_server(proxy, told):
    version = (
        "7.0"
        if "v=7.0" in proxy._command(b"INFO", b"server").decode().replace("redis_version:", "v=")
        else None
    )
    with rillet.testing.Server(**({"compat_version": version} if version else {})) as server:
        wanted = told(server)
    assert told(proxy) == wanted
