"""The AOF of a run, cut anywhere: it loads to the longest whole prefix, transactions whole or not at all."""

import random
import re
from bisect import bisect_right
from collections import Counter
from pathlib import Path

import pytest
from support.aof import read_commands
from support.live import LiveServer
from support.servers import start_server
from support.thorough import ALL
from support.wire import Wire, encode_command, parse

from rillet.storage.aof.loader import AofLoader
from rillet.storage.aof.manifest import Manifest
from rillet.storage.loading import AofError

FOLDER, NAME = "appendonlydir", "appendonly.aof"
FLAGS = ("--appendonly", "yes", "--aof-use-rdb-preamble", "no")


def run(wire: Wire, seed: int) -> None:
    chance = random.Random(seed)
    wire.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    for number in range(1, 70):
        wire.call("XADD", "s", f"{number}-1", "f", "*1\r\n$4\r\nEXEC\r\n" * chance.randrange(3))
        if chance.random() < 0.3:
            count = chance.randrange(1, 4)
            wire.call("XREADGROUP", "GROUP", "g", "alice", "COUNT", count, "STREAMS", "s", ">")
        if chance.random() < 0.2:
            wire.call("XCLAIM", "s", "g", "bob", "0", f"{chance.randrange(1, number + 1)}-1")
        if chance.random() < 0.2:
            wire.call("XACK", "s", "g", f"{chance.randrange(1, number + 1)}-1")
        if chance.random() < 0.1:
            wire.call("SELECT", chance.randrange(2))
            wire.call("MULTI")
            wire.call("XADD", "t", "*", "a", "b")
            wire.call("SET", "k", number)
            wire.call("EXEC")
            wire.call("SELECT", 0)


@pytest.fixture(scope="module")
def data() -> bytes:
    """The incr file of a run."""
    with LiveServer(appendonly=True, appendfsync="no") as server, server.wire() as wire:
        run(wire, 1)
        return (server.folder / FOLDER / f"{NAME}.1.incr.aof").read_bytes()


class Model:
    """Where a file may be cut without losing more than what is cut off."""

    def __init__(self, data: bytes) -> None:
        self.ends = [0]
        self.counts = [0]  # commands up to each end
        at = count = 0
        inside = False
        while at < len(data):
            node, at = parse(data, at)
            count += 1
            word = node.children[0].value
            inside = (inside or word == b"MULTI") and word != b"EXEC"
            if not inside:
                self.ends.append(at)
                self.counts.append(count)
        self.commands = read_commands(data)

    def whole(self, cut: int) -> tuple[int, list[list[bytes]]]:
        which = bisect_right(self.ends, cut) - 1
        return self.ends[which], self.commands[: self.counts[which]]


def files(root: Path, data: bytes) -> Path:
    """A folder with an empty base and this incr file, whose path is given."""
    (root / FOLDER).mkdir(parents=True, exist_ok=True)
    Manifest().with_new_base(NAME).with_new_incr(NAME).persist(root / FOLDER, NAME)
    (root / FOLDER / f"{NAME}.1.base.aof").write_bytes(b"")
    incr = root / FOLDER / f"{NAME}.1.incr.aof"
    incr.write_bytes(data)
    return incr


def cuts_of(data: bytes) -> list[int]:
    """At each border of a command and of a word in it, one byte before and after: of each command the first three."""
    cuts = {0}
    seen = Counter()
    at = 0
    while at < len(data):
        begin = at
        node, at = parse(data, at)
        name = node.children[0].value
        seen[name] += 1
        borders = [at]
        if seen[name] <= 3:
            borders += [begin + each.end() for each in re.finditer(rb"\r\n", data[begin:at])]
        cuts |= {border + each for border in borders for each in (-1, 0, 1)}
    return sorted(cut for cut in cuts if cut <= len(data))


def test_every_cut_loads_to_the_longest_whole_prefix(data, tmp_path):
    model = Model(data)
    incr = files(tmp_path, data)
    assert len(data) > 8_000
    for cut in range(len(data) + 1) if ALL else cuts_of(data):
        incr.unlink()  # ext4 waits for the disk where a file is emptied and written again
        incr.write_bytes(data[:cut])
        end, commands = model.whole(cut)
        loader = AofLoader(tmp_path, FOLDER, NAME)
        assert [words for batch in loader.batches() for words in batch] == commands, cut
        assert incr.stat().st_size == end, cut


def test_without_aof_load_truncated_every_torn_file_is_refused_at_its_offset(data, tmp_path):
    model = Model(data)
    incr = files(tmp_path, data)
    for cut in [*range(len(data) - 200, len(data) + 1), *random.Random(3).sample(range(len(data)), 100)]:
        incr.unlink()
        incr.write_bytes(data[:cut])
        end, _ = model.whole(cut)
        loader = AofLoader(tmp_path, FOLDER, NAME, truncate=False)
        if cut == end:
            assert sum(1 for batch in loader.batches() for _ in batch) >= 0
            continue
        with pytest.raises(AofError, match=rf"\(byte offset {end}\)"):
            list(loader.batches())
        assert incr.stat().st_size == cut


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
def test_a_real_server_makes_the_same_of_the_same_cuts(kind, data, tmp_path):
    model = Model(data)
    chance = random.Random(4)
    # With the ends of transactions and of the file among them.
    multi = data.rindex(encode_command("MULTI"))
    end = data.index(encode_command("EXEC"), multi) + len(encode_command("EXEC"))
    near = [multi - 3, multi, multi + 1, multi + 3, end - 2, end, len(data) - 1, len(data)]
    cuts = [*chance.sample(range(len(data)), 10), *near]
    for cut in cuts:
        root = tmp_path / str(cut)
        incr = files(root, data[:cut])
        end, commands = model.whole(cut)
        with start_server(kind, *FLAGS, folder=root) as server, server.wire() as wire:
            size = incr.stat().st_size
            real = [wire.call("XRANGE", "s", "-", "+").plain(), wire.call("XPENDING", "s", "g").plain()]
        with LiveServer(dir=root, appendonly=True) as server, server.wire() as wire:
            ours = [wire.call("XRANGE", "s", "-", "+").plain(), wire.call("XPENDING", "s", "g").plain()]
            assert incr.stat().st_size == end, cut
        assert ours == real, cut
        # 7.0 leaves an open MULTI in the file (test_aof_against_servers).
        assert size == end or (kind == "redis7" and end < size <= cut), cut
        assert len(commands) <= len(model.commands)
