import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.storage.codecs.crc64 import crc64


def slowly(data: bytes, crc: int = 0) -> int:
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x95AC9329AC4BC9B5 if crc & 1 else crc >> 1
    return crc


def test_the_checksum_is_that_of_redis():
    assert crc64(b"123456789") == 0xE9C6D914C4B8D9CA


@given(st.binary(max_size=400), st.integers(0, (1 << 64) - 1), st.integers(0, 400))
def test_any_data_after_any_other_has_the_checksum_that_its_bits_have(data, before, cut):
    whole = slowly(data, before)
    assert crc64(data, before) == whole
    assert crc64(memoryview(data)[cut:], crc64(bytearray(data[:cut]), before)) == whole


@pytest.mark.parametrize("size", [4095, 32767, 32768, 32769, 65536, 70001])
def test_long_data_has_the_same_checksum_as_byte_by_byte(size):
    data = random.Random(size).randbytes(size)
    assert crc64(data) == slowly(data)
