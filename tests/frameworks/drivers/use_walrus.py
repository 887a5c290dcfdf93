"""walrus: containers, consumer groups, time series, cache, locks, rate limits, autocomplete and models."""

import datetime as dt
import time

from checks import PORT
from walrus import Database, IntegerField, Model, TextField

db = Database(host="127.0.0.1", port=PORT)


def containers() -> None:
    h = db.Hash("h")
    h.update(name="Huey", kind="cat")
    assert h["name"] == b"Huey"
    assert sorted(h.as_dict(decode=True).items()) == [("kind", "cat"), ("name", "Huey")]
    del h["kind"]
    assert "kind" not in h

    names = db.List("names")
    names.extend(["a", "b", "c", "d"])
    assert names[1:3] == [b"b", b"c"]
    names[0] = "z"
    assert names.popleft() == b"z"
    assert names.bpopright() == b"d"

    left, right = db.Set("left"), db.Set("right")
    left.add("a", "b", "c")
    right.add("b", "c", "d")
    assert left & right == {b"b", b"c"}
    assert left - right == {b"a"}
    left.diffstore("only left", right)
    assert db.smembers("only left") == {b"a"}

    scores = db.ZSet("scores")
    scores.add({"x": 3, "y": 1, "z": 2})
    scores["w"] = 9
    assert list(scores.range(0, -1)) == [b"y", b"z", b"x", b"w"]
    assert scores[:2] == [b"y", b"z"]
    assert scores.popmax() == [(b"w", 9.0)]
    scores.incr("y", 10)
    assert scores.rank("y") == 2

    array = db.Array("array")  # Lua: a hash that behaves like a list
    array.extend(["one", "two", "three"])
    assert array.pop(0) == b"one"
    assert (array[0], len(array)) == (b"two", 2)

    counter = db.counter("visits")
    counter += 3
    assert counter.value() == 3
    log = db.HyperLogLog("visitors")
    log.add("a", "b", "a")
    assert len(log) == 2
    bits = db.bit_field("bits")
    assert bits.set("u8", 8, 200).incrby("u4", 0, 3).execute() == [0, 3]
    assert bits[8:16] == 200
    assert bits.bit_count() == 5
    flowers = db.bloom_filter("flowers")
    flowers.add("rose")
    assert ("rose" in flowers, "nail" in flowers) == (True, False)
    assert not db.cas("who", "huey", "zaizee")
    db["who"] = "huey"
    assert db.cas("who", "huey", "zaizee")


def streams() -> None:
    log = db.Stream("log")
    first = log.add({"n": 1})
    assert [data for _, data in log.read()] == [{b"n": b"1"}]
    log.trim(0, approximate=False)
    assert (len(log), log.get(first)) == (0, None)

    group = db.consumer_group("workers", ["stream-a", "stream-b"])
    group.create()
    group.set_id("$")
    a = [group.stream_a.add({"n": number}) for number in range(3)]
    b = group.stream_b.add({"letter": "x"})
    taken = dict(group.read())
    assert [key for key, _ in taken[b"stream-a"]] == a
    assert [key for key, _ in taken[b"stream-b"]] == [b]
    assert group.stream_a.ack(a[0]) == 1
    other = group.consumer("other")
    assert [entry[0] for entry in other.stream_a.claim(a[1], a[2], min_idle_time=0)] == a[1:]
    assert [entry["consumer"] for entry in other.stream_a.pending()] == [b"other", b"other"]
    other.stream_a.ack(*a[1:])
    assert other.stream_a.pending() == []
    assert other.stream_a.autoclaim("other", 0)[1] == []

    events = db.time_series("events", ["temperature", "rain"])
    events.create()
    start = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - walrus takes naive times
    for hour in range(4):
        events.temperature.add({"value": hour}, id=start + dt.timedelta(hours=hour))
    events.rain.add({"value": 9}, id=start + dt.timedelta(minutes=90))
    found = [(message.stream, message.data["value"]) for message in events.read()]
    assert found == [
        ("temperature", "0"),
        ("temperature", "1"),
        ("rain", "9"),
        ("temperature", "2"),
        ("temperature", "3"),
    ]
    between = events.temperature[start + dt.timedelta(hours=1) : start + dt.timedelta(hours=2)]
    assert [message.data["value"] for message in between] == ["1", "2"]


def tools() -> None:
    cache = db.cache(name="cache")
    calls = []

    @cache.cached(timeout=60)
    def slow(number: int) -> int:
        calls.append(number)
        return number * 2

    assert [slow(2), slow(2), slow(3)] == [4, 4, 6]
    assert calls == [2, 3]
    cache.flush()

    lock = db.lock("a lock", ttl=60_000)
    assert lock.acquire()
    assert not db.lock("a lock", ttl=60_000).acquire(block=False)
    assert lock.release()
    with db.lock("a lock", ttl=60_000):
        assert not db.lock("a lock").acquire(block=False)

    limit = db.rate_limit("hits", limit=2, per=60)
    assert [limit.limit("someone") for _ in range(3)] == [False, False, True]
    limit = db.rate_limit_lua("lua hits", limit=2, per=60)
    assert [limit.limit("someone") for _ in range(3)] == [False, False, True]

    search = db.autocomplete("titles")
    for title in ("Redis streams", "Redis sorted sets", "Kafka streams"):
        search.store(title)
    assert sorted(search.search("redis s")) == ["Redis sorted sets", "Redis streams"]
    assert list(search.search("kaf")) == ["Kafka streams"]

    library = db.Index("library")
    library.add("1", "all the king's horses", kind="rhyme")
    library.add("2", "a horse and a stream", kind="prose")
    assert [document["kind"] for document in library.search("stream")] == ["prose"]


class Cat(Model):
    __database__ = db
    __namespace__ = "cats"
    name = TextField(primary_key=True)
    age = IntegerField(index=True)
    about = TextField(fts=True)


def models_and_expiry() -> None:
    for name, age in (("huey", 6), ("zaizee", 4), ("beanie", 1)):
        Cat.create(name=name, age=age, about=f"{name} likes to sleep")
    assert Cat.load("huey").age == 6
    assert [cat.name for cat in Cat.query((Cat.age > 1) & (Cat.age < 6))] == ["zaizee"]
    assert [cat.name for cat in Cat.query(order_by=Cat.age)] == ["beanie", "zaizee", "huey"]
    assert sorted(cat.name for cat in Cat.query(Cat.about.search("sleep"))) == ["beanie", "huey", "zaizee"]
    Cat.load("beanie").delete()
    assert Cat.count() == 2

    with db.atomic() as transaction:
        transaction.pipe.set("t", 1)
    assert db["t"] == b"1"
    db.Hash("fades").update(a=1)
    db.expire("fades", 1)
    until = time.monotonic() + 20
    while "fades" in db:
        assert time.monotonic() < until
        time.sleep(0.05)


def main() -> None:
    containers()
    streams()
    tools()
    models_and_expiry()
