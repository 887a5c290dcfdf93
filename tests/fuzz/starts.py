"""A real start of a server, in a thread of this process, on files that may be damaged."""

from pathlib import Path

from support.live import LiveServer

import rillet.testing


def start(folder: Path, **directives: object) -> tuple[bytes | None, str]:
    """Start on the files of a folder; gives the DEBUG DIGEST (None where it refuses to start) and the log.

    Raises:
        AssertionError: the log shows a bug instead of a refusal.
    """
    digest = None
    try:
        with LiveServer(dir=folder, **directives) as server:
            digest = server._command(b"DEBUG", b"DIGEST")
        log = server.log.text()
    except rillet.testing.StartError as error:
        log = str(error)
    assert log.strip(), "not a word"
    assert "Traceback" not in log, log
    assert "nternal error" not in log, log
    return digest, log
