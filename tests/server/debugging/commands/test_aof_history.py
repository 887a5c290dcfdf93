"""DEBUG AOF-HISTORY: what the append-only file says of one entry."""

import pytest
from support.live import LiveServer, eventually

from rillet.protocol.replies import command

KEY = b"or\xff\x00ders"


@pytest.fixture
def server():
    with LiveServer(appendonly=True) as started:
        yield started


def history(wire, key=KEY, entry_id="1-0"):
    """All commands about an entry, and whether the file begins with data."""
    cursor, left, base, found = wire.call("DEBUG", "AOF-HISTORY", key, entry_id).plain()
    while left:
        cursor, left, _, more = wire.call("DEBUG", "AOF-HISTORY", key, entry_id, cursor).plain()
        found += more
    return found, base


def names(wire, key=KEY, entry_id="1-0"):
    return [words[0] for _, words in history(wire, key, entry_id)[0]]


def begin(wire):
    wire.call("XGROUP", "CREATE", KEY, "g", "0", "MKSTREAM")
    wire.call("XADD", KEY, "1-0", "a", "1")
    wire.call("XREADGROUP", "GROUP", "g", "Bob", "STREAMS", KEY, ">")


def test_the_life_of_an_entry_is_there_before_its_bytes_were_flushed(server, wire):
    begin(wire)
    wire.call("XCLAIM", KEY, "g", "Al", 0, "1-0")
    wire.send_raw(command([b"XACK", KEY, b"g", b"1-0"]) + command([b"DEBUG", b"AOF-HISTORY", KEY, b"1"]))
    assert wire.read().value == b"1"
    _, left, base, found = wire.read().plain()
    assert (left, base) == (0, 0)
    assert [words[:6] for _, words in found] == [
        [b"XADD", KEY, b"1-0", b"a", b"1"],
        [b"XCLAIM", KEY, b"g", b"Bob", b"0", b"1-0"],
        [b"XCLAIM", KEY, b"g", b"Al", b"0", b"1-0"],
        [b"XACK", KEY, b"g", b"1-0"],
    ]
    assert {time for time, _ in found} == {None}
    assert b"RETRYCOUNT" in found[1][1]


@pytest.mark.parametrize(("setting", "time"), [("yes", 1_700_000_000_000), ("ms", 1_700_000_000_500)])
def test_annotations_give_the_time_of_each_command(server, wire, setting, time):
    server.clock.freeze(1_700_000_000_500)
    wire.call("CONFIG", "SET", "aof-timestamp-enabled", setting)
    begin(wire)
    server.clock.advance(milliseconds=2_000)
    wire.call("XACK", KEY, "g", "1-0")
    assert [at for at, _ in history(wire)[0]] == [time, time, time + 2_000]


@pytest.mark.parametrize(
    "words",
    [
        ("XACK", KEY, "g", "9-0", "1"),
        ("XNACK", KEY, "g", "FAIL", "IDS", 2, "9-0", "1-0"),
        ("XACKDEL", KEY, "g", "DELREF", "IDS", 1, "1-0"),
        ("XDELEX", KEY, "KEEPREF", "IDS", 1, "1-0"),
        ("XDEL", KEY, "9-0", "1-0"),
        ("XTRIM", KEY, "MINID", "2"),
        ("XADD", KEY, "MINID", "=", "2", "5-0", "a", "b"),
        ("XGROUP", "DESTROY", KEY, "g"),
        ("XGROUP", "DELCONSUMER", KEY, "g", "Bob"),
        ("DEL", "another", KEY),
        ("UNLINK", KEY),
        ("RENAME", KEY, "t"),
        ("MOVE", KEY, 3),
        ("SET", KEY, "text"),
        ("FLUSHDB",),
        ("FLUSHALL",),
    ],
    ids=lambda words: " ".join(word if isinstance(word, str) else "k" for word in words[:2]),
)
def test_each_command_that_concerns_the_entry_is_named(server, wire, words):
    begin(wire)
    assert wire.call(*words).kind != "-"
    found = names(wire)
    assert found[:2] == [b"XADD", b"XCLAIM"]
    assert found[2:] == [words[0].encode()]


