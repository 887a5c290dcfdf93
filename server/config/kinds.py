"""The types of configuration values: how they are parsed, and written for CONFIG GET and for files."""

# ruff: noqa: ARG002, D102 - the methods of a kind are overrides, documented in Kind
# ruff: noqa: PTH100, PTH116, PTH118 - paths may hold undecodable bytes and must not be resolved

from __future__ import annotations

import math
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeVar

from ...commands.runtime.arguments import is_host
from ...protocol.inline import quote, word_of
from ...protocol.regex import regex

Value = TypeVar("Value")

INT_MAX: Final = (1 << 31) - 1
UINT_MAX: Final = (1 << 32) - 1
LONG_MAX: Final = (1 << 63) - 1
ULONG_MAX: Final = (1 << 64) - 1

_INTEGER: Final = regex(rb"(?:0|-?[1-9][0-9]{0,18})\Z")
_MEMORY: Final = regex(rb"([0-9]*)(b|k|kb|m|mb|g|gb)?\Z", re.IGNORECASE)
_UNITS: Final = {
    b"": 1,
    b"b": 1,
    b"k": 1000,
    b"kb": 1 << 10,
    b"m": 1000**2,
    b"mb": 1 << 20,
    b"g": 1000**3,
    b"gb": 1 << 30,
}


class Kind(ABC, Generic[Value]):
    """The type of a directive's values.

    Kinds with ``multiple`` take several words, the others exactly one. Every ``parse`` raises ValueError for
    invalid words; the text is shown to the client or the user.
    """

    multiple = False

    @abstractmethod
    def parse(self, words: list[bytes], present: Value) -> Value:
        """Parse words to a value. Some kinds keep the parts of the current value, ``present``, that the words do not name."""

    @abstractmethod
    def format(self, value: Value) -> bytes:
        """Return the value as CONFIG GET shows it."""

    def as_of(self, version: tuple[int, int]) -> Kind[Value]:
        """Return this kind as one Redis version has it; the kind itself accepts the values of every version."""
        return self

    def combine(self, earlier: Value, later: Value) -> Value:
        """Return the value of a directive that a file or command line names repeatedly; by default the later one wins."""
        return later

    def file_text(self, value: Value) -> bytes:
        """Return the value as it is written in a configuration file."""
        return self.format(value)

    def lines(self, name: bytes, value: Value, default: Value) -> list[tuple[bytes, bool]]:
        """Return the lines of CONFIG REWRITE for a value, each with a flag: append it if the file has no such line."""
        return [(b"%b %b" % (name, self.file_text(value)), value != default)]


class Bool(Kind[bool]):
    """A directive that is ``yes`` or ``no``."""

    def parse(self, words: list[bytes], present: bool) -> bool:
        word = words[0].lower()
        if word not in (b"yes", b"no"):
            raise ValueError("argument must be 'yes' or 'no'")
        return word == b"yes"

    def format(self, value: bool) -> bytes:
        return b"yes" if value else b"no"


BOOL: Final = Bool()


class Timestamps(Kind["bool | str"]):
    """aof-timestamp-enabled: ``yes``, ``no`` or Rillet's own ``ms``."""

    def parse(self, words: list[bytes], present: bool | str) -> bool | str:
        return "ms" if words[0].lower() == b"ms" else BOOL.parse(words, bool(present))

    def format(self, value: bool | str) -> bytes:
        return b"ms" if value == "ms" else BOOL.format(bool(value))


class Retention(Kind[tuple[int, int]]):
    """aof-history-retention: seconds, then optional bytes with a unit.

    0 seconds keep nothing; 0 bytes are no limit.
    """

    multiple = True

    def parse(self, words: list[bytes], present: tuple[int, int]) -> tuple[int, int]:
        seconds = _integer(words[0]) if words else None
        size = parse_memory(words[1]) if len(words) > 1 else 0
        if seconds is None or size is None or seconds < 0 or len(words) > 2:
            raise ValueError("argument must be <seconds> [<bytes>]")
        return seconds, size

    def format(self, value: tuple[int, int]) -> bytes:
        return b"%d %d" % value

    def file_text(self, value: tuple[int, int]) -> bytes:
        return b"%d %b" % (value[0], MEMORY.file_text(value[1]))


