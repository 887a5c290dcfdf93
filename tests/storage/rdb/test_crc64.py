from __future__ import annotations

import random

import pytest

from rillet.storage.rdb.crc64 import _POWERS, crc64

POLYNOMIAL = 1 << 64 | 0xAD93D23594C935A9


def slowly(data: bytes, crc: int = 0) -> int:
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x95AC9329AC4BC9B5 if crc & 1 else crc >> 1
    return crc


def test_the_checksum_is_that_of_redis():
    assert crc64(b"123456789") == 0xE9C6D914C4B8D9CA


@pytest.mark.parametrize(
    "size", [0, 1, 63, 64, 65, 127, 128, 129, 500, 4095, 32767, 32768, 32769, 65536, 70001]
)
def test_long_data_has_the_same_checksum_as_byte_by_byte(size):
    data = random.Random(size).randbytes(size)
    assert crc64(data) == slowly(data)


@pytest.mark.parametrize("size", [1, 200, 40000])
def test_data_can_be_summed_up_in_pieces(size):
    data = random.Random(1).randbytes(2 * size)
    assert crc64(memoryview(data)[size:], crc64(data[:size])) == slowly(data)


@pytest.mark.parametrize(("power", "remainder"), _POWERS)
def test_the_powers_are_what_they_say(power, remainder):
    number = 1
    for _ in range(power):
        number <<= 1
        if number >> 64:
            number ^= POLYNOMIAL
    assert number == remainder
    assert power % 8 == 0
