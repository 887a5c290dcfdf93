"""Keys of all types: samples that say so, and the beginning of each value."""

import pytest
from support.programs.console import address_of, before

from rillet.console import keys as room
from rillet.console.connection import Link
from rillet.console.keys import KeysSubject, KeySubject


def one_of_each(client):
    client.set("text", "hello", ex=100)
    client.rpush("jobs", "a", "b")
    client.sadd("tags", "x")
    client.zadd("scores", {"a": 1.5, "b": 2})
    client.hset("user", mapping={"name": "Sara"})
    client.xadd("orders", {"a": 1})


async def test_keys_are_counted_by_type_and_found_by_name_and_type(client, link):
    one_of_each(client)
    found = await KeysSubject().read(link)
    assert dict(found.types) == dict.fromkeys(("string", "list", "set", "zset", "hash", "stream"), 1)
    assert (found.whole, found.cursor, found.keys) == (True, "", 6)
    rows = {row.key: row for row in found.rows}
    assert rows[b"text"].ttl > 90_000
    assert rows[b"jobs"].ttl is None
    assert rows[b"user"].memory > 0
    assert [row.key for row in (await KeysSubject(b"s").read(link)).rows] == [
        b"jobs", b"orders", b"scores", b"tags", b"user",
    ]  # fmt: skip
    assert [row.key for row in (await KeysSubject(b"", "zset").read(link)).rows] == [b"scores"]


@pytest.mark.parametrize("name", [b"*", b"a?b", b"[x]", b"back\\slash", b"\xff\x00", b"a-b^"])
async def test_a_search_means_its_text(client, link, name):
    client.set(b"<" + name + b">", "1")
    client.set("axb", "1")
    assert [row.key for row in (await KeysSubject(name).read(link)).rows] == [b"<" + name + b">"]


async def test_many_keys_are_a_sample_that_goes_on(client, link):
    client.mset({f"k{number}": number for number in range(5_000)})
    seen, cursor, pages = 0, "0", 0
    while cursor:
        found = await KeysSubject(cursor=cursor).read(link)
        assert len(found.rows) <= room.SHOWN
        assert not found.whole
        seen, cursor, pages = seen + found.looked, found.cursor, pages + 1
    assert seen >= 5_000
    assert pages > 1


async def test_keys_that_leave_while_they_are_looked_at_or_may_not_be_are_left_out(client, link):
    client.mset({"base:1": "a", "base:2": "b", "other": "c"})
    client.execute_command("ACL", "SETUSER", "narrow", "on", "nopass", "~base*", "+@all")
    try:
        async with Link(address_of(client).replace("//", "//narrow:any@")) as narrow:
            found = await KeysSubject().read(narrow)
            assert [row.key for row in found.rows] == [b"base:1", b"base:2"]
            assert dict(found.types) == {"string": 2}
    finally:
        client.execute_command("ACL", "DELUSER", "narrow")
    before(link, b"TYPE", lambda: client.delete("base:1"))
    assert [row.key for row in (await KeysSubject().read(link)).rows] == [b"base:2", b"other"]


async def test_a_value_shows_its_beginning(client, link):
    one_of_each(client)
    kinds = {
        name: await KeySubject(name.encode()).read(link)
        for name in ("text", "jobs", "tags", "scores", "user")
    }
    assert kinds["text"].items == ((b"hello",),)
    assert kinds["jobs"].items == ((b"0", b"a"), (b"1", b"b"))
    assert kinds["tags"].items == ((b"x",),)
    assert kinds["scores"].items == ((b"1.5", b"a"), (b"2", b"b"))
    assert kinds["user"].items == ((b"name", b"Sara"),)
    assert (await KeySubject(b"orders").read(link)).type == "stream"
    assert (await KeySubject(b"nothing").read(link)).type == "none"


async def test_great_values_are_not_read_whole(client, link):
    client.set("text", b"x" * 5_000_000)
    client.rpush("jobs", *range(10_000))
    client.hset("user", mapping={f"f{number}": "v" for number in range(10_000)})
    client.zadd("scores", {f"m{number}": number for number in range(10_000)})
    client.sadd("tags", *(f"m{number}" for number in range(10_000)))
    assert len((await KeySubject(b"text").read(link)).items[0][0]) == room.TEXT_BYTES
    for key in ("jobs", "user", "scores", "tags"):
        found = await KeySubject(key.encode()).read(link)
        assert (found.length, len(found.items)) == (10_000, room.ITEMS)


async def test_great_items_are_read_in_small_numbers(client, link):
    for number in range(30):
        value = b"%d" % number + b"x" * 1_000_000
        client.rpush("jobs", value)
        client.hset("user", str(number), value)
        client.zadd("scores", {value: number})
        client.sadd("tags", value)
    for key in ("jobs", "user", "scores", "tags"):
        found = await KeySubject(key.encode()).read(link)
        assert found.length == 30
        # SSCAN and HSCAN reply with whole buckets, those of Valkey with more than others.
        assert 1 <= len(found.items) <= (20 if key in {"tags", "user"} else 4)


async def test_a_text_that_is_cut_ends_with_a_character(client, link):
    for start in range(3):
        client.set("text", "a" * start + "\u20ac" * 2_000)
        ((shown,),) = (await KeySubject(b"text").read(link)).items
        assert shown.decode() == "a" * start + "\u20ac" * ((room.TEXT_BYTES - start) // 3)
    for whole in (b"\xe2\x82", b"x" * (room.TEXT_BYTES - 2) + b"\xe2\x82"):
        client.set("text", whole)
        assert (await KeySubject(b"text").read(link)).items == ((whole,),)
    client.set("text", b"\xff" * room.TEXT_BYTES + b"\xe2")
    assert len((await KeySubject(b"text").read(link)).items[0][0]) == room.TEXT_BYTES