class Integer(Kind[int]):
    """A decimal from ``minimum`` to ``maximum``, both inclusive.

    ``clamp``: bounds, both inclusive; a valid number outside them becomes the nearer one.
    """

    def __init__(
        self, minimum: int = 0, maximum: int = INT_MAX, *, clamp: tuple[int, int] | None = None
    ) -> None:
        self.minimum = minimum
        self.maximum = maximum
        self.clamp = clamp

    def parse(self, words: list[bytes], present: int) -> int:
        value = _integer(words[0])
        if value is None:
            raise ValueError("argument couldn't be parsed into an integer")
        return self._bounded(value)

    def format(self, value: int) -> bytes:
        return b"%d" % value

    def _bounded(self, value: int) -> int:
        if not self.minimum <= value <= self.maximum:
            raise ValueError(f"argument must be between {self.minimum} and {self.maximum} inclusive")
        if self.clamp:
            return min(max(value, self.clamp[0]), self.clamp[1])
        return value


class PowerOfTwo(Integer):
    """An integer that is a power of two."""

    def __init__(self, name: str, minimum: int, maximum: int) -> None:
        super().__init__(minimum, maximum)
        self.name = name

    def parse(self, words: list[bytes], present: int) -> int:
        value = super().parse(words, present)
        if value & (value - 1):
            raise ValueError(f"{self.name} must be a power of two")
        return value


