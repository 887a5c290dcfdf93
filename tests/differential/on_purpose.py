"""The names of all differences that are excused; those on purpose are the anchors of docs/differences.md, which says why.

A line of a script names a row of that page as `## purpose:<name>`, an entry of NOT_AS_VALKEY as `## valkey:<name>`,
one of NOT_AS_BETWEEN as `## between:<name>`.
"""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"
# As the newest version, beside Redis 8.10.2.
ON_PURPOSE = set(re.findall(r'^\| <a id="([^"]+)"></a>', PAGE.read_text(encoding="utf-8"), re.MULTILINE))

# Rillet that answers as 7.2 is compared with Valkey, which left Redis between 7.2 and 7.4. In these lines Valkey has
# its own mind (or what Redis brought with 7.4), and Rillet says what redis-server 7.0 does. As 7.0, it is redis-server
# 7.0 byte by byte, without any excuse.
NOT_AS_VALKEY: dict[str, str] = {
    "script-errors": "Valkey's own words",
    "hello": "Valkey's own name, version and module",
    "no-unauthenticated-errors": "Valkey checks the password first",
    "client-list-id": "Valkey's own text",
    "client-kill-id": "Valkey's own text",
    "valkey-acl-file": "Valkey's own text",
    "valkey-no-multi": "Valkey has a flag no_multi; the commands spoil the transaction",
    "valkey-flags": "Valkey's own flags",
    "valkey-subcommands": "Valkey sends an empty array",
    "valkey-readonly": "Valkey serves READONLY without a cluster",
    "valkey-lua-module": "Valkey's Lua is a module",
    "valkey-embstr": "Valkey's own limit",
    "valkey-expired-event": "Valkey's own event",
    "valkey-diskless-load": "Valkey's own word",
    "valkey-idle-trim": "Valkey's own idea",
    "valkey-geo-member": "Valkey's own text",
    "valkey-polygon": "Valkey's own option",
    "valkey-sort-numbers": "Valkey's own reader",
    "valkey-scan-type": "Valkey refuses a type that it does not know",
    "valkey-quotes": "Valkey's own parser",
    "valkey-crlf": "Valkey's own parser",
    "xread-plus": "since 7.4, and Valkey took it over",
    "xread-plus-after-delete": "since 7.4, and Valkey took it over",
}

# Beside the versions between 7.0 and the newest, which `make differential` runs.
NOT_AS_BETWEEN: dict[str, str] = {
    "keys-at-exec": "8.6 does not check the keys of a transaction again at EXEC: a right that was taken away still counts",
    "events-of-hmget": "8.6.2 and 8.2.3 send no event if HMGET meets the last field of a hash, which has expired",
    "no-xnack": "which entry has been idle longest depends on the time where there is no XNACK",
    "line-ends-in-errors": "8.2.3 sends a line end within an error of error() as it is, so the reply ends there",
    "maxmemory-of-63-bits": "8.2.3 refuses a maxmemory of 2^63 and more",
    "slot-stats": "cluster-slot-stats-enabled is a switch in 8.2, and no cluster is there to count",
}
