from itertools import product

import pytest
from support.fake_server import FakeServer, make_client, ready_keys, reply, run, wait_for

from rillet.commands.runtime.tuning import ServerTuning
from rillet.commands.streams.trim_options import TrimOptions, default_limit, parse_trim_options
from rillet.commands.streams.xadd import encode_fields
from rillet.protocol import replies
from rillet.storage.streams.stream import Stream

SMALL_ID = b"-ERR The ID specified in XADD is equal or smaller than the target stream top item\r\n"
MAX = b"18446744073709551615"
NOW = 1_700_000_000_000


@pytest.fixture
def client():
    return make_client()


def words(text: str) -> list[bytes]:
    return text.encode().split()


def do(client, text):
    return run(client, *words(text))


def fill(client, count, key="s"):
    for number in range(1, count + 1):
        run(client, "XADD", key, f"{number}-0", "f", "v")
    client.server.propagation.take()
    client.server.events.clear()


def propagated(client):
    return [b" ".join(argv).decode() for argv in client.server.propagation.take()]


# XADD: IDs


def test_a_generated_id_is_the_time_of_the_batch(client):
    assert do(client, "XADD s * f v") == b"$15\r\n1700000000000-0\r\n"
    assert do(client, "XADD s * f v") == b"$15\r\n1700000000000-1\r\n"
    client.server.advance(1)
    assert do(client, "XADD s * f v") == b"$15\r\n1700000000001-0\r\n"


def test_generated_ids_of_one_millisecond_grow_in_length(client):
    assert [reply(client, "XADD", "s", "*", "f", "v") for _ in range(1100)] == [
        b"%d-%d" % (NOW, seq) for seq in range(1100)
    ]


# XADD: parsing


def test_values_of_any_size_and_content_come_back(client):
    value = b"\r\n\x00" + b"x" * 5000
    pairs = [b"", b"", b"f" * 1024, value, b"f" * 1025, b"1"]
    run(client, b"XADD", b"s", b"1-1", *pairs)
    run(client, b"XADD", b"s", b"1-2", *[b"w"] * 400)
    assert reply(client, "XRANGE", "s", "-", "+") == [[b"1-1", pairs], [b"1-2", [b"w"] * 400]]


def test_elements_beyond_one_gibibyte_are_refused(client):
    assert client.server.tuning.entry_bytes == 1 << 30
    client.server.tuning = ServerTuning(entry_bytes=20)
    assert do(client, "XADD s 1 field12345 value12345") == b"$3\r\n1-0\r\n"
    assert do(client, "XADD s 2 field12345 value123456") == b"-ERR Elements are too large to be stored\r\n"
    assert do(client, "XADD s 1 field12345 value123456") == SMALL_ID
    assert do(client, "XADD new 1 field12345 value123456") == b"-ERR Elements are too large to be stored\r\n"
    assert client.db.peek(b"new") is None


# XADD: effects


def test_xadd_counts_as_one_change_and_touches_watchers(client):
    client.db.watched[b"s"] = [1, 0]
    do(client, "XADD s 1 f v")
    assert client.server.keyspace.dirty == 1
    assert client.db.watched[b"s"][1] == 1


def test_xadd_wakes_those_who_wait_for_the_key_even_if_the_entry_is_trimmed_at_once(client):
    fill(client, 1)
    wait_for(client, b"s")
    do(client, "XADD s MAXLEN 0 * f v")
    assert ready_keys(client) == [b"s"]
    do(client, "XADD s 1-0 f v")
    assert ready_keys(client) == []


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("xadd s * f v", f"xadd s {NOW}-0 f v"),
        ("XADD s 50-* f v", "XADD s 50-0 f v"),
        ("XADD s 50 f v", "XADD s 50 f v"),
        ("XADD s NOMKSTREAM * f v", f"XADD s NOMKSTREAM {NOW}-0 f v"),
        ("XADD s MAXLEN 3 * f v", f"XADD s MAXLEN 3 {NOW}-0 f v"),
        ("XADD s maxlen = 3 * f v", f"XADD s maxlen = 3 {NOW}-0 f v"),
        ("XADD s MAXLEN ~ 25 LIMIT 20 41 f v", "XADD s MAXLEN = 31 LIMIT 20 41 f v"),
        ("XADD s MAXLEN ~ 1000 41 f v", "XADD s MAXLEN = 41 41 f v"),
        ("XADD s MINID ~ 15 41 f v", "XADD s MINID = 11-0 41 f v"),
        ("XADD s MINID ~ 0 41-* f v", "XADD s MINID = 1-0 41-0 f v"),
        ("XADD s LIMIT 0 MINID ~ 99 41 f v", f"XADD s LIMIT 0 MINID = {MAX.decode()}-{MAX.decode()} 41 f v"),
    ],
)
def test_xadd_is_propagated_with_what_came_of_it(text, effect):
    client = make_client(server=FakeServer(stream_node_max_entries=10))
    fill(client, 40)
    do(client, text)
    assert propagated(client) == [effect]