class Memory(Integer):
    """Bytes, with an optional unit: k, m and g are powers of 1000; kb, mb and gb are powers of 1024."""

    def __init__(
        self, minimum: int = 0, maximum: int = LONG_MAX, *, clamp: tuple[int, int] | None = None
    ) -> None:
        super().__init__(minimum, maximum, clamp=clamp)

    def parse(self, words: list[bytes], present: int) -> int:
        value = parse_memory(words[0])
        if value is None:
            raise ValueError("argument must be a memory value")
        return self._bounded(value)

    def file_text(self, value: int) -> bytes:
        for unit in (b"gb", b"mb", b"kb"):
            if value > 0 and value % _UNITS[unit] == 0:
                return b"%d%b" % (value // _UNITS[unit], unit)
        return b"%d" % value


MEMORY: Final = Memory()


class MemoryOrPercent(Memory):
    """Bytes, or a percentage of maxmemory: ``5%`` is stored as -5."""

    def parse(self, words: list[bytes], present: int) -> int:
        word = words[0]
        if word.endswith(b"%"):
            percent = _integer(word[:-1])
            value = None if percent is None or percent < 0 else -percent
        else:
            value = parse_memory(word)
            if (
                value is not None and value > LONG_MAX
            ):  # a signed number in Redis, too: 2^64 - 1 is one per cent
                value -= ULONG_MAX + 1
        if value is None:
            raise ValueError("argument must be a memory or percent value")
        if value < -100:
            raise ValueError("percentage argument must be less or equal to 100")
        return value

    def format(self, value: int) -> bytes:
        return b"%d%%" % -value if value < 0 else b"%d" % value

    def file_text(self, value: int) -> bytes:
        return self.format(value) if value < 0 else super().file_text(value)


class Octal(Kind[int]):
    """File permission bits, written as an octal number up to 777."""

    def parse(self, words: list[bytes], present: int) -> int:
        if not re.fullmatch(rb"[0-7]+", words[0]):
            raise ValueError("argument couldn't be parsed as an octal number")
        value = int(words[0], 8)
        if value > 0o777:
            raise ValueError("argument must be between 0 and 777 inclusive")
        return value

    def format(self, value: int) -> bytes:
        return b"%o" % value


class Enum(Kind[str]):
    """One of a few words, in upper or lower case; stored in lower case."""

    def __init__(self, *names: str, since: Mapping[str, tuple[int, int]] = MappingProxyType({})) -> None:
        self.names = names
        self.since = since  # the first version of words that not every version knows

    def as_of(self, version: tuple[int, int]) -> Enum:
        return type(self)(*(name for name in self.names if self.since.get(name, version) <= version))

    def parse(self, words: list[bytes], present: str) -> str:
        for name in self.names:
            if words[0].lower() == name.lower().encode():
                return name
        raise ValueError("argument(s) must be one of the following: " + ", ".join(self.names))

    def format(self, value: str) -> bytes:
        return value.encode()


class Flags(Enum):
    """Several words out of a few, in upper or lower case; stored in lower case, separated by spaces."""

    multiple = True

    def parse(self, words: list[bytes], present: str) -> str:
        chosen = {super(Flags, self).parse([word], present) for word in words or [b""]}
        return " ".join(name for name in self.names if name in chosen)


class Bytes(Kind[bytes]):
    """A password or name, byte for byte. An empty one means that there is none, and needs no line in a file."""

    def parse(self, words: list[bytes], present: bytes) -> bytes:
        return words[0]

    def format(self, value: bytes) -> bytes:
        return value

    def file_text(self, value: bytes) -> bytes:
        return quote(value)

    def lines(self, name: bytes, value: bytes, default: bytes) -> list[tuple[bytes, bool]]:
        return super().lines(name, value, default) if value or default else []


class Text(Kind[str]):
    """A text or path; undecodable bytes are kept (surrogateescape). An empty one means that there is none."""

    def parse(self, words: list[bytes], present: str) -> str:
        if b"\0" in words[0]:
            raise ValueError("can't contain null characters")
        return os.fsdecode(words[0])

    def format(self, value: str) -> bytes:
        return os.fsencode(value)

    def file_text(self, value: str) -> bytes:
        return quote(self.format(value))

    def lines(self, name: bytes, value: str, default: str) -> list[tuple[bytes, bool]]:
        return super().lines(name, value, default) if value or default else []


class Filename(Text):
    """A name without a folder; errors call the directive ``name`` and its value a ``what``."""

    def __init__(self, name: str, what: str = "filename", *, may_be_empty: bool = False) -> None:
        self.name = name
        self.what = what
        self.may_be_empty = may_be_empty

    def parse(self, words: list[bytes], present: str) -> str:
        name = super().parse(words, present)
        if not name and not self.may_be_empty:
            raise ValueError(f"{self.name} can't be empty")
        if "/" in name or os.sep in name or name in {".", ".."}:
            raise ValueError(f"{self.name} can't be a path, just a {self.what}")
        return name


class Directory(Text):
    """An existing folder, stored as an absolute path; a relative path starts at the current value.

    The process itself never changes its directory, because it may hold several servers.
    """

    def parse(self, words: list[bytes], present: str) -> str:
        given = super().parse(words, present)
        if not given:
            raise ValueError("No such file or directory")
        path = os.path.abspath(os.path.join(present, given))
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError) as error:
            raise ValueError(getattr(error, "strerror", None) or "No such file or directory") from None
        if not stat.S_ISDIR(mode):
            raise ValueError("Not a directory")
        return path

    def lines(self, name: bytes, value: str, default: str) -> list[tuple[bytes, bool]]:
        return [(b"%b %b" % (name, self.file_text(value)), True)]


class TitleTemplate(Text):
    """proc-title-template: text with known variables in braces."""

    KNOWN: Final = {"title", "listen-addr", "server-mode", "port", "tls-port", "unixsocket", "config-file"}

    def parse(self, words: list[bytes], present: str) -> str:
        template = super().parse(words, present)
        rest = re.sub(r"\{([^{}]*)\}", lambda found: "" if found[1] in self.KNOWN else "{", template)
        if not template or "{" in rest:
            raise ValueError("template format is invalid or contains unknown variables")
        return template


