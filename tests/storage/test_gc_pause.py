"""The pause of the garbage collector: what is imported during it counts as old."""

import gc
import sys

import pytest

from rillet.storage.gc_pause import gc_paused


@pytest.fixture
def import_module(tmp_path, monkeypatch):
    """A function that imports a module and returns the list that it creates."""
    (tmp_path / "module_that_creates.py").write_text("THINGS = [[] for _ in range(10)]\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda: __import__("module_that_creates").THINGS
    sys.modules.pop("module_that_creates", None)


def is_young(thing: object) -> bool:
    return any(each is thing for each in gc.get_objects(generation=0))


def test_what_is_imported_is_no_work_for_the_next_collection(unfrozen, import_module):
    with gc_paused():
        things = import_module()
    assert not is_young(things)
    assert gc.isenabled()


def test_without_an_import_new_objects_stay_young(unfrozen):
    with gc_paused():
        things = [[]]
    assert is_young(things)


def test_what_the_program_has_frozen_stays_frozen(unfrozen, import_module):
    gc.freeze()
    frozen = gc.get_freeze_count()
    with gc_paused():
        import_module()
    assert gc.get_freeze_count() >= frozen - 100  # some of it may have ended meanwhile


def test_where_the_collector_is_off_it_stays_off(unfrozen, import_module):
    gc.disable()
    try:
        with gc_paused():
            things = import_module()
        assert not gc.isenabled()
        assert is_young(things)
    finally:
        gc.enable()
