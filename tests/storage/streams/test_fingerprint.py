import struct

import xxhash
from hypothesis import given
from hypothesis import strategies as st

from rillet.storage.streams.idempotency import fingerprint

PAIRS = st.lists(st.tuples(st.binary(max_size=300), st.binary(max_size=300)), min_size=1, max_size=6)


def flat(pairs):
    return [word for pair in pairs for word in pair]


@given(field=st.binary(max_size=40), value=st.binary(max_size=300))
def test_one_pair_is_hashed_with_the_length_of_its_field_between_the_two(field, value):
    digest = xxhash.xxh3_128(field + struct.pack("<Q", len(field)) + value).intdigest()
    low, high = digest % 2**64, digest >> 64
    rotated = [(half * 2 + (half >> 63)) % 2**64 for half in (low, high)]
    assert fingerprint([field, value]) == struct.pack("<QQ", low ^ rotated[1], high ^ rotated[0])


@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_the_pairs_does_not_matter(pairs, random):
    mixed = pairs.copy()
    random.shuffle(mixed)
    assert fingerprint(flat(mixed)) == fingerprint(flat(pairs))


def test_whatever_else_differs_gives_another_hash():
    entries = ["f v", "v f", "f w", "g v", "fv x", "f vx", "f v f v", "f v f v f v", "f v g w", "f w g v"]
    assert len({fingerprint(entry.encode().split()) for entry in entries}) == len(entries)
