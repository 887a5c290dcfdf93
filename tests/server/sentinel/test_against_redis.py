"""A sentinel of Rillet over Rillets beside a Redis Sentinel over Redises: replies, errors, votes."""

import re

import pytest
from support.deployments.sentinels import NAME, Deployment, Events, pairs
from support.wire import commands

TIMES = {
    "last-ping-sent", "last-ok-ping-reply", "last-ping-reply", "info-refresh", "role-reported-time", "s-down-time",
    "master-link-down-time", "slave-repl-offset", "link-pending-commands",
}  # fmt: skip
QUESTIONS = commands("""
    PING; PING x; ROLE; GET k; SELECT 0; CONFIG GET port; PUBLISH x y; ACL WHOAMI; ACL DRYRUN default get k
    ACL DRYRUN default sentinel masters; CLIENT GETNAME; SUBSCRIBE; SENTINEL; SENTINEL nope
    SENTINEL SENTINELS NAME; SENTINEL SENTINELS nope; SENTINEL GET-MASTER-ADDR-BY-NAME nope
    SENTINEL GET-MASTER-ADDR-BY-NAME; SENTINEL MASTER; SENTINEL MASTER nope; SENTINEL REPLICAS nope
    SENTINEL SLAVES nope; SENTINEL CKQUORUM NAME; SENTINEL CKQUORUM nope; SENTINEL FAILOVER nope
    SENTINEL RESET nope*; SENTINEL RESET; SENTINEL REMOVE nope; SENTINEL PENDING-SCRIPTS; SENTINEL INFO-CACHE
    SENTINEL INFO-CACHE nope; SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 A 0 *
    SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 0 *; SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 x 0 *
    SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 x *; SENTINEL MONITOR NAME 127.0.0.1 1 1
    SENTINEL MONITOR other "no host" 1 1; SENTINEL MONITOR other 127.0.0.1 x 1
    SENTINEL MONITOR other 127.0.0.1 70000 1; SENTINEL MONITOR other 127.0.0.1 1 0
    SENTINEL MONITOR other 127.0.0.1 1 x; SENTINEL SET NAME; SENTINEL SET NAME quorum
    SENTINEL SET NAME quorum x; SENTINEL SET NAME quorum 0; SENTINEL SET NAME quorum 1 nope
    SENTINEL SET NAME nope 1; SENTINEL SET nope quorum 1; SENTINEL SET NAME down-after-milliseconds 0
    SENTINEL SET NAME Failover-Timeout -1; SENTINEL SET NAME notification-script /x; SENTINEL CONFIG GET *
    SENTINEL CONFIG GET nope; SENTINEL CONFIG GET ANNOUNCE-* loglevel; SENTINEL CONFIG SET nope 1
    SENTINEL CONFIG SET loglevel x; SENTINEL CONFIG SET loglevel; SENTINEL CONFIG NOPE x
    SENTINEL CONFIG SET loglevel notice announce-port; SENTINEL CONFIG SET announce-port x
    SENTINEL CONFIG SET announce-port 99999999; SENTINEL CONFIG SET announce-ip x nope
    SENTINEL CONFIG SET Announce-Port 5 loglevel verbose; SENTINEL CONFIG GET announce-port loglevel
""")


@pytest.fixture(scope="module")
def deployments():
    with Deployment("rillet") as ours, Deployment("redis810") as real:
        yield ours, real


def neutral(deployment: Deployment, reply: object) -> object:
    """A reply with the ports of the servers as letters."""
    text = repr(reply)
    for node, letter in zip(deployment.nodes, "ABC", strict=True):
        text = text.replace(str(node.port), letter)
    return text


@pytest.mark.parametrize("protocol", [2, 3])
def test_replies_and_errors_are_those_of_a_redis_sentinel(deployments, protocol):
    differences = {}
    for words in QUESTIONS:
        said = []
        for deployment in deployments:
            meant = {"A": str(deployment.nodes[0].port), "NAME": NAME}
            asked = [meant.get(word, word) for word in words]
            said.append(neutral(deployment, deployment.raw(*asked, protocol=protocol)))
        if said[0] != said[1]:
            differences[tuple(words)] = said
    assert differences == {}


