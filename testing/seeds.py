"""The initial data of a test server: a dump file, an append-only folder, a file of commands, or a dict."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from .folders import TemporaryFolder
from .process import StartError


class RunsCommands(Protocol):
    """The receiver of a seed's commands."""

    def run_all(self, commands: Sequence[Sequence[bytes]]) -> list[Any]:
        """Run several commands; return their replies, with errors as exceptions."""


Seed: TypeAlias = "str | os.PathLike[str] | Mapping[str | bytes, Any]"
Command: TypeAlias = list[bytes]

_AT_ONCE: Final = 1000  # items of a value in one command
_TOGETHER: Final = 100  # commands that are sent before their replies are read


def seed_file(seed: Seed, load: Callable[[str, str], bytes]) -> bytes | None:
    """Return a seed as an RDB file if it is a dump file or an append-only folder; None if it consists of commands.

    ``load``: lets a server load a folder's append-only file, by name; returns the data as an RDB file.
    Raises StartError: the seed cannot be read, or its folder does not hold exactly one append-only file.
    """
    if isinstance(seed, Mapping):
        return None
    path = Path(seed)
    if path.is_dir():
        return _of_folder(path, load)
    try:
        with path.open("rb") as file:
            head = file.read(5)
            return head + file.read() if head == b"REDIS" else None
    except OSError as error:
        raise StartError(f"The seed {path} cannot be read: {error.strerror}") from error


def run_commands(seed: Seed, control: RunsCommands) -> None:
    """Run the commands of a seed.

    Raises StartError: a command is malformed or fails; the text says which one.
    """
    commands = _of_mapping(seed) if isinstance(seed, Mapping) else _of_file(Path(seed))
    while some := list(islice(commands, _TOGETHER)):
        replies = control.run_all([command for _, command in some])
        for (place, command), reply in zip(some, replies, strict=True):
            if isinstance(reply, Exception):
                shown = b" ".join(command[:3]).decode(errors="replace")
                raise StartError(f"{place}: {shown}: {reply}")


def _of_folder(folder: Path, load: Callable[[str, str], bytes]) -> bytes:
    """Return the data of an append-only folder; work on a copy, so that the folder does not change."""
    manifests = [*folder.glob("*.manifest"), *folder.glob("*/*.manifest")]
    if len(manifests) != 1:
        raise StartError(f"The seed {folder} holds {len(manifests) or 'no'} append-only files (*.manifest)")
    with TemporaryFolder() as copy:
        shutil.copytree(manifests[0].parent, Path(copy.path) / "appendonlydir")
        try:
            return load(copy.path, manifests[0].name.removesuffix(".manifest"))
        except StartError as error:
            raise StartError(f"The seed {folder} cannot be loaded:\n{error}") from error


# Files of commands


def _of_file(path: Path) -> Iterator[tuple[str, Command]]:
    content = path.read_bytes()
    return _requests(path, content) if content.startswith(b"*") else _lines(path, content)


def _lines(path: Path, content: bytes) -> Iterator[tuple[str, Command]]:
    """Split lines into words as redis-cli does; skip empty lines and comments (#)."""
    from ..protocol.inline import split_inline

    for number, line in enumerate(content.splitlines(), 1):
        words = split_inline(line)
        if words is None:
            raise StartError(f"{path}:{number}: the quotes are unbalanced")
        if words and not words[0].startswith(b"#"):
            yield f"{path}:{number}", words


def _requests(path: Path, content: bytes) -> Iterator[tuple[str, Command]]:
    from ..protocol.requests import RequestParser

    parser = RequestParser(authenticated=True)
    number = 0
    batch = parser.feed(content)
    while batch:
        for words in batch:
            number += 1
            yield f"{path}, command {number}", words
        batch = parser.feed(b"") if parser.more else []
    if parser.error is not None or parser.buffered:
        raise StartError(f"{path}: after command {number} there is no whole command")


# Mappings


def _of_mapping(seed: Mapping[str | bytes, Any]) -> Iterator[tuple[str, Command]]:
    for key, value in seed.items():
        place = f"The seed of {key!r}"
        for command in _of_value(place, _word(place, key), value):
            yield place, command


def _of_value(place: str, key: bytes, value: Any) -> Iterator[Command]:
    """Yield the commands that create a value: usually one; one per entry for a stream, several for a large value."""
    if isinstance(value, (str, bytes, int, float)) and not isinstance(value, bool):
        yield [b"SET", key, _word(place, value)]
    elif not isinstance(value, (Mapping, AbstractSet, list, tuple)):
        raise StartError(f"{place}: nothing is known for a {type(value).__name__}")
    elif not value:
        raise StartError(f"{place}: Redis has no empty {type(value).__name__}")
    elif isinstance(value, Mapping):
        yield from _split(b"HSET", key, _pairs(place, value), 2)
    elif isinstance(value, AbstractSet):
        yield from _split(b"SADD", key, [_word(place, item) for item in value], 1)
    elif isinstance(value[0], Mapping):
        for entry in value:
            if not isinstance(entry, Mapping) or not entry:
                raise StartError(f"{place}: each entry of a stream is a dict of its fields")
            yield [b"XADD", key, b"*", *_pairs(place, entry)]
    else:
        yield from _split(b"RPUSH", key, [_word(place, item) for item in value], 1)


def _pairs(place: str, value: Mapping[Any, Any]) -> list[bytes]:
    return [_word(place, word) for pair in value.items() for word in pair]


def _split(name: bytes, key: bytes, words: list[bytes], step: int) -> Iterable[Command]:
    size = _AT_ONCE * step
    return ([name, key, *words[at : at + size]] for at in range(0, len(words), size))


def _word(place: str, value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise StartError(f"{place}: {value!r} is no string and no number")
    return (value if isinstance(value, str) else repr(value)).encode()
