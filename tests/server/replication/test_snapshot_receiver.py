import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.server.replication.snapshot_receiver import SnapshotReceiver

MARK = b"0123456789" * 4


@given(st.binary(max_size=200), st.integers(1, 60), st.booleans())
def test_a_snapshot_is_taken_whole_however_it_is_cut(file, piece, marked):
    receiver = SnapshotReceiver(b"$EOF:" + MARK if marked else b"$%d" % len(file))
    sent = file + MARK if marked else file
    got, at = b"", 0
    while at < len(sent):
        assert receiver.wanted > 0
        data = sent[at : at + min(piece, receiver.wanted)]
        at += len(data)
        got += receiver.take(data)
    if sent:
        assert receiver.is_complete
        assert receiver.wanted == 0
    assert got == file
    assert receiver.received == len(sent)


def test_a_mark_inside_the_file_does_not_end_it_before_the_last_bytes():
    receiver = SnapshotReceiver(b"$EOF:" + MARK)
    got = receiver.take(b"x" + MARK[:39])
    assert not receiver.is_complete
    got += receiver.take(b"y" + MARK)
    assert receiver.is_complete
    assert got == b"x" + MARK[:39] + b"y"


@pytest.mark.parametrize("header", [b"+OK", b"$", b"$-1", b"$EOF:short", b"-ERR no"])
def test_another_header_is_refused(header):
    with pytest.raises(EOFError):
        SnapshotReceiver(header)
