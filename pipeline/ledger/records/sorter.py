"""Sort the commands of a file by what they are.

Such files mostly consist of a few commands in the one form in which servers write them; those are kept as columns,
many at a time. All others, and these in any other form, go to a ``Recorder`` one by one, which gives the same rows.
"""

from __future__ import annotations

from array import array
from itertools import chain, compress
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from ..errors import LedgerError
from .column_builders import DictionaryColumn, JoinedColumn, are_ids, are_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .recorder import Recorder

    Commands = list[list[bytes]]

NOTHING, OTHER, ADD, CLAIM, ACK, MOVE, MULTI, EXEC, ADD_MAXLEN, ADD_MINID = range(10)

# By their names, whatever their case.
USUAL: Final = {
    b"XADD": ADD, b"XCLAIM": CLAIM, b"XACK": ACK, b"XGROUP": MOVE, b"MULTI": MULTI, b"EXEC": EXEC,
}  # fmt: skip

_IS: Final = [bytes(each == kind for each in range(256)) for kind in range(10)]
_NAME: Final = itemgetter(0)
_KEY: Final = itemgetter(1)
_SECOND: Final = itemgetter(2)
_CLAIM_WORDS: Final = 14
_MOVE_WORDS: Final = 7
_EQUAL: Final = itemgetter(3)
_THRESHOLD: Final = itemgetter(4)
_ID_BEHIND_LIMIT: Final = itemgetter(5)
_LIMITED: Final = {b"MAXLEN": ADD_MAXLEN, b"maxlen": ADD_MAXLEN, b"MINID": ADD_MINID, b"minid": ADD_MINID}


