"""Promises about messages, where a worker does something between two looks of the audit."""

from types import SimpleNamespace

import pytest

from rillet.testing.auditing.messages import Messages
from rillet.testing.auditing.working import poison_capped


class GivesUpBetweenLooks:
    """As much of a bench as `poison_capped` needs; of two bad messages the second is given up behind the first."""

    plan = SimpleNamespace(messages=Messages(), brief=1, timeout=1)
    fair = SimpleNamespace(now=0)
    again = ""

    def __init__(self):
        self.looks = iter([("w1", 4), ("w1", 4), None, ("w1", 5), *[None] * 10])
        self.missed = []

    def begin(self):
        return SimpleNamespace(can_be_killed=False)

    def send(self, fields):
        return str(fields)

    def is_delivered(self, _entry):
        return True

    def pending(self, _entry):
        return next(self.looks)

    def later(self, **_units):
        pass

    def until(self, condition, *, traffic=False, **_options):
        if not (found := condition()) and traffic:
            self.missed.append(condition)
        return found

    def note(self, _text):
        pass

    def verdict_of(self, _name):
        return ""

    def analysis(self):
        raise EOFError


def test_a_message_that_is_given_up_between_two_looks_is_not_waited_for():
    bench = GivesUpBetweenLooks()
    with pytest.raises(EOFError):
        poison_capped(bench)
    assert bench.missed == []
