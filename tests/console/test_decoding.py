"""Values as programs wrote them: decoded within bounds, nothing of them run, nothing of them trusted."""

import base64
import gzip
import json
import pickle
import sys
import types
import zlib

import pytest

from rillet.console.decoding import BYTES, decoded, framework
from rillet.console.render import environment

ORDER = {"item": "cup", "n": 2}
JSON = json.dumps(ORDER).encode()


class Bomb:
    """Says so if somebody loads it."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


@pytest.mark.parametrize(
    ("raw", "how"),
    [
        (JSON, ("JSON",)), (gzip.compress(JSON), ("gzip", "JSON")), (zlib.compress(JSON), ("zlib", "JSON")),
        (base64.b64encode(JSON), ("base64", "JSON")), (base64.b64encode(gzip.compress(JSON)), ("base64", "gzip", "JSON")),
    ],
    ids=["json", "gzip", "zlib", "base64", "gzip in base64"],  # a gzip has the time of its making
)  # fmt: skip
def test_wrapping_is_named_from_the_outside_in(raw, how):
    found = decoded(raw)
    assert (found.how, found.tree) == (how, ORDER)


def test_json_and_base64_within_the_texts_of_json_are_decoded():
    body = base64.b64encode(b'[[], {"n": 1}, {}]').decode()
    found = decoded(json.dumps({"body": body, "data": JSON.decode(), "note": "plain"}).encode())
    assert found.tree == {"body": [[], {"n": 1}, {}], "data": ORDER, "note": "plain"}
    assert found.how == ("JSON", "base64 inside", "JSON inside")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("wrap", [bytes, base64.b64encode, gzip.compress])
def test_a_pickle_is_named_and_never_loaded(protocol, wrap):
    found = decoded(wrap(pickle.dumps(Bomb(), protocol)))
    assert (found.how[-1], found.tree) == ("pickle, not loaded", None)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"plain", b"deadbeefdeadbeef", b"{not json", b"\x1f\x8bbroken", b"\x80", b"\xff\x00" * 9,
        pytest.param(b"[" * 60_000, id="deep"),
    ],
)  # fmt: skip
def test_what_is_nothing_known_stays_as_it_is(raw):
    assert decoded(raw) is None


def test_a_zip_bomb_is_named_by_its_first_bytes_alone():
    bomb = gzip.compress(b"0" * (50 << 20))
    assert len(bomb) < BYTES
    assert decoded(bomb).how == (f"gzip of more than {BYTES:,} bytes",)
    within = json.dumps([base64.b64encode(gzip.compress(b"0" * (1 << 20))).decode()] * 40).encode()
    assert len(within) <= BYTES
    assert len(decoded(within).tree) == 40


def test_half_a_character_and_marks_of_direction_are_shown_as_such():
    shown = environment().from_string('{% import "macros.html" as m %}{{ m.value(raw, 2000, true) }}')
    tree = shown.render(raw=b'{"a\\ud800": "\\u202e\\u0000"}').partition("<details")[0]
    assert tree.encode()
    assert "\u202e" not in tree


def test_deep_trees_end_and_pages_of_them_are_made():
    deep = b"[" * 900 + b"]" * 900
    nested = b"1"
    for _ in range(8):
        nested = json.dumps([nested.decode()]).encode()
    shown = environment().from_string('{% import "macros.html" as m %}{{ m.value(raw, 2000, true) }}')
    for raw in (deep, nested):
        assert decoded(raw).tree
        assert "…" in shown.render(raw=raw) or raw is nested


def test_msgpack_is_left_to_its_library_and_names_of_any_type_are_shown(monkeypatch):
    tree = {1: b"\xff\x00", b"note": "<script>", "when": object}
    library = types.SimpleNamespace(unpackb=lambda _, **__: tree, UnpackException=ValueError)
    monkeypatch.setitem(sys.modules, "msgpack", library)
    decoded.cache_clear()
    found = decoded(b"\x83...")
    assert found.how == ("msgpack",)
    assert found.tree == {"1": "ff 00", "note": "<script>", "when": str(object)}
    shown = environment().from_string('{% import "macros.html" as m %}{{ m.value(raw, 2000, true) }}')
    html = shown.render(raw=b"\x83...")
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    decoded.cache_clear()
    monkeypatch.setitem(sys.modules, "msgpack", None)
    assert decoded(b"\x83...") is None


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"__data__": '{"data": "1", "headers": {}}'}, "FastStream"),
        ({"event": "completed", "jobId": "7", "returnvalue": "1"}, "BullMQ events"),
        ({"task_id": "a4fdf395b8384f5a862b4c183bae0b55", "enqueue_time": "1795954127000"}, "streaQ"),
        (dict.fromkeys(("key", "when", "function", "args", "kwargs", "attempt"), "x"), "Docket"),
        ({"data": '{"task_id": "1", "task_name": "t", "labels": {}, "args": [], "kwargs": {}}'}, "taskiq"),
        ({"payload": '{"body": "W10=", "headers": {"task": "t"}, "properties": {}}'}, "Celery"),
        ({"item": "cup", "event": "sold"}, ""),
    ],
)
def test_the_framework_is_named_where_its_fields_tell(fields, name):
    assert framework([(one.encode(), text.encode()) for one, text in fields.items()]) == name
