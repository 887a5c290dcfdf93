"""Every command in every state of a server: run, refused with the same words, or held, as real servers do."""

from __future__ import annotations

import pytest
from differential.states import STATES, commands


@pytest.mark.parametrize(("mine", "real"), [("rillet", "redis810"), ("rillet-7.0", "redis7")])
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_commands_in_a_state_are_run_refused_or_held_as_the_real_server_does(state, mine, real):
    lines = commands("7.0" if real == "redis7" else "8.10")
    got, wanted = state(mine, lines), state(real, lines)
    wrong = [
        f"{' '.join(words)!r}: {here}, real: {there}"
        for words, here, there in zip(lines, got, wanted, strict=True)
        if here != there
    ]
    assert not wrong, f"{len(wrong)} of {len(lines)}:\n" + "\n".join(wrong)
