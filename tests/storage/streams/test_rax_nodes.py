"""The number of nodes in Redis' radix tree, counted from what neighbours share as by splitting keys again and again."""

import random
from itertools import accumulate, groupby, pairwise

from hypothesis import given
from hypothesis import strategies as st

from rillet.storage.streams.iteration import ids_from
from rillet.storage.streams.rax_nodes import shared_bytes, tree_size
from rillet.storage.streams.stream import Stream
from rillet.storage.streams.trimming import trim

FIELDS = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"


def counted(keys: list[bytes], depth: int = 0) -> int:
    """The nodes below a place where all keys agree in their first ``depth`` bytes."""
    if len(keys) == 1:
        return 1 if depth == 16 else 2
    common = depth
    while keys[0][common] == keys[-1][common]:
        common += 1
    branches = [list(some) for _, some in groupby(keys, key=lambda key: key[common])]
    return (common > depth) + 1 + sum(counted(some, common + 1) for some in branches)


def check(numbers: set[int]) -> None:
    keys = sorted(numbers)
    shared = bytes(shared_bytes(*pair) for pair in pairwise(keys))
    assert tree_size(shared) == counted([key.to_bytes(16, "big") for key in keys])


@given(st.sets(st.integers(0, (1 << 128) - 1), min_size=1, max_size=60))
def test_any_keys(numbers):
    check(numbers)


@given(st.sets(st.lists(st.sampled_from([0, 1, 255]), min_size=16, max_size=16).map(bytes), min_size=1))
def test_keys_that_share_much(keys):
    check({int.from_bytes(key, "big") for key in keys})


@given(
    st.integers(0, 1 << 48),
    st.lists(st.tuples(st.sampled_from([0, 1, 300, 70000]), st.integers(0, 300)), min_size=1, max_size=300),
)
def test_ids_that_follow_each_other(ms, steps):
    numbers = set()
    seq = 0
    for later, further in steps:
        ms, seq = ms + later, further if later else seq + further
        numbers.add(ms << 64 | seq)
    check(numbers)


def test_one_key_is_a_run_of_bytes_and_its_end():
    assert tree_size(b"") == 2


@given(
    st.lists(st.sampled_from([1, 1, 300, 70000, 1 << 40]), min_size=1, max_size=60),
    st.lists(st.integers(0, 59), max_size=50),
    st.integers(0, 10),
)
def test_a_stream_keeps_account_while_its_nodes_come_and_go(steps, deleted, trimmed):
    stream = Stream()
    ids = list(accumulate(steps))
    for number in ids:
        stream.append(number, b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n", 4096, 1)
    for at in deleted:
        stream.delete(ids[at % len(ids)])
    trim(stream, max(stream.length - trimmed, 1))
    keys = [node.first_id.to_bytes(16, "big") for node in stream.macro_nodes.all()]
    assert stream.macro_nodes.tree_size == (counted(keys) if keys else 1)


def test_the_size_of_the_tree_is_computed_again_whenever_nodes_come_or_go():
    stream = Stream()
    stream.append(1 << 64, FIELDS, 0, 2)
    chance = random.Random(5)
    for _ in range(400):
        step = chance.randrange(8)
        if step < 5:
            stream.append(stream.last_id + (chance.choice((1, 200, 70_000)) << 64), FIELDS, 0, 2)
        elif step < 7 and stream.length:
            stream.delete(chance.choice(list(ids_from(stream, 0))))
        elif stream.length > 20:
            trim(stream, stream.length - 3)
        nodes = [node.first_id for node in stream.macro_nodes.all()]
        shared = bytes(shared_bytes(one, other) for one, other in pairwise(nodes))
        assert stream.macro_nodes.tree_size == (tree_size(shared) if nodes else 1)
