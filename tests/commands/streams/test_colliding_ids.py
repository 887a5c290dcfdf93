"""Ids whose integers all have one hash cost no more than others, in every command that takes ids."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import FakeServer, make_client, reply, run

from rillet.storage.streams import ids as stream_id

NUMBER = 1200
IDS = [f"{ms}-{(1 << 40) - 8 * ms}" for ms in range(1, NUMBER + 1)]
TWICE = random.Random(1).sample(IDS, 300)
SHUFFLED = random.Random(2).sample(IDS, NUMBER // 2)
MOST = 150  # comparisons for each id; a chunk or a block is searched one by one


class Number(int):
    """An id that counts how often it is compared for equality."""

    comparisons = 0

    def __eq__(self, other):
        Number.comparisons += 1
        return int(self) == other

    __hash__ = int.__hash__


@pytest.fixture(params=["read", "claimed", "not read"])
def client(request, monkeypatch):
    client = make_client(server=FakeServer())
    run(client, "XADD", "s", IDS[0], "f", "v")
    for text in IDS[1:]:  # XADD itself would take most of the test's time
        client.db.entries[b"s"].append(stream_id.parse(text.encode()), b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n")
    run(client, "XGROUP", "CREATE", "s", "g", "0")
    run(client, "XGROUP", "CREATE", "s", "h", "0")
    if request.param != "not read":
        for group in ("g", "h"):
            run(client, "XREADGROUP", "GROUP", group, "c", "STREAMS", "s", ">")
    if request.param == "claimed":
        run(client, "XCLAIM", "s", "g", "d", "0", *SHUFFLED)
    client.server.advance(1000)
    parse = stream_id.parse
    monkeypatch.setattr(stream_id, "parse", lambda *words: Number(parse(*words)))
    for group in client.db.entries[b"s"].groups.values():
        for entry in group:
            entry.id = Number(entry.number)
    Number.comparisons = 0
    return client


def test_the_ids_have_one_hash():
    assert len({hash(stream_id.parse(text.encode())) for text in IDS}) == 1


@pytest.mark.parametrize("ids", [SHUFFLED, SHUFFLED + TWICE, IDS], ids=["shuffled", "repeated", "in order"])
@pytest.mark.parametrize(
    "words",
    [
        "XCLAIM s g e 0 {}",
        "XCLAIM s g e 0 {} JUSTID",
        "XCLAIM s g e 0 {} FORCE",
        "XCLAIM s g e 0 {} RETRYCOUNT 3",
        "XACK s g {}",
        "XDEL s {}",
        "XNACK s g FAIL IDS # {}",
        "XNACK s g FAIL IDS # {} FORCE",
        *[f"XDELEX s {policy} IDS # {{}}" for policy in ("KEEPREF", "DELREF", "ACKED")],
        *[f"XACKDEL s g {policy} IDS # {{}}" for policy in ("KEEPREF", "DELREF", "ACKED")],
        "XAUTOCLAIM s g e 0 - COUNT 2000",
        "XPENDING s g - + 2000",
        "XPENDING s g - + 2000 c",
        "XREADGROUP GROUP g e CLAIM 10 STREAMS s >",
        "XGROUP DELCONSUMER s g c",
        "XTRIM s MAXLEN = 10 ACKED",
    ],
)
def test_one_hash_for_all_ids_costs_no_more_comparisons(client, words, ids):
    propagation = client.server.propagation
    propagation.needs_downgrade = lambda _: True  # what older replicas receive names ids, too
    propagation.add_with_downgrade = lambda *_: None
    command = words.replace("#", str(len(ids))).format(" ".join(ids)).split()
    answer = reply(client, *command)
    assert not isinstance(answer, Exception)
    assert Number.comparisons < MOST * len(ids)


def test_a_stream_with_such_ids_is_restored_and_copied(client):
    client.server.config.rdb_version = 11
    payload = reply(client, "DUMP", "s")
    assert reply(client, "RESTORE", "t", 0, payload) == b"OK"
    assert reply(client, "COPY", "s", "u") == 1
    assert reply(client, "DUMP", "t") == payload
    assert Number.comparisons < MOST * NUMBER


@given(
    st.lists(st.sampled_from([0, 1, 2**61 - 1, 2**61, 2**100, 2**100 + 1]), max_size=8), st.integers(0, 100)
)
def test_distinct_means_that_no_id_is_named_twice(numbers, more):
    numbers += range(1000, 1000 + more)
    assert stream_id.are_distinct(numbers) == (len(set(numbers)) == len(numbers))


def test_whether_ids_are_distinct_is_found_in_few_comparisons():
    numbers = [Number(stream_id.parse(text.encode())) for text in SHUFFLED]
    Number.comparisons = 0
    assert stream_id.are_distinct(numbers)
    assert not stream_id.are_distinct([*numbers, numbers[7]])
    assert Number.comparisons == 0
