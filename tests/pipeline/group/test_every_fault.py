"""A query in group mode with a lost command, or a lost reply, at each command that it sends, by `rillet.testing.every_fault`."""

import pytest
from support.pipeline.micro_batches import Engine

from rillet.pipeline.group.stream_reader import GroupStreamReader, group_columns
from rillet.pipeline.redis.connection import ConnectionLost
from rillet.pipeline.source.entry_batches import default_schema
from rillet.testing import every_fault

SCHEMA = default_schema("", group_columns())
SENT = "XGROUP XINFO XREADGROUP XPENDING XCLAIM XRANGE XADD XACK TYPE WATCH MULTI EXEC".split()
# A consumer that is gone holds two of seven entries, one of which has had three deliveries.
SETUP = """
    redis.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    for number = 1, 7 do redis.call("XADD", "s", number .. "-0", "n", number) end
    redis.call("XREADGROUP", "GROUP", "g", "gone", "COUNT", 2, "STREAMS", "s", ">")
    for _ = 1, 2 do redis.call("XCLAIM", "s", "g", "gone", 0, "1-0") end
"""


@pytest.mark.parametrize("retries", [0, 15], ids=["the query dies", "the connection tries again"])
def test_no_lost_command_or_reply_loses_or_doubles_an_entry(retries):
    def story(server):
        client = server.client()
        client.eval(SETUP, 0)
        server.clock.advance(hours=1)
        given = {
            "port": server.port, "streams": "s", "group": "g", "consumer": "me", "maxRowsPerTrigger": 3,
            "claimMinIdleMs": 60_000, "maxDeliveries": 3, "deadLetterStream": "s:dead", "retries": retries, "retryIntervalMs": 1,
        }  # fmt: skip
        rows = {}
        engine = Engine(
            lambda: GroupStreamReader(SCHEMA, {name: str(value) for name, value in given.items()}),
            lambda batch, batches: rows.__setitem__(batch, [row["id"] for each in batches for row in each.to_pylist()]),
        )  # fmt: skip
        for clean in (False, True):  # claims are made again once what was claimed is idle again
            for _ in range(20):
                try:
                    engine.finish()
                    break
                except ConnectionLost:
                    engine.restart()
            engine.restart()
            server.clock.advance(hours=0 if clean else 1)
        letters = server.stream("s:dead").entries if client.exists("s:dead") else []
        dead = [entry.fields["rillet.id"] for entry in letters]
        seen = [each for batch in rows.values() for each in batch]
        assert sorted(seen + dead) == [f"{number}-0" for number in range(1, 8)]
        # A query that dies before it has moved the entry tries it once more, alone.
        assert dead == ["1-0"] or ["1-0"] in rows.values()
        assert server.stream("s").group("g").pending == []

    every_fault(*SENT)(story)()
