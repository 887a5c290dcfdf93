"""The counters behind INFO."""

from types import SimpleNamespace

import pytest
from support.live import eventually

from rillet.server.execution.stats import Stats

COUNTS = ("commands_processed", "net_input", "net_output", "reads_processed", "writes_processed")


def a_client(commands=0, net_in=0, net_out=0, reads=0, writes=0):
    return SimpleNamespace(
        total_commands=commands, net_in=net_in, net_out=net_out, reads=reads, writes=writes
    )


def counted(stats):
    return tuple(getattr(stats, name) for name in COUNTS)


def test_what_clients_did_is_counted_after_they_are_gone_and_those_that_no_list_shows_count():
    clients, controls = {}, []
    stats = Stats({}, clients, controls)
    clients[1], clients[2] = a_client(1, 20, 300, 4, 5), a_client(2, 10, 100, 1, 1)
    controls.append(a_client(7, 1, 1, 1, 1))
    assert counted(stats) == (10, 31, 401, 6, 7)
    stats.keep(clients.pop(1))
    assert counted(stats) == (10, 31, 401, 6, 7)
    controls.clear()
    assert counted(stats) == (3, 30, 400, 5, 6)


def test_a_reset_counts_from_there_although_clients_count_on():
    clients = {1: a_client(1, 20, 300, 4, 5)}
    stats = Stats({}, clients, ())
    stats.keep(a_client(9, 9, 9, 9, 9))
    stats.reset()
    assert counted(stats) == (0, 0, 0, 0, 0)
    clients[1].net_in += 6
    clients[2] = a_client(reads=3)
    stats.keep(clients.pop(1))
    assert counted(stats) == (0, 6, 0, 3, 0)


def test_errors_are_counted_by_their_code():
    stats = Stats({}, {}, ())
    for text in (b"ERR one", b"ERR two", b"NOGROUP x", b"ERR"):
        stats.count_error(text)
    assert stats.errors == {b"ERR": 3, b"NOGROUP": 1}
    assert stats.total_errors == 4


def test_the_number_of_codes_is_bounded():
    stats = Stats({}, {}, ())
    for number in range(1000):
        stats.count_error(b"CODE%d x" % number)
    assert stats.errors == {b"ERRORSTATS_DISABLED": 1}
    assert stats.total_errors == 1000
    stats.reset()
    stats.count_error(b"CODE x")
    assert stats.errors == {b"CODE": 1}


def test_rates_are_of_the_last_samples():
    client = a_client()
    stats = Stats({}, {1: client}, ())
    assert stats.per_second() == (0, 0.0, 0.0)
    for second in range(20):
        client.total_commands = 100 * second
        client.net_in = 1000 * second
        client.net_out = 2000 * second
        stats.sample(1000 * second)
    assert stats.per_second() == (100, 1000.0, 2000.0)


def test_of_many_clients_fewer_samples_are_taken_and_none_of_long_ago_counts():
    client = a_client()
    clients = {1: client}
    stats = Stats({}, clients, ())
    looks = 0
    for tenth in range(200):
        client.total_commands += 10
        stats.sample(100 * tenth)
    assert stats.per_second()[0] == 100
    clients.update((number, a_client()) for number in range(2, 10_001))
    for tenth in range(200, 1000):
        client.total_commands += 20
        before = len(stats._samples), stats._samples[-1]
        stats.sample(100 * tenth)
        looks += before != (len(stats._samples), stats._samples[-1])
    assert looks == 800 // 40
    assert stats.per_second()[0] == 200


def test_the_peak_of_memory_only_rises():
    stats = Stats({}, {}, ())
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


def test_clients_that_left_are_counted_and_those_that_stay_count_from_a_reset_on(server, wire):
    wire.call("CONFIG", "RESETSTAT")
    before = int(server.info("total_net_input_bytes"))
    with server.wire() as other:
        other.call("ECHO", "x" * 10_000)
    eventually(lambda: len(server.inside.clients) == 1)
    assert before < 1000
    assert 10_000 < int(server.info("total_net_input_bytes")) < 11_000
    assert 10_000 < int(server.info("total_net_output_bytes")) < 25_000  # INFO's replies, too
