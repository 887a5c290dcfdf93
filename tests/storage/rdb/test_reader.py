import io

import pytest

from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.rdb import ByteSource, RdbError, is_rdb, load_rdb

# As redis-server 7.0.15 and valkey-server 9.1.2 wrote them on a first start.
REDIS = (
    b"REDIS0010\xfa\tredis-ver\x067.0.15\xfa\nredis-bits\xc0@\xfa\x05ctime\xc2\xab\xf8\xffj"
    b"\xfa\x08used-mem\xc2\xf8_\r\x00\xfa\x08aof-base\xc0\x01\xff\x99\xa9\x15f\xbc\xc6\x06\x9f"
)
VALKEY = (
    b"VALKEY080\xfa\nvalkey-ver\x059.1.2\xfa\nredis-bits\xc0@\xfa\x05ctime\xc2\xab\xf8\xffj"
    b"\xfa\x08used-mem\xc2P?\x0f\x00\xfa\x08aof-base\xc0\x01\xff\x16M\x19\xa0~{\x82\xda"
)


def read(data: bytes) -> bytes:
    """What is left behind the RDB."""
    source = ByteSource(io.BytesIO(data).read)
    assert is_rdb(source)
    assert list(load_rdb(source, Keyspace())) == []
    position = source.position
    rest = source.read(1000)
    assert data[position:] == rest
    return rest


@pytest.mark.parametrize("rdb", [REDIS, VALKEY], ids=["redis", "valkey"])
def test_the_base_of_a_first_start_is_taken_and_what_follows_is_left(rdb):
    assert read(rdb + b"*1\r\n") == b"*1\r\n"


def test_a_checksum_of_zero_is_not_checked_and_a_wrong_one_is_refused():
    assert read(REDIS[:-8] + bytes(8)) == b""
    with pytest.raises(RdbError, match=r"Wrong RDB checksum expected: \(636261bc6615a999\)"):
        read(REDIS[:-3] + b"abc")


def test_all_encodings_of_auxiliary_strings_are_skipped():
    body = b"REDIS0010\xfa\x01a\x42\x00" + b"x" * 512 + b"\xfa\x80\0\0\0\x01a\x81" + bytes(7) + b"\x01b"
    body += b"\xfa\xc1\0\0\xc3\x04\x03\x02abc\xfe\x00\xfb\x00\x00\xff"
    assert read(body + bytes(8)) == b""


@pytest.mark.parametrize("cut", [5, 8, 9, 15, 40, len(REDIS) - 3])
def test_a_short_rdb_is_refused(cut):
    with pytest.raises(RdbError, match=r"Short read or OOM loading DB\. Unrecoverable error, aborting now\."):
        read(REDIS[:cut])


@pytest.mark.parametrize("version", [b"9999", b"abcd", b"0000"])
def test_an_unknown_version_is_refused(version):
    with pytest.raises(RdbError, match=f"Can't handle RDB format version {version.decode()}"):
        read(b"REDIS" + version + REDIS[9:])
