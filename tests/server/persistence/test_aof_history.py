"""aof-history-retention and aof-timestamp-enabled ms, on a running server."""

import os

from support.live import LiveServer, eventually


def get(wire, name: str) -> bytes:
    return wire.call("CONFIG", "GET", name).children[1].value


def manifest(server) -> bytes:
    return (server.folder / "appendonlydir" / "appendonly.aof.manifest").read_bytes()


def rewrite(server, wire, times: int = 1) -> None:
    for _ in range(times):
        wire.call("BGREWRITEAOF")
        eventually(lambda: not server.run_inside(lambda: server.inside.persistence.rewrite.in_progress))


def test_config_get_gives_back_what_was_set_and_other_words_are_refused():
    with LiveServer() as server, server.wire() as wire:
        for given, found in (("yes", b"yes"), ("NO", b"no"), ("ms", b"ms"), ("MS", b"ms")):
            assert wire.call("CONFIG", "SET", "aof-timestamp-enabled", given).value == b"OK"
            assert get(wire, "aof-timestamp-enabled") == found
        refusal = b"(possibly related to argument 'aof-timestamp-enabled') - argument must be 'yes' or 'no'"
        assert wire.call("CONFIG", "SET", "aof-timestamp-enabled", "us").value.endswith(refusal)
        assert get(wire, "aof-history-retention") == b"0 0"
        for given, found in (
            ("0", b"0 0"),
            ("60", b"60 0"),
            ("3600 1gb", b"3600 1073741824"),
            ("5 0", b"5 0"),
        ):
            assert wire.call("CONFIG", "SET", "aof-history-retention", given).value == b"OK"
            assert get(wire, "aof-history-retention") == found
        for given in ("", "x", "-1", "1 x", "1 2 3", "1 -1"):
            refusal = wire.call("CONFIG", "SET", "aof-history-retention", given).value
            assert b"argument must be <seconds> [<bytes>]" in refusal, given


def test_milliseconds_can_be_switched_on_while_the_server_runs():
    with LiveServer(appendonly=True) as server, server.wire() as wire:
        server.clock.freeze(1_700_000_000_500)
        wire.do("SET a 1; CONFIG SET aof-timestamp-enabled ms; SET b 1; SET c 1")
        server.clock.advance(milliseconds=3)
        wire.do("SET d 1; CONFIG SET aof-timestamp-enabled no")
        server.clock.advance(milliseconds=3)
        wire.call("SET", "e", "1")
        data = (server.folder / "appendonlydir" / "appendonly.aof.1.incr.aof").read_bytes()
    assert [line for line in data.split(b"\r\n") if line[:1] == b"#" or line in b"abcde"] == [
        b"a", b"#TS:1700000000", b"#MS:1700000000500", b"b", b"c", b"#MS:1700000000503", b"d", b"e", b"",
    ]  # fmt: skip


def test_a_base_in_command_form_has_its_millisecond():
    with (
        LiveServer(appendonly=True, aof_timestamp_enabled="ms", aof_use_rdb_preamble=False) as server,
        server.wire() as wire,
    ):
        server.clock.freeze(1_700_000_000_500)
        wire.call("SET", "a", "1")
        rewrite(server, wire)
        data = (server.folder / "appendonlydir" / "appendonly.aof.2.base.aof").read_bytes()
    assert data.startswith(b"#TS:1700000000\r\n#MS:1700000000500\r\n*2\r\n")


def test_replaced_files_stay_for_a_while_and_go_when_the_setting_says_so():
    with LiveServer(appendonly=True, aof_history_retention=(3600, 0)) as server, server.wire() as wire:
        wire.call("SET", "a", "1")
        rewrite(server, wire, 2)
        assert manifest(server).count(b"type h") == 4
        wire.call("CONFIG", "SET", "aof-history-retention", "0")
        eventually(lambda: b"type h" not in manifest(server))
        assert len(list((server.folder / "appendonlydir").iterdir())) == 3


def test_outdated_history_is_removed_without_a_rewrite():
    with LiveServer(appendonly=True, aof_history_retention=(3600, 0)) as server, server.wire() as wire:
        wire.call("SET", "a", "1")
        rewrite(server, wire)
        assert manifest(server).count(b"type h") == 2
        for path in (server.folder / "appendonlydir").glob("*.1.*"):
            os.utime(path, (1, 1))
        server.run_inside(lambda: setattr(server.inside.persistence.rewrite, "_history_at", -100.0))
        eventually(lambda: b"type h" not in manifest(server))


def test_history_outlives_a_restart(tmp_path):
    for _ in range(2):
        with (
            LiveServer(dir=tmp_path, appendonly=True, aof_history_retention=(3600, 0)) as server,
            server.wire() as wire,
        ):
            wire.call("INCR", "a")
            rewrite(server, wire)
            value = wire.call("GET", "a").value
    assert value == b"2"
    assert (tmp_path / "appendonlydir" / "appendonly.aof.manifest").read_bytes().count(b"type h") == 4
