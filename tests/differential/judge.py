"""The cases of `scripts/`, and the verdict over what servers answered to one of their lines."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from differential.on_purpose import NOT_AS_BETWEEN, NOT_AS_VALKEY, ON_PURPOSE
from support.masks import change_at
from support.script import NO_REPLY, Answer, Case, change_text, parse_script

from rillet.commands.spec.versions import VERSIONS

FOLDER = Path(__file__).parent / "scripts"
CASES = [case for path in sorted(FOLDER.glob("*.script")) for case in parse_script(path)]
# Cases of commands that 7.2 does not know: Rillet as 7.2 has no judge for them, as Valkey took some over.
NEWER = [case for path in sorted((FOLDER / "newer").glob("*.script")) for case in parse_script(path)]
# Cases of what Redis 7.0 did otherwise and Rillet as 7.0 does not: beside the newest Redis only.
NEWEST_ONLY = [case for path in sorted((FOLDER / "newest").glob("*.script")) for case in parse_script(path)]
# On servers that allow DEBUG: expired keys stay until somebody meets them.
WITH_DEBUG = [
    case for path in sorted((FOLDER / "with_debug").glob("*.script")) for case in parse_script(path)
]
# By the name of a file, which may be there in both folders.
FILES: dict[str, list[Case]] = {}
for _case in CASES + NEWER:
    FILES.setdefault(_case.file, []).append(_case)


ENDS_EARLY = "the real server never answers here: no later line of this case is compared"


def side_by_side(*answers: list[Answer]) -> Iterable[tuple[Answer, ...]]:
    """The answers step by step, up to a reply that never came."""
    complete = not any(answer.reply == NO_REPLY for run in answers for answer in run)
    return zip(*answers, strict=complete)


def judge(mine: Answer, real: Answer, *, newest: bool, may_differ: bool = False) -> list[str]:
    """What is wrong between Rillet that says it is a version and the real server of that version.

    A line that differs on purpose must differ, where Rillet is the newest version: what has become equal is
    no purpose any more. Beside a server between 7.0 and the newest (``may_differ``) it may. A line that waits for what the
    newest real server never sends is wrong: it hides the rest of its case. An older one may lack the command.
    """
    if newest and real.reply == NO_REPLY:
        return [ENDS_EARLY]
    both = [f"real   {real}", f"rillet {mine}"]
    purpose, between = mine.step.purpose, mine.step.between
    assert between is None or between in NOT_AS_BETWEEN, f"{between!r} is not in on_purpose.py"
    if purpose is not None and newest:
        assert purpose in ON_PURPOSE, f"{purpose!r} is no anchor of docs/differences.md"
        return [f"nothing differs: remove purpose:{purpose} from the line"] if mine.raw == real.raw else []
    excused = may_differ and (purpose is not None or between is not None)
    return [] if mine.raw == real.raw or excused else both


def judge_as_7_2(mine: Answer, redis7: Answer, valkey: Answer, protocol: int) -> list[str]:
    """What is wrong with Rillet that answers as 7.2: Valkey is right, except where it has its own mind."""
    name = mine.step.valkey
    expected, who = valkey, "valkey"
    if name is not None:
        assert name in NOT_AS_VALKEY, f"{name!r} is not in on_purpose.py"
        expected, who = redis7, "redis7"
        if name == "hello":
            version = change_text(f'$"{VERSIONS["7.2"]}"', protocol)
            expected = replace(redis7, reply=change_at(redis7.reply, "version", version))
    if expected.reply == NO_REPLY:
        return [ENDS_EARLY]
    return [] if mine.raw == expected.raw else [f"{who} {expected}", f"rillet {mine}"]
