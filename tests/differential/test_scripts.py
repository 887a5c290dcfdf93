"""Every case of `scripts/`, byte by byte: Rillet against redis-server 7.0.15 and Valkey 9.1.2."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from differential.excused import EFFECTS, EXCUSES
from support.script import NO_REPLY, Answer, Case, parse_script, play_case

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.servers import ServerProcess

REAL = ("redis7", "valkey")
FOLDER = Path(__file__).parent / "scripts"
CASES = [case for path in sorted(FOLDER.glob("*.script")) for case in parse_script(path)]
RUNS = [
    pytest.param(case, protocol, id=f"{case.file}-{case.title}-resp{protocol}")
    for case in CASES
    for protocol in case.protocols
]


@pytest.fixture(scope="session")
def answers(running: Callable[[str], ServerProcess]) -> Callable[[str, Case, int], list[Answer]]:
    """What a server answers to a case; asked once, as two tests want to know."""
    known: dict[tuple[str, str, int], list[Answer]] = {}

    def get(kind: str, case: Case, protocol: int) -> list[Answer]:
        key = (kind, case.name, protocol)
        if key not in known:
            known[key] = play_case(running(kind).port, protocol, case)
        return known[key]

    return get


def side_by_side(*answers: list[Answer]) -> zip[tuple[Answer, ...]]:
    """The answers step by step, up to a reply that never came (which fails the comparison by itself)."""
    complete = not any(answer.reply == NO_REPLY for run in answers for answer in run)
    return zip(*answers, strict=complete)


def describe(case: Case, wrong: list[tuple[Answer, list[str]]]) -> str:
    lines = [f"{case.file}.script, {case.title!r}:"]
    for answer, notes in wrong:
        lines += [f"  line {answer.step.line}: {answer.step.text}", *(f"      {note}" for note in notes)]
    return "\n".join(lines)


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


@pytest.mark.parametrize(("case", "protocol"), RUNS)
def test_the_real_servers_differ_only_where_excused(case, protocol, answers):
    wrong = []
    redis7, valkey = (answers(kind, case, protocol) for kind in REAL)
    for pair in side_by_side(redis7, valkey):
        notes = judge_real_servers(*pair, protocol)
        if notes:
            wrong.append((pair[0], notes))
    if wrong:
        pytest.fail(describe(case, wrong), pytrace=False)


@pytest.mark.parametrize(("case", "protocol"), RUNS)
def test_rillet_answers_byte_for_byte(case, protocol, answers):
    wrong = []
    rillet, redis7, valkey = (answers(kind, case, protocol) for kind in ("rillet", *REAL))
    for mine, *real in side_by_side(rillet, redis7, valkey):
        notes = judge_rillet(mine, *real, protocol)
        if notes:
            wrong.append((mine, notes))
    if wrong:
        pytest.fail(describe(case, wrong), pytrace=False)


def test_every_excuse_is_used():
    used = {step.excuse for case in CASES for step in case.steps if step.excuse}
    assert used == set(EXCUSES)
    assert {step.effects for case in CASES for step in case.steps if step.effects} == set(EFFECTS)


def test_the_scripts_hold_at_least_600_stream_commands():
    words = [step.rest.split()[0].upper() for case in CASES for step in case.steps if step.rest]
    assert sum(word.startswith("X") for word in words) >= 600
