"""Sort the commands of a file by kind, many at a time.

Such files mostly consist of a few commands in the one form that servers write. The sorter keeps those as columns. All
others, and these in any other form, go one by one to a ``Recorder``, which makes the same rows.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence
from itertools import compress, starmap
from operator import itemgetter
from typing import Any, Final, NamedTuple

from ..errors import LedgerError
from ..schema import DELIVERED
from .recorder import Recorder, claim_event

Commands = list[list[bytes]]

NOTHING, OTHER, ADD, CLAIM, ACK, MOVE, ADD_MAXLEN, MULTI, EXEC = range(9)

# By command name, in any case.
USUAL: Final = {
    b"XADD": ADD, b"XCLAIM": CLAIM, b"XACK": ACK, b"XGROUP": MOVE, b"MULTI": MULTI, b"EXEC": EXEC,
}  # fmt: skip

_IS: Final = [bytes(each == kind for each in range(256)) for kind in range(9)]
_NAME: Final = itemgetter(0)
_MAXLEN: Final = frozenset({b"MAXLEN", b"maxlen"})
_LIMIT_WORDS: Final = 5  # XADD key MAXLEN = number
_FIRST_ID: Final = 3  # word of XACK
_DIGITS: Final = b"0123456789"
# ID halves with leading zeros, or perhaps beyond 63 bits. One search each: each pattern has a byte that is found fast.
_ODD_HALVES: Final = re.compile(rb"-(?:0[0-9]|[0-9]{19})"), re.compile(rb",[0-9]{19}")


class Form(NamedTuple):
    """The one form in which servers write a command into the append-only file."""

    number: int  # how many words are examined
    is_whole: bool  # whether the command has no further words
    fixed: dict[int, bytes]  # words that are always the same, by index
    # The indices of canonical ids, and of numbers.
    ids: tuple[int, ...]
    numbers: tuple[int, ...]
    columns: dict[str, int]  # the columns of the rows, with the indices of their words


# XACK has one row per id, and therefore its own code. Sorting takes about a third of the recorder's time on files of
# Rillet and of Redis 8.10. Without the form MOVE it takes 3 to 10 % longer for reads of ten entries, each of which ends
# in one; without ADD_MAXLEN it takes three times as long if streams have a MAXLEN.
FORMS: Final = {
    ADD: Form(3, False, {}, (2,), (), {"stream": 1, "entry_id": 2}),
    ADD_MAXLEN: Form(6, False, {3: b"="}, (5,), (4,), {"stream": 1, "entry_id": 5, "retry_count": 4}),
    CLAIM: Form(
        14, True, {6: b"TIME", 8: b"RETRYCOUNT", 12: b"LASTID"}, (5, 13), (7, 9),
        {"stream": 1, "group": 2, "consumer": 3, "entry_id": 5, "at_ms": 7, "retry_count": 9, "last_id": 13},
    ),
    MOVE: Form(
        7, True, {1: b"SETID", 5: b"ENTRIESREAD"}, (4,), (6,), {"stream": 2, "group": 3, "last_id": 4, "retry_count": 6}
    ),
}  # fmt: skip
Columns = dict[str, list[bytes]]


class Sorter:
    """Gathers the rows of commands in columns, by kind of command."""

    def __init__(self, recorder: Recorder) -> None:
        # Makes the other rows; it knows the database and whether a transaction is open.
        self.recorder = recorder
        self._kinds = _Kinds(recorder)
        self.empty()

    def empty(self) -> None:
        """Drop the gathered rows, which were taken; the recorder keeps its state."""
        # ``rows``: the number of gathered rows.
        # ``number``: the number of commands taken.
        self.rows = self.number = 0
        self.kinds: list[bytes] = []  # the kinds of these commands
        self.ordinals = array("q")  # the ordinals of these commands
        # Each clock and database, with the number of commands up to which it holds.
        self.states: list[tuple[int, int | None, int]] = []
        # The words of common commands, by kind and column; ids and numbers separated by commas.
        self.columns: dict[int, Columns] = {
            kind: {name: [] for name in form.columns} for kind, form in FORMS.items()
        }
        self.columns[ACK] = {"stream": [], "group": [], "entry_id": []}
        self.claims = bytearray()  # the event of each XCLAIM
        self.ack_ends = [0]  # the number of ids up to and including each XACK
        self.recorder.empty()

    def take(
        self, commands: Commands, ordinals: Sequence[int], clocks: Sequence[tuple[int, int | None]]
    ) -> None:
        """Gather the rows of commands, given in file order.

        Raises LedgerError: a command cannot be understood; the ledger would be wrong.

        Args:
            commands: their words.
            ordinals: one for each command.
            clocks: each time, with the number of commands up to which it holds.
        """
        if not commands:
            return
        try:
            kinds = bytes(map(self._kinds.__getitem__, map(_NAME, commands)))
        except (AttributeError, TypeError) as error:
            raise LedgerError("a record that has no name") from error
        adds = compress(commands, kinds.translate(_IS[ADD]))
        if not _MAXLEN.isdisjoint([words[2] for words in adds if len(words) > _LIMIT_WORDS]):
            kinds = bytes(
                ADD_MAXLEN if kind == ADD and len(words) > _LIMIT_WORDS and words[2] in _MAXLEN else kind
                for kind, words in zip(kinds, commands, strict=True)
            )
        for kind in FORMS:
            kinds = self._sort(commands, kinds, kind, self._take_form)
        kinds = self._sort(commands, kinds, ACK, self._take_acks)
        self._take_others(commands, kinds, ordinals, clocks)
        opened, closed = kinds.rfind(MULTI), kinds.rfind(EXEC)
        if opened != closed:
            self.recorder.in_transaction = opened > closed
        self.kinds.append(kinds)
        self.number += len(commands)
        self.ordinals.extend(ordinals)

    def _sort(
        self, commands: Commands, kinds: bytes, kind: int, take: Callable[[Commands, int], bool]
    ) -> bytes:
        """Take the commands of one kind that have its form; return the kinds, with "other" for the commands that do not."""
        if kind not in kinds:
            return kinds
        taken = _taken(list(compress(commands, kinds.translate(_IS[kind]))), kind, take)
        if all(taken):
            return kinds
        of_kind = iter(taken)
        return bytes(OTHER if each == kind and not next(of_kind) else each for each in kinds)

    def _take_form(self, commands: Commands, kind: int) -> bool:
        form, number = FORMS[kind], len(commands)
        try:
            words: list[Sequence[bytes]] = list(
                zip(*(commands if form.is_whole else [each[: form.number] for each in commands]), strict=True)
            )
            joined = {place: b",".join(words[place]) for place in (*form.ids, *form.numbers)}
        except (IndexError, TypeError, ValueError):
            return False
        if (
            len(words) != form.number
            or any(words[place].count(word) != number for place, word in form.fixed.items())
            or not all(starmap(_are_ids, {joined[place]: number for place in form.ids}.items()))
            or not all(_are_numbers(joined[place], number) for place in form.numbers)
        ):
            return False
        columns = self.columns[kind]
        for name, place in form.columns.items():
            columns[name] += [joined[place]] if place in joined else _same(words[place])
        if kind == CLAIM:
            self.claims += bytes(
                DELIVERED if count == b"1" and entry_id == last else claim_event(entry_id, last, count)
                for entry_id, last, count in zip(words[5], words[13], words[9], strict=True)
            )
        self.rows += number * (2 if kind == ADD_MAXLEN else 1)
        return True

    def _take_acks(self, commands: Commands, kind: int) -> bool:
        ids = [entry_id for command in commands for entry_id in command[_FIRST_ID:]]
        try:
            joined = b",".join(ids)
        except TypeError:
            return False
        if min(map(len, commands)) <= _FIRST_ID or not _are_ids(joined, len(ids)):
            return False
        columns, end = self.columns[kind], self.ack_ends[-1]
        columns["stream"] += [command[1] for command in commands]
        columns["group"] += [command[2] for command in commands]
        columns["entry_id"].append(joined)
        self.ack_ends += [end := end + len(command) - _FIRST_ID for command in commands]
        self.rows += len(ids)
        return True

    def _take_others(
        self,
        commands: Commands,
        kinds: bytes,
        ordinals: Sequence[int],
        clocks: Sequence[tuple[int, int | None]],
    ) -> None:
        recorder, done = self.recorder, self.number
        if OTHER not in kinds:
            self.states += [(done + end, clock, recorder.db) for end, clock in clocks if end]
            recorder.clock = clocks[-1][1]
            return
        rows = len(recorder.rows)
        begin = 0
        for end, clock in clocks:
            recorder.clock = clock
            place = kinds.find(OTHER, begin, end)
            while place >= 0:
                db = recorder.db
                recorder.take(commands[place], ordinals[place])
                if recorder.db != db:
                    self.states.append((done + place, clock, db))
                place = kinds.find(OTHER, place + 1, end)
            self.states.append((done + end, clock, recorder.db))
            begin = end
        self.rows += len(recorder.rows) - rows


class _Kinds(dict[Any, int]):
    """The kind of a command by its name as spelled in the file."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __missing__(self, name: bytes) -> int:
        upper = name.upper()
        kind = USUAL.get(upper, OTHER if self._recorder.knows(upper) else NOTHING)
        self[name] = kind
        return kind


def _taken(commands: Commands, kind: int, take: Callable[[Commands, int], bool]) -> list[bool]:
    """Take all commands that have the form, in order, by bisection; return a mask of them."""
    if take(commands, kind):
        return [True] * len(commands)
    if len(commands) == 1:
        return [False]
    middle = len(commands) // 2
    return _taken(commands[:middle], kind, take) + _taken(commands[middle:], kind, take)


def _are_ids(joined: bytes, number: int) -> bool:
    """Return True if comma-separated words are ids in canonical form; False for some rare ones that are."""
    within = b",%b," % joined
    return (
        joined.translate(None, _DIGITS) == b"-," * (number - 1) + b"-"
        and b",-" not in within
        and b"-," not in within
        and b",0" not in within
        and not any(odd.search(within) for odd in _ODD_HALVES)
    )


def _are_numbers(joined: bytes, number: int) -> bool:
    """Return True if comma-separated words have only digits; a word may be empty."""
    return joined.translate(None, _DIGITS) == b"," * (number - 1)


def _same(words: Sequence[bytes]) -> Sequence[bytes]:
    """Replace equal words by one object: most names in a block are equal, so this saves memory."""
    first = words[0]
    return [first] * len(words) if words.count(first) == len(words) else words
