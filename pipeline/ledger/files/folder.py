"""Choose the files of an append-only folder that make up the ledger, and their order.

The ledger begins with the oldest base that still exists and goes on with every incr file since, up to the one being
written. Files that rewrites replaced, but that are kept as history (``aof-history-retention``; ``aof-disable-auto-gc
yes`` of Redis), reach further back than the live ones. Later bases contain nothing new and are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ....storage.aof.history import Generation, generations
from ....storage.aof.manifest import FileInfo, Manifest
from ....storage.loading import AofError
from ..errors import LedgerError

_MANIFEST = ".manifest"
_GZIP = b"\x1f\x8b"
_RDB = (b"REDIS", b"VALKE")


@dataclass(frozen=True, slots=True)
class Part:
    """One file of the ledger, a base or an incr file."""

    path: str  # its path, with ``.gz`` if it was compressed
    file_seq: int  # the number that its rows get
    is_base: bool  # whether it describes the state before the first incr file

    def exists(self) -> bool:
        """Return True if the file exists now."""
        return Path(self.path).exists()

    def size(self) -> int:
        """Return the file's current size in bytes; of a compressed file the compressed size."""
        return Path(self.path).stat().st_size

    def is_whole(self) -> bool:
        """Return True if the file can only be read from start to end: it is compressed, or begins with RDB."""
        with open(self.path, "rb") as file:  # noqa: PTH123
            return is_whole_head(file.read(5))


def is_whole_head(head: bytes) -> bool:
    """Return True if a file with this beginning is compressed or RDB, so that reading can only start at its beginning."""
    return head[:2] == _GZIP or head in _RDB


def read_folder(path: str, *, history: bool = True) -> list[Part]:
    """Return the files of a ledger, oldest first; the last one is being written.

    Raises LedgerError: there is no append-only file, or its files do not fit together.

    Args:
        path: the folder (appenddirname), its manifest file, or a single append-only file.
        history: whether kept files are read, too.
    """
    place = Path(path.removeprefix("file://").removeprefix("file:"))
    if place.is_dir():
        manifests = sorted(each for each in place.glob(f"*{_MANIFEST}") if not each.name.startswith("temp-"))
        if len(manifests) != 1:
            found = ", ".join(each.name for each in manifests) or "none"
            raise LedgerError(f"{place} must hold one manifest of an append-only file; found: {found}")
        place = manifests[0]
    elif not place.exists():
        raise LedgerError(f"{place} does not exist")
    elif not place.name.endswith(_MANIFEST):
        return [Part(str(place), 1, is_base=False)]
    try:
        manifest = Manifest.load(place.parent, place.name.removesuffix(_MANIFEST))
    except AofError as error:
        raise LedgerError(str(error)) from error
    return _parts(place.parent, manifest, history=history)


def _parts(folder: Path, manifest: Manifest, *, history: bool) -> list[Part]:
    live = Generation(manifest.base, manifest.incr)
    chain = _chain(folder, generations(manifest.history), live) if history else [live]
    incr = [info for generation in chain for info in generation.incr]
    base = chain[0].base
    if base is None and not incr:
        raise LedgerError(f"{folder} holds no append-only file yet")
    first = incr[0].seq if incr else 1
    parts = [] if base is None else [Part(_path(folder, base), first, is_base=True)]
    return parts + [Part(_path(folder, info), info.seq, is_base=False) for info in incr]


def _chain(folder: Path, kept: Sequence[Generation], live: Generation) -> list[Generation]:
    """Return the consecutive generations up to the live one, without a gap, beginning with a base."""
    chain = [live]
    for generation in reversed(kept):
        seqs = [info.seq for info in [*generation.incr, *chain[0].incr[:1]]]
        is_joined = generation.incr and seqs == list(range(seqs[0], seqs[0] + len(seqs)))
        if not is_joined or not all(Path(_path(folder, info)).exists() for info in generation.files):
            break
        chain.insert(0, generation)
    while len(chain) > 1 and chain[0].base is None and chain[0].incr[0].seq != 1:
        del chain[0]
    return chain


def _path(folder: Path, info: FileInfo) -> str:
    packed = folder / f"{info.name}.gz"
    plain = folder / info.name
    return str(packed if packed.exists() and not plain.exists() else plain)
