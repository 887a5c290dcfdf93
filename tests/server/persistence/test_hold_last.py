"""A reply that leaves at once, before the turn of the loop ends, against one that is held until then."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st
from support.alone import Alone

from rillet.protocol.replies import command

COMMANDS = st.sampled_from(
    [
        "PING",
        "GET a",
        "SET a 1",
        "SET b 2",
        "INCR a",
        "DEL a",
        "XADD s * f v",
        "XADD s 1-1 f v",
        "XLEN s",
        "XGROUP CREATE s g 0 MKSTREAM",
        "XREADGROUP GROUP g c COUNT 2 STREAMS s >",
        "XREADGROUP GROUP g d BLOCK 0 STREAMS s >",
        "BLPOP l 0",
        "RPUSH l 1 2",
        "MULTI",
        "EXEC",
        "SUBSCRIBE news",
        "UNSUBSCRIBE",
        "PUBLISH news text",
        "SELECT 1",
        "CLIENT REPLY SKIP",
        "CONFIG SET appendfsync no",
        "EVAL return{redis.call('incr','a'),redis.call('get','b')} 0",
        "QUIT",
    ]
).map(str.split)
# Which client sends what at once, and whether a turn of the loop ends then.
STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.lists(COMMANDS, min_size=1, max_size=3), st.booleans()), max_size=12
)


class Kept(Alone):
    """A server with an append-only file; each reply finds all that ran before it in the file."""

    def __init__(self, folder: str, *, at_once: bool) -> None:
        super().__init__()
        self.folder = Path(folder)
        persistence = self.server.persistence
        self.server.config.dir = folder
        if not at_once:
            persistence.hold_last = persistence.hold
        persistence.open()
        for client in self.clients:
            self._watch(client.transport)

    def _watch(self, transport) -> None:
        write, server = transport.write, self.server

        def checked(data: bytes) -> None:
            assert not server.propagation.effects
            assert not server.persistence.aof.has_pending
            write(data)

        transport.write = checked

    def follow(self, steps) -> tuple[list[bytes], list[tuple[str, bytes]]]:
        """The replies to each client, and the files."""
        for who, commands, ends_turn in steps:
            self.clients[who].data_received(
                b"".join([command([*map(str.encode, each)]) for each in commands])
            )
            if ends_turn:
                self.turn()
        while self.turn():
            pass
        files = sorted(self.folder.rglob("*.aof"))
        return (
            [b"".join(client.transport.written) for client in self.clients],
            [(file.name, file.read_bytes()) for file in files],
        )


@given(STEPS)
@example([(0, [["SET", "a", "1"]], True), (0, [["SET", "b", "2"]], False), (0, [["GET", "b"]], False)])
@example([(0, [["SET", "a", "1"]], True), (1, [["SET", "b", "2"]], False), (0, [["GET", "b"]], False)])
def test_a_reply_that_leaves_at_once_says_and_writes_what_a_held_one_does(steps):
    found = []
    for at_once in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            found.append(Kept(folder, at_once=at_once).follow(steps))
    assert found[0] == found[1]
    assert found[0][1]


def test_a_lone_client_is_replied_to_within_the_turn(tmp_path):
    kept = Kept(str(tmp_path), at_once=True)
    kept.follow([(0, [["SET", "a", "1"]], True)])
    kept.clients[0].data_received(command([b"SET", b"b", b"2"]))
    assert kept.clients[0].transport.written == [b"+OK\r\n", b"+OK\r\n"]
    assert not kept.turns
