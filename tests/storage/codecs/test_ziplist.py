"""storage/codecs/ziplist.py: every form of an element, and every kind of damage."""

import pytest

from rillet.storage.codecs.ziplist import unpack
from rillet.storage.loading import RdbError


def ziplist(*elements: bytes, count: int | None = None) -> bytes:
    """A ziplist of elements that are given as head and content."""
    body, size, last = b"", 0, 10
    for element in elements:
        last = 10 + len(body)
        before = bytes((size,)) if size < 254 else b"\xfe" + size.to_bytes(4, "little")
        size = len(before) + len(element)
        body += before + element
    numbers = (len(body) + 11).to_bytes(4, "little") + last.to_bytes(4, "little")
    return numbers + (len(elements) if count is None else count).to_bytes(2, "little") + body + b"\xff"


FORMS = [
    (b"\x00", b""),
    (b"\x05hello", b"hello"),
    (b"\x3f" + b"x" * 63, b"x" * 63),
    (b"\x40\x40" + b"x" * 64, b"x" * 64),
    (b"\x7f\xff" + b"x" * 16383, b"x" * 16383),
    (b"\x80\x00\x00\x40\x00" + b"x" * 16384, b"x" * 16384),
    (b"\xc0\xff\x7f", b"32767"),
    (b"\xc0\x00\x80", b"-32768"),
    (b"\xd0\x00\x00\x00\x80", b"-2147483648"),
    (b"\xe0" + b"\xff" * 7 + b"\x7f", b"9223372036854775807"),
    (b"\xf0\xff\xff\x7f", b"8388607"),
    (b"\xfe\x80", b"-128"),
    (b"\xf1", b"0"),
    (b"\xfd", b"12"),
]


@pytest.mark.parametrize(("element", "text"), FORMS)
def test_every_form_of_an_element_is_read(element, text):
    assert unpack(ziplist(element)) == [text]
    assert unpack(ziplist(b"\x01a", element, b"\x01b")) == [b"a", text, b"b"]


def test_a_small_size_may_stand_in_five_bytes():
    # Redis leaves it so when the element before shrinks.
    data = b"\x13\x00\x00\x00\x0c\x00\x00\x00\x02\x00\x00\xf2\xfe\x02\x00\x00\x00\xf3\xff"
    assert unpack(data) == [b"1", b"2"]


def test_more_than_65534_elements_are_not_counted():
    assert len(unpack(ziplist(*[b"\xf1"] * 70000, count=65535))) == 70000


GOOD = ziplist(b"\x01a", b"\xc0\x10\x27", b"\x03end")
DAMAGED = {
    "nothing": b"",
    "only a header": GOOD[:10],
    "total too small": b"\x01" + GOOD[1:],
    "no end mark": GOOD[:-1] + b"\x00",
    "wrong place of the last": GOOD[:4] + b"\x0a" + GOOD[5:],
    "wrong count": GOOD[:8] + b"\x04" + GOOD[9:],
    "wrong size of the one before": GOOD[:13] + b"\x04" + GOOD[14:],
    "content behind the end": ziplist(b"\x09a"),
    "an unknown head": ziplist(b"\xc1\x00\x00"),
    "a head of 0xff": ziplist(b"\xff"),
    "an integer cut short": ziplist(b"\xe0\x00"),
    "a length cut short": ziplist(b"\x80\x00"),
    "a length of gigabytes": ziplist(b"\x80\xff\xff\xff\xffabc"),
    "a size of the one before cut short": b"\x0d\x00\x00\x00\x0a\x00\x00\x00\x01\x00\xfe\x00\xff",
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_damage_is_reported(data):
    with pytest.raises(RdbError, match="Ziplist integrity"):
        unpack(data)
