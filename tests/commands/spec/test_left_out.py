"""Commands of Redis 8.10 that Rillet leaves out: named in the documentation, and not pretended."""

from pathlib import Path

from support.declarations import OF_REDIS
from support.left_out import LEFT_OUT

import rillet

ROOT = Path(rillet.__file__).parent
NAMED = ("AR…", "V…", "HOTKEYS", "BACKUP", "TRIMSLOTS", "PFDEBUG", "PFSELFTEST", "modules", "cluster")


def names(process):
    with process.wire() as wire:
        return {name.decode().lower() for name in wire.call("COMMAND", "LIST").plain()}


def test_only_the_named_families_are_missing(running):
    real, ours = names(running("redis810")), names(running("rillet"))
    assert ours & OF_REDIS <= real
    missing = {name.partition("|")[0] for name in real - ours}
    assert all(LEFT_OUT.match(name) for name in missing), missing
    with running("rillet").wire() as wire:
        for name in missing:
            assert wire.call("COMMAND", "INFO", name).plain() == [None]
            assert wire.call(name, "x").value.startswith(b"ERR unknown command")


def test_the_documentation_names_them():
    for page in ("README.md", "docs/commands.md", "docs/differences.md"):
        text = (ROOT / page).read_text(encoding="utf-8").replace("*", "…")
        assert [name for name in NAMED if name not in text] == [], page
