"""LCS against a table, and its limit."""

from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import FakeServer, make_client, reply, run

SHORT = st.binary(max_size=12).map(lambda text: bytes(byte % 3 + 97 for byte in text))


@given(SHORT, SHORT)
def test_lcs_is_as_long_as_the_table_says_and_common(first, second):
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, left in enumerate(first):
        for j, right in enumerate(second):
            table[i + 1][j + 1] = table[i][j] + 1 if left == right else max(table[i][j + 1], table[i + 1][j])
    client = make_client(server=FakeServer())
    run(client, "MSET", "a", first, "b", second)
    found = reply(client, "LCS", "a", "b")
    assert len(found) == reply(client, "LCS", "a", "b", "LEN") == table[-1][-1]
    for text in (first, second):
        rest = iter(text)
        assert all(byte in rest for byte in found)
    places = reply(client, "LCS", "a", "b", "IDX", "WITHMATCHLEN")[1]
    pieces = [first[start : end + 1] for (start, end), _, _ in reversed(places)]
    assert b"".join(pieces) == found
    assert [second[start : end + 1] for _, (start, end), _ in reversed(places)] == pieces


def test_lcs_of_strings_too_long_for_a_table_is_refused(client):
    client.server.config.proto_max_bulk_len = 1000
    run(client, "MSET", "a", "x" * 20, "b", "y" * 20)
    assert run(client, "LCS", "a", "b").startswith(b"-ERR Insufficient memory")
