from itertools import product

import pytest
from support.fake_server import FakeServer, make_client, run
from support.groups import effects

from rillet.commands.runtime.step_sizes import ServerTuning
from rillet.commands.streams.trim_options import TrimOptions, default_limit, parse_trim_options
from rillet.commands.streams.xadd import encode_fields
from rillet.protocol import replies
from rillet.storage.streams.stream import Stream

SMALL_ID = b"-ERR The ID specified in XADD is equal or smaller than the target stream top item\r\n"


def words(text: str) -> list[bytes]:
    return text.encode().split()


def do(client, text):
    return run(client, *words(text))


def fill(client, count, key="s"):
    for number in range(1, count + 1):
        run(client, "XADD", key, f"{number}-0", "f", "v")
    client.server.propagation.take()
    client.server.events.clear()


def test_a_generated_id_is_the_time_of_the_batch(client):
    assert do(client, "XADD s * f v") == b"$15\r\n1700000000000-0\r\n"
    assert do(client, "XADD s * f v") == b"$15\r\n1700000000000-1\r\n"
    client.server.advance(1)
    assert do(client, "XADD s * f v") == b"$15\r\n1700000000001-0\r\n"


def test_elements_beyond_one_gibibyte_are_refused(client):
    assert client.server.tuning.entry_bytes == 1 << 30
    client.server.tuning = ServerTuning(entry_bytes=20)
    assert do(client, "XADD s 1 field12345 value12345") == b"$3\r\n1-0\r\n"
    assert do(client, "XADD s 2 field12345 value123456") == b"-ERR Elements are too large to be stored\r\n"
    assert do(client, "XADD s 1 field12345 value123456") == SMALL_ID
    assert do(client, "XADD new 1 field12345 value123456") == b"-ERR Elements are too large to be stored\r\n"
    assert client.db.peek(b"new") is None


def test_nothing_is_built_for_propagation_without_a_listener(client):
    client.server.propagation.active = False
    do(client, "XADD s * f v")
    do(client, "XADD s MAXLEN ~ 5 * f v")
    assert effects(client) == []


def test_a_replayed_command_may_give_a_limit_without_the_tilde_and_it_does_not_limit(client):
    fill(client, 41)
    client.trusted = client.replays = True
    assert do(client, "XADD s MAXLEN = 31 LIMIT 2 42 f v") == b"$4\r\n42-0\r\n"
    assert do(client, "XLEN s") == b":31\r\n"
    assert do(client, "XTRIM s MAXLEN = 5 LIMIT 2") == b":26\r\n"
    assert do(client, "XTRIM s LIMIT 2") == (
        b"-ERR syntax error, LIMIT cannot be used without specifying a trimming strategy\r\n"
    )


@pytest.mark.parametrize(
    ("entries", "limit"), [(0, 10_000), (1, 100), (10_000, 1_000_000), (10_001, 1_000_000)]
)
def test_the_default_limit_stays_within_bounds(entries, limit):
    client = make_client(server=FakeServer(stream_node_max_entries=entries))
    assert parse_trim_options(client, words("XTRIM s MAXLEN ~ 5"), adding=False).limit == limit
    assert parse_trim_options(client, words("XTRIM s MAXLEN = 5"), adding=False).limit == 0
    assert parse_trim_options(client, words("XTRIM s MAXLEN ~ 5 LIMIT 7"), adding=False).limit == 7


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
