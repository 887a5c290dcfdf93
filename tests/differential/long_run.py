"""`python tests/differential/long_run.py --commands 1000000`: random commands for long, and a summary at the end.

Each Rillet plays runs of new seeds beside its judges until it has had its share of the commands: all of them as the
newest version, a fifth as each older one. A difference is shrunk and printed, and the run goes on. `--seed` begins with
another seed; `--as rillet-7.0` plays as that version alone, with all commands. `--crossed` plays stories that cross
features (crossing.py) instead. `--replay FILE` plays again what was printed of a difference.
"""

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from differential.anything import Maker, Run
from differential.crossed import Crossed
from differential.crossing import THEMES, Story
from differential.pairs import JUDGES, NEWEST, VERSIONS
from differential.player import Comparison, Difference, describe, read_story
from support.wire import ConnectionClosedError

# Longer runs than in the tests: more meets more.
SIZE = 120
REPORTED = 100 * SIZE  # commands behind which a line says how far a run is
# Stories have one judge.
CROSSED = [mine for mine, judges in JUDGES.items() if len(judges) == 1]


@dataclass
class Outcome:
    """What the runs of one pair came to.

    Attributes:
        differing: seeds whose runs differ.
        passing: seeds whose runs differed once and not again: they depend on time, and have a cause as well.
        ended: seeds whose runs ended a server.
        silent: seeds in whose runs a server sent no reply for long.
        followed: by command and real server, how often Rillet followed it where the real servers differ.
        themes: by name, how many commands of stories that have it.
    """

    mine: str
    commands: int = 0
    seconds: float = 0.0
    differing: list[int] = field(default_factory=list)
    passing: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    silent: list[int] = field(default_factory=list)
    followed: Counter[tuple[str, str]] = field(default_factory=Counter)
    themes: Counter[str] = field(default_factory=Counter)

    @property
    def is_clean(self) -> bool:
        """Whether nothing differed and every server answered to the end."""
        return not (self.differing or self.passing or self.ended or self.silent)

    def __str__(self) -> str:
        judges, count = " and ".join(JUDGES[self.mine]), len(self.differing) + len(self.passing)
        lines = [
            f"{self.mine} beside {judges}: {self.commands:,} commands in {self.seconds:.0f} s, {count} differences"
        ]
        if self.differing:
            lines.append(f"  seeds: {' '.join(map(str, self.differing))}")
        if self.passing:
            lines.append(f"  differed once and not again: {' '.join(map(str, self.passing))}")
        if self.ended:
            lines.append(f"  ended a server: {' '.join(map(str, self.ended))}")
        if self.silent:
            lines.append(f"  no reply from a server: {' '.join(map(str, self.silent))}")
        lines += [
            f"  {command} as {kind}: {count}" for (command, kind), count in sorted(self.followed.items())
        ]
        lines += [f"  {theme}: {count:,} commands" for theme, count in sorted(self.themes.items())]
        return "\n".join(lines)


def play(
    mine: str, commands: int, seed: int, *, crossed: bool = False, themes: list[str] | None = None
) -> Outcome:
    """Play at least as many random commands, from a seed on; in stories that cross features, or these themes."""
    outcome, began = Outcome(mine), time.monotonic()
    compared = Crossed if crossed else Comparison
    comparison = compared(mine, *JUDGES[mine])
    try:
        while outcome.commands < commands:
            if crossed:
                story = Story(seed, VERSIONS[mine], themes)
                run = story.run(SIZE)
                outcome.themes.update(dict.fromkeys(story.themes, SIZE))
            else:
                run = Maker(seed, VERSIONS[mine], newer_options=len(JUDGES[mine]) == 1).run(SIZE)
            try:
                found = comparison.first_difference(run)
                if found is not None:
                    look_closer(outcome, seed, run, found, comparison)
            except (ConnectionClosedError, OSError) as error:  # also a timeout: no reply
                outcome.ended.append(seed)
                ended = " and ".join(comparison.ended()) or f"no server: {error}"
                print(f"--- {mine}, seed {seed}, ended {ended}", flush=True)
                comparison.close()
                comparison = compared(mine, *JUDGES[mine])
            outcome.followed += comparison.followed
            comparison.followed.clear()
            outcome.commands += SIZE
            seed += 1
            if outcome.commands % REPORTED == 0:
                print(f"... {mine}: {outcome.commands:,} commands, seed {seed}", flush=True)
    finally:
        comparison.close()
    outcome.seconds = time.monotonic() - began
    return outcome


def look_closer(outcome: Outcome, seed: int, run: Run, found: Difference, comparison: Comparison) -> None:
    """Play a run that differs again, and print the difference: shrunk, if it comes again."""
    again = comparison.first_difference(run)
    if again is None:
        outcome.passing.append(seed)
        print(f"--- {outcome.mine}, seed {seed}, not again\n{found}", flush=True)
    else:
        outcome.differing.append(seed)
        print(f"--- {outcome.mine}, seed {seed}\n{describe(*comparison.shrink(run, again))}", flush=True)


def replay(file: Path, mine: str) -> int:
    """Play a story as `describe` printed it; returns 1 if it still differs."""
    with Crossed(mine, *JUDGES[mine]) as comparison:
        found = comparison.first_difference(read_story(file.read_text()))
    print(found or "nothing differs")
    return 1 if found else 0


def main(arguments: list[str] | None = None) -> int:
    """Play, sum up, and return 1 if anything differs."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--commands", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--as", dest="chosen", choices=JUDGES, action="append")
    options.add_argument(
        "--crossed", action="store_true", help="stories that cross features, not single commands"
    )
    options.add_argument(
        "--theme", dest="themes", choices=THEMES, action="append", help="of the stories; all by turns"
    )
    options.add_argument("--replay", type=Path, metavar="FILE", help="a story as it was printed")
    given = options.parse_args(arguments)
    if given.replay is not None:
        return replay(given.replay, *(given.chosen or [NEWEST]))
    outcomes = [
        play(
            mine,
            given.commands if mine == NEWEST or given.chosen else given.commands // 5,
            given.seed,
            crossed=given.crossed,
            themes=given.themes,
        )
        for mine in given.chosen or (CROSSED if given.crossed else JUDGES)
    ]
    print("", *outcomes, sep="\n")
    return 1 if any(not outcome.is_clean for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
