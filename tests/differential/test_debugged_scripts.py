"""The cases of `scripts/with_debug/`, on servers that allow DEBUG: expired keys stay until somebody meets them."""

import pytest
from differential.judge import WITH_DEBUG, judge, side_by_side
from differential.pairs import NEWEST, PAIRS
from support.script import play_case
from support.servers import BETWEEN, start_server


@pytest.fixture(scope="module", params=PAIRS, ids=[mine for mine, _ in PAIRS])
def pair(request):
    mine, real = request.param
    flags = ("--enable-debug-command", "yes")
    with start_server(mine, *flags) as ours, start_server(real, *flags) as theirs:
        yield mine, ours, theirs


@pytest.mark.parametrize(
    ("case", "protocol"),
    [
        pytest.param(case, protocol, id=f"{case.file}-{case.title}-resp{protocol}")
        for case in WITH_DEBUG
        for protocol in case.protocols
    ],
)
def test_rillet_answers_as_the_real_server_of_its_version(pair, case, protocol):
    mine, ours, theirs = pair
    answers = [play_case(server.port, protocol, case) for server in (ours, theirs)]
    wrong = [
        "\n".join([f"line {got.step.line}: {got.step.text}", *notes])
        for got, wanted in side_by_side(*answers)
        if (notes := judge(got, wanted, newest=mine == NEWEST, may_differ=theirs.kind in BETWEEN))
    ]
    assert not wrong, "\n".join(wrong)
