"""Commands that redis-server 7.0 does not have, against Valkey alone.

Only replies are compared: Valkey writes other words to its AOF than Redis (HGETDEL instead of HDEL, for example).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.script import parse_script, play_case
from support.servers import start_server

FOLDER = Path(__file__).parent / "scripts" / "newer"
CASES = [
    pytest.param(case, id=f"{path.stem}-{case.title}")
    for path in sorted(FOLDER.glob("*.script"))
    for case in parse_script(path)
]


@pytest.fixture(scope="module")
def servers():
    started = {kind: start_server(kind) for kind in ("rillet", "valkey")}
    yield started
    for server in started.values():
        server.discard()


@pytest.mark.parametrize("protocol", [2, 3], ids=["resp2", "resp3"])
@pytest.mark.parametrize("case", CASES)
def test_newer_commands_answer_as_in_valkey(servers, case, protocol):
    mine, real = (play_case(servers[kind].port, protocol, case) for kind in ("rillet", "valkey"))
    wrong = [
        f"line {got.step.line}: {got.step.text}\n    valkey {wanted}\n    rillet {got}"
        for got, wanted in zip(mine, real, strict=True)
        if got.raw != wanted.raw
    ]
    assert not wrong, "\n".join(wrong)
