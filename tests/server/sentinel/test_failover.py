"""Failovers of a sentinel of Rillet over Rillets, and of a Redis Sentinel over Redises: the same events in order."""

import re

import pytest
from support.deployments.sentinels import NAME, Deployment, Events, pairs

# A Redis Sentinel takes seconds for each step: `make test-frameworks`.
KINDS = ("rillet", pytest.param("redis810", marks=pytest.mark.frameworks))


# When -role-change of a server is seen depends on the time of INFO. A Redis Sentinel converts the old master only
# after ten seconds. The tests themselves set when a server counts as down.
UNTIMED = ("+role-change", "-role-change", "+convert-to-slave", "+set ")


def steps(seen: list[str]) -> list[str]:
    return [event for event in seen if not event.startswith(UNTIMED)]


def seen_switch(seen: list[str]) -> tuple[str, str]:
    """The old and the new master of the last switch."""
    switch = [event for event in seen if event.startswith("+switch-master")][-1]
    old, new = re.fullmatch(r"\S+ \S+ \S+ (\w) \S+ (\w)", switch).groups()
    return old, new


def letters(seen: list[str]) -> list[str]:
    """Events of failovers with N for the new master, M for the old one and O for the other."""
    old, new = seen_switch(seen)
    [other] = {"A", "B", "C"} - {old, new}
    table = str.maketrans({old: "M", new: "N", other: "O"})
    return [re.sub(r"(?<=[ :])[ABC](?!\S)", lambda found: found[0].translate(table), event) for event in seen]


FAILOVER = [
    "+new-epoch 1",
    "+try-failover master mymaster 127.0.0.1 M",
    "+vote-for-leader ID 1",
    "+elected-leader master mymaster 127.0.0.1 M",
    "+failover-state-select-slave master mymaster 127.0.0.1 M",
    "+selected-slave slave 127.0.0.1:N 127.0.0.1 N @ mymaster 127.0.0.1 M",
    "+failover-state-send-slaveof-noone slave 127.0.0.1:N 127.0.0.1 N @ mymaster 127.0.0.1 M",
    "+failover-state-wait-promotion slave 127.0.0.1:N 127.0.0.1 N @ mymaster 127.0.0.1 M",
    "+promoted-slave slave 127.0.0.1:N 127.0.0.1 N @ mymaster 127.0.0.1 M",
    "+failover-state-reconf-slaves master mymaster 127.0.0.1 M",
    "+slave-reconf-sent slave 127.0.0.1:O 127.0.0.1 O @ mymaster 127.0.0.1 M",
    "+slave-reconf-inprog slave 127.0.0.1:O 127.0.0.1 O @ mymaster 127.0.0.1 M",
    "+slave-reconf-done slave 127.0.0.1:O 127.0.0.1 O @ mymaster 127.0.0.1 M",
    "+failover-end master mymaster 127.0.0.1 M",
    "+switch-master mymaster 127.0.0.1 M 127.0.0.1 N",
    "+slave slave 127.0.0.1:O 127.0.0.1 O @ mymaster 127.0.0.1 N",
    "+slave slave 127.0.0.1:M 127.0.0.1 M @ mymaster 127.0.0.1 N",
]


DOWN = ["+sdown master mymaster 127.0.0.1 M", "+odown master mymaster 127.0.0.1 M #quorum 1/1"]


OLD_DOWN = ["+sdown slave 127.0.0.1:M 127.0.0.1 M @ mymaster 127.0.0.1 N"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_failover_publishes_the_steps_in_order(kind):
    with Deployment(kind) as deployment, Events(deployment) as events:
        old = deployment.master
        assert deployment.raw("SENTINEL", "FAILOVER", NAME) == "OK"
        assert (
            deployment.raw("SENTINEL", "FAILOVER", NAME)
            == "ResponseError INPROG Failover already in progress"
        )
        deployment.until(lambda: len(steps(events.seen)) >= len(FAILOVER))
        assert letters(steps(events.since())) == FAILOVER
        assert deployment.master is not old
        # One that follows is not delayed: the last one succeeded.
        begin = len(events.seen)
        deployment.until(lambda: deployment.follows() >= 1)
        lost = deployment.lose_master()
        deployment.until(lambda: any(event.startswith("+sdown slave") for event in events.since(begin)))
        second = [event.replace(" 1", " 2", 1) if event in FAILOVER[:3:2] else event for event in FAILOVER]
        seen = letters(steps(events.since(begin)))
        at = seen.index(OLD_DOWN[0])
        assert [*seen[:at], *seen[at + 1 :]][: len(DOWN + second)] == DOWN + second
        begin = len(events.seen)
        lost.start()
        old, new = seen_switch(events.seen)
        deployment.until(
            lambda: (
                f"-sdown slave 127.0.0.1:{old} 127.0.0.1 {old} @ mymaster 127.0.0.1 {new}"
                in events.since(begin)
            )
        )
        if kind == "rillet":  # a Redis Sentinel takes ten seconds for that
            deployment.until(lambda: deployment.follows() == 2)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_good_replica_there_is_no_failover(kind):
    with Deployment(kind) as deployment, Events(deployment) as events:
        master, *replicas = deployment.nodes
        for node in replicas:
            node.stop()
        deployment.miss_servers_soon()
        deployment.until(lambda: sum(event.startswith("+sdown slave") for event in events.seen) == 2)
        said = deployment.raw("SENTINEL", "FAILOVER", NAME)
        assert said == "ResponseError NOGOODSLAVE No suitable replica to promote"
        begin = len(events.seen)
        master.stop()
        deployment.until(lambda: any("no-good-slave" in event for event in events.since(begin)))
        aborted = "-failover-abort-no-good-slave master mymaster 127.0.0.1 A"
        expected = [*(event.replace(" M", " A") for event in DOWN + FAILOVER[:5]), aborted]
        assert steps(events.since(begin)) == expected
        flags = pairs(deployment.raw("SENTINEL", "MASTER", NAME))["flags"]
        assert flags.startswith("s_down,o_down,master,disconnected")
        begin = len(events.seen)
        master.start()
        deployment.until(lambda: any(event.startswith("-odown") for event in events.since(begin)))
        words = [event.partition(" ")[0] for event in events.since(begin)]
        assert [word for word in words if word != "+reboot"] == ["-sdown", "-odown"]
