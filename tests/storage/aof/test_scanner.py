from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from rillet.protocol.replies import command as encode
from rillet.storage.aof import scanner
from rillet.storage.aof.loader import AofLoader
from rillet.storage.aof.scanner import End, Transactions, scan_by_hand, scan_quickly

# Values that look like the frame around them are what could lead a scanner astray.
traps = st.sampled_from(
    [b"", b"\r\n*1\r\n$4\r\nEXEC\r\n", b"\r\n$5\r\nMULTI\r\n", b"\r\n*", b"*1\r\n", b"#TS:1\r\n"]
)
values = st.binary(max_size=12) | traps
plain = st.lists(values, min_size=1, max_size=4).filter(lambda c: c[0].upper() not in {b"MULTI", b"EXEC"})
begins = st.sampled_from([[b"MULTI"], [b"multi"], [b"MULTI", b"x"]])
groups = plain.map(lambda command: [command]) | st.tuples(
    begins, st.lists(plain, max_size=3), st.sampled_from([[b"EXEC"], [b"Exec"]])
).map(lambda parts: [parts[0], *parts[1], parts[2]])


def flat(lists):
    return [command for commands in lists for command in commands]


def fed(data, size):
    """The quick scan of data that hiredis gets in pieces of a size."""
    with mock.patch.object(scanner, "_FED", size):
        return scan_quickly(data)


@given(st.lists(groups, max_size=8), st.integers(0, 300), st.sampled_from([1, 7, 50, 1000]))
def test_both_scanners_take_the_same_commands_from_any_beginning_of_a_file(written, cut, size):
    data = b"".join(map(encode, flat(written)))[:cut]
    by_hand = scan_by_hand(data)
    assert by_hand.end is not End.BAD
    quick = fed(data, size)
    assert (quick is None) == (scan_quickly(data) is None)
    if quick is not None:
        rest = scan_by_hand(data[quick.consumed :])
        assert quick.commands + rest.commands == by_hand.commands
        assert quick.consumed + rest.consumed == by_hand.consumed
        numbers = range(len(quick.commands))
        assert list(map(quick.start_of, numbers)) == list(map(by_hand.start_of, numbers))


@given(st.binary(max_size=60), st.lists(groups, max_size=3), st.sampled_from([1, 7, 50, 1000]))
def test_the_quick_scanner_never_takes_what_the_careful_one_refuses(noise, written, size):
    data = b"".join(map(encode, flat(written))) + noise + b"\r\n*1\r\n$1\r\nx\r\n"
    quick = fed(data, size)
    if quick is not None:
        by_hand = scan_by_hand(data[: quick.consumed])
        assert (by_hand.commands, by_hand.consumed) == (quick.commands, quick.consumed)


def test_ordinary_records_take_the_quick_way():
    records = [[b"XADD", b"s", b"%d-1" % n, b"f", b"v"] for n in range(50)]
    data = b"".join(map(encode, records))
    scan = scan_quickly(data)
    assert scan is not None
    assert scan.commands == records[:-1]


def test_other_kinds_of_values_do_not_take_the_quick_way():
    more = encode([b"PING"]) * 2
    for odd in (b"+PING", b":1", b"$-1", b"*1\r\n$4\r\nPING", b"_", b"=8\r\ntxt:PING", b"-ERR"):
        assert scan_quickly(b"*1\r\n" + odd + b"\r\n" + more) is None
    assert scan_quickly(b"+OK\r\n" + more) is None
    assert scan_quickly(b"*0\r\n" + more) is None
    for odd in (b"#t", b"#f", b":0", b",0"):
        assert scan_quickly(odd + b"\r\n" + more) is None
        assert fed(odd + b"\r\n" + more, 1) is None
        assert fed(more + odd + b"\r\n" + more, 5) is None


def test_an_annotation_within_1023_bytes_is_skipped_and_a_longer_one_is_no_command():
    command = encode([b"PING"])
    assert scan_by_hand(b"#" + b"x" * 1021 + b"\n" + command).commands == [[b"PING"]]
    assert scan_by_hand(b"#" + b"x" * 1022 + b"\n" + command).end is End.BAD


def test_a_piece_that_ends_within_a_value_does_not_take_the_quick_way():
    # As many simple strings as the unfinished command has values: their numbers alone would show nothing.
    data = b"*3\r\n+a\r\n+b\r\n+c\r\n" + encode([b"PING"]) + b"*2\r\n$3\r\nSET\r\n$99\r\nvalue\r\n*1\r\n"
    assert scan_quickly(data) is None


@given(st.lists(groups, max_size=6), st.data(), st.sampled_from([scan_quickly, scan_by_hand]))
def test_transactions_are_put_together_from_any_pieces(written, data, scanner):
    encoded = b"".join(map(encode, flat(written)))
    encoded = encoded[: data.draw(st.integers(0, len(encoded)))]
    transactions = Transactions()
    given_so_far = []
    start = end = 0
    while end < len(encoded):
        end = min(end + data.draw(st.integers(1, 200)), len(encoded))
        scan = scanner(encoded[start:end]) or scan_by_hand(encoded[start:end])
        given_so_far += transactions.take(scan, start)
        start += scan.consumed
    # The quick way leaves the last command; at the end of a file that is read by hand.
    given_so_far += transactions.take(scan_by_hand(encoded[start:]), start)
    whole, size = [], 0
    for group in written:
        length = len(b"".join(map(encode, group)))
        if size + length > len(encoded):
            # Of a group that is cut, nothing is given, and its place is known once its MULTI was whole.
            begun = len(group) > 1 and size + len(encode(group[0])) <= len(encoded)
            assert transactions.opened_at == (size if begun else None)
            break
        whole += group
        size += length
    assert given_so_far == whole


def test_a_large_transaction_is_not_taken_by_hand(tmp_path, monkeypatch):
    sizes = []

    def slowly(data, **more):
        sizes.append(len(data))
        return scan_by_hand(data, **more)

    monkeypatch.setattr("rillet.storage.aof.loader.scan_by_hand", slowly)
    commands = [
        [b"MULTI"],
        *[[b"XADD", b"s", b"%d-1" % number, b"f", b"v"] for number in range(500)],
        [b"EXEC"],
    ]
    folder = tmp_path / "appendonlydir"
    folder.mkdir()
    (folder / "a.manifest").write_bytes(b"file a.1.incr.aof seq 1 type i\n")
    (folder / "a.1.incr.aof").write_bytes(b"".join(map(encode, commands)))
    loader = AofLoader(tmp_path, "appendonlydir", "a", chunk_size=1000)
    assert flat(loader.batches()) == commands
    assert max(sizes) < 100
