"""The state of a client: what happens to its next command."""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """What happens to the next command of a client.

    Only ``Client.update_state``, ``wait``, ``end_wait`` and ``begin_to_close`` change the state, along
    ``LEGAL`` in ``tests/server/net/test_states.py``.
    A client that does not read its replies while it waits for something else becomes CONGESTED after that wait.
    """

    PLAIN = "it runs, and may take the fast path", True
    QUEUEING = "it is queued for EXEC; otherwise the client is plain", True
    CAREFUL = "it runs after all checks, because of a mode of the client", True
    BLOCKED = "it waits behind a command that waits for keys or time", False
    POSTPONED = "it waits until a pause, a background job or the arrival of clients ends", False
    CONGESTED = "it waits until the client reads its replies", False
    AWAITING_TURN = "it waits for the client's turn", False
    CLOSING = "it never runs", False

    def __init__(self, meaning: str, runs: bool) -> None:
        self.meaning = meaning
        self.runs = runs  # the next command runs at once (or is queued for EXEC); False if it waits


# Looking up a member in its class takes longer than looking up a name in a module.
PLAIN: Final = State.PLAIN
QUEUEING: Final = State.QUEUEING
CAREFUL: Final = State.CAREFUL
BLOCKED: Final = State.BLOCKED
POSTPONED: Final = State.POSTPONED
CONGESTED: Final = State.CONGESTED
AWAITING_TURN: Final = State.AWAITING_TURN
CLOSING: Final = State.CLOSING
