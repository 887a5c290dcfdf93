"""A master dies at each command that a query sends, one after the other: the query waits, and goes on.

Of a cluster, and of sentinels; at what the driver, the planner and the tasks of the source ask, and at what the tasks
and the driver of the sink write.
"""

import threading
from collections import defaultdict
from contextlib import contextmanager, suppress

import pytest
from support.lost_connections import LOSE_CONNECTIONS
from support.pipeline.cluster_pipeline import Pipeline, reader
from support.pipeline.micro_batches import Engine
from support.thorough import ALL

import rillet.testing
from rillet.pipeline.redis.connection import Connection, ConnectionLost
from rillet.pipeline.redis.options import Endpoint
from rillet.pipeline.redis.shards import connect
from rillet.testing import StartError

pytestmark = LOSE_CONNECTIONS
NAMES = ["s1", "s2", "s3"]
ENTRIES = 4
NEVER = 1 << 30


class ClusterOfThree(rillet.testing.Cluster):
    """Three masters with a replica each; a failover is asked for."""

    failover = None

    @property
    def address(self):
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def master_at(self, endpoint):
        return next((each.master for each in self.shards if each.master.port == endpoint.port), None)

    def kill(self, node):
        shard = next(shard for shard in self.shards if node in shard.nodes)
        self.wait_for_replicas()
        self.stop(node)
        self.failover = threading.Timer(0.1, lambda: self.fail_over(shard))
        self.failover.start()

    def mend(self):
        if self.failover is not None:
            self.failover.join()
        for node in self.nodes:
            if not node.running:
                self.start_node(node)
        self.reset()


class MasterAndReplica(rillet.testing.Sentinel):
    """A sentinel over a master and its replica; it fails over by itself once the master is gone."""

    @property
    def address(self):
        return self.url

    def master_at(self, endpoint):
        return self.master if endpoint.kind == "sentinel" else None

    def kill(self, node):
        with node.client() as client:
            client.set("all", "replicated")
            assert client.wait(1, 30_000) == 1
        node.stop()

    def mend(self):
        for server in self.servers:
            # The sentinel makes a replica of it, and cuts all connections as it does: also the one that start() has.
            while not server.running:
                with suppress(StartError):
                    server.start()
        self.wait_until_settled()
        with self.client() as client:
            client.flushall()


class Death:
    """Kills the master that is sent the command of a number, before it gets it or after it has done it.

    Attributes:
        commands: the names of those that came before it dies.
    """

    def __init__(self, place, number, *, after):
        self.place, self.left, self.after = place, number, after
        self.commands = []

    @property
    def is_over(self):
        return self.left < 0

    @property
    def command(self):
        return self.commands[-1]

    def strikes(self, endpoint, names):
        node = None if self.is_over else self.place.master_at(endpoint)
        if node is None:
            return None
        self.left -= 1
        self.commands.append(names[0])
        return node if self.is_over else None


@contextmanager
def dying(monkeypatch, death):
    honest = Connection.exchange

    def exchange(self, request, names, **how):
        node = death.strikes(self.endpoint, names)
        if node is None:
            return honest(self, request, names, **how)
        if death.after:
            honest(self, request, names, **how)
        death.place.kill(node)
        if not death.after:
            return honest(self, request, names, **how)
        was_pinned = self._pinned
        self.close()
        if how.get("repeatable") and not was_pinned:
            return honest(self, request, names, **how)
        raise ConnectionLost("the connection broke: the master died")

    with monkeypatch.context() as patches:
        patches.setattr(Connection, "exchange", exchange)
        yield


def each_death(place, monkeypatch, *, after):
    """Yield while a query is to run: at first nobody dies, then the master dies at one command after the other.

    Without ``RILLET_ALL`` it dies at the first two and the last of each name.
    """
    place.mend()
    whole = Death(place, NEVER, after=after)
    with dying(monkeypatch, whole):
        yield whole
    deaths = 0
    for number in chosen(whole.commands):
        place.mend()
        death = Death(place, number, after=after)
        with dying(monkeypatch, death):
            yield death
        deaths += death.is_over  # a run may send a command less than another
    assert deaths > 5


def chosen(commands):
    """Return the places at which a master is to die."""
    places = defaultdict(list)
    for number, name in enumerate(commands):
        places[name].append(number)
    return sorted({number for own in places.values() for number in (own if ALL else [*own[:2], own[-1]])})


@pytest.fixture(scope="module")
def cluster():
    with ClusterOfThree(3, 1) as place:
        yield place


@pytest.fixture(scope="module")
def sentinel():
    with MasterAndReplica(replicas=1) as place:
        yield place


@pytest.fixture
def place(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def given(place):
    return {"url": place.address, "retryIntervalMs": "20", "retries": "12"}


when = pytest.mark.parametrize("after", [False, True], ids=["before it has the command", "before it answers"])


@when
@pytest.mark.parametrize("place", ["cluster", "sentinel"], indirect=True)
@pytest.mark.parametrize(
    "streams",
    [
        pytest.param(
            {"streams": ",".join(NAMES)}, id="names", marks=pytest.mark.heavy
        ),  # a pattern asks for all that, and more
        pytest.param({"streamsPattern": "s*", "discoveryIntervalMs": "0"}, id="pattern"),
    ],
)
@pytest.mark.parametrize("mode", ["group", "range"])
def test_a_master_that_dies_at_any_command_is_waited_for(place, given, monkeypatch, mode, streams, after):
    for death in each_death(place, monkeypatch, after=after):
        with place.client() as client:
            for at in range(ENTRIES):
                for name in NAMES:
                    client.xadd(name, {"n": at}, id=f"{at + 1}-1")
        seen = []
        engine = Engine(
            lambda: reader(mode, given | streams | {"startingOffsets": "earliest"}),
            lambda _, batches, seen=seen: seen.extend(
                (row["stream"], row["id"]) for each in batches for row in each.to_pylist()
            ),
        )
        engine.finish()
        engine.restart()
        wanted = {(name, f"{at + 1}-1") for name in NAMES for at in range(ENTRIES)}
        assert set(seen) == wanted, death.command


@when
@pytest.mark.parametrize(
    "place",
    # A cluster's failover takes longer; what the sink makes of a lost connection is the same.
    [pytest.param("cluster", marks=pytest.mark.heavy), "sentinel"],
    indirect=True,
)
def test_a_master_that_dies_at_any_command_of_the_sink_doubles_and_loses_nothing(
    place, given, monkeypatch, after
):
    for death in each_death(place, monkeypatch, after=after):
        # Entries are there before it may die, so that what dies in it is the query.
        left, death.left = death.left, NEVER
        with connect(Endpoint.of(given)) as connection:
            pipeline = Pipeline(connection, given, "range", monkeypatch)
            pipeline.add(60)
            death.left = left
            death.commands.clear()
            pipeline.engine.finish()
            found = pipeline.written()
        assert sorted(found.items()) == [(number, 1) for number in range(60)], death.command
        pipeline.engine.restart()
