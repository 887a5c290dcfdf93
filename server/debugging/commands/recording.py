"""DEBUG RECORD and DEBUG CONTROL: show tests the commands of clients and the replies.

::

    DEBUG RECORD START [LAST n]
    DEBUG RECORD READ id [number [number ...]]
    DEBUG RECORD STOP id [number]
    DEBUG CONTROL

A command is recorded as a client sent it. Between MULTI and EXEC, each command has its QUEUED, and EXEC has all replies. A
script is recorded as EVAL or FCALL, together with the write commands that it ran. DEBUG itself, the traffic of replicas and
the commands of control connections are not recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ....commands.runtime.arguments import parse_integer
from ....protocol import replies
from ....protocol.errors import ReplyError

if TYPE_CHECKING:
    from ....commands.runtime.client import Client
    from ....protocol.replies import Plain
    from ..recorder import Recorded, Recording, Recordings

USAGE: Final = b"ERR Use DEBUG RECORD START [LAST count], READ id [number ...] or STOP id [number]"
_DEFAULT_LAST: Final = 100_000


def record(client: Client, args: list[bytes]) -> bytes:
    """Handle DEBUG RECORD: begin, read or end a recording; see ``answer``."""
    return answer(client.server.debugging.recorder, args, client.resp)


def answer(recorder: Recordings, args: list[bytes], resp: int) -> bytes:
    """Begin, read or end a recording.

    START replies with the ID of the new recording. READ and STOP reply ``[dropped, oldest, commands]``: the number of dropped
    commands, the number of the oldest command kept (0 without any), and the commands from ``number`` on, oldest first. READ
    adds the commands of all further numbers, for a client that has read commands while they were blocked.

    Each command is ``[number, time, answered, database, client ID, client name, keys, words, reply, fault, scripted]``. Times
    are in milliseconds of the server's clock. The reply has the bytes that the command returned; ``fault`` is the ID of the
    fault that hit it, or 0. ``answered`` and the reply are null while the command is blocked; the reply also if there is none.
    ``scripted`` has the write commands that scripts ran, including scripts that failed later, as ``[position, database,
    keys, words, reply]``. The position is that of the script in its transaction, from 0; EXEC lists those of all its scripts.
    """
    action, rest = args[2].upper(), args[3:]
    if action == b"START" and (not rest or (len(rest) == 2 and rest[0].upper() == b"LAST")):
        return replies.integer(recorder.start(parse_last(rest[1]) if rest else _DEFAULT_LAST))
    if action not in {b"READ", b"STOP"} or not rest or (action == b"STOP" and len(rest) > 2):
        raise ReplyError(USAGE)
    number = parse_integer(rest[0])
    since = parse_integer(rest[1]) if len(rest) > 1 else 0
    others = frozenset(map(parse_integer, rest[2:]))
    if number not in recorder.recordings:
        raise ReplyError(b"ERR There is no recording with this ID")
    recording = recorder.recordings[number]
    if action == b"STOP":
        recorder.stop(number)
    return _read(recorder, recording, since, others, resp)


def parse_last(word: bytes) -> int:
    """Parse the number of commands that a recording keeps.

    Raises ReplyError: it is not a positive integer.
    """
    last = parse_integer(word)
    if last < 1:
        raise ReplyError(b"ERR LAST must be positive")
    return last


def control(client: Client, _args: list[bytes]) -> bytes:
    """Make the client a control connection and reply OK; lists, the ACL, pauses, recordings and faults ignore it."""
    client.server.clients.take_control(client)
    return replies.OK


def _read(recorder: Recordings, recording: Recording, since: int, others: frozenset[int], resp: int) -> bytes:
    entries = list(recording.entries)
    wanted = [entry for entry in entries if entry.number >= since or entry.number in others]
    shown = [fields_of(recorder, entry) for entry in wanted]
    return replies.plain((recording.dropped, entries[0].number if entries else 0, shown), resp)


def fields_of(recorder: Recordings, entry: Recorded) -> list[Plain]:
    """Return the fields of a recorded command as READ and STOP reply with them."""
    scripted = [
        (each.position, each.database, recorder.keys(each.words), each.words, each.reply)
        for each in entry.scripted
    ]
    return [
        *(entry.number, entry.time, entry.answered, entry.database, entry.client_id, entry.client_name),
        *(recorder.keys(entry.words), entry.words, entry.reply, entry.fault, scripted),
    ]
