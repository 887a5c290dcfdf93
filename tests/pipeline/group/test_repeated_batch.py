"""A batch that fails again and again: its poison goes to the dead letters, and everything else arrives."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.pipeline.group_scene import Scene
from support.pipeline.micro_batches import Crash
from support.thorough import examples

from rillet.pipeline.group.offset import GroupOffset
from rillet.pipeline.group.repeated_batch import left_out
from rillet.pipeline.jobs.deadletter import move
from rillet.pipeline.redis import ids
from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint, OptionError


def in_order(texts):
    return sorted(texts, key=lambda text: tuple(map(int, text.split("-"))))


class PoisonError(Exception):
    """What a foreachBatch raises that cannot handle an entry."""


class PoisonedScene(Scene):
    """A query whose sink fails while a batch has an entry that it cannot handle."""

    def __init__(self, server, **options):
        super().__init__(server, **options)
        self.poison: set[str] = set()
        self.failed: list[list[str]] = []

    def keep(self, batch, batches):
        rows = [row for each in batches for row in each.to_pylist()]
        if self.poison & {row["id"] for row in rows}:
            self.failed.append([row["id"] for row in rows])
            raise PoisonError
        self.rows[batch] = rows

    def start(self, stop_before=""):
        """Start the query again; whether it ran until nothing was left."""
        self.engine.restart()
        try:
            while self.engine.trigger(stop_before):
                pass
        except (PoisonError, Crash):
            return False
        return True

    def failures(self):
        """Start it until nothing is left; how often it failed before."""
        return next(number for number in range(40) if self.start())

    def counts(self):
        return {row[0].decode(): row[3] for row in self.call("XPENDING", self.stream, "g", "-", "+", 1000)}

    def dead_ids(self):
        return [words[3] for words in self.dead_letters()]


def test_a_batch_that_runs_again_is_another_delivery(server):
    with PoisonedScene(server) as scene:
        added = scene.add(3)
        scene.poison = {added[1]}
        for start in range(1, 5):
            assert not scene.start()
            assert scene.counts() == dict.fromkeys(added, start)
        assert scene.failed == [added] * 4


def test_poison_goes_to_the_dead_letters_after_as_many_deliveries_as_allowed(server):
    with PoisonedScene(server, maxDeliveries=3) as scene:
        added = scene.add(9)
        scene.poison = {added[4]}
        assert [scene.start() for _ in range(4)] == [False, False, False, True]
        assert scene.dead_ids() == [added[4]]
        assert "maxDeliveries=3" in scene.dead_letters()[0][11]
        assert scene.dead_letters()[0][9] == "3"
        assert in_order(scene.read) == added[:4] + added[5:]
        assert scene.pending() == 0


def test_available_now_finds_the_poison_of_a_nameless_consumer(server):
    with PoisonedScene(server, maxDeliveries=3, consumer=None) as scene:
        added = scene.add(5)
        scene.poison = {added[2]}
        make = scene.engine.make_reader

        def begin():
            reader = make()
            reader.prepareForTriggerAvailableNow()
            return reader

        scene.engine.make_reader = begin
        assert [scene.start() for _ in range(4)] == [False, False, False, True]
        assert scene.dead_ids() == [added[2]]
        assert in_order(scene.read) == added[:2] + added[3:]
        assert scene.pending() == 0


def test_poison_among_thousands_costs_the_others_few_deliveries(server):
    with PoisonedScene(server, maxDeliveries=2) as scene:
        added = scene.add(1000)
        scene.poison = {added[777]}
        assert scene.failures() <= 4
        assert scene.dead_ids() == [added[777]]
        assert in_order(scene.read) == in_order(set(added) - scene.poison)
        assert scene.pending() == 0


def test_claims_that_were_delivered_often_before_are_told_apart_too(server):
    with PoisonedScene(server, maxDeliveries=2, claimMinIdleMs=0) as scene:
        added = scene.add(5, held=5)
        scene.poison = {added[2]}
        assert scene.failures() <= 7
        assert scene.dead_ids() == [added[2]]
        assert in_order(scene.read) == added[:2] + added[3:]


def test_poison_in_several_streams_is_found(server):
    with PoisonedScene(server, maxDeliveries=2) as scene:
        other = f"{scene.stream}-b"
        scene.given["streams"] = f"{scene.stream},{other}"
        added = scene.add(20)
        theirs = [scene.call("XADD", other, f"{number}-1", "n", number).decode() for number in range(1, 21)]
        scene.poison = {added[3], theirs[11]}
        assert scene.failures() <= 10
        assert in_order(scene.dead_ids()) == in_order(scene.poison)
        assert in_order(scene.read) == in_order({*added, *theirs} - scene.poison)
        assert scene.call("XPENDING", other, "g")[0] == 0


def test_a_restart_agrees_with_what_was_decided(server):
    with PoisonedScene(server, maxDeliveries=1) as scene:
        added = scene.add(1)
        scene.poison = set(added)
        assert not scene.start()
        assert not scene.start("commit")  # it goes on without the entry, and dies before that is committed
        assert scene.dead_ids() == added
        assert not scene.start("commit")
        assert scene.start()
        assert scene.dead_ids() == added
        assert scene.read == []


def test_what_waits_is_not_acknowledged_with_the_batch_it_was_in(server):
    with PoisonedScene(server, maxDeliveries=2) as scene:
        added = scene.add(5)
        assert not scene.start("write")
        scene.engine.restart()
        scene.engine.trigger()  # the last delivery allowed: one of the five
        scene.engine.restart()
        assert [row["id"] for row in scene.rows[0]] == added[:1]
        scene.engine.finish()
        assert in_order(scene.read) == added
        assert scene.pending() == 0
        assert scene.dead_ids() == []


def test_an_entry_moved_by_hand_lets_the_query_go_on(server):
    with PoisonedScene(server) as scene:
        added = scene.add(3)
        scene.poison = {added[1]}
        assert not scene.start()
        with Connection(Endpoint(port=server.port)) as connection:
            assert (
                move(connection, scene.dead, scene.stream, "g", [ids.parse(added[1])], "cannot be read") == 1
            )
        scene.call("XDEL", scene.stream, added[1])  # the letter has it
        assert scene.start()
        assert scene.read == [added[0], added[2]]
        assert scene.dead_ids() == [added[1]]
        assert scene.pending() == 0


def test_what_is_left_out_is_remembered_for_thirty_days(server):
    with PoisonedScene(server, maxDeliveries=1) as scene:
        added = scene.add(1)
        scene.poison = set(added)
        scene.start()
        scene.start()
        assert 29 * 86_400 < scene.call("TTL", "rillet:group:g:me") <= 30 * 86_400
        scene.engine.restart()
        batch = GroupOffset.of_json(scene.engine.offsets[1])
        with Connection(Endpoint(port=server.port)) as connection:
            assert left_out(connection, batch)[scene.stream] == {ids.parse(added[0])}
            assert scene.stream not in left_out(connection, replace(batch, query="another"))


steps = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 9), st.booleans()),
    st.tuples(st.just("start"), st.sampled_from(["", "", "log", "write"]), st.none()),
)


@pytest.mark.parametrize("kind", ["rillet", "redis810"])
def test_whatever_is_poison_is_dead_in_the_end_and_everything_else_arrives(running, kind):
    @settings(
        max_examples=examples(40),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(st.lists(steps, max_size=12), st.integers(1, 3))
    @example([("add", 1, False), ("start", "write", None)], 1)
    def run(todo, most):
        with PoisonedScene(running(kind), maxDeliveries=most, maxRowsPerTrigger=6) as scene:
            added: list[str] = []
            for what, how, is_poison in todo:
                if what == "add":
                    new = scene.add(how)
                    added += new
                    scene.poison |= set(new[:1]) if is_poison else set()
                else:
                    scene.start(how)
            scene.failures()
            dead = set(scene.dead_ids())
            # A driver that dies in a write has failed with the batch: that counts against all of it, poison or not.
            assert dead >= scene.poison if ("start", "write", None) in todo else dead == scene.poison
            assert len(dead) == len(scene.dead_ids())
            assert in_order(scene.read) == in_order(set(added) - dead)
            assert scene.pending() == 0

    run()


# Names


def test_without_a_consumer_two_queries_of_a_group_share_nothing(server):
    with Scene(server, consumer=None, maxRowsPerTrigger=10) as one, Scene(server, consumer=None) as other:
        other.given |= {"streams": one.stream}
        added = one.add(30)
        assert one.engine.trigger()  # ten are in flight
        other.engine.finish()
        one.engine.finish()
        assert in_order(one.read + other.read) == added
        assert {row["consumer"] for row in one.rows[0]} != {row["consumer"] for row in other.rows[0]}


def test_a_consumer_without_a_name_comes_back_as_the_same(server):
    with PoisonedScene(server, consumer=None) as scene:
        added = scene.add(3)
        with pytest.raises(Crash):
            scene.engine.trigger("log")  # named, and in no log
        assert scene.pending() == 0
        for stop in ("write", "commit"):
            scene.engine.restart()
            with pytest.raises(Crash):
                scene.engine.trigger(stop)
            assert set(scene.counts().values()) == {1 if stop == "write" else 2}
        added += scene.add(2)
        scene.engine.restart()
        scene.engine.finish()
        assert scene.read == added
        assert scene.pending() == 0
        assert len(scene.call("XINFO", "CONSUMERS", scene.stream, "g")) == 1


def test_a_name_that_another_query_has_is_refused(server):
    with Scene(server) as one, Scene(server) as other:
        other.given |= {"streams": one.stream}
        one.add(3)
        one.engine.trigger()
        with pytest.raises(OptionError, match="consumer 'me' of group 'g' is another query's"):
            other.engine.trigger()
        one.engine.restart()
        other.engine.restart()
        other.engine.offsets.clear()
        one.engine.finish()


def test_a_query_that_starts_again_is_no_other_one(server):
    with Scene(server) as scene:
        scene.add(3)
        scene.engine.trigger()
        zombie, scene.engine.reader = scene.engine.reader, None
        scene.engine.finish()
        assert scene.pending() == 0
        zombie.stop()


def test_a_stream_that_is_added_gets_its_group(server):
    with Scene(server) as scene:
        first = scene.add(2)
        scene.engine.finish()
        scene.engine.restart()
        more = f"{scene.stream}-more"
        added = [scene.call("XADD", more, "*", "n", number).decode() for number in range(3)]
        scene.given["streams"] = f"{scene.stream},{more}"
        scene.engine.finish()
        assert scene.read == first + added
        scene.engine.restart()
        scene.call("XGROUP", "DESTROY", more, "g")
        with pytest.raises(Exception, match=r"NOGROUP.*It was there before"):
            scene.engine.trigger()