def test_what_hello_and_info_say_has_the_fields_of_a_redis_sentinel(deployments):
    ours, real = ([*each.raw("HELLO", "3", protocol=3)] for each in deployments)
    assert ours == real
    assert all(each.raw("HELLO", "3", protocol=3)["mode"] == "sentinel" for each in deployments)
    ours, real = (re.sub(r"\d{4,5}", "N", each.raw("INFO", "sentinel")) for each in deployments)
    assert ours == real
    titles = [re.findall(r"^# \w+", each.raw("INFO"), re.MULTILINE) for each in deployments]
    assert titles[0] == titles[1]
    assert "redis_mode:sentinel" in deployments[0].raw("INFO", "server")


def test_the_commands_are_those_of_a_redis_sentinel_but_for_three(deployments):
    names = [set(each.raw("COMMAND", "LIST")) for each in deployments]
    assert names[0] - names[1] == set()
    left_out = {"debug", "flushconfig", "simulate-failure"}
    assert names[1] - names[0] == {f"sentinel|{name}" for name in left_out}
    ours, real = (each.raw("COMMAND", "INFO", "sentinel")[0] for each in deployments)
    assert ours[:7] == real[:7]
    subcommands = [{row[0]: [sorted(part) if isinstance(part, list) else part for part in row[:7]] for row in each[9]}
                   for each in (ours, real)]  # fmt: skip
    assert subcommands[0] == {name: row for name, row in subcommands[1].items() if name in subcommands[0]}


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_state_of_masters_and_replicas_has_the_same_fields_and_values(deployments, protocol):
    for question in (("MASTERS",), ("MASTER", NAME), ("REPLICAS", NAME), ("SLAVES", NAME)):
        shown = []
        for deployment in deployments:
            reply = deployment.raw("SENTINEL", *question, protocol=protocol)
            rows = [reply] if question[0] == "MASTER" else reply
            rows = [row if isinstance(row, dict) else pairs(row) for row in rows]
            rows.sort(key=lambda row: int(row["port"] in {str(node.port) for node in deployment.nodes[2:]}))
            for row in rows:
                assert re.fullmatch(r"[0-9a-f]{40}", row["runid"])
                assert all(re.fullmatch(r"\d+", row[name]) for name in TIMES & row.keys())
            shown.append([
                {name: neutral(deployment, value) for name, value in row.items() if name not in TIMES | {"runid"}}
                | dict.fromkeys(TIMES & row.keys(), "time")
                for row in rows
            ])  # fmt: skip
            order = [list(row) for row in rows]
            shown.append(order)
        assert shown[0] == shown[2], question
        assert shown[1] == shown[3], question


def test_the_cache_of_info_has_each_server_once(deployments):
    for deployment in deployments:
        name, cached = deployment.raw("SENTINEL", "INFO-CACHE", NAME)
        assert name == NAME
        assert [type(age) for age, _ in cached] == [int, int, int]
        ports = {re.search(r"tcp_port:(\d+)", text)[1] for _, text in cached}
        assert ports == {str(node.port) for node in deployment.nodes}


def test_a_vote_is_given_once_in_each_epoch(deployments):
    for deployment in deployments:
        port = str(deployment.nodes[0].port)
        with Events(deployment) as events:
            epoch = pairs(deployment.raw("SENTINEL", "MASTER", NAME))["config-epoch"]
            asked = ("SENTINEL", "IS-MASTER-DOWN-BY-ADDR", "127.0.0.1", port)
            assert deployment.raw(*asked, "90", "a" * 40) == [0, "a" * 40, 90]
            assert deployment.raw(*asked, "90", "b" * 40) == [0, "a" * 40, 90]
            assert deployment.raw(*asked, "89", "b" * 40) == [0, "a" * 40, 90]
            deployment.until(lambda: len(events.seen) >= 2)
            assert events.seen == ["+new-epoch 90", "+vote-for-leader ID 90"]
            assert epoch == "0"
