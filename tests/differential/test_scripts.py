"""Every case of `scripts/`, byte by byte: Rillet as each version against the real server of that version."""

import re
from collections.abc import Callable

import pytest
from _pytest.mark.structures import ParameterSet
from differential.judge import CASES, NEWER, NEWEST_ONLY, judge, judge_as_7_2, side_by_side
from differential.on_purpose import NOT_AS_BETWEEN, NOT_AS_VALKEY, ON_PURPOSE, PAGE
from differential.pairs import NEWEST, PAIRS
from support.script import Answer, Case, play_case
from support.servers import BETWEEN, ServerProcess


def runs(cases: list[Case]) -> list[ParameterSet]:
    """Each case in each protocol."""
    return [
        pytest.param(case, protocol, id=f"{case.file}-{case.title}-resp{protocol}")
        for case in cases
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


PAIRED = [
    pytest.param(mine, real, *param.values, id=f"{mine}-{param.id}")
    for mine, real in PAIRS
    for param in runs(CASES + NEWER + (NEWEST_ONLY if mine == NEWEST else []))
]


@pytest.mark.parametrize(("mine", "real", "case", "protocol"), PAIRED)
def test_rillet_answers_as_the_real_server_of_its_version(mine, real, case, protocol, answers):
    wrong = []
    for got, wanted in side_by_side(*(answers(kind, case, protocol) for kind in (mine, real))):
        notes = judge(got, wanted, newest=mine == NEWEST, may_differ=real in BETWEEN)
        if notes:
            wrong.append((got, notes))
    if wrong:
        pytest.fail(describe(case, wrong), pytrace=False)


@pytest.mark.parametrize(("case", "protocol"), runs(CASES))
def test_rillet_as_7_2_answers_as_valkey_but_for_its_own_mind(case, protocol, answers):
    wrong = []
    for mine, *real in side_by_side(
        *(answers(kind, case, protocol) for kind in ("rillet-7.2", "redis7", "valkey"))
    ):
        notes = judge_as_7_2(mine, *real, protocol)
        if notes:
            wrong.append((mine, notes))
    if wrong:
        pytest.fail(describe(case, wrong), pytrace=False)


def test_every_named_difference_is_used():
    steps = [step for case in CASES + NEWER + NEWEST_ONLY for step in case.steps]
    assert {step.valkey for step in steps if step.valkey} == set(NOT_AS_VALKEY)
    assert {step.between for step in steps if step.between} == set(NOT_AS_BETWEEN)
    assert {step.purpose for step in steps if step.purpose} <= set(ON_PURPOSE)


def test_every_difference_of_the_page_has_a_name_of_its_own_and_says_why():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| <a id=")]
    assert len(rows) == len(ON_PURPOSE) > 100
    assert {len(re.split(r" \| ", row)) for row in rows} == {4}


def test_the_scripts_hold_at_least_600_stream_commands():
    words = [step.rest.split()[0].upper() for case in CASES for step in case.steps if step.rest]
    assert sum(word.startswith("X") for word in words) >= 600
