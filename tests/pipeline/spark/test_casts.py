"""A text becomes what Spark's own cast of that string gives, in the session's zone, for every type of a schema."""

import math

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rillet.pipeline.source.values import parse_texts

ZONES = ["UTC", "America/New_York", "Asia/Kathmandu", "+05:30", "Europe/Berlin", "Australia/Lord_Howe"]
digits = (
    st.integers(0, 10**6).map(str)
    | st.integers(0, 2**70).map(str)
    | st.integers(2**126, 2**210).map(str)
    | st.builds(lambda k, d: str(2**k + d), st.integers(0, 126), st.integers(-1, 1))
    | st.builds(lambda k, d: str(10**k + d), st.integers(0, 38), st.integers(-1, 1))
    | st.sampled_from(["0", "007", "1_0", "\uff11"])
)
numbers = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "", "+", "-", " ", "\t", "0x"]),
        digits,
        st.sampled_from(
            [
                *("", ""),
                *". .5 .125 .97799 .5000000000000000000 .995 .000000000000000000000001".split(),
                ".1234567890123456789012345678901234567890",
            ]
        ),
        st.sampled_from(
            ["", "", "", "e3", "E-2", "e400", "e-400", "d", "f", "L", " ", "\x7f", "x", "\u00a0", "\n"]
        ),
    ),
)
words = st.sampled_from(
    ["", " ", *". + - NaN nan -NaN -nan Infinity -infinity inf 0x1p3 true FALSE t n yes on".split(), " Y "]
)


def of_two(most):
    return st.builds(
        lambda number, is_short: str(number) if is_short else f"{number:02}",
        st.integers(0, most),
        st.booleans(),
    )


days = st.builds(
    lambda year, month, day, length: "-".join([year, month, day][:length]),
    st.integers(1880, 2120).map(str) | st.sampled_from(["0000", "0001", "9999", "10000", "-0044", "+2020", "99", "123456", "1234567", "2020"]),
    of_two(13), of_two(31), st.sampled_from([1, 2, 3, 3, 3, 3, 3]),
)  # fmt: skip
clocks = st.builds(
    lambda hour, minute, second, length, fraction: ":".join([hour, minute, second][:length]) + fraction,
    of_two(24), of_two(60), of_two(60), st.sampled_from([1, 2, 3, 3, 3, 3]),
    st.sampled_from(["", "", ".", ".1", ".123", ".123456", ".1234567", ".123456789", ".000000999999", ",5"]),
)  # fmt: skip
zones = st.sampled_from(
    ["", "", "", "Z", " Z", "z", "+01:00", "-0330", "+1", "+1:2", "+18:00", "+18:01", "-19:00", "+01:60", " Europe/Berlin", "Asia/Tokyo",
     " UTC", "GMT+2", " EST", "PST", " Nowhere/Land", "Z2", "[UTC]", "-00:00", "+01:02:03", "-010203", " +02:00", "  Z", "x", " "]
)  # fmt: skip
moments = st.builds("".join, st.tuples(days, st.sampled_from(["T", " ", "T", " ", "t", "  "]), clocks, zones))
texts = numbers | words | days | moments | st.text(st.characters(codec="utf-8"), max_size=4)
KINDS = [
    "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(38,10)", "decimal(38,0)", "decimal(18,18)", "boolean",
    "date", "timestamp", "timestamp_ntz", "string", "binary",
]  # fmt: skip


def comparable(kind, cell):
    if isinstance(cell, float):
        return "NaN" if math.isnan(cell) else cell
    return bytes(cell) if isinstance(cell, bytearray) else cell


def casts_of_spark(spark, given_texts):
    """By kind, what Spark makes of the texts: one query for all of them."""
    frame = spark.createDataFrame(list(enumerate(given_texts)), "n int, v string")
    as_numbers = {
        "timestamp": "unix_micros({})",
        "date": "unix_date({})",
        "timestamp_ntz": "date_format({}, 'yyyyyy-MM-dd HH:mm:ss.SSSSSS')",
    }
    columns = [
        as_numbers.get(kind, "{}").format(f"try_cast(v as {kind})") + f" as c{at}"
        for at, kind in enumerate(KINDS)
    ]
    rows = frame.selectExpr("n", *columns).orderBy("n").collect()
    return {kind: [comparable(kind, row[at + 1]) for row in rows] for at, kind in enumerate(KINDS)}


def ours(kind, given_texts, zone):
    schema = to_arrow_schema(StructType.fromDDL(f"v {kind}"), timezone="UTC")
    cells, bad = parse_texts([text.encode() for text in given_texts], schema.field("v").type, zone=zone)
    if kind in {"timestamp", "timestamp_ntz"}:
        cells = cells.cast("int64")
    elif kind == "date":
        cells = cells.cast("int32")
    found = [comparable(kind, cell) for cell in cells.to_pylist()]
    assert [at for at, cell in enumerate(found) if cell is None] == bad
    return found


def test_texts_are_cast_as_spark_casts_them(spark):
    before = spark.conf.get("spark.sql.session.timeZone")

    @settings(
        max_examples=10,
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(texts, min_size=40, max_size=90), st.sampled_from(ZONES))
    def run(given_texts, zone):
        spark.conf.set("spark.sql.session.timeZone", zone)
        expected = casts_of_spark(spark, given_texts)
        for kind in KINDS:
            found = ours(kind, given_texts, zone)
            if kind == "timestamp_ntz":
                found = ours_as_spark_shows(spark, found)
            wrong = [
                (text, theirs, mine)
                for text, theirs, mine in zip(given_texts, expected[kind], found, strict=True)
                if theirs != mine
                and not (kind == "timestamp" and ":" in text and mine is None and is_of_today(text))
            ]
            assert not wrong, (kind, wrong[:20])

    try:
        run()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def is_of_today(text):
    """Whether a text is a time of day alone, which is no time here."""
    return "-" not in text.strip().lstrip("T")[:5]


def ours_as_spark_shows(spark, micros):
    """Show microseconds as ``date_format`` does."""
    frame = spark.createDataFrame([(at, one) for at, one in enumerate(micros)], "n int, v bigint")
    shown = "date_format(timestampadd(MICROSECOND, v, timestamp_ntz'1970-01-01 00:00:00'), 'yyyyyy-MM-dd HH:mm:ss.SSSSSS')"
    return [row[0] for row in frame.orderBy("n").selectExpr(shown).collect()]


def test_a_column_is_what_spark_casts_the_field_to(spark, redis, stream):
    """Over the whole way: the session's zone gets to the tasks, also if it is changed later."""
    given_texts = ["2026-11-20T10:00:00.123456789Z", "2026-11-20T10:00:00", "2026-07-20 10:00:00.5", "", "no"]
    for text in given_texts:
        redis.call("XADD", stream, "*", "at", text)
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        for zone in ("America/New_York", "UTC"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            reader = spark.read.format("redis-streams").options(**redis.options, streams=stream)
            typed = [
                row[0] for row in reader.schema("at TIMESTAMP").load().selectExpr("unix_micros(at)").collect()
            ]
            plain = spark.read.format("redis-streams").options(**redis.options, streams=stream).load()
            cast = "unix_micros(try_cast(cast(fields[0].value as string) as timestamp))"
            assert typed == [row[0] for row in plain.selectExpr(cast).collect()]
            assert typed[0] == 1795168800123456
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
