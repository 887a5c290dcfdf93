"""Every case of `scripts/`, byte by byte: Rillet as each version against the real server of that version."""

import re
from collections.abc import Callable, Iterator

import pytest
from _pytest.mark.structures import ParameterSet
from differential.judge import CASES, NEWER, NEWEST_ONLY, WITH_DEBUG, judge, judge_as_7_2, side_by_side
from differential.on_purpose import NOT_AS_BETWEEN, NOT_AS_VALKEY, ON_PURPOSE, PAGE
from differential.pairs import NEWEST, PAIRS
from support.script import Answer, Case, play_case
from support.servers import BETWEEN, ServerProcess


def runs(cases: list[Case]) -> list[ParameterSet]:
    return [pytest.param(case, id=f"{case.file}-{case.title}") for case in cases]


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


def in_each_protocol(case: Case, judged: Callable[[int], Iterator[tuple[Answer, list[str]]]]) -> None:
    """Fail with the lines of a case that are wrong in either protocol."""
    lines = [
        f"  line {answer.step.line} in RESP{protocol}: {answer.step.text}\n      " + "\n      ".join(notes)
        for protocol in case.protocols
        for answer, notes in judged(protocol)
        if notes
    ]
    if lines:
        pytest.fail("\n".join([f"{case.file}.script, {case.title!r}:", *lines]), pytrace=False)


PAIRED = [
    pytest.param(mine, real, *param.values, id=f"{mine}-{param.id}")
    for mine, real in PAIRS
    for param in runs(CASES + NEWER + (NEWEST_ONLY if mine == NEWEST else []))
]


@pytest.mark.parametrize(("mine", "real", "case"), PAIRED)
def test_rillet_answers_as_the_real_server_of_its_version(mine, real, case, answers):
    def judged(protocol):
        for got, wanted in side_by_side(*(answers(kind, case, protocol) for kind in (mine, real))):
            yield got, judge(got, wanted, newest=mine == NEWEST, may_differ=real in BETWEEN)

    in_each_protocol(case, judged)


@pytest.mark.parametrize("case", runs(CASES))
def test_rillet_as_7_2_answers_as_valkey_but_for_its_own_mind(case, answers):
    def judged(protocol):
        kinds = ("rillet-7.2", "redis7", "valkey")
        for mine, *real in side_by_side(*(answers(kind, case, protocol) for kind in kinds)):
            yield mine, judge_as_7_2(mine, *real, protocol)

    in_each_protocol(case, judged)


def test_every_named_difference_is_used():
    steps = [step for case in CASES + NEWER + NEWEST_ONLY + WITH_DEBUG for step in case.steps]
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