def test_a_transaction_and_a_script_are_transparent(server, wire):
    begin(wire)
    for words in (("MULTI",), ("SET", "x", "1"), ("XACK", KEY, "g", "1-0"), ("EXEC",)):
        wire.call(*words)
    wire.call("EVAL", "return redis.call('XDEL', KEYS[1], '1-0')", 1, KEY)
    assert names(wire) == [b"XADD", b"XCLAIM", b"XACK", b"XDEL"]


def test_other_keys_databases_ids_and_values_that_look_like_the_id_do_not_count(server, wire):
    begin(wire)
    wire.call("XADD", "others", "1-0", "a", "1")
    wire.call("XADD", KEY, "2-0", "of", "1-0")
    wire.call("XADD", KEY, "NOMKSTREAM", "MAXLEN", "~", "1000", "3-0", "1-0", "1-0")
    wire.call("XCLAIM", KEY, "g", "Al", 0, "2-0", "TIME", 1, "FORCE")
    wire.call("XTRIM", KEY, "MINID", "1-0")
    with server.wire() as other:
        other.call("SELECT", 3)
        other.call("XADD", KEY, "1-0", "a", "1")
        other.call("XDEL", KEY, "1-0")
        other.call("FLUSHDB")
        assert names(other) == [b"XADD", b"XDEL", b"FLUSHDB"]
    assert names(wire) == [b"XADD", b"XCLAIM"]
    assert names(wire, entry_id="7-7") == []


def test_a_rewrite_leaves_a_base_and_a_follower_goes_on_behind_it(server, wire):
    begin(wire)
    cursor, _, base, found = wire.call("DEBUG", "AOF-HISTORY", KEY, "1-0").plain()
    assert (base, len(found)) == (0, 2)
    wire.call("BGREWRITEAOF")
    eventually(lambda: not server.run_inside(lambda: server.inside.persistence.rewrite.in_progress))
    wire.call("XACK", KEY, "g", "1-0")
    assert [words[0] for _, words in wire.call("DEBUG", "AOF-HISTORY", KEY, "1-0", cursor).plain()[3]] == [
        b"XACK"
    ]
    found, base = history(wire)
    assert base == 1
    assert [words[0] for _, words in found] == [b"XACK"]


def test_files_that_rewrites_have_left_belong_to_it():
    with LiveServer(appendonly=True, aof_history_retention=(3600, 0)) as server, server.wire() as wire:
        begin(wire)
        wire.call("BGREWRITEAOF")
        eventually(lambda: not server.run_inside(lambda: server.inside.persistence.rewrite.in_progress))
        wire.call("XACK", KEY, "g", "1-0")
        found, base = history(wire)
    assert base == 0
    assert [words[0] for _, words in found] == [b"XADD", b"XCLAIM", b"XACK"]


def test_a_large_file_comes_in_parts_between_which_others_are_served(server, wire):
    begin(wire)
    for number in range(2, 102):
        wire.call("XADD", "large", f"{number}-0", "a", "v" * 40_000)
    wire.call("XADD", KEY, "2-0", "a", "v" * 1_000_000)
    wire.call("XACK", KEY, "g", "1-0")
    cursor, left, _, found = wire.call("DEBUG", "AOF-HISTORY", KEY, "1-0").plain()
    rounds = 1
    with server.wire() as other:
        while left:
            assert other.call("PING").value == b"PONG"
            before = left
            cursor, left, _, more = wire.call("DEBUG", "AOF-HISTORY", KEY, "1-0", cursor).plain()
            assert left < before
            found += more
            rounds += 1
    assert [words[0] for _, words in found] == [b"XADD", b"XCLAIM", b"XACK"]
    assert rounds > 1
    assert [len(words[4]) for _, words in history(wire, entry_id="2-0")[0]] == [1025]


