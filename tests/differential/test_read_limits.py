"""MAXSIZE of XREAD and XREADGROUP, byte for byte as on Redis: the sizes where a reply changes, in every form of a read."""

from collections.abc import Collection

import pytest
from support.thorough import ALL
from support.wire import Wire, encode_command

SIZES = range(1, 401)
END, LAST = b"the end of a story", b"the end of all"
LONG_NAME = "n" * 70
KEYS = [
    "x", "x y z", "one one x", "empty x nosuch y", f"long {LONG_NAME} x", f"one empty {LONG_NAME}",
]  # fmt: skip
READS = [
    "XREAD MAXSIZE @ STREAMS {keys} {zeros}",
    "XREAD COUNT 2 MAXSIZE @ STREAMS {keys} {zeros}",
    "XREAD MAXCOUNT 3 MAXSIZE @ STREAMS {keys} {zeros}",
    "XREAD MAXSIZE @ STREAMS {keys} {lasts}",
]
GROUP_READS = [
    "XREADGROUP GROUP g c MAXSIZE @ STREAMS {keys} {news}",
    "XREADGROUP GROUP g c NOACK MAXSIZE @ STREAMS {keys} {news}",
    "XREADGROUP GROUP g c COUNT 2 MAXSIZE @ STREAMS {keys} {news}",
    "XREADGROUP GROUP g c MAXCOUNT 3 MAXSIZE @ STREAMS {keys} {news}",
]
LATER_READS = [
    "XREADGROUP GROUP g c MAXSIZE @ STREAMS {keys} {zeros}",
    "XREADGROUP GROUP g c COUNT 2 MAXSIZE @ STREAMS {keys} {zeros}",
    "XREADGROUP GROUP g d MAXSIZE @ STREAMS {keys} {zeros}",
    "XREADGROUP GROUP g c MAXSIZE @ STREAMS {keys} {both}",
    "XREADGROUP GROUP g d MAXSIZE @ CLAIM 0 STREAMS {keys} {news}",
    "XREADGROUP GROUP g d COUNT 2 MAXSIZE @ CLAIM 0 STREAMS {keys} {news}",
    "XREADGROUP GROUP g d MAXCOUNT 4 MAXSIZE @ CLAIM 0 NOACK STREAMS {keys} {news}",
    "XREADGROUP GROUP g c MAXSIZE @ CLAIM 0 STREAMS {keys} {both}",
]


def fill(wire: Wire) -> None:
    wire.call("FLUSHALL")
    for name in ("x", "y", "z", LONG_NAME):
        for ms in range(1, 6):
            wire.call("XADD", name, f"{ms}-1", "a", "b")
    wire.call("XADD", "long", "1-1", "f", "v" * 150)
    wire.call("XADD", "long", "2-1", "field", "w" * 20)
    wire.call("XADD", "one", "1-1", "a", "b")
    wire.call("XADD", "empty", "1-1", "a", "b")
    wire.call("XDEL", "empty", "1-1")


def story(keys: list[str], read: str, *, delivered: bool) -> list[str]:
    """A read, after what has to be there for it; it leaves ``@`` for the size."""
    present = [key for key in dict.fromkeys(keys) if key != "nosuch"]
    before = []
    if read.startswith("XREADGROUP"):
        keys = [key for key in keys if key != "nosuch"]
        before = [f"XGROUP DESTROY {key} g" for key in present]
        before += [f"XGROUP CREATE {key} g 0" for key in present]
    if delivered:
        before += [f"XREADGROUP GROUP g c COUNT 3 STREAMS {key} >" for key in present]
        before += ["XDEL x 2-1"]  # it stays pending
    ids = {"zeros": "0", "news": ">", "lasts": "+"}
    words = {name: " ".join([word] * len(keys)) for name, word in ids.items()}
    both = [">0"[at % 2] for at in range(len(keys))]
    # A transaction has one time: what it claims was idle for 0 ms.
    return ["MULTI", *before, read.format(keys=" ".join(keys), both=" ".join(both), **words), "EXEC"]


def replies(wire: Wire, commands: list[str], sizes: Collection[int]) -> dict[int, bytes]:
    """What a story answers for each size."""
    once = b"".join(encode_command(*words) for words in (*map(str.split, commands), ("ECHO", END)))
    for size in sizes:
        wire.send_raw(once.replace(b"$1\r\n@", b"$%d\r\n%d" % (len(str(size)), size)))
    wire.send("ECHO", LAST)
    pieces, tail = [], b""
    while not tail.endswith(LAST + b"\r\n"):
        wire.pending(1)
        pieces.append(wire.take())
        tail = (tail + pieces[-1])[-100:]
    *answers, _ = b"".join(pieces).split(END + b"\r\n")
    return dict(zip(sizes, answers, strict=True))


def borders(answers: dict[int, bytes]) -> list[int]:
    """The first and the last size, those with another answer than the one before, and those beside them."""
    found = {SIZES[0], SIZES[-1]}
    for size in SIZES[1:]:
        if answers[size] != answers[size - 1]:
            found |= {size - 1, size, size + 1}
    return sorted(found & set(SIZES))


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("keys", KEYS)
def test_maxsize_ends_a_read_where_redis_does(protocol, keys, running):
    stories = [story(keys.split(), read, delivered=False) for read in READS + GROUP_READS]
    stories += [story(keys.split(), read, delivered=True) for read in LATER_READS]
    with running("rillet").wire(protocol) as mine, running("redis810").wire(protocol) as real:
        fill(mine)
        fill(real)
        for commands in stories:
            expected = replies(real, commands, SIZES)
            found = replies(mine, commands, SIZES if ALL else borders(expected))
            wrong = [size for size in found if found[size] != expected[size]]
            assert not wrong, f"{commands[-2]}: {wrong}"


@pytest.mark.parametrize("mode", ["ON", "SKIP", "OFF"])
def test_maxsize_counts_what_is_sent(mode, running):
    """A client that wants no replies is given all."""
    found = []
    for kind in ("rillet", "redis810"):
        with running(kind).wire() as wire, running(kind).wire() as other:
            fill(other)
            other.call("XGROUP", "CREATE", "x", "g", "0")
            wire.send("CLIENT", "REPLY", mode)
            wire.send("XREADGROUP", "GROUP", "g", "c", "MAXSIZE", "1", "STREAMS", "x", ">")
            wire.send("CLIENT", "REPLY", "ON")
            for _ in range(3 if mode == "ON" else 1):
                wire.read()
            found.append(other.call("XPENDING", "x", "g").encode())
    assert found[0] == found[1]


def test_a_stream_whose_key_alone_reaches_maxsize_gives_its_reader_nothing(running):
    """Its consumer is there, and has not been active."""
    found = []
    for kind in ("rillet", "redis810"):
        with running(kind).wire() as wire:
            fill(wire)
            for key in ("one", "x"):
                wire.call("XGROUP", "CREATE", key, "g", "0")
            answers = [
                wire.call("XREADGROUP", "GROUP", "g", "c", "MAXSIZE", "50", "STREAMS", "one", "x", ">", ">")
            ]
            answers += [wire.call("XPENDING", "x", "g"), wire.call("XINFO", "GROUPS", "x")]
            answers.append(wire.call("XINFO", "CONSUMERS", "x", "g").children[0].children[-1])
            found.append([answer.encode() for answer in answers])
    assert found[0] == found[1]
    assert b"$1\r\nx\r\n*0\r\n" in found[0][0]
