from hypothesis import given
from hypothesis import strategies as st

from rillet.server.replication.backlog import Backlog


def test_what_was_appended_can_be_read_from_any_offset_on():
    backlog = Backlog(16384, offset=100)
    backlog.append(b"abc")
    backlog.append(b"def")
    assert backlog.since(101) == b"abcdef"
    assert backlog.since(104) == b"def"
    assert backlog.since(107) == b""


def test_what_is_not_there_any_more_or_not_yet_is_refused():
    backlog = Backlog(16384, offset=100)
    backlog.append(b"abc")
    assert backlog.since(100) is None
    assert backlog.since(105) is None


@given(
    st.lists(st.binary(min_size=1, max_size=30), max_size=60),
    st.integers(0, 1000),
    st.integers(1, 200),
)
def test_the_newest_bytes_are_always_kept(pieces, offset, size):
    backlog = Backlog(size, offset)
    backlog.size = size
    stream = b""
    for piece in pieces:
        backlog.append(piece)
        stream += piece
    kept = min(len(stream), size)
    assert len(backlog) == kept
    end = offset + len(stream)
    assert backlog.first_promised == end - kept + 1
    for back in (0, kept // 2, kept):
        assert backlog.since(end - back + 1) == stream[len(stream) - back :]
    backlog.size = 5
    assert backlog.since(end - min(5, len(stream)) + 1) == stream[-5:]
    assert len(backlog) <= 5
