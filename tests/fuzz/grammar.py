"""Command lines as random runs have them (differential/anything.py), of any commands; none waits for long."""

from collections.abc import Iterable
from random import Random

from differential import anything
from differential.about_servers import filled

from rillet.commands.spec.command import REGISTRY, Argument, Command

# Values of every type, so that a session has something to work on.
PREPARE = [[word.encode() for word in words] for words in anything.BEGINNING]


class Maker(anything.Maker):
    """Makes command lines from one source of chance.

    Args:
        chance: all that is random comes from it.
        commands: what to choose from.
        oddness: the share of words that are not what is asked for.
    """

    def __init__(self, chance: Random, commands: Iterable[str], *, oddness: float = 0.07) -> None:
        super().__init__(chance.getrandbits(32))
        self.commands = [REGISTRY[name] for name in commands]
        self.hostile = self._oddness = oddness

    def line(self) -> list[bytes]:
        """One command line."""
        record = self.random.choice(self.commands)
        self.spoilt = 0.0 if _may_wait(record) else self._oddness
        return [filled(word, {}) for word in self.of(record)]

    def _value(self, argument: Argument, record: Command) -> str:
        if _may_wait(record) and argument.name in {"timeout", "milliseconds"}:
            shortest = "0.001" if argument.type == "double" else "1"
            return self.random.choice([shortest, shortest, "-1", "x"])
        return super()._value(argument, record)


def _may_wait(record: Command) -> bool:
    return "blocking" in record.flags or record.name in {"wait", "waitaof"}
