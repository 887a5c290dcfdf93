"""What a user with few rights learns: scripts/newest/what_a_user_learns.script compares it with Redis 8.10.2."""

from pathlib import Path

from differential.judge import NEWEST_ONLY
from support.script import play_case

CASES = {case.title: case for case in NEWEST_ONLY if case.file == "what_a_user_learns"}
PAGE = Path(__file__).parents[3] / "docs" / "security" / "acl.md"


def test_the_page_has_a_line_for_each_case():
    rows = [line.split("|")[1].strip() for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert (
        list(CASES)[: len(rows) - 2] == rows[2:]
    )  # the others stand below the table, or are about who is served


def test_before_8_10_no_names_are_sent_either(running):
    answers = [
        list(map(str, play_case(running(kind).port, 3, CASES["tracking, BCAST"])))
        for kind in ("rillet-7.0", "rillet")
    ]
    assert answers[0] == answers[1]
