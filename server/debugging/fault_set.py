"""The active faults, and the choice of the fault that hits a command.

Faults are tried in the order in which they were added. The first that hits a command takes it, and later ones do not count
it. Inside MULTI, an error fault refuses a command when it is queued, as Redis does. Every other fault hits EXEC as a whole
if one of its commands fits, because they run then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING

from ...commands.spec.command import REGISTRY
from .fault import Fault, Hit, Sender, Sent

if TYPE_CHECKING:
    from .fault_spec import FaultSpec


@dataclass(slots=True)
class Decision:
    """The decision of the active faults about one command: which fault hits it, and which have counted it."""

    fault: Fault | None = None  # the fault that hits it, or None
    # The ID of the last fault that has decided; a later decision about this command skips faults up to it.
    until: int = 0
    _counted: list[tuple[Fault, Hit | None]] = field(default_factory=list)

    def count(self, fault: Fault, hit: Hit | None) -> None:
        """Remember that a fault has counted the command, and the hit if it did hit, for ``take_back``."""
        self._counted.append((fault, hit))

    def take_back(self) -> None:
        """Uncount the command for all faults, because it blocks; they decide again when its reply is due."""
        for fault, hit in reversed(self._counted):
            fault.take_back(hit)
        self._counted.clear()

    def pass_empty(self) -> None:
        """Uncount a command whose wait ended empty (BLOCK timed out), for faults that skip such waits."""
        for fault, hit in reversed(self._counted):
            if hit is None and fault.spec.passes_empty:
                fault.take_back(None)


class FaultSet:
    """The active faults, in the order in which they were added."""

    def __init__(self, first_id: int) -> None:
        self.active: dict[int, Fault] = {}  # the active faults by ID
        # The faults for commands, by the command name that they match; None: any command.
        self._of_commands: dict[str | None, list[Fault]] = {}
        self._ids = count(first_id)

    def add(self, spec: FaultSpec) -> int:
        """Add a fault to the set, so that it hits commands from now on; return its ID."""
        number = next(self._ids)
        fault = self.active[number] = Fault(number, spec)
        if spec.is_of_commands:
            self._of_commands.setdefault(spec.command, []).append(fault)
        return number

    def knows(self, command: str) -> bool:
        """Return True if there is a command of this name, or a subcommand (``xgroup|create``)."""
        return command in REGISTRY

    def end(self, number: int) -> Fault:
        """Deactivate a fault and return it. Raises KeyError: no active fault has this ID."""
        fault = self.active.pop(number)
        if fault.spec.is_of_commands:
            same = self._of_commands[fault.spec.command]
            same.remove(fault)
            if not same:
                del self._of_commands[fault.spec.command]
        return fault

    def remove(self, number: int) -> None:
        """Deactivate a fault, and end its effects on running commands. Raises KeyError: no active fault has this ID."""
        self.end(number)

    def decide(
        self,
        now: int,
        sender: Sender,
        sent: Sequence[Sent],
        *,
        is_queued: bool = False,
        is_empty: bool = False,
        before: Decision | None = None,
        only: Callable[[FaultSpec], bool] | None = None,
    ) -> Decision:
        """Let the faults decide about a command, oldest first, until one hits it; return the decision.

        Args:
            now: the time of the hit, in milliseconds.
            sent: the command; for EXEC, followed by the commands of its transaction.
            is_queued: the command will be queued for EXEC.
            is_empty: the command was blocked, and its wait ends empty.
            before: an earlier decision about the same command; faults that took part in it do not decide again.
            only: selects the faults that decide; None: all.
        """
        decision = before or Decision()
        last = next(reversed(self.active), decision.until)
        for fault in self._looking_for(sent):
            spec = fault.spec
            is_error = spec.error is not None
            if only is not None and not only(spec):
                continue
            if fault.id <= decision.until or (is_queued and not is_error) or (is_empty and spec.passes_empty):
                continue
            for each in sent[:1] if is_error else sent:
                fitted = fault.fitted
                is_hit = fault.takes(now, sender, each)
                if fault.fitted > fitted:
                    decision.count(fault, fault.hits[-1] if is_hit else None)
                if is_hit:
                    decision.fault, decision.until = fault, last
                    return decision
        decision.until = last
        return decision

    def refuses_connection(self, now: int, client_id: int) -> bool:
        """Return True if a fault (CONNECTIONS refuse) hits a new connection, which must then be closed."""
        hit = Hit(now, client_id, b"", b"CONNECT", b"")
        return any(fault.counts(hit) for fault in self.active.values() if fault.spec.connections)

    def _looking_for(self, sent: Sequence[Sent]) -> list[Fault]:
        """Return the faults that may hit one of the commands, in the order in which they were added."""
        names = {None, *(name for each in sent for name in each.names)}
        found = [fault for name in names for fault in self._of_commands.get(name, ())]
        found.sort(key=attrgetter("id"))
        return found
