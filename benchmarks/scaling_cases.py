"""What the cases of the scaling benchmark are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from servers import encode
from workloads import FIELDS, entry_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from servers import Connection, Server

THOUSANDS: Final = (1_000, 10_000, 100_000)
MILLION: Final = (1_000, 100_000, 1_000_000)
TEN_MILLION: Final = (1_000, 100_000, 10_000_000)
MANY: Final = (100, 1_000, 10_000)
_AT_ONCE: Final = 1_000
_CONTAINERS: Final = frozenset(("xgroup", "xinfo", "client", "object", "memory"))


@dataclass(frozen=True)
class Case:
    """One command, or several with ` ; ` between them that are measured as one.

    Attributes:
        line: words with `{i}` (a number below N, another one each time), `{id}` (the ID of that entry), `{k}` (counts
            up), `{next}` (the ID of that entry), `{n}` (N), `{ids}` (N IDs), `{keys}` (N keys) and `{fields}` (of an entry).
        growth: what its documented complexity says: `1`, `log` or `n`.
        uses_up: each takes something away that is not there again; `{i}` is never the same one then.
        alone: not sent together with others, because what they send to other clients would be gathered; what the server
            does after its reply counts.
        once: it can be measured only once in prepared data.
        note: why the growth is not what the documentation says.
    """

    line: str
    growth: str = "1"
    uses_up: bool = False
    once: bool = False
    alone: bool = False
    note: str = ""

    def request(self, turn: int, n: int) -> list[bytes]:
        """The encoded commands of a turn; 7919 is prime: neighbours in time are far from each other in the data."""
        spot = turn * 7919 % n
        requests = []
        for line in self.line.split(" ; "):
            words: list[object] = []
            for word in line.split():
                if word == "{ids}":
                    words += map(entry_id, range(n))
                elif word == "{keys}":
                    words += [f"k{number}" for number in range(n)]
                elif word == "{fields}":
                    words += FIELDS
                else:
                    words.append(
                        word.format(
                            i=spot, id=entry_id(spot).decode(), k=turn, n=n, next=entry_id(turn).decode()
                        )
                    )
            requests.append(encode(*words))
        return requests

    @property
    def command(self) -> str:
        """As COMMAND DOCS calls the (last) command."""
        first, second, *_ = [*self.line.lower().rpartition(" ; ")[2].split(), ""]
        return f"{first}|{second}" if first in _CONTAINERS else first


@dataclass(frozen=True)
class Growing:
    """Something there are N of, and the commands that are measured while N grows.

    Attributes:
        what: there are N of.
        prepare: makes them; it may answer connections that are to stay open for the case.
        goes_on: with what the cases before it have left, on the same servers.
    """

    what: str
    prepare: Callable[[Server, int], list[Connection] | None]
    cases: tuple[Case, ...]
    sizes: tuple[int, ...]
    goes_on: bool = False


def once(line: str, growth: str = "n", note: str = "") -> Case:
    """A command that can be measured only once in prepared data."""
    return Case(line, growth, once=True, note=note)


def cases(lines: str, growth: str = "1", *, uses_up: bool = False, note: str = "") -> tuple[Case, ...]:
    """One case a line."""
    return tuple(Case(line.strip(), growth, uses_up, note=note) for line in lines.strip().split("\n"))


def variadic(head: str, n: int, each: str) -> Iterable[bytes]:
    """Requests that begin with `head` and bring a thousand of `each` (the number is its `{}`)."""
    words = head.split()
    for start in range(0, n, _AT_ONCE):
        more = [word for at in range(start, min(start + _AT_ONCE, n)) for word in each.format(at, at).split()]
        yield encode(*words, *more)
