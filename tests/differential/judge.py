"""The cases of `scripts/`, and the verdict over what servers answered to one of their lines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from differential.excused import EXCUSES, NOT_AS_VALKEY
from support.masks import change_at
from support.script import NO_REPLY, Answer, change_text, parse_script

from rillet.commands.spec.versions import VERSIONS

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


def judge_as_7_0(rillet: Answer, redis7: Answer) -> list[str]:
    """What is wrong with Rillet that answers as 7.0: anything that redis-server 7.0 does not say."""
    return [] if rillet.raw == redis7.raw else [f"redis7 {redis7}", f"rillet {rillet}"]


def judge_as_7_2(rillet: Answer, redis7: Answer, valkey: Answer, protocol: int) -> list[str]:
    """What is wrong with Rillet that answers as 7.2: Valkey is right, except where it has its own mind."""
    name = excuse_of(rillet, protocol)
    expected, who = valkey, "valkey"
    if name in NOT_AS_VALKEY:
        expected, who = redis7, "redis7"
        if name == "hello":
            version = change_text(f'$"{VERSIONS["7.2"]}"', protocol)
            expected = replace(redis7, reply=change_at(redis7.reply, "version", version))
    return [] if rillet.raw == expected.raw else [f"{who} {expected}", f"rillet {rillet}"]