def test_the_first_physical_entry_counts_for_the_propagated_minimum_even_if_deleted():
    client = make_client(server=FakeServer(stream_node_max_entries=10))
    fill(client, 20)
    do(client, "XDEL s 11-0")
    client.server.propagation.take()
    do(client, "XTRIM s MINID ~ 12")
    assert propagated(client) == ["XTRIM s MINID = 11-0"]


def test_nothing_is_built_for_propagation_without_a_listener(client):
    client.server.propagation.active = False
    do(client, "XADD s * f v")
    do(client, "XADD s MAXLEN ~ 5 * f v")
    assert propagated(client) == []


def test_a_replayed_command_may_give_a_limit_without_the_tilde_and_it_does_not_limit(client):
    fill(client, 41)
    client.trusted = client.replays = True
    assert do(client, "XADD s MAXLEN = 31 LIMIT 2 42 f v") == b"$4\r\n42-0\r\n"
    assert do(client, "XLEN s") == b":31\r\n"
    assert do(client, "XTRIM s MAXLEN = 5 LIMIT 2") == b":26\r\n"
    assert do(client, "XTRIM s LIMIT 2") == (
        b"-ERR syntax error, LIMIT cannot be used without specifying a trimming strategy\r\n"
    )


# XTRIM


def test_approximate_trimming_is_limited_to_a_hundred_nodes_by_default():
    client = make_client(server=FakeServer(stream_node_max_entries=1))
    fill(client, 150)
    assert do(client, "XTRIM s MAXLEN ~ 0") == b":100\r\n"
    assert do(client, "XTRIM s MAXLEN ~ 0 LIMIT 0") == b":50\r\n"
    assert propagated(client) == ["XTRIM s MAXLEN = 50", "XTRIM s MAXLEN = 0 LIMIT 0"]


@pytest.mark.parametrize(
    ("entries", "limit"), [(0, 10_000), (1, 100), (10_000, 1_000_000), (10_001, 1_000_000)]
)
def test_the_default_limit_stays_within_bounds(entries, limit):
    client = make_client(server=FakeServer(stream_node_max_entries=entries))
    assert parse_trim_options(client, words("XTRIM s MAXLEN ~ 5"), adding=False).limit == limit
    assert parse_trim_options(client, words("XTRIM s MAXLEN = 5"), adding=False).limit == 0
    assert parse_trim_options(client, words("XTRIM s MAXLEN ~ 5 LIMIT 7"), adding=False).limit == 7


# XSETID


@pytest.mark.parametrize("more", [0, 1, 2, 70])
def test_fields_are_encoded_as_an_array_however_long_they_are(more):
    for name, value in product([0, 1, 1024, 1025], [0, 1, 1024, 1025, 70_000]):
        words = [b"n" * name, b"v" * value] + [b"n", b"w" * value] * more
        assert encode_fields(words) == replies.bulk_array(words)


@pytest.mark.parametrize("node", [1, 3, 100])
@pytest.mark.parametrize("threshold", [0, 1, 5, 150])
def test_a_trim_that_is_left_out_at_a_glance_would_remove_nothing(client, node, threshold):
    options = TrimOptions()
    options.strategy, options.by_length = b"MAXLEN", True
    options.approximate, options.threshold = True, threshold
    options.limit = default_limit(node)
    stream, left_out = Stream(), 0
    for ms in range(1, 400):
        is_left_out = options.removes_nothing(stream)
        stream.append(ms << 64, b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n", 4096, node)
        if is_left_out:
            left_out += 1
            assert options.trim(client, stream.copy()) == 0
        else:
            options.trim(client, stream)
        if ms % 7 == 0:
            stream.delete(stream.first_id)
    assert left_out == 0 if threshold == 0 else left_out > 0
