"""Every case of `scripts/`, byte by byte: Rillet against redis-server 7.0.15 and Valkey 9.1.2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from differential.excused import EFFECTS, EXCUSES, NOT_AS_VALKEY
from differential.judge import (
    CASES,
    judge_as_7_0,
    judge_as_7_2,
    judge_real_servers,
    judge_rillet,
    side_by_side,
)
from support.script import Answer, Case, play_case

if TYPE_CHECKING:
    from collections.abc import Callable

    from _pytest.mark.structures import ParameterSet
    from support.servers import ServerProcess

REAL = ("redis7", "valkey")


def runs(later: bool) -> list[ParameterSet]:
    """Each case in each protocol; those Rillet does not serve yet must fail for it, until the tag goes."""
    not_yet = pytest.mark.xfail(reason="[later]: not served by this version of Rillet")
    return [
        pytest.param(
            case,
            protocol,
            id=f"{case.file}-{case.title}-resp{protocol}",
            marks=[not_yet] if later and case.later else [],
        )
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


def describe(case: Case, wrong: list[tuple[Answer, list[str]]]) -> str:
    lines = [f"{case.file}.script, {case.title!r}:"]
    for answer, notes in wrong:
        lines += [f"  line {answer.step.line}: {answer.step.text}", *(f"      {note}" for note in notes)]
    return "\n".join(lines)


@pytest.mark.parametrize(("case", "protocol"), runs(later=False))
def test_the_real_servers_differ_only_where_excused(case, protocol, answers):
    wrong = []
    redis7, valkey = (answers(kind, case, protocol) for kind in REAL)
    for pair in side_by_side(redis7, valkey):
        notes = judge_real_servers(*pair, protocol)
        if notes:
            wrong.append((pair[0], notes))
    if wrong:
        pytest.fail(describe(case, wrong), pytrace=False)


@pytest.mark.parametrize(("case", "protocol"), runs(later=True))
def test_rillet_answers_byte_for_byte(case, protocol, answers):
    wrong = []
    rillet, redis7, valkey = (answers(kind, case, protocol) for kind in ("rillet-8.0", *REAL))
    for mine, *real in side_by_side(rillet, redis7, valkey):
        notes = judge_rillet(mine, *real, protocol)
        if notes:
            wrong.append((mine, notes))
    if wrong:
        pytest.fail(describe(case, wrong), pytrace=False)


@pytest.mark.parametrize(("case", "protocol"), runs(later=True))
def test_rillet_as_7_0_answers_as_redis_7_0(case, protocol, answers):
    wrong = []
    for mine, real in side_by_side(*(answers(kind, case, protocol) for kind in ("rillet-7.0", "redis7"))):
        notes = judge_as_7_0(mine, real)
        if notes:
            wrong.append((mine, notes))
    if wrong:
        pytest.fail(describe(case, wrong), pytrace=False)


@pytest.mark.parametrize(("case", "protocol"), runs(later=True))
def test_rillet_as_7_2_answers_as_valkey_but_for_its_own_mind(case, protocol, answers):
    wrong = []
    for mine, *real in side_by_side(*(answers(kind, case, protocol) for kind in ("rillet-7.2", *REAL))):
        notes = judge_as_7_2(mine, *real, protocol)
        if notes:
            wrong.append((mine, notes))
    if wrong:
        pytest.fail(describe(case, wrong), pytrace=False)


def test_every_excuse_is_used():
    assert set(NOT_AS_VALKEY) <= set(EXCUSES)
    used = {step.excuse for case in CASES for step in case.steps if step.excuse}
    assert used == set(EXCUSES)
    assert {step.effects for case in CASES for step in case.steps if step.effects} == set(EFFECTS)


def test_the_scripts_hold_at_least_600_stream_commands():
    words = [step.rest.split()[0].upper() for case in CASES for step in case.steps if step.rest]
    assert sum(word.startswith("X") for word in words) >= 600
