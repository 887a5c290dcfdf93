import pytest

from rillet.server.admin.memory import memory_of_key
from rillet.server.admin.used_memory import human_bytes, resident_bytes
from rillet.storage.streams.stream import Stream


def test_sizes_are_formatted_in_redis_style():
    sizes = 0, 1023, 1024, 1_101_004, 3 << 30, 1 << 40, 1 << 50, 1 << 60
    assert " ".join(map(human_bytes, sizes)) == "0B 1023B 1.00K 1.05M 3.00G 1.00T 1.00P 1024.00P"


def test_the_process_takes_some_memory():
    assert resident_bytes() > 1 << 20


def test_a_longer_value_takes_more():
    assert memory_of_key(b"k", b"x" * 1000) - memory_of_key(b"k", b"x") == 999
    stream = Stream()
    empty = memory_of_key(b"k", stream)
    stream.append(1 << 64, b"*2\r\n$1\r\na\r\n$1\r\nb\r\n")
    assert memory_of_key(b"k", stream) > empty


def figures(wire):
    stats = wire.call("MEMORY", "STATS").plain()
    return dict(zip(stats[::2], stats[1::2], strict=True))


def test_usage_counts_entries_and_pending_entries(rillet_process):
    with rillet_process.wire() as wire:
        wire.do("FLUSHALL; XGROUP CREATE s g 0 MKSTREAM")
        empty = wire.call("MEMORY", "USAGE", "s").plain()
        for number in range(1, 201):
            wire.call("XADD", "s", f"{number}-0", "a", "b")
        filled = wire.call("MEMORY", "USAGE", "s", "SAMPLES", 0).plain()
        wire.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
        pending = wire.call("MEMORY", "USAGE", "s").plain()
    assert 0 < empty < filled - 200 * 20 < filled < pending - 200 * 8


def test_stats_follow_the_data(rillet_process):
    with rillet_process.wire() as wire:
        wire.call("FLUSHALL")
        before = figures(wire)
        wire.call("SET", "k", "x" * 100_000)
        after = figures(wire)
        used = wire.call("INFO", "memory").value.decode()
        wire.call("DEL", "k")
        again = figures(wire)
    assert after[b"keys.count"] == 1
    assert after[b"dataset.bytes"] - before[b"dataset.bytes"] > 100_000
    assert after[b"total.allocated"] == after[b"dataset.bytes"] + after[b"overhead.total"]
    assert f"used_memory:{after[b'total.allocated']}\r\n" in used
    assert f"used_memory_dataset:{after[b'dataset.bytes']}\r\n" in used
    assert b"db.0" in after
    assert b"db.0" not in again
    assert again[b"dataset.bytes"] == before[b"dataset.bytes"]
    assert again[b"peak.allocated"] == after[b"peak.allocated"] > again[b"total.allocated"]


def test_a_large_database_is_estimated_from_a_part(rillet_process):
    with rillet_process.wire() as wire:
        wire.call("FLUSHALL")
        wire.send_raw(b"".join(b"SET key:%05d 0123456789\r\n" % number for number in range(25_000)))
        for _ in range(25_000):
            wire.read()
        one = wire.call("MEMORY", "USAGE", "key:00000").plain()
        assert figures(wire)[b"dataset.bytes"] == one * 25_000
        wire.call("FLUSHALL")


def test_stats_have_redis_names_and_its_types_in_resp3(rillet_process, redis7):
    with rillet_process.wire(3) as ours, redis7.wire(3) as theirs:
        facts, known = ours.call("MEMORY", "STATS"), theirs.call("MEMORY", "STATS")
    assert facts.kind == "%"
    kinds = [
        {name.value: value.kind for name, value in zip(node.children[::2], node.children[1::2], strict=True)}
        for node in (facts, known)
    ]
    for name, kind in kinds[1].items():
        if not name.startswith(b"db."):
            assert kinds[0][name] == kind


@pytest.mark.parametrize("name", ["DOCTOR", "MALLOC-STATS"])
def test_reports_are_text(rillet_process, name):
    with rillet_process.wire() as two, rillet_process.wire(3) as three:
        assert two.call("MEMORY", name).kind == "$"
        reply = three.call("MEMORY", name)
    assert reply.kind == "="
    assert reply.value.startswith(b"txt:")
    assert reply.value.endswith(b"\n")


def test_purge_is_ok(rillet_process):
    with rillet_process.wire() as wire:
        assert str(wire.call("MEMORY", "PURGE")) == "+OK"
