"""The first line of a script or library: ``#!lua name=… flags=no-writes,allow-stale``."""

from __future__ import annotations

from typing import Final

from ....protocol.errors import ReplyError, shown
from ....protocol.inline import split_inline

NO_WRITES: Final = "no-writes"
ALLOW_OOM: Final = "allow-oom"
ALLOW_STALE: Final = "allow-stale"
NO_CLUSTER: Final = "no-cluster"
ALLOW_CROSS_SLOT: Final = "allow-cross-slot-keys"
FLAGS: Final = (NO_WRITES, ALLOW_OOM, ALLOW_STALE, NO_CLUSTER, ALLOW_CROSS_SLOT)


def read_script_shebang(script: bytes) -> tuple[frozenset[str] | None, bytes]:
    """Return the flags of a script, None without a ``#!`` line, and its code, in which line numbers stay the same.

    Raises ReplyError: the line is malformed.
    """
    if not script.startswith(b"#!"):
        return None, script
    end = script.find(b"\n")
    if end < 0:
        raise ReplyError(b"ERR Invalid script shebang")
    words = split_inline(script[:end])
    if words is None or b"\0" in script[:end]:
        raise ReplyError(b"ERR Invalid engine in script shebang")
    engine, *options = words
    if engine != b"#!lua":
        raise ReplyError(b"ERR Unexpected engine in script shebang: %b" % shown(engine))
    flags: set[str] = set()
    for option in options:
        name, equals, value = option.partition(b"=")
        if name != b"flags" or not equals:
            raise ReplyError(b"ERR Unknown lua shebang option: %b" % shown(option))
        for flag in value.split(b",") if value else ():
            if flag.decode("latin-1") not in FLAGS:
                raise ReplyError(b"ERR Unexpected flag in script shebang: %b" % shown(flag))
            flags.add(flag.decode("latin-1"))
    return frozenset(flags), script[end:]
