"""The counters behind INFO."""

from __future__ import annotations

import pytest
from support.live import LiveServer

from rillet.server.execution.stats import Stats


@pytest.fixture(scope="module")
def shared():
    with LiveServer() as server:
        yield server


def test_errors_are_counted_by_their_code():
    stats = Stats({})
    for text in (b"ERR one", b"ERR two", b"NOGROUP x", b"ERR"):
        stats.count_error(text)
    assert stats.errors == {b"ERR": 3, b"NOGROUP": 1}
    assert stats.total_errors == 4


def test_the_number_of_codes_is_bounded():
    stats = Stats({})
    for number in range(1000):
        stats.count_error(b"CODE%d x" % number)
    assert len(stats.errors) <= 129
    assert stats.total_errors == 1000
    assert sum(stats.errors.values()) == 1000


def test_rates_are_of_the_last_samples():
    stats = Stats({})
    assert stats.per_second() == (0, 0.0, 0.0)
    for second in range(20):
        stats.commands_processed = 100 * second
        stats.net_input = 1000 * second
        stats.net_output = 2000 * second
        stats.sample(1000 * second)
    assert stats.per_second() == (100, 1000.0, 2000.0)


def test_the_peak_of_memory_only_rises():
    stats = Stats({})
    assert [stats.note_memory(used, used) for used in (10, 30, 20)] == [10, 30, 30]
    assert stats.peak_memory_time == 30


def test_commands_connections_and_bytes_are_counted(server, wire):
    wire.call("PING")
    before = {
        name: int(server.info(name))
        for name in ("total_connections_received", "total_commands_processed", "total_net_input_bytes")
    }
    wire.send_raw(b"PING\r\n" * 10)
    for _ in range(10):
        wire.read()
    # Each INFO came on a connection of its own, and does not count itself.
    assert int(server.info("total_connections_received")) == before["total_connections_received"] + 3
    assert int(server.info("total_commands_processed")) == before["total_commands_processed"] + 10 + 3
    assert int(server.info("total_net_input_bytes")) >= before["total_net_input_bytes"] + 60


def test_commandstats_report_calls_and_times(server, wire):
    for _ in range(3):
        wire.call("XLEN", "s")
    fields = dict(field.split("=") for field in server.info("cmdstat_xlen").split(","))
    assert fields["calls"] == "3"
    assert float(fields["usec_per_call"]) == pytest.approx(int(fields["usec"]) / 3, abs=1)
    assert "p50=" in server.info("latency_percentiles_usec_xlen")


def test_subcommands_have_figures_of_their_own(server, wire):
    wire.call("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
    assert server.info("cmdstat_xgroup|create").startswith("calls=1,")


def test_resetstat_forgets(server, wire):
    wire.call("XLEN", "s")
    wire.call("FOO")
    assert wire.call("CONFIG", "RESETSTAT").value == b"OK"
    assert server.info("total_error_replies") == "0"
    for field in ("cmdstat_xlen", "errorstat_ERR"):
        with pytest.raises(StopIteration):
            server.info(field)


def test_the_entries_of_a_transaction_are_counted_each(server, wire):
    wire.send_raw(b"MULTI\r\nXLEN s\r\nXLEN s\r\nEXEC\r\n")
    for _ in range(4):
        wire.read()
    assert server.info("cmdstat_xlen").startswith("calls=2,")
    assert server.info("cmdstat_exec").startswith("calls=1,")