class Only(Kind[Value]):
    """A kind that accepts only the value ``served``; every other value is refused with ``reason``."""

    def __init__(self, kind: Kind[Value], served: Value, reason: str) -> None:
        self.kind = kind
        self.served = served
        self.reason = reason

    def parse(self, words: list[bytes], present: Value) -> Value:
        value = self.kind.parse(words, present)
        if value != self.served:
            raise ValueError(self.reason)
        return value

    def format(self, value: Value) -> bytes:
        return self.kind.format(value)

    def lines(self, name: bytes, value: Value, default: Value) -> list[tuple[bytes, bool]]:
        return self.kind.lines(name, value, default)


class Bind(Kind[tuple[str, ...]]):
    """Addresses to listen on. A leading ``-`` marks one that need not exist; ``*`` is every address."""

    multiple = True

    def parse(self, words: list[bytes], present: tuple[str, ...]) -> tuple[str, ...]:
        addresses = tuple(os.fsdecode(word) for word in words if word)
        if len(addresses) > 16:
            raise ValueError("Too many bind addresses specified.")
        return addresses

    def format(self, value: tuple[str, ...]) -> bytes:
        return os.fsencode(" ".join(value))

    def file_text(self, value: tuple[str, ...]) -> bytes:
        return b" ".join(word_of(os.fsencode(address)) for address in value) or b'""'


