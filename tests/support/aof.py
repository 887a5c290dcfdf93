"""Reads an append-only file folder as the commands in it."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from support.servers import ServerProcess
from support.until import until
from support.wire import Wire, parse

FLAGS = ("--appendonly", "yes", "--aof-use-rdb-preamble", "no")
# Valkey would write UNLINK where the others write DEL.
VALKEY_FLAGS = ("--lazyfree-lazy-expire", "no", "--lazyfree-lazy-user-del", "no")
FOLDER = "appendonlydir"

Words = list[bytes]


def flags_for(kind: str) -> tuple[str, ...]:
    """The flags that turn a readable AOF on."""
    return FLAGS + (VALKEY_FLAGS if kind == "valkey" else ())


def manifest_of(folder: Path) -> Path:
    manifests = list(folder.glob("*.manifest"))
    assert len(manifests) == 1, f"one manifest expected in {folder}: {manifests}"
    return manifests[0]


def aof_files(folder: Path) -> list[Path]:
    """The files named by the manifest, in the order in which they are loaded."""
    files = []
    for line in manifest_of(folder).read_text().splitlines():
        words = shlex.split(line)
        fields = dict(zip(words[::2], words[1::2], strict=True))
        if fields["type"] != "h":
            files.append(folder / fields["file"])
    return files


class CutShortError(AssertionError):
    """The last command has no end."""


def read_commands(data: bytes) -> list[Words]:
    """All commands of a piece of AOF; annotations (`#TS:...`) are left out."""
    commands = []
    at = 0
    while at < len(data):
        if data[at : at + 1] == b"#":
            at = data.index(b"\n", at) + 1
            continue
        found = parse(data, at)
        if found is None:
            raise CutShortError(f"a command cut short: {data[at:]!r}")
        node, at = found
        commands.append([word.value for word in node.children or ()])
    return commands


class AofTail:
    """What a server appends: `take` is all since the last time."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.folder = server.dir / FOLDER
        self.manifest = manifest_of(self.folder)
        self.offset = 0
        self._named = b""
        self._last = self.manifest

    def _file(self) -> Path:
        """The file that grows, from its beginning after a rewrite; the manifest is parsed only where it has changed."""
        named = self.manifest.read_bytes()
        if named != self._named:
            last = aof_files(self.folder)[-1]
            if self._named and last != self._last:
                self.offset = 0
            self._named, self._last = named, last
        return self._last

    def take(self) -> list[Words]:
        """Everything since the last time, to the end of a command: a read may see the first page of a write alone."""
        taken: list[Words] = []

        def is_whole() -> bool:
            with self._file().open("rb") as file:
                file.seek(self.offset)
                data = file.read()
            try:
                taken[:] = read_commands(data)
            except CutShortError:
                return False
            self.offset += len(data)
            return True

        until(is_whole)
        return taken

    def of_each(self, run: Sequence[Sequence[str]]) -> list[list[Words]]:
        """Run commands on an emptied server; what each of them appended, without SELECT."""
        with self.server.wire() as wire:
            wire.call("FLUSHALL")
            self.take()
            out = []
            for command in run:
                wire.call(*command)
                out.append([words for words in self.take() if words[0] != b"SELECT"])
            return out


def until_rewritten(wire: Wire) -> None:
    """Wait until the new files of rewrites are in their place."""

    def is_over() -> bool:
        info = wire.call("INFO", "persistence").plain()
        return b"aof_rewrite_in_progress:0" in info and b"aof_rewrite_scheduled:0" in info

    until(is_over)


def rewrite(wire: Wire) -> None:
    wire.call("BGREWRITEAOF")
    until_rewritten(wire)
