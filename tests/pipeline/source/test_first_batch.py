"""A query that begins at the latest entry and dies in its first batch, by Spark's calls: what that batch has to read is read."""

import json

import pytest
from support.pipeline.micro_batches import Crash, Engine
from support.servers import start_server

from rillet.pipeline.ledger.format import FollowingOptions, LedgerStreamReader
from rillet.pipeline.range.stream_reader import RangeStreamReader
from rillet.pipeline.source.entry_batches import default_schema
from rillet.pipeline.source.options import RangeStreamOptions


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    with start_server(
        "rillet", "--appendonly", "yes", "--aof-timestamp-enabled", "ms", folder=folder
    ) as server:
        server.aof = str(folder / "appendonlydir")
        yield server


def reader(kind, server):
    if kind == "ledger":
        return LedgerStreamReader(FollowingOptions(path=server.aof, start="latest"))
    given = {"port": str(server.port), "streams": "s", "startingOffsets": "latest"}
    return RangeStreamReader(default_schema(), RangeStreamOptions.of(given))


@pytest.mark.parametrize("stop_before", ["write", "commit"])
@pytest.mark.parametrize("kind", ["range", "ledger"])
def test_a_query_that_dies_in_its_first_batch_reads_what_came_since_it_began(
    server, connection, kind, stop_before
):
    def add(first, last):
        for number in range(first, last + 1):
            connection.call("XADD", "s", f"{number}-0", "n", number)

    seen = {}

    def write(batch, batches):
        rows = [row for each in batches for row in each.to_pylist()]
        seen[batch] = [row["id" if kind == "range" else "entry_id"] for row in rows]

    add(1, 3)
    engine = Engine(lambda: reader(kind, server), write)
    engine.reader = reader(kind, server)
    engine.offsets.append(json.dumps(engine.reader.initialOffset()))
    add(4, 6)
    with pytest.raises(Crash):
        engine.trigger(stop_before)
    engine.restart()
    add(7, 9)
    engine.finish()
    add(10, 11)
    engine.restart()
    engine.finish()
    engine.restart()
    assert [each for batch in seen.values() for each in batch] == [f"{number}-0" for number in range(4, 12)]
    assert seen[0] == ["4-0", "5-0", "6-0"]
