"""Commands that make a random stream, any server's: entries, deletions, groups, pending entries, odd words and IDs."""

import random

from support.wire import Wire

Command = list[bytes | str | int]

MAX = (1 << 64) - 1
# What a listpack keeps as an integer of each size, what it does not though it looks like one, and lengths at borders.
WORDS = (
    b"", b"a", b"field", b"0", b"-1", b"127", b"128", b"-4096", b"-4097", b"4095", b"4096", b"32767", b"-32768", b"32768",
    b"8388607", b"8388608", b"-8388608", b"-8388609", b"2147483647", b"2147483648", b"-2147483649", b"9223372036854775807",
    b"-9223372036854775808", b"9223372036854775808", b"007", b"+1", b"-0", b" 1", b"1e3", b"\xff\x00\r\n%d%b", b"x" * 63,
    b"x" * 64, b"y" * 125, b"y" * 4095, b"z" * 4096, b"w" * 20000,
)  # fmt: skip


def word(chance: random.Random) -> bytes:
    return chance.choice(WORDS) if chance.random() < 0.8 else chance.randbytes(chance.randrange(200))


def stream_commands(chance: random.Random, key: str) -> list[Command]:
    """The commands; some may be refused (an ID too small), by every server alike."""
    fields = [[word(chance) for _ in range(chance.randrange(1, 4))] for _ in range(3)]
    ms = chance.choice([0, 1, 1_700_000_000_000, (1 << 63) - 5, MAX - 50])
    seq, ids, commands = 1, [], []
    for _ in range(chance.choice([0, 1, 5, 50, 300])):
        ms = min(ms + chance.choice([0, 0, 1, 1, 5000]), MAX)
        seq += chance.choice([1, 1, 200])
        ids.append(f"{ms}-{seq}")
        pairs = [each for name in chance.choice(fields) for each in (name, word(chance))]
        commands.append(["XADD", key, ids[-1], *pairs])
    if not ids:
        commands.append(["XGROUP", "CREATE", key, "g", "$", "MKSTREAM"])
        ids = ["1-1"]
    commands += [["XDEL", key, each] for each in ids if chance.random() < 0.2]
    if chance.random() < 0.3:
        commands.append(["XTRIM", key, "MAXLEN", chance.randrange(20)])
    for number in range(chance.randrange(3)):
        commands += group_commands(chance, key, f"group {number}\xff", ids)
    commands += [["XDEL", key, each] for each in ids if chance.random() < 0.05]
    if chance.random() < 0.2:
        commands.append(["XSETID", key, f"{MAX}-5", "ENTRIESADDED", 1000000, "MAXDELETEDID", ids[-1]])
    return commands


def group_commands(chance: random.Random, key: str, group: str, ids: list[str]) -> list[Command]:
    commands: list[Command] = [["XGROUP", "CREATE", key, group, chance.choice(["0", "$"])]]
    for _ in range(4):
        consumer = f"consumer {chance.randrange(3)}"
        commands += [
            ["XREADGROUP", "GROUP", group, consumer, "COUNT", chance.randrange(1, 30), "STREAMS", key, ">"],
            ["XCLAIM", key, group, "claimer", 0, *chance.sample(ids, min(len(ids), 2)), "TIME",
             chance.choice([0, 5, 10**12]), "RETRYCOUNT", chance.choice([0, 7, 1 << 40]), "FORCE"],
            ["XACK", key, group, *chance.sample(ids, min(len(ids), 3))],
        ]  # fmt: skip
    return commands


def make_stream(wire: Wire, chance: random.Random, key: str) -> None:
    """Recreate the stream on a server, with nodes of a random size."""
    wire.call("CONFIG", "SET", "stream-node-max-entries", chance.choice([1, 3, 100]))
    wire.call("CONFIG", "SET", "stream-node-max-bytes", chance.choice([100, 4096]))
    wire.call("DEL", key)
    for command in stream_commands(chance, key):
        wire.call(*command)
