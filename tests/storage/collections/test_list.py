"""What a loaded list becomes, what moves and is found in long ones, and their sizes."""

from rillet.storage.collections.encoding_limits import Limits
from rillet.storage.collections.list import LISTPACK, QUICKLIST, List

DEFAULT = -2


def test_matches_are_found_from_the_end_across_thousands():
    many = List([b"x", *[b"y"] * 3000, b"x", *[b"y"] * 100])
    assert list(many.find(b"x", backwards=True)) == [3001, 0]
    assert list(many.find(b"x", backwards=True, within=3000)) == [3001]


def filled(limit, count, word=b"x" * 98):
    """Elements that take 100 bytes each (101 if they are longer), pushed one by one."""
    made = List()
    for _ in range(count):
        made.push_right([word], limit)
    return made


def test_what_was_loaded_is_a_listpack_up_to_the_whole_limit():
    made = filled(6, 6)
    made.choose_encoding(Limits(list_max_listpack_size=6))
    assert made.encoding is LISTPACK
    made.choose_encoding(Limits(list_max_listpack_size=5))
    assert made.encoding is QUICKLIST
    made.choose_encoding(Limits(list_max_listpack_size=6))
    assert made.encoding is QUICKLIST


def test_a_queue_gives_the_room_of_what_is_gone_back():
    made = List()
    for number in range(10_000):
        made.push_right([b"%d" % number], DEFAULT)
        if number >= 10:
            assert made.pop_left() == b"%d" % (number - 10)
    assert len(made) == 10
    assert len(made._items) < 200


def test_the_end_of_a_stack_costs_no_copy_each_time():
    made = List([b"x"] * 10_000)
    moves = 0
    for _ in range(5_000):
        before = made._items, made._start
        made.push_left([b"y"], DEFAULT)
        moves += made._start > before[1]
        made.pop_left()
    assert moves <= 2
