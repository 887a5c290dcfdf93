"""Check an RDB file without a server, with the verdicts of redis-check-rdb."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..codecs.byte_source import ByteSource
from ..loading import RdbError, RdbInfo
from .reader import load_rdb


def check_rdb(path: Path, say: Callable[[str], None], *, now: int) -> bool:
    """Read a whole file without keeping its data; return True if it is sound.

    Values of types that Rillet does not have are skipped, so their content is not checked.

    Args:
        say: receives the report, line by line.
        now: Unix milliseconds, to recognise expired keys.
    """
    info = RdbInfo()
    source = ByteSource(lambda _count: b"")
    try:
        with path.open("rb") as file:
            source = ByteSource(file.read)
            say(f"[offset 0] Checking RDB file {path.name}")
            for _ in load_rdb(source, None, info=info, now=now):
                pass
    except OSError as error:
        say(f"Cannot open file: {path}: {error.strerror}")
        return False
    except RdbError as error:
        say("--- RDB ERROR DETECTED ---")
        say(f"[offset {source.position}] {error}")
        _report(info, say)
        return False
    say(
        f"[offset {source.position}] Checksum OK"
        if info.checked
        else f"[offset {source.position}] No checksum"
    )
    say(f"[offset {source.position}] RDB looks OK!")
    _report(info, say)
    return True


def _report(info: RdbInfo, say: Callable[[str], None]) -> None:
    say(f"[info] RDB version {info.version}")
    for name, text in info.aux.items():
        say(f"[info] {_shown(name)} = '{_shown(text)}'")
    say(f"[info] {info.keys + info.skipped} keys read")
    say(f"[info] {info.expires} expires")
    say(f"[info] {info.expired} already expired")
    if info.skipped:
        say(f"[info] {info.skipped} keys are of types that Rillet does not have")


def _shown(text: bytes) -> str:
    return text.decode(errors="backslashreplace")
