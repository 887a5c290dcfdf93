"""Replies with their types: each one as redis-cli writes it, and never more than a page can show."""

import asyncio

import pytest

from rillet.console import resp


async def read(data):
    stream = asyncio.StreamReader()
    stream.feed_data(data)
    stream.feed_eof()
    return await resp.read(stream)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"+OK\r\n", "OK"),
        (b"$2\r\nOK\r\n", '"OK"'),
        (b"$3\r\na b\r\n", '"a b"'),
        (b"$2\r\n\xff\n\r\n", '"\\xff\\n"'),
        (b"$-1\r\n", "(nil)"),
        (b"*-1\r\n", "(nil)"),
        (b"_\r\n", "(nil)"),
        (b":-5\r\n", "(integer) -5"),
        (b",1.5\r\n", "(double) 1.5"),
        (b",inf\r\n", "(double) inf"),
        (b"#t\r\n", "(true)"),
        (b"#f\r\n", "(false)"),
        (b"(123456789012345678901234567890\r\n", "(big number) 123456789012345678901234567890"),
        (b"-ERR no\r\n", "(error) ERR no"),
        (b"!6\r\nERR no\r\n", "(error) ERR no"),
        (b"=9\r\ntxt:a\nb\nc\r\n", "a\nb\nc"),
        (b"*0\r\n", "(empty array)"),
        (b"%0\r\n", "(empty hash)"),
        (b"~0\r\n", "(empty set)"),
        (b"*2\r\n:1\r\n*1\r\n$1\r\na\r\n", '1) (integer) 1\n2) 1) "a"'),
        (b"~1\r\n$1\r\na\r\n", '1~ "a"'),
        (b">2\r\n$1\r\na\r\n:1\r\n", '1> "a"\n2> (integer) 1'),
        (b"%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*2\r\n:1\r\n:2\r\n", '1# "a" => (integer) 1\n2# "b" =>\n      1) (integer) 1\n      2) (integer) 2'),
        (b"*1\r\n|1\r\n+ttl\r\n:5\r\n$1\r\na\r\n", '1) "a"'),
        (b"+\x1b[31m\xe2\x80\xaeevil\r\n", "\ufffd[31m\ufffdevil"),
    ],
)  # fmt: skip
async def test_a_reply_is_written_with_its_type(data, text):
    assert resp.text(await read(data)) == text


async def test_a_long_string_and_a_long_array_are_cut_and_say_so():
    long = await read(b"$3000000\r\n" + b"x" * 3_000_000 + b"\r\n")
    assert len(long.text) == resp.TEXT_BYTES
    assert resp.text(long).endswith("… (3,000,000 bytes)")
    many = await read(b"*1000\r\n" + b":1\r\n" * 1_000)
    assert len(many.items) == resp.ITEMS
    assert resp.text(many).endswith("… 700 more")
    pairs = await read(b"%400\r\n" + b"$1\r\nx\r\n:1\r\n" * 400)
    assert resp.text(pairs).endswith("… 100 more")


async def test_a_nested_reply_is_kept_within_one_budget_and_the_rest_is_read_past():
    fields = b"*120\r\n" + b"$1000\r\n" + (b"x" * 1000 + b"\r\n$1000\r\n") * 119 + b"x" * 1000 + b"\r\n"
    stream = asyncio.StreamReader()
    stream.feed_data(b"*200\r\n" + fields * 200 + b"+next\r\n")
    budget = resp.Budget()
    reply = await resp.read(stream, budget)
    shown = resp.text(reply)
    assert len(shown) < 2 * resp.TOTAL_TEXT_BYTES
    assert shown.endswith("… 199 more")
    assert budget.cut
    assert (await resp.read(stream)).text == b"next"


@pytest.mark.parametrize(
    "item",
    [b":1\r\n", b"*-1\r\n", b"*1\r\n+a\r\n", b"%1\r\n+a\r\n$1\r\nb\r\n", b"|1\r\n+ttl\r\n:5\r\n_\r\n", b"$-1\r\n"],
)  # fmt: skip
async def test_items_beyond_the_budget_of_a_reply_are_read_past_to_the_byte(item):
    stream = asyncio.StreamReader()
    stream.feed_data(b"*100\r\n" + (b"*100\r\n" + item * 100) * 100 + b"+next\r\n")
    shown = resp.text(await resp.read(stream))
    assert shown.count("\n") < resp.TOTAL_ITEMS + 300
    assert shown.endswith(" more")
    assert (await resp.read(stream)).text == b"next"


async def test_a_reply_of_too_many_bytes_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr(resp, "READ_BYTES", 1_000_000)
    for data in (b"$2000000\r\n", b"*400\r\n" + b"$3000\r\n" + (b"x" * 3000 + b"\r\n$3000\r\n") * 400):
        with pytest.raises(resp.ProtocolError, match="MB"):
            await read(data)


async def test_a_reply_that_is_buffered_already_leaves_others_their_turn():
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(others())
    await read(b"*100000\r\n" + b":1\r\n" * 100_000)
    task.cancel()
    assert turns >= 50


@pytest.mark.parametrize("data", [b"?1\r\n", b"$x\r\n", b"*1\r\n" * 100, b"$?\r\n", b"HTTP/1.1 400\r\n"])
async def test_what_is_no_reply_is_refused(data):
    with pytest.raises(resp.ProtocolError):
        await read(data)


@pytest.mark.parametrize("data", [b"", b"+OK", b"*2\r\n:1\r\n", b"$5\r\nab"])
async def test_a_connection_that_ends_within_a_reply_is_an_end(data):
    with pytest.raises(EOFError):
        await read(data)
