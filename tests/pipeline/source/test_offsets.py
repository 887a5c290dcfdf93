"""pipeline/source/offsets.py: what a checkpoint holds is read back, or refused with the reason."""

from __future__ import annotations

import json

import pytest

from rillet.pipeline.redis import ids
from rillet.pipeline.source import offsets
from rillet.pipeline.source.offsets import OffsetError, Position


def test_offsets_survive_the_checkpoint():
    positions = {"b": Position(ids.MAX_ID, 7, 1, 2), "a": Position(0), "\udcff": Position(5, 5)}
    tree = json.loads(json.dumps(offsets.dump(positions)))
    assert offsets.load(tree) == positions
    assert json.dumps(offsets.dump(offsets.load(tree))) == json.dumps(offsets.dump(positions))


def test_the_json_is_the_documented_one():
    assert offsets.dump({"orders": Position(ids.parse("1526919030474-55"), 1200)}) == {
        "v": 1,
        "streams": {"orders": {"id": "1526919030474-55", "added": 1200, "life": 0, "gone": 0}},
    }


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
