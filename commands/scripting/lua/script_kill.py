"""End the running script: SCRIPT KILL, FUNCTION KILL, SHUTDOWN NOSAVE; the error texts BUSY, NOTBUSY and UNKILLABLE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ....protocol.errors import ReplyError

if TYPE_CHECKING:
    from .script_run import Run

BUSY_SCRIPT: Final = b"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
BUSY_FUNCTION: Final = (
    b"BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
)
STOPPED: Final = b"ERR The server is shutting down."
_NOT_BUSY: Final = b"NOTBUSY No scripts in execution right now."
_UNKILLABLE: Final = (
    b"UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the "
    b"script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."
)
_KILLED: Final = b"ERR Script killed by user with SCRIPT KILL."
_KILLED_FUNCTION: Final = b"ERR Script killed by user with FUNCTION KILL."


def kill_script(run: Run | None, *, function: bool) -> None:
    """Let the running script or function end at its next interrupt.

    Raises ReplyError: nothing runs, or it has written already, or it is of the other kind.
    """
    if run is None:
        raise ReplyError(_NOT_BUSY)
    if run.wrote:
        raise ReplyError(_UNKILLABLE)
    if run.is_function != function:
        raise ReplyError(BUSY_FUNCTION if run.is_function else BUSY_SCRIPT)
    run.end_with = _KILLED_FUNCTION if function else _KILLED


def stop_script(run: Run | None) -> None:
    """Let the running script, if any, end at its next interrupt, even if it has written: SHUTDOWN NOSAVE."""
    if run is not None:
        run.end_with = STOPPED
