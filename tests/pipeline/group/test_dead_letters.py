import itertools

import pytest
from support.servers import KINDS

from rillet.pipeline.group.dead_letters import DeadLetter, move_to_dead_letters
from rillet.pipeline.group.member import Idle, Member
from rillet.pipeline.redis import ids
from rillet.pipeline.redis.connection import Connection, ServerError
from rillet.pipeline.redis.options import Endpoint

numbers = itertools.count()


class InterruptedWire(Connection):
    """Something happens before its next transaction is sent."""

    in_between = staticmethod(lambda: None)

    def exchange(self, request, names, *, repeatable=False):
        if names[0] == "MULTI":
            act, self.in_between = self.in_between, lambda: None
            act()
        return super().exchange(request, names, repeatable=repeatable)


class Scene:
    def __init__(self, server):
        self.stream = f"poison{next(numbers)}"
        self.dead = f"{self.stream}-dead"
        endpoint = Endpoint(port=server.port)
        self.connection, self.other = InterruptedWire(endpoint), Connection(endpoint)
        self.member = Member(self.connection, "g", "me")
        self.member.create_groups({self.stream: "0"})
        self.ids = [
            self.other.call("XADD", self.stream, f"{number}-0", "n", number) for number in range(1, 4)
        ]
        self.other.call("XREADGROUP", "GROUP", "g", "me", "STREAMS", self.stream, ">")
        self.poison = [Idle(ids.parse(word), "late", 5) for word in self.ids]

    def move_to_dead_letters(self):
        return move_to_dead_letters(self.member, self.stream, self.dead, self.poison, "too often")

    def dead_ids(self):
        return [
            ids.text(DeadLetter.of_words(words).stream_id).encode()
            for _, words in self.other.call("XRANGE", self.dead, "-", "+")
        ]

    def close(self):
        self.connection.close()
        self.other.close()


@pytest.fixture(params=KINDS)
def scene(request, running):
    found = Scene(running(request.param))
    yield found
    found.close()


def test_moving_again_does_nothing(scene):
    scene.move_to_dead_letters()
    assert scene.move_to_dead_letters() == (0, [])
    assert scene.dead_ids() == scene.ids


def test_what_another_consumer_took_is_left_to_it(scene):
    scene.other.call("XCLAIM", scene.stream, "g", "other", 0, scene.ids[1])
    assert scene.move_to_dead_letters() == (2, [])
    assert scene.dead_ids() == [scene.ids[0], scene.ids[2]]


def test_what_another_consumer_acknowledges_in_between_is_no_dead_letter(scene):
    scene.connection.in_between = lambda: scene.other.call("XACK", scene.stream, "g", scene.ids[1])
    assert scene.move_to_dead_letters() == (2, [])
    assert scene.dead_ids() == [scene.ids[0], scene.ids[2]]


def test_a_transaction_that_comes_late_after_all_moves_nothing_twice(scene):
    """Its connection was thought broken, and the same entries were moved over another one."""
    scene.connection.in_between = lambda: move_to_dead_letters(
        Member(scene.other, "g", "me"), scene.stream, scene.dead, scene.poison, "first"
    )
    assert scene.move_to_dead_letters() == (0, [])
    assert scene.dead_ids() == scene.ids
    facts = scene.other.call("XINFO", "STREAM", scene.dead)
    assert facts[facts.index(b"entries-added") + 1] == len(scene.ids)


def test_deleted_entries_are_acknowledged_and_returned(scene):
    scene.other.call("XDEL", scene.stream, scene.ids[0])
    assert scene.move_to_dead_letters() == (2, [ids.parse(scene.ids[0])])
    assert scene.other.call("XPENDING", scene.stream, "g")[0] == 0


def test_a_server_that_refuses_keeps_the_entries_pending(running):
    server = running("redis7")
    scene = Scene(server)
    scene.other.call("CONFIG", "SET", "maxmemory", 1)
    try:
        with pytest.raises(ServerError, match="OOM"):
            scene.move_to_dead_letters()
    finally:
        scene.other.call("CONFIG", "SET", "maxmemory", 0)
    assert scene.other.call("XPENDING", scene.stream, "g")[0] == 3
    scene.close()


def test_other_entries_are_no_dead_letters():
    with pytest.raises(ValueError, match="not a dead letter"):
        DeadLetter.of_words([b"n", b"1"])
