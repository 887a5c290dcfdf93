"""Checkpoints that the Rillet before offsets of version 2 wrote under Spark: `tests/pipeline/recorded/version-1`.

Range mode: ten entries were read, then nine, when ten others of a stream had been trimmed. Group mode: seven of one
stream, in batches of three, three and one. Spark's own files are as it left them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

RECORDED = Path(__file__).parent.parent / "recorded" / "version-1"
A, B, C, GROUPS = "recorded:a", "recorded:é€", "recorded:c", "recorded:g"  # those of the recording
RANGE = {"streams": json.dumps([A, B, C]), "startingOffsets": "earliest", "maxRowsPerTrigger": "12"}
GROUP = {"mode": "group", "group": "g", "consumer": "c", "streams": GROUPS, "maxRowsPerTrigger": "3"}

pytestmark = pytest.mark.parametrize("redis", ["rillet"], indirect=True)


cut = pytest.mark.parametrize("is_cut", [False, True], ids=["committed", "killed in its last batch"])


def restored(mode, last, is_cut, folder):
    """The recorded folder, as it was or as a kill in the last batch would have left it."""
    shutil.copytree(RECORDED / mode, folder, dirs_exist_ok=True)
    if is_cut:
        (folder / "commits" / str(last)).unlink()
        (folder / "commits" / f".{last}.crc").unlink()


@pytest.fixture(autouse=True)
def clean(redis):
    yield
    redis.call("DEL", A, B, C, GROUPS)


def add(redis, stream, first, last):
    redis.pipeline([("XADD", stream, f"{n}-{n % 3}", "n", n) for n in range(first, last + 1)])


def read(spark, redis, options, checkpoint):
    found = []
    query = (
        spark.readStream.format("redis-streams").options(**redis.options, **options).load().writeStream
        .foreachBatch(lambda rows, _: found.append(sorted((row.stream, int(row.id.split("-")[0])) for row in rows.collect())))
        .option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    return found


def version_in(checkpoint, number):
    return json.loads((checkpoint / "offsets" / str(number)).read_text().splitlines()[2])["v"]


@cut
def test_range_mode_goes_on(is_cut, spark, redis, tmp_path):
    restored("range", 1, is_cut, tmp_path)
    add(redis, A, 1, 20)
    redis.call("XTRIM", A, "MAXLEN", "4")
    add(redis, B, 1, 9)
    again = [[*((A, n) for n in range(17, 21)), *((B, n) for n in range(5, 10))]] if is_cut else []
    assert read(spark, redis, RANGE, tmp_path) == again
    assert version_in(tmp_path, 1) == 1
    assert not (tmp_path / "offsets" / "2").exists()  # no batch for the version's sake
    add(redis, A, 21, 23)
    add(redis, C, 1, 2)
    assert read(spark, redis, RANGE, tmp_path) == [[(A, 21), (A, 22), (A, 23), (C, 1), (C, 2)]]
    assert version_in(tmp_path, 2) == 2
    add(redis, A, 24, 24)
    assert read(spark, redis, RANGE, tmp_path) == [[(A, 24)]]


@cut
def test_group_mode_goes_on(is_cut, spark, redis, tmp_path):
    restored("group", 2, is_cut, tmp_path)
    add(redis, GROUPS, 1, 7)
    redis.call("XGROUP", "CREATE", GROUPS, "g", "0")
    redis.call("XREADGROUP", "GROUP", "g", "c", "COUNT", "6", "STREAMS", GROUPS, ">")
    redis.call("XACK", GROUPS, "g", *(f"{n}-{n % 3}" for n in range(1, 7)))
    redis.call(
        "XREADGROUP", "GROUP", "g", "c", "STREAMS", GROUPS, ">"
    )  # the last batch, not acknowledged yet
    add(redis, GROUPS, 8, 11)
    again = [[(GROUPS, 7)]] if is_cut else []
    assert read(spark, redis, GROUP, tmp_path) == [
        *again,
        [(GROUPS, 8), (GROUPS, 9), (GROUPS, 10)],
        [(GROUPS, 11)],
    ]
    assert [version_in(tmp_path, number) for number in range(5)] == [1, 1, 1, 2, 2]
    assert redis.call("XPENDING", GROUPS, "g")[0] == 0
