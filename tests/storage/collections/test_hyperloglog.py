"""HyperLogLogs: the same bytes and the same numbers as those of real servers."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.servers import start_server

from rillet.storage.collections.hyperloglog import REGISTERS, HyperLogLog, estimate, highest, registers_of

ELEMENTS = st.lists(st.binary(max_size=20), max_size=30)


def made_of(elements, **settings):
    counter = HyperLogLog(**settings)
    for element in elements:
        counter.add(element)
    return counter


@given(ELEMENTS, st.sampled_from([0, 20, 60, 3000]))
def test_the_form_does_not_change_the_registers(elements, sparse_bytes):
    counter = made_of(elements, sparse_bytes=sparse_bytes)
    assert counter.registers() == registers_of(elements)
    again = HyperLogLog(bytes(counter))
    assert again.registers() == registers_of(elements)
    again.become_dense()
    assert again.is_dense
    assert again.registers() == registers_of(elements)
    assert again.count() == counter.count() == estimate(registers_of(elements))
    assert again.known_count() == counter.count()


@given(ELEMENTS, ELEMENTS)
def test_a_union_counts_what_both_count(first, second):
    assert highest([registers_of(first), registers_of(second)]) == registers_of([*first, *second])


@given(st.lists(ELEMENTS, max_size=4), st.sampled_from([20, 60, 3000]))
def test_a_counter_that_was_closed_goes_on_as_one_that_is_read_again(several, sparse_bytes):
    data = again = bytes(HyperLogLog())
    for elements in several:
        counter, other = HyperLogLog.opened(data, sparse_bytes), HyperLogLog(again, sparse_bytes)
        for element in elements:
            assert counter.add(element) == other.add(element)
        data, again = counter.close(), bytes(other)
        assert data == again
        assert counter.registers() == other.registers()


def test_what_was_closed_is_opened_once_and_not_changed_for_another_of_the_same_bytes():
    counter = made_of([b"a"])
    data = counter.close()
    assert HyperLogLog.opened(data, 3000) is counter
    counter.add(b"b")
    assert bytes(HyperLogLog.opened(data, 3000)) == data


@given(ELEMENTS, ELEMENTS, st.sampled_from([20, 3000]))
def test_raising_all_registers_is_the_same_as_one_by_one(first, second, sparse_bytes):
    union = highest([registers_of(first), registers_of(second)])
    at_once, singly = (made_of(first, sparse_bytes=sparse_bytes) for _ in range(2))
    at_once.set_all(union)
    for place, rank in enumerate(union):
        singly.set(place, rank)
    assert at_once.registers() == singly.registers() == union


def test_registers_that_no_hash_gives_count_as_no_zeros():
    registers = bytearray([63, 52] * 100 + [0] * (REGISTERS - 200))
    assert estimate(registers) == estimate(bytearray([63] * 200 + [0] * (REGISTERS - 200)))
    assert estimate(registers) != estimate(bytearray(REGISTERS))


@pytest.mark.parametrize("size", [100, 5_000, 100_000])
def test_the_estimate_is_near_the_truth(size):
    count = estimate(registers_of(b"%d" % number for number in range(size)))
    assert abs(count - size) < 0.03 * size


@pytest.fixture(scope="module", params=["redis7", "valkey"])
def peer(request):
    with start_server(request.param) as server, server.wire() as wire:
        yield wire


@pytest.mark.parametrize("sparse_bytes", [0, 100, 3000])
def test_real_servers_make_the_same_bytes(peer, sparse_bytes):
    peer.call("CONFIG", "SET", "hll-sparse-max-bytes", sparse_bytes)
    peer.call("DEL", "h")
    chance = random.Random(sparse_bytes)
    counter = HyperLogLog(sparse_bytes=sparse_bytes)
    peer.call("PFADD", "h")
    for _ in range(60):
        elements = [chance.randbytes(chance.randrange(30)) for _ in range(chance.choice([1, 5, 40]))]
        counter = HyperLogLog.opened(counter.close(), sparse_bytes)
        changed = any(list(map(counter.add, elements)))
        assert peer.call("PFADD", "h", *elements).plain() == changed
        assert peer.call("GET", "h").plain() == bytes(counter)
        assert peer.call("PFCOUNT", "h").plain() == counter.count()
        assert peer.call("GET", "h").plain() == bytes(counter)