class Sorter:
    """Takes commands in the order of the file.

    Attributes:
        recorder: makes the other rows; it knows the database and whether a transaction is open.
        rows: how many rows were gathered.
        number: how many commands were taken.
        kinds: of these commands.
        ordinals: of these commands.
        states: up to how many commands which clock and which database held.
        claims, moves, adds, acks: columns.
        maxlens, minids: columns of XADDs with such a limit.
        ack_ends: how many ids there are, up to and with each XACK.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._kinds = _Kinds(recorder)
        self.empty()

    def empty(self) -> None:
        """Drop what was gathered; keep the state."""
        self.rows = self.number = 0
        self.kinds: list[bytes] = []
        self.ordinals = array("q")
        self.states: list[tuple[int, int | None, int]] = []
        self.claims = Columns()
        self.moves = Columns()
        self.adds = Columns()
        self.acks = Columns()
        self.maxlens = Columns()
        self.minids = Columns()
        self.ack_ends = [0]
        self.recorder.empty()

    def take(
        self, commands: Commands, ordinals: Sequence[int], clocks: Sequence[tuple[int, int | None]]
    ) -> None:
        """Take commands in the order of the file.

        Args:
            commands: as they stand there.
            ordinals: of each.
            clocks: up to how many of them which time held.

        Raises:
            LedgerError: one can not be understood; what the ledger said would be wrong.
        """
        if not commands:
            return
        try:
            kinds = bytes(map(self._kinds.__getitem__, map(_NAME, commands)))
        except (AttributeError, TypeError) as error:
            raise LedgerError("a record that has no name") from error
        kinds = self._sort_adds(commands, kinds)
        kinds = self._sort(commands, kinds, CLAIM, self._take_claims)
        kinds = self._sort(commands, kinds, ACK, self._take_acks)
        kinds = self._sort(commands, kinds, MOVE, self._take_moves)
        self._take_others(commands, kinds, ordinals, clocks)
        opened, closed = kinds.rfind(MULTI), kinds.rfind(EXEC)
        if opened != closed:
            self.recorder.in_transaction = opened > closed
        self.kinds.append(kinds)
        self.number += len(commands)
        self.ordinals.extend(ordinals)

    def _sort(self, commands: Commands, kinds: bytes, kind: int, take: Callable[[Commands], bool]) -> bytes:
        """Take the commands of one kind that are usual; return the kinds, where those that are not are others."""
        if kind not in kinds:
            return kinds
        taken = _taken(list(compress(commands, kinds.translate(_IS[kind]))), take)
        if all(taken):
            return kinds
        of_kind = iter(taken)
        return bytes(OTHER if each == kind and not next(of_kind) else each for each in kinds)

    def _sort_adds(self, commands: Commands, kinds: bytes) -> bytes:
        """As ``_sort``, for XADDs; those with a limit are kinds of their own."""
        if ADD not in kinds:
            return kinds
        adds = list(compress(commands, kinds.translate(_IS[ADD])))
        if self._take_adds(adds):
            return kinds
        try:
            limited = bytes(_LIMITED.get(words[2], ADD) if len(words) > 5 else ADD for words in adds)
        except TypeError:  # no word
            limited = bytes([ADD]) * len(adds)
        if limited.count(limited[0]) == len(limited):
            kinds = kinds.replace(bytes([ADD]), limited[:1])
        else:
            of_adds = iter(limited)
            kinds = bytes(next(of_adds) if each == ADD else each for each in kinds)
        kinds = self._sort(commands, kinds, ADD, self._take_adds)
        kinds = self._sort(commands, kinds, ADD_MAXLEN, self._take_maxlens)
        return self._sort(commands, kinds, ADD_MINID, self._take_minids)

    def _take_maxlens(self, commands: Commands) -> bool:
        return self._take_limited(commands, self.maxlens, self.maxlens.numbers, are_numbers)

    def _take_minids(self, commands: Commands) -> bool:
        return self._take_limited(commands, self.minids, self.minids.lasts, are_ids)

    def _take_limited(
        self, commands: Commands, found: Columns, limits: JoinedColumn, are: Callable[[bytes, int], bool]
    ) -> bool:
        number = len(commands)
        try:
            thresholds = b",".join(map(_THRESHOLD, commands))
            ids = b",".join(map(_ID_BEHIND_LIMIT, commands))
            is_usual = set(map(_EQUAL, commands)) == {b"="}
        except (IndexError, TypeError):
            return False
        if not (is_usual and are(thresholds, number) and are_ids(ids, number)):
            return False
        found.streams.add(list(map(_KEY, commands)))
        found.ids.add(ids, number)
        limits.add(thresholds, number)
        self.rows += 2 * number
        return True

    def _take_adds(self, commands: Commands) -> bool:
        number = len(commands)
        try:
            ids = b",".join(map(_SECOND, commands))
        except (IndexError, TypeError):
            return False
        if not are_ids(ids, number):
            return False
        self.adds.streams.add(list(map(_KEY, commands)))
        self.adds.ids.add(ids, number)
        self.rows += number
        return True

    def _take_claims(self, commands: Commands) -> bool:
        number = len(commands)
        try:
            words = list(zip(*commands, strict=True))
            if len(words) != _CLAIM_WORDS:
                return False
            ids, times, lasts = b",".join(words[5]), b",".join(words[7]), b",".join(words[13])
        except (ValueError, TypeError):
            return False
        if not (
            words[6].count(b"TIME") == words[8].count(b"RETRYCOUNT") == words[12].count(b"LASTID") == number
            and are_ids(ids, number)
            and are_numbers(times, number)
            and (ids == lasts or are_ids(lasts, number))
        ):
            return False
        found = self.claims
        found.streams.add(words[1])
        found.groups.add(words[2])
        found.consumers.add(words[3])
        found.ids.add(ids, number)
        found.times.add(times, number)
        found.counts.add(words[9])
        found.lasts.add(lasts, number)
        self.rows += number
        return True

    def _take_acks(self, commands: Commands) -> bool:
        lengths = list(map(len, commands))
        if min(lengths) < 4:
            return False
        number = sum(lengths) - 3 * len(lengths)
        try:
            ids = b",".join(chain.from_iterable([command[3:] for command in commands]))
        except TypeError:
            return False
        if not are_ids(ids, number):
            return False
        found = self.acks
        found.streams.add(list(map(_KEY, commands)))
        found.groups.add(list(map(_SECOND, commands)))
        found.ids.add(ids, number)
        end = self.ack_ends[-1]
        self.ack_ends += [end := end + length - 3 for length in lengths]
        self.rows += number
        return True

    def _take_moves(self, commands: Commands) -> bool:
        number = len(commands)
        try:
            words = list(zip(*commands, strict=True))
            if len(words) != _MOVE_WORDS:
                return False
            lasts, counts = b",".join(words[4]), b",".join(words[6])
        except (ValueError, TypeError):
            return False
        if not (
            words[1].count(b"SETID") == words[5].count(b"ENTRIESREAD") == number
            and are_ids(lasts, number)
            and are_numbers(counts, number)
        ):
            return False
        found = self.moves
        found.streams.add(words[2])
        found.groups.add(words[3])
        found.lasts.add(lasts, number)
        found.numbers.add(counts, number)
        self.rows += number
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


class Columns:
    """The columns of one kind of command, as far as that kind has them."""

    def __init__(self) -> None:
        self.streams = DictionaryColumn()
        self.groups = DictionaryColumn()
        self.consumers = DictionaryColumn()
        self.counts = DictionaryColumn()
        self.ids = JoinedColumn()
        self.lasts = JoinedColumn()
        self.times = JoinedColumn()
        self.numbers = JoinedColumn()


class _Kinds(dict[Any, int]):
    """What a command is, by its name as it is spelled in the file."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __missing__(self, name: bytes) -> int:
        upper = name.upper()
        kind = USUAL.get(upper, OTHER if self._recorder.knows(upper) else NOTHING)
        self[name] = kind
        return kind


def _taken(commands: Commands, take: Callable[[Commands], bool]) -> list[bool]:
    """Take all that are usual, in their order: halves where not all of them are; return which they were."""
    if take(commands):
        return [True] * len(commands)
    if len(commands) == 1:
        return [False]
    middle = len(commands) // 2
    return _taken(commands[:middle], take) + _taken(commands[middle:], take)
