from rillet.protocol.replies import command
from rillet.server.execution.propagation import Propagation


class Streams:
    """A propagation with a file and replicas; what each got, as words."""

    def __init__(self) -> None:
        self.propagation = Propagation()
        self.file: list[bytes] = []
        self.sent: list[bytes] = []
        self.propagation.connect(self.to_file)
        self.propagation.connect(self.to_replicas, to_replicas=True)

    def to_file(self, data: bytes) -> None:
        self.file.append(data)

    def to_replicas(self, data: bytes) -> None:
        self.sent.append(data)


def lines(*commands: str) -> bytes:
    return b"".join(command(words.encode().split()) for words in commands)


def test_both_get_the_same_bytes_and_select_for_themselves():
    streams = Streams()
    propagation = streams.propagation
    propagation.add(3, [b"DEL", b"a"])
    propagation.flush()
    propagation.select_again(streams.to_replicas)
    propagation.add(3, [b"DEL", b"b"])
    propagation.flush()
    assert streams.file == [lines("SELECT 3", "DEL a"), lines("DEL b")]
    assert streams.sent == [lines("SELECT 3", "DEL a"), lines("SELECT 3", "DEL b")]


def test_what_is_for_replicas_alone_stays_in_its_place_there():
    streams = Streams()
    propagation = streams.propagation
    propagation.add(0, [b"DEL", b"a"])
    propagation.add_for_replicas(1, [b"PUBLISH", b"c", b"m"])
    propagation.flush()
    propagation.add_for_replicas(1, [b"PUBLISH", b"c", b"n"])
    propagation.flush()
    propagation.add(0, [b"DEL", b"b"])
    propagation.flush()
    assert streams.file == [lines("SELECT 0", "DEL a"), lines("DEL b")]
    assert streams.sent == [
        lines("MULTI", "SELECT 0", "DEL a", "SELECT 1", "PUBLISH c m", "EXEC"),
        lines("PUBLISH c n"),
        lines("SELECT 0", "DEL b"),
    ]


def test_without_replicas_nothing_is_kept_for_them():
    streams = Streams()
    propagation = streams.propagation
    propagation.disconnect(streams.to_replicas)
    propagation.add_for_replicas(0, [b"PUBLISH", b"c", b"m"])
    assert propagation.effects == []
    propagation.disconnect(streams.to_file)
    assert not propagation.active


def test_replicas_get_older_forms_of_what_the_file_keeps_unchanged():
    streams = Streams()
    propagation = streams.propagation
    propagation.add_with_downgrade(0, [b"NEW"], [[b"OLD", b"1"], [b"OLD", b"2"]])
    propagation.flush()
    propagation.add_with_downgrade(0, [b"NEWER"], [])
    propagation.flush()
    propagation.add(0, [b"DEL", b"a"])
    propagation.flush()
    assert streams.file == [lines("SELECT 0", "NEW"), lines("NEWER"), lines("DEL a")]
    assert streams.sent == [lines("MULTI", "SELECT 0", "OLD 1", "OLD 2", "EXEC"), lines("DEL a")]


def test_forgotten_effects_leave_nothing_behind():
    streams = Streams()
    propagation = streams.propagation
    propagation.add_for_replicas(0, [b"PUBLISH", b"c", b"m"])
    propagation.forget()
    propagation.add(0, [b"DEL", b"a"])
    propagation.flush()
    assert streams.file == streams.sent == [lines("SELECT 0", "DEL a")]
