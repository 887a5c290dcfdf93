"""walrus: its own tests of containers, consumer groups, time series, cache, locks, rate limits, autocomplete and models."""

from checks import PORT
from use_own_suites import passed
from walrus import Database

db = Database(host="127.0.0.1", port=PORT)


def main() -> None:
    # A test of each of two limiters has a second for eight commands, which a busy machine may take longer for.
    assert passed("walrus.tests", but="test_rate_limit") == 129
    limits = db.rate_limit("hits", limit=2, per=600), db.rate_limit_lua("lua hits", limit=2, per=600)
    for limit in limits:
        assert [limit.limit("someone") for _ in range(3)] == [False, False, True]
    # What these tests leave out.
    names = db.List("names")
    names.extend(["a", "b"])
    assert names.bpopright() == b"b"
    visitors = db.HyperLogLog("visitors")
    visitors.add("a", "b", "a")
    assert len(visitors) == 2
    bits = db.bit_field("bits")
    assert bits.set("u8", 8, 200).incrby("u4", 0, 3).execute() == [0, 3]
    assert bits.bit_count() == 5
    group = db.consumer_group("workers", ["jobs"])
    group.create()
    entry = group.jobs.add({"n": 1})
    group.read()
    assert group.jobs.autoclaim("other", 0)[1] == [(entry, {b"n": b"1"})]
