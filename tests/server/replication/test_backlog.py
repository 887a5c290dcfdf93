from hypothesis import given
from hypothesis import strategies as st

from rillet.server.replication.backlog import Backlog


@given(st.lists(st.binary(min_size=1, max_size=30), max_size=60), st.integers(0, 1000), st.integers(1, 200))
def test_the_newest_bytes_are_always_kept(pieces, offset, size):
    backlog = Backlog(size, offset)
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
    assert backlog.since(end - min(5, len(stream))) is None
    assert backlog.since(end + 2) is None
    assert len(backlog) <= 5
