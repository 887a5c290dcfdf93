"""pipeline/source/options.py: every option of range mode is read, and wrong ones are named."""

from __future__ import annotations

import pytest

from rillet.pipeline.redis import ids
from rillet.pipeline.redis.options import OptionError, Options
from rillet.pipeline.source.options import Bounds, SourceOptions


def read(*, streaming=True, **given):
    return SourceOptions.of(Options({"streams": "s"} | given), streaming=streaming)


def test_defaults_are_those_of_sparks_kafka_source():
    assert read().start == Bounds("latest")
    assert read(streaming=False).start == Bounds("earliest")
    assert read(streaming=False).end == Bounds("latest")
    assert read().fail_on_data_loss
    assert read().max_delay_seconds == 900


def test_streams_are_a_list_a_json_list_a_path_or_a_pattern():
    assert read(streams="a, b,a").streams == ("a", "b")
    assert read(streams='["a,b", "c"]').streams == ("a,b", "c")
    assert read(streams="", path="orders").streams == ("orders",)
    assert read(streams="", streamsPattern="o*").pattern == "o*"


def test_bounds_are_ids_words_json_or_times():
    assert read(startingOffsets="5-1").start.of("s") == ids.parse("5-1")
    assert read(startingOffsets='{"s": "earliest", "t": "7"}').start.of("t") == ids.parse("7-0")
    assert read(streaming=False, endingOffsets="5").end.of("s") == ids.join(5, ids.MAX_U64)
    assert read(streaming=False, endingTimestamp="5").end.of("s") == ids.join(4, ids.MAX_U64)
    assert read(startingTimestamp="1970-01-01T00:00:01+00:00").start.of("s") == ids.join(999, ids.MAX_U64)


@pytest.mark.parametrize(
    ("word", "seconds"), [("500ms", 0.5), ("10S", 10), ("15m", 900), ("2h", 7200), ("250", 0.25)]
)
def test_durations_have_units(word, seconds):
    assert read(minRowsPerTrigger="5", maxTriggerDelay=word).max_delay_seconds == seconds


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"streams": ""}, "one of the options 'streams' and 'streamsPattern'"),
        ({"streamsPattern": "x"}, "one of the options 'streams' and 'streamsPattern'"),
        ({"streams": "[1]"}, "JSON list"),
        ({"streams": "a,,b"}, "with commas"),
        ({"streams": "[oops"}, "not valid JSON"),
        ({"startingOffsets": "soon"}, "earliest, latest, an id or JSON by stream, not 'soon'"),
        ({"startingOffsets": '{"s": "soon"}'}, "not 'soon'"),
        ({"startingOffsets": "1-0", "startingTimestamp": "5"}, "one of the options 'startingOffsets'"),
        ({"startingTimestamp": "soon"}, "ISO time"),
        ({"endingOffsets": "latest"}, "unknown option 'endingoffsets'"),
        ({"maxRowPerTrigger": "5"}, "did you mean 'maxRowsPerTrigger'"),
        ({"maxRowsPerTrigger": "0"}, "from 1"),
        ({"maxRowsPerTrigger": "5", "minRowsPerTrigger": "6"}, "more than"),
        ({"maxTriggerDelay": "5s"}, "needs 'minRowsPerTrigger'"),
        ({"minRowsPerTrigger": "6", "maxTriggerDelay": "soon"}, "a duration such as"),
        ({"group": "g"}, "unknown option 'group'"),
    ],
)
def test_a_wrong_option_is_named(given, message):
    with pytest.raises(OptionError, match=message):
        read(**given)