class Save(Kind[tuple[tuple[int, int], ...]]):
    """Save points as (seconds, changes). Later lines of a file add more; ``save ""`` removes all."""

    multiple = True

    def parse(self, words: list[bytes], present: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        if words in ([], [b""]):
            return ()
        numbers = [_integer(word) for word in words]
        points = list(zip(numbers[::2], numbers[1::2], strict=False))
        found = [
            (seconds, changes) for seconds, changes in points if seconds is not None and changes is not None
        ]
        if len(numbers) % 2 or len(found) < len(points) or any(s < 1 or c < 0 for s, c in found):
            raise ValueError("Invalid save parameters")
        return tuple(found)

    def combine(
        self, earlier: tuple[tuple[int, int], ...], later: tuple[tuple[int, int], ...]
    ) -> tuple[tuple[int, int], ...]:
        return earlier + later if later else ()

    def format(self, value: tuple[tuple[int, int], ...]) -> bytes:
        return b" ".join(b"%d %d" % point for point in value)

    def lines(
        self, name: bytes, value: tuple[tuple[int, int], ...], default: tuple[tuple[int, int], ...]
    ) -> list[tuple[bytes, bool]]:
        if value == default:
            return [(b"%b %b" % (name, self.format(value)), False)]
        return [(b"%b %d %d" % (name, *point), True) for point in value] or [(name + b' ""', True)]


class OutputLimit(NamedTuple):
    """Limits of unsent output: ``hard`` bytes at any time, ``soft`` bytes for longer than ``seconds``; 0 is no limit."""

    hard: int
    soft: int
    seconds: int


class OutputLimits(NamedTuple):
    """The output limits for each class of clients."""

    normal: OutputLimit
    replica: OutputLimit
    pubsub: OutputLimit


class OutputLimitsKind(Kind[OutputLimits]):
    """client-output-buffer-limit: any number of ``class hard soft seconds``; the classes not named keep their limits."""

    multiple = True
    CLASSES: Final = {b"normal": 0, b"slave": 1, b"replica": 1, b"pubsub": 2}

    def parse(self, words: list[bytes], present: OutputLimits) -> OutputLimits:
        if words == [b""]:
            return present
        if not words or len(words) % 4:
            raise ValueError("Wrong number of arguments in buffer limit configuration.")
        limits = list(present)
        for position in range(0, len(words), 4):
            name, *rest = words[position : position + 4]
            index = self.CLASSES.get(name.lower())
            if index is None:
                raise ValueError("Invalid client class specified in buffer limit configuration.")
            hard, soft, seconds = parse_memory(rest[0]), parse_memory(rest[1]), _integer(rest[2])
            if hard is None or soft is None or seconds is None or not 0 <= seconds <= INT_MAX:
                raise ValueError("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
            limits[index] = OutputLimit(hard, soft, seconds)
        return OutputLimits(*limits)

    def format(self, value: OutputLimits) -> bytes:
        names = (b"normal", b"slave", b"pubsub")
        return b" ".join(b"%b %d %d %d" % (name, *limit) for name, limit in zip(names, value, strict=True))

    def lines(self, name: bytes, value: OutputLimits, default: OutputLimits) -> list[tuple[bytes, bool]]:
        size = Memory().file_text
        return [
            (
                b"%b %b %b %b %d" % (name, kind.encode(), size(limit.hard), size(limit.soft), limit.seconds),
                limit != usual,
            )
            for kind, limit, usual in zip(OutputLimits._fields, value, default, strict=True)
        ]


class Percentiles(Kind[tuple[float, ...]]):
    """latency-tracking-info-percentiles: numbers from 0 to 100, both inclusive."""

    multiple = True

    def parse(self, words: list[bytes], present: tuple[float, ...]) -> tuple[float, ...]:
        if words in ([], [b""]):
            return ()
        try:
            values = tuple(float(word) for word in words)
        except ValueError:
            raise ValueError("Invalid latency-tracking-info-percentiles parameters") from None
        # Python's float() accepts surrounding white space.
        if any(math.isnan(value) for value in values) or any(word != word.strip() for word in words):
            raise ValueError("Invalid latency-tracking-info-percentiles parameters")
        if not all(0 <= value <= 100 for value in values):
            raise ValueError("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")
        return values

    def format(self, value: tuple[float, ...]) -> bytes:
        return " ".join(f"{each:f}".rstrip("0").rstrip(".") for each in value).encode()

    def file_text(self, value: tuple[float, ...]) -> bytes:
        return self.format(value) or b'""'


class OomValues(Kind[tuple[int, ...]]):
    """oom-score-adj-values: three numbers from -2000 to 2000."""

    multiple = True

    def parse(self, words: list[bytes], present: tuple[int, ...]) -> tuple[int, ...]:
        if len(words) != 3:
            raise ValueError("wrong number of arguments")
        values = tuple(value for word in words if (value := _integer(word)) is not None)
        if len(values) != 3 or not all(-2000 <= value <= 2000 for value in values):
            raise ValueError("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")
        return values

    def format(self, value: tuple[int, ...]) -> bytes:
        return b" ".join(b"%d" % each for each in value)


class Master(Kind[tuple[str, int] | None]):
    """replicaof: host and port, or none."""

    multiple = True

    def parse(self, words: list[bytes], present: tuple[str, int] | None) -> tuple[str, int] | None:
        if words == [b""]:
            return None
        if len(words) != 2:
            raise ValueError("wrong number of arguments")
        if [word.lower() for word in words] == [b"no", b"one"]:
            return None
        port = _integer(words[1])
        if port is None or not 0 <= port <= 65535:
            raise ValueError("Invalid master port")
        if not is_host(words[0]):
            raise ValueError("Invalid master host")
        return os.fsdecode(words[0]), port

    def format(self, value: tuple[str, int] | None) -> bytes:
        return b"" if value is None else b"%b %d" % (os.fsencode(value[0]), value[1])

    def lines(self, name: bytes, value: Any, default: Any) -> list[tuple[bytes, bool]]:
        return [(b"%b %b %d" % (name, word_of(os.fsencode(value[0])), value[1]), True)] if value else []


def _integer(word: bytes) -> int | None:
    if not _INTEGER().match(word):
        return None
    value = int(word)
    return value if -LONG_MAX - 1 <= value <= LONG_MAX else None


def parse_memory(word: bytes) -> int | None:
    """Return the bytes that a number with an optional unit means, as ``Memory``; None for another word."""
    found = _MEMORY().match(word)
    if found is None:
        return None
    digits = found[1].lstrip(b"0") or b"0"
    number = int(digits) if len(digits) <= 20 else ULONG_MAX
    return min(number * _UNITS[(found[2] or b"").lower()], ULONG_MAX)  # saturates as in Redis
