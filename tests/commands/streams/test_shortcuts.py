"""What stream commands recognise at sight means what the general way says of it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.fake_server import FakeServer, make_client, run
from support.groups import effects, group_client

from rillet.commands.streams.trim_options import TrimOptions, parse_trim_options
from rillet.commands.streams.xadd import encode_fields
from rillet.commands.streams.xreadgroup import xreadgroup
from rillet.protocol import replies
from rillet.protocol.errors import ReplyError
from rillet.storage.groups.stream_value import digest_parts
from rillet.storage.streams.ids import MAX_ID, encode
from rillet.storage.streams.stream import Stream

NUMBERS = st.integers(-(1 << 64), 1 << 64).map(b"%d".__mod__) | st.sampled_from(
    [b"0", b"007", b"-0", b"+1", b" 1", b"", b"x", b"*", b"1024", b"9223372036854775808"]
)
FIELDS = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
SHORT = st.binary(max_size=9)
LONG = st.integers(1020, 1028).map(lambda size: b"v" * size)
WORDS = st.integers(1, 5).flatmap(
    lambda pairs: st.lists(SHORT | LONG, min_size=2 * pairs, max_size=2 * pairs)
)


@given(NUMBERS)
def test_the_count_of_a_range_means_the_same_in_lower_case(number):
    client = make_client()
    for ms in range(1, 6):
        run(client, "XADD", "s", f"{ms}-0", "f", "v")
    usual, other = (run(client, "XRANGE", "s", "-", "+", word, number) for word in ("COUNT", "count"))
    assert usual == other


@given(NUMBERS | LONG, st.sampled_from([b"0", b"2-0", b"5", b"$", b"+", b">", b"x"]), st.sampled_from([2, 3]))
@example(b"2", b"0", 2)
@example(b"0" * 300, b"0", 2)
def test_a_read_of_one_stream_means_the_same_in_lower_case(number, start, resp):
    client = make_client()
    client.resp = resp
    for ms in range(1, 6):
        run(client, "XADD", "s", f"{ms}-0", "f", "v")
    usual, other = (run(client, "XREAD", word, number, "STREAMS", "s", start) for word in ("COUNT", "count"))
    assert usual == other


@given(
    st.sampled_from(["s", "absent", "text", "empty"]),
    st.sampled_from([b"0", b"2-0", b"5", b"9-9", b"5-x", b"1-" + b"9" * 20]),
    st.sampled_from([[], ["COUNT", "2"], ["MAXCOUNT", "1"]]),
    st.sampled_from([2, 3]),
)
def test_a_read_of_one_stream_is_a_read_like_any_other(key, start, options, resp):
    """An ID may have a space before it, by which nothing is recognised."""
    found = []
    for before in (b"", b" "):
        client = make_client()
        client.resp = resp
        for ms in range(1, 6):
            run(client, "XADD", "s", f"{ms}-0", "f", "v")
        run(client, "XGROUP", "CREATE", "empty", "g", "0", "MKSTREAM")
        run(client, "SET", "text", "v")
        keyspace = client.server.keyspace
        keyspace.hits = keyspace.misses = 0
        reply = run(client, "XREAD", *options, "STREAMS", key, before + start)
        found.append((reply, keyspace.hits, keyspace.misses))
    assert found[0] == found[1]


@given(
    st.sampled_from([b"-", b"+", b"(1", b"1", b"1-1", b"x"]),
    st.sampled_from([b"-", b"+", b"(3", b"3", b"3-3"]),
)
def test_a_whole_stream_is_an_interval_like_any_other(start, end):
    client = make_client()
    for ms in range(1, 6):
        run(client, "XADD", "s", f"{ms}-0", "f", "v")
    spelled = {b"-": b"0-0", b"+": b"18446744073709551615-18446744073709551615"}
    assert run(client, "XRANGE", "s", start, end) == run(
        client, "XRANGE", "s", spelled.get(start, start), spelled.get(end, end)
    )


@given(NUMBERS)
def test_the_usual_trim_is_read_as_any_other(threshold):
    client = make_client()
    found = []
    for name in (b"MAXLEN", b"maxlen"):
        words = [b"XADD", b"s", name, b"~", threshold, b"*", b"f", b"v"]
        try:
            options = parse_trim_options(client, words, adding=True)
        except ReplyError as error:
            found.append(error.text)
        else:
            found.append({name: getattr(options, name) for name in TrimOptions.__annotations__})
    assert found[0] == found[1]


@given(WORDS)
@example([b"n" * 1024, b"v" * 1025])
@example([b"n" * 1025, b"v" * 1024])
def test_fields_of_any_number_are_encoded_as_an_array(words):
    assert encode_fields(words) == replies.bulk_array(words)


@given(
    st.sampled_from(["XADD", "xadd"]),
    st.binary(max_size=5),
    st.sampled_from([b"*", b"7-*", b"7", b"7-07"]),
    WORDS,
)
def test_the_record_of_an_xadd_is_what_encoding_its_words_gives(verb, key, new_id, words):
    server = FakeServer()
    records = []
    server.propagation.add_encoded = lambda db, record: records.append((db, record))
    reply = run(make_client(server=server), verb, key, new_id, *words)
    stated = new_id if b"*" not in new_id else reply.split(b"\r\n")[1]
    assert records == [(0, replies.command([verb.encode(), key, stated, *words]))]


@given(st.integers(240, 260) | st.integers(0, 1 << 62), st.integers(1, 20), st.integers(0, 1 << 40))
def test_an_id_is_written_as_encoding_it_gives_whatever_its_sequence(seq, number, ms):
    ids = [(ms << 64 | each) for each in range(seq, seq + number)]
    texts = [encode(each) for each in ids]
    one_by_one, run_of_them = Stream(), Stream()
    found = [one_by_one.append(each, FIELDS) for each in ids]
    assert found == [b"$%d\r\n%b\r\n" % (len(text), text) for text in texts]
    assert run_of_them.append_run(ms, seq, [FIELDS] * number, 4096, 100) == found
    entries = b"".join(b"*2\r\n%b%b" % (reply, FIELDS) for reply in found)
    assert one_by_one.range(0, MAX_ID)[1] == run_of_them.range(0, MAX_ID)[1] == entries


STEPS = st.lists(
    st.sampled_from(
        [
            ("XADD", "s", "*", "f", "v"),
            ("XADD", "t", "*", "f", "v"),
            ("XDEL", "s", "20-0"),
            ("XGROUP", "SETID", "s", "g", "0"),
            ("XGROUP", "SETID", "s", "g", "$"),
            ("XGROUP", "DESTROY", "s", "g"),
            ("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"),
            ("XGROUP", "DELCONSUMER", "s", "g", "c"),
            ("XREADGROUP", "GROUP", "g", "d", "STREAMS", "s", ">"),
            ("XTRIM", "s", "MAXLEN", "0"),
            "remove",
            "expire",
            "replace",
            "later",
        ]
    ),
    max_size=4,
)


@given(STEPS, st.integers(1, 2))
def test_a_blocked_reader_that_is_served_or_goes_on_waiting_finds_what_a_read_finds(steps, keys):
    """The check of a wake-up, and the read that remembers its words, beside one that is parsed and looks all up."""
    twins = [prepared(keys), prepared(keys)]
    for client, _, _ in twins:
        for step in steps:
            change(client, step)
    (client, blocked, is_still_blocked), (other, _, _) = twins
    if is_still_blocked():
        assert served(other, list(blocked)) == replies.null_array(2)
    else:
        assert served(client, blocked) == served(other, list(blocked))
    assert state(client) == state(other)


def prepared(keys):
    """A client that waits in XREADGROUP, what it sent, and the check whether it goes on to wait."""
    client = group_client()
    for key in "st":
        run(client, "XADD", key, "20-0", "f", "v")
        run(client, "XGROUP", "CREATE", key, "g", "$")
        run(client, "XGROUP", "SETID", key, "g", "$")
    names = "st"[:keys]
    run(client, "XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", *names, *(">" for _ in names))
    blocking = client.server.blocking
    _, _, _, blocked, _ = blocking.waiting[-1]
    client.in_exec = True  # a read that finds nothing replies
    return client, blocked, blocking.still_blocked


def change(client, step):
    db, keyspace = client.db, client.server.keyspace
    if step == "remove":
        db.remove(b"s")
    elif step == "expire":
        if b"s" in db.entries:
            db.set_expiry(b"s", keyspace.now - 1)
    elif step == "replace":
        db.replace(b"s", b"text")
    elif step == "later":
        keyspace.now += 5
    else:
        run(client, *step)


def served(client, words):
    try:
        return xreadgroup(client, words)
    except ReplyError as error:
        return error.text


def state(client):
    keyspace = client.server.keyspace
    values = {
        key: list(digest_parts(value)) if type(value) is Stream else value
        for key, value in client.db.entries.items()
    }
    seen = [
        (name, consumer.seen_ms, consumer.active_ms)
        for value in client.db.entries.values()
        if type(value) is Stream
        for group in value.groups.values()
        for name, consumer in group.consumers.items()
    ]
    return values, seen, keyspace.hits, keyspace.misses, keyspace.dirty, effects(client), client.db.expires


@pytest.mark.parametrize("number", [-1, 0, 1, 1023, 1024, 1025, 1 << 63])
def test_small_numbers_are_written_as_great_ones(number):
    assert replies.integer(number) == b":%d\r\n" % number
    assert replies.array_header(abs(number)) == b"*%d\r\n" % abs(number)
