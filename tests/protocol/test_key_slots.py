"""Hash slots, beside those that real servers name (tests/server/cluster compares more of them)."""

import pytest

from rillet.protocol.key_slots import hash_tag, key_slot


@pytest.mark.parametrize(
    ("key", "tag"),
    [
        (b"key", b"key"), (b"a{tag}b", b"tag"), (b"{}tag", b"{}tag"), (b"{tag", b"{tag"), (b"tag}{", b"tag}{"),
        (b"}{tag}", b"tag"), (b"a{{b}}", b"{b"), (b"{a}{b}", b"a"), (b"", b""),
    ],
)  # fmt: skip
def test_the_first_tag_that_is_not_empty_decides(key, tag):
    assert hash_tag(key) == tag
    assert key_slot(key) == key_slot(tag) or tag == key


@pytest.mark.parametrize(
    ("key", "slot"), [(b"foo", 12182), (b"b", 3300), (b"foo{bar}", 5061), (b"{}a", 10875), (b"06S", 0)]
)
def test_slots_are_those_of_redis(key, slot):
    assert key_slot(key) == slot
