"""Range mode in any order of additions, trims, deletions, reads and restarts: what is read and what is gone add up."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.pipeline.range_queries import add, engine, position, read_ids
from support.thorough import examples

from rillet.pipeline.redis import ids
from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint

names = (f"range-{number}" for number in itertools.count())


changes = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 8)),
    st.tuples(st.just("trim"), st.integers(0, 12)),
    st.tuples(st.just("delete"), st.integers(0, 20)),
    st.tuples(st.just("read"), st.none()),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("now"), st.none()),
)


@pytest.mark.parametrize("kind", ["rillet", "redis7"])
@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    plan=st.lists(changes, max_size=30),
    limit=st.sampled_from([None, "1", "4"]),
    parts=st.sampled_from(["1", "3"]),
    start=st.sampled_from([0, 4]),
)
def test_read_and_gone_add_up_to_what_was_added(running, kind, plan, limit, parts, start):
    name = next(names)
    with Connection(Endpoint(port=running(kind).port)) as connection:
        spark = engine(
            connection, streams=name, failondataloss="false", maxrowspertrigger=limit, minpartitions=parts,
            startingoffsets=f"{start}-0" if start else "earliest",
        )  # fmt: skip
        added, seen = 0, []
        assert spark.plan() is None
        for what, number in plan:
            if what == "add":
                add(connection, name, *(f"{added + index + 1}-0" for index in range(number)))
                added += number
            elif what == "trim":
                connection.call("XTRIM", name, "MAXLEN", number)
            elif what == "delete":
                connection.call("XDEL", name, f"{number}-0")
            elif what == "read":
                seen += spark.trigger() or []
            elif what == "restart":
                spark.restart()
            else:
                spark.reader.prepareForTriggerAvailableNow()
                seen += spark.drain()
                spark.restart()
        seen += spark.drain()
        there = [entry[0].decode() for entry in connection.call("XRANGE", name, f"({start}-0", "+")]
        found = read_ids(seen)
        assert found == sorted(set(found), key=ids.parse)
        assert set(there) <= set(found)
        if added > start:
            assert position(spark, name).added == added
            accounted = len(found) + position(spark, name).gone
            # What went before the query had come to its start is no loss.
            assert accounted <= added - start if start else accounted == added
