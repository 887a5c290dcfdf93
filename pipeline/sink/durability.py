"""When a batch is complete: when the server has it, or only when replicas or its append-only file have it, too."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..redis.options import Kind, Option, OptionError, Options, number

if TYPE_CHECKING:
    from ..redis.options import Endpoint


def _parse_wait(text: str) -> tuple[int, bool]:
    replicas, aof = 0, False
    for part in text.lower().replace(" ", "").split(","):
        found = re.fullmatch(r"replicas:([1-9]\d{0,8})", part)
        if found is None and part != "aof":
            raise ValueError(f"takes replicas:<number>, aof, or both with a comma between them; not {text!r}")
        replicas, aof = (int(found[1]), aof) if found else (replicas, True)
    return replicas, aof


WAIT: Final = Option(
    "wait", Kind("words", _parse_wait), None,
    "`replicas:<number>`, `aof`, or both with a comma: a batch is done when they have it",
)  # fmt: skip
WAIT_TIMEOUT: Final = Option(
    "waitTimeoutMs", number("ms", 1), "10000", "the longest `wait`; then the query fails", needs=("wait",)
)


@dataclass(frozen=True)
class Wait:
    """The confirmations to wait for after a write: a number of replicas (WAIT), and the server's own file (WAITAOF)."""

    replicas: int = 0
    aof: bool = False
    timeout_ms: int = 10_000

    @classmethod
    def of(cls, given: Options, endpoint: Endpoint) -> Wait:
        """Read the options ``wait`` and ``waitTimeoutMs``.

        Raises:
            OptionError: one is malformed, or the connection would give up a reply before the wait ends.
        """
        wait, timeout = given[WAIT], given[WAIT_TIMEOUT]
        if wait is None:
            return cls()
        if timeout >= endpoint.timeout_ms:
            raise OptionError(
                f"option 'waitTimeoutMs' ({timeout}) is to be less than 'timeoutMs' ({endpoint.timeout_ms}), the time for a reply"
            )
        replicas, aof = wait
        return cls(replicas, aof, timeout)

    def __bool__(self) -> bool:
        return bool(self.replicas or self.aof)

    @property
    def commands(self) -> list[tuple[str | int, ...]]:
        """Return the commands to send after the writes, on their connection: a server waits only for its writes."""
        words: list[tuple[str | int, ...]] = []
        if self.replicas:
            words.append(("WAIT", self.replicas, self.timeout_ms))
        if self.aof:
            words.append(("WAITAOF", 1, 0, self.timeout_ms))
        return words
