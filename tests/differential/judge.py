"""The cases of `scripts/`, and the verdict over what servers answered to one of their lines."""

from __future__ import annotations

from pathlib import Path

from differential.excused import EXCUSES
from support.script import NO_REPLY, Answer, parse_script

FOLDER = Path(__file__).parent / "scripts"
CASES = [case for path in sorted(FOLDER.glob("*.script")) for case in parse_script(path)]


def side_by_side(*answers: list[Answer]) -> zip[tuple[Answer, ...]]:
    """The answers step by step, up to a reply that never came (which fails the comparison by itself)."""
    complete = not any(answer.reply == NO_REPLY for run in answers for answer in run)
    return zip(*answers, strict=complete)


def excuse_of(answer: Answer, protocol: int) -> str | None:
    """The excuse a line claims, where it counts in this protocol."""
    name = answer.step.excuse
    return name if name is not None and protocol in EXCUSES[name].protocols else None


def judge_real_servers(redis7: Answer, valkey: Answer, protocol: int) -> list[str]:
    """What is wrong between the two real servers at one step."""
    both = [f"redis7 {redis7}", f"valkey {valkey}"]
    name = excuse_of(redis7, protocol)
    if name is None:
        return ["the real servers differ and no excuse says why", *both] if redis7.raw != valkey.raw else []
    excuse = EXCUSES[name]
    wrong = [
        f"{kind} does not say what the excuse {name!r} states: {excuse.says[kind]}"
        for kind, answer in (("redis7", redis7), ("valkey", valkey))
        if kind in excuse.says and excuse.says[kind] != str(answer)
    ]
    if redis7.raw == valkey.raw and excuse.right != "8.0" and not redis7.step.instead:
        wrong.append(f"nothing to excuse: the real servers agree, remove {name!r} from the line")
    return [*wrong, *both] if wrong else []


def judge_rillet(rillet: Answer, redis7: Answer, valkey: Answer, protocol: int) -> list[str]:
    """What is wrong with Rillet's answer at one step."""
    name = excuse_of(rillet, protocol)
    right = "redis7" if name is None else EXCUSES[name].right
    if right == "8.0":
        assert name is not None
        says = EXCUSES[name].says
        expected = says.get(f"8.0 resp{protocol}", says["8.0"])
        agree = str(rillet) == expected
    else:
        answer = (valkey if right == "valkey" else redis7).as_in_redis_8(protocol)
        expected = str(answer)
        agree = rillet.raw == answer.raw
    return [] if agree else [f"expected {expected}", f"rillet   {rillet}"]
