"""Each directive of the real server is there: implemented, or named in docs/differences.md as one without effect."""

import re

from differential.on_purpose import PAGE
from support.servers import start_server

from rillet.server.config_bindings import WITHOUT_EFFECT

OWN = {
    "aof-history-retention", "compat-version", "lua-memory-limit", "rdb-skip-unknown-types", "rdb-version",
    "repl-rdb-version", "stream-compress-depth",
}  # fmt: skip
OF_THE_TEST = {"dir", "port", "appendfsync"}


def settings(kind: str) -> dict[str, str]:
    with start_server(kind) as server, server.wire(3) as wire:
        return {name.decode(): value.decode() for name, value in wire.call("CONFIG", "GET", "*").plain()}


def test_config_get_shows_the_directives_and_defaults_of_the_real_server():
    mine, real = settings("rillet"), settings("redis810")
    assert set(mine) - set(real) == OWN
    assert {name: mine.get(name) for name in real if name not in OF_THE_TEST} == {
        name: value for name, value in real.items() if name not in OF_THE_TEST
    }


def test_each_directive_without_effect_is_listed_with_its_reason():
    table = PAGE.read_text(encoding="utf-8").partition("## Settings without effect")[2]
    rows = re.findall(r"^\| `(.*)` \| (.*) \|$", table, re.MULTILINE)
    assert {name: why for names, why in rows for name in names.split("`, `")} == WITHOUT_EFFECT