def test_a_command_with_many_ids_is_shown_by_its_beginning(server, wire):
    begin(wire)
    wire.call("XACK", KEY, "g", *(f"{number}-0" for number in range(1_000, 0, -1)))
    [*_, (_, words)], _ = history(wire)
    assert words[:4] == [b"XACK", KEY, b"g", b"1000-0"]
    assert len(words) == 64


def test_an_end_that_is_cut_is_no_error(server, wire):
    begin(wire)
    path = next((server.folder / "appendonlydir").glob("*.incr.aof"))
    with path.open("ab") as file:
        file.write(b"*3\r\n$4\r\nXDEL\r\n$5\r\nor")
    assert names(wire) == [b"XADD", b"XCLAIM"]


def test_a_damaged_file_is_an_error_that_says_where(server, wire):
    wire.call("XADD", KEY, "1-0", "a", "1")
    cursor, left, _, found = wire.call("DEBUG", "AOF-HISTORY", KEY, "1-0").plain()
    assert (left, len(found)) == (0, 1)
    path = next((server.folder / "appendonlydir").glob("*.incr.aof"))
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"nonsense\r\n")
    refusal = wire.call("DEBUG", "AOF-HISTORY", KEY, "1-0", cursor).value
    assert refusal == b"ERR the append-only file is damaged: incr file 1, after byte %d" % size


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), b"ERR unknown subcommand or wrong number of arguments for 'AOF-HISTORY'"),
        (("k",), b"ERR unknown subcommand or wrong number of arguments for 'AOF-HISTORY'"),
        (
            ("k", "1", "1:0:0:0", "x"),
            b"ERR unknown subcommand or wrong number of arguments for 'AOF-HISTORY'",
        ),
        (("k", "x"), b"ERR Invalid stream ID"),
        (("k", "$"), b"ERR Invalid stream ID"),
        (("k", "1", "0"), b"ERR invalid cursor"),
        (("k", "1", "1:-1:0:0"), b"ERR invalid cursor"),
        (("k", "1", "1:99999999:0:0"), b"ERR no file of the append-only file has this position"),
        (("k", "1", "99:0:0:0"), b"ERR no file of the append-only file has this position"),
        (("k", "1", "1:1:0:0"), b"ERR the append-only file is damaged: incr file 1, after byte 1"),
    ],
)
def test_wrong_words_are_refused(server, wire, words, error):
    wire.call("SET", "a", "1")
    assert wire.call("DEBUG", "AOF-HISTORY", *words).value.startswith(error)


def test_a_server_without_the_file_says_so():
    with LiveServer() as server, server.wire() as wire:
        assert wire.call("DEBUG", "AOF-HISTORY", "k", "1").value.startswith(
            b"ERR DEBUG AOF-HISTORY needs appendonly yes"
        )


def test_a_file_that_is_switched_on_begins_with_data_once_its_rewrite_is_over():
    with LiveServer() as server, server.wire() as wire:
        begin(wire)
        wire.call("MULTI")  # in one turn of the loop, in which no end of the rewrite is seen
        wire.call("CONFIG", "SET", "appendonly", "yes")
        wire.call("DEBUG", "AOF-HISTORY", KEY, "1")
        switched_on, early = wire.call("EXEC").children
        assert switched_on.value == b"OK"
        assert early.value == b"ERR The first rewrite of the append-only file is not over"
        eventually(lambda: not server.run_inside(lambda: server.inside.persistence.rewrite.in_progress))
        wire.call("XACK", KEY, "g", "1-0")
        found, base = history(wire)
        assert base == 1
        assert [words[0] for _, words in found] == [b"XACK"]


def test_a_disk_that_refuses_to_be_written_keeps_what_is_there_readable(server, wire):
    begin(wire)
    assert names(wire) == [b"XADD", b"XCLAIM"]
    fault = wire.call("DEBUG", "FAULT", "ADD", "DISK", "append").plain()
    wire.call("XACK", KEY, "g", "1-0")
    assert names(wire) == [b"XADD", b"XCLAIM"]
    wire.call("DEBUG", "FAULT", "CLEAR", fault)
    assert names(wire) == [b"XADD", b"XCLAIM", b"XACK"]
