"""pipeline/source/offsets.py: what a checkpoint holds is read back, or refused with the reason."""

from __future__ import annotations

import json

import pytest

from rillet.pipeline.redis import ids
from rillet.pipeline.source import offsets
from rillet.pipeline.source.offsets import OffsetError, Position, Seen


def test_offsets_survive_the_checkpoint():
    positions = {
        "b": Position(ids.MAX_ID, 7, 1, 2, Seen(4, ids.MAX_ID, 9, 2)),
        "a": Position(0, seen=Seen(None, None, None, None)),
        "\udcff": Position(5, 5),
    }
    tree = json.loads(json.dumps(offsets.dump(positions)))
    assert offsets.load(tree) == positions
    assert json.dumps(offsets.dump(offsets.load(tree))) == json.dumps(offsets.dump(positions))


def test_the_json_is_the_documented_one():
    assert offsets.dump({"orders": Position(ids.parse("1526919030474-55"), 1200)}) == {
        "v": 1,
        "streams": {"orders": {"id": "1526919030474-55", "added": 1200, "life": 0, "gone": 0}},
    }
    seen = Seen(ids.parse("5-2"), ids.parse("9-0"), 1300, 200)
    (at,) = offsets.dump({"orders": Position(0, 0, seen=seen)})["streams"].values()
    assert at["seen"] == ["5-2", "9-0", 1300, 200]


def test_a_backlog_is_what_was_seen_behind_a_position():
    seen = Seen(ids.parse("1-0"), ids.parse("9-0"), 9, 0)
    assert Position(ids.parse("4-0"), 4, seen=seen).backlog == 5
    assert Position(ids.parse("4-0"), None, seen=seen).backlog is None
    assert Position(ids.parse("9-0"), None, seen=seen).backlog == 0
    assert Position(ids.parse("4-0"), 4).backlog == 0


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"v": 2, "streams": {}}, "version 2; this Rillet reads version 1"),
        ({}, "version None"),
        ({"v": 1, "group": "g"}, "another mode"),
    ],
)
def test_other_offsets_are_refused(tree, message):
    with pytest.raises(OffsetError, match=message):
        offsets.load(tree)
