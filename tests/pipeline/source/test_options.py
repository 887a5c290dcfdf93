"""pipeline/source/options.py: every option of range mode is read, and wrong ones are named."""

import pickle

import pytest

from rillet.pipeline.formats import RedisStreams
from rillet.pipeline.redis import ids
from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint, OptionError, Options
from rillet.pipeline.source.entry_batches import default_schema
from rillet.pipeline.source.options import BatchOptions, Bounds, RangeStreamOptions


def read(*, streaming=True, **given):
    return (RangeStreamOptions if streaming else BatchOptions).of(Options({"streams": "s"} | given))


def test_defaults_are_those_of_sparks_kafka_source():
    assert read().start == Bounds("latest")
    assert read(streaming=False).start == Bounds("earliest")
    assert read(streaming=False).end == Bounds("latest")
    assert read().fail_on_data_loss
    assert read().max_delay_seconds == 900
    assert read(minRowsPerTrigger="5", maxTriggerDelay="250").max_delay_seconds == 0.25  # without a unit


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
    ("given", "message"),
    [
        ({"streams": ""}, "one of the options 'streams', 'streamsPattern'"),
        ({"streamsPattern": "x"}, "one of the options 'streams', 'streamsPattern'"),
        ({"streams": "[1]"}, "JSON list"),
        ({"streams": "a,,b"}, "with commas"),
        ({"streams": "[oops"}, "not valid JSON"),
        ({"startingOffsets": "soon"}, "earliest, latest, an id or JSON by stream, not 'soon'"),
        ({"startingOffsets": '{"s": "soon"}'}, "not 'soon'"),
        (
            {"startingOffsets": "1-0", "startingTimestamp": "5"},
            "options 'startingTimestamp' and 'startingOffsets' exclude each other",
        ),
        ({"startingTimestamp": "soon"}, "ISO time"),
        ({"endingOffsets": "latest"}, "unknown option 'endingoffsets'"),
        ({"maxRowPerTrigger": "5"}, "did you mean 'maxRowsPerTrigger'"),
        ({"maxRowsPerTrigger": "0"}, "from 1"),
        ({"maxRowsPerTrigger": "5", "minRowsPerTrigger": "6"}, "more than"),
        ({"maxTriggerDelay": "5s"}, "goes with 'minRowsPerTrigger'"),
        ({"minRowsPerTrigger": "6", "maxTriggerDelay": "soon"}, "a duration such as"),
        ({"group": "g"}, "unknown option 'group'"),
        # Names of Kafka's source
        ({"subscribe": "s"}, "'subscribe' and 'streams' are the same"),
        ({"streams": "", "subscribePattern": "a["}, "no regular expression"),
        ({"streams": "", "subscribePattern": "a", "streamsPattern": "a*"}, "give one of"),
        ({"startingOffsetsByTimestamp": '{"s": 5}', "startingTimestamp": "5"}, "and 'startingTimestamp' exclude each other"),
        ({"startingOffsetsByTimestamp": "5"}, "takes JSON of times by stream"),
        ({"startingOffsetsByTimestamp": '{"s": "x"}'}, "takes milliseconds since 1970"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_named(given, message):
    with pytest.raises(OptionError, match=message):
        read(**given)


def test_names_of_kafkas_source_are_read_as_ours():
    found = read(streams="", subscribe="a,b", maxOffsetsPerTrigger="500", minOffsetsPerTrigger="5")
    assert (found.streams, found.max_rows, found.min_rows) == (("a", "b"), 500, 5)
    times = read(startingOffsetsByTimestamp='{"s": 1000, "t": "1970-01-01T00:00:02Z"}').start
    assert (times.of("s"), times.of("t")) == (ids.join(999, ids.MAX_U64), ids.join(1999, ids.MAX_U64))
    until = read(streaming=False, endingOffsetsByTimestamp='{"s": 5}').end
    assert until.of("s") == ids.join(4, ids.MAX_U64)


def test_a_pattern_of_kafkas_is_a_regular_expression_over_whole_names(running):
    with Connection(Endpoint(port=running("redis7").port)) as connection:
        connection.call("FLUSHALL")
        for name in ("orders-1", "orders-22", "old-orders-1", "orders.*"):
            connection.call("XADD", name, "*", "n", 1)
        connection.call("SET", "orders-3", "no stream")
        found = read(streams="", subscribePattern=r"orders-\d+")
        assert found.names(connection) == ["orders-1", "orders-22"]
        assert pickle.loads(pickle.dumps(found)).names(connection) == ["orders-1", "orders-22"]
        assert read(streams="", streamsPattern="orders.*").names(connection) == ["orders.*"]
        connection.call("FLUSHALL")


@pytest.mark.parametrize(
    ("reader", "given", "words"),
    [
        ("reader", {"MAXROWSPERTRIGGER": "5"}, "'maxRowsPerTrigger' is for spark.readStream with mode=range and .*=group"),
        ("reader", {"createGroup": "true"}, "'createGroup' is for spark.readStream with mode=group"),
        ("streamReader", {"endingOffsets": "latest"}, "'endingOffsets' is for spark.read$"),
        ("streamReader", {"group": "g"}, "'group' is for spark.readStream with mode=group"),
        ("streamReader", {"mode": "group", "group": "g", "minRowsPerTrigger": "5"}, "'minRowsPerTrigger' is for .*mode=range"),
        ("streamReader", {"mode": "groups"}, "'mode' takes range, group; not 'groups'"),
        ("streamReader", {"stream": "s"}, "unknown option 'stream'; did you mean 'streams'"),
    ],
)  # fmt: skip
def test_an_option_of_another_way_to_read_is_named_with_it(reader, given, words):
    source = RedisStreams({"streams": "s"} | given)
    with pytest.raises(OptionError, match=words):
        getattr(source, reader)(default_schema())
