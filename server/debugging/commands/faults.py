"""DEBUG FAULT: inject faults into commands, connections and the disk for tests.

::

    DEBUG FAULT ADD option [value] ...      see fault_spec.py
    DEBUG FAULT LIST [id]
    DEBUG FAULT CLEAR [id]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ....commands.runtime.arguments import parse_integer
from ....commands.spec.usage import help_reply
from ....commands.spec.versions import Compat
from ....protocol import replies
from ....protocol.errors import ReplyError
from ..fault import Fault
from ..fault_set import FaultSet

if TYPE_CHECKING:
    from ....commands.runtime.client import Client
    from ....protocol.replies import Plain

USAGE: Final = b"ERR Use DEBUG FAULT ADD option [value] ..., LIST [id], CLEAR [id] or HELP"


def fault(client: Client, args: list[bytes]) -> bytes:
    """Handle DEBUG FAULT: add, list or clear faults; see ``answer``."""
    server = client.server
    return answer(server.debugging.faults, args, client.resp, server.compat)


def answer(faults: FaultSet, args: list[bytes], resp: int, compat: Compat) -> bytes:
    """Add, list or clear faults.

    ADD replies with the ID of the fault. LIST replies with the active faults, CLEAR with the cleared ones, as ``[ID, options,
    fitted, hit, hits]``. ``fitted`` counts the commands that met the conditions, ``hit`` those that the fault hit, and
    ``hits`` has the last of these as ``[time, client ID, client name, command, key]``: the time in milliseconds of the
    server's clock, the key "" without one.
    """
    action, rest = args[2].upper(), args[3:]
    # fault_spec imports the Lua engine, for its error texts, which would cost a first test 12 ms.
    if action == b"ADD" and rest:
        from ..fault_spec import parse_fault

        spec = parse_fault(rest)
        if not (spec.command is None or faults.knows(spec.command)):
            raise ReplyError(b"ERR There is no command '%b'" % spec.command.encode("latin-1")[:50])
        return replies.integer(faults.add(spec))
    if action == b"HELP" and not rest:
        from .. import fault_spec

        lines = [line.encode() for line in (fault_spec.__doc__ or "").splitlines()]
        return help_reply(
            [b"DEBUG FAULT ADD <option> [<value>] ... | LIST [<id>] | CLEAR [<id>]", *lines], compat
        )
    if action not in {b"LIST", b"CLEAR"} or len(rest) > 1:
        raise ReplyError(USAGE)
    ids = [parse_integer(rest[0])] if rest else list(faults.active)
    if any(number not in faults.active for number in ids):
        raise ReplyError(b"ERR There is no fault with this ID")
    found = [faults.active[number] for number in ids]
    if action == b"CLEAR":
        for number in ids:
            faults.remove(number)
    return replies.plain([_shown(each) for each in found], resp)


def _shown(found: Fault) -> list[Plain]:
    hits = [
        (each.time, each.client_id, each.client_name, each.command, each.key)
        for each in list(found.hits)  # the fsync thread may add hits meanwhile
    ]
    return [found.id, found.spec.words, found.fitted, found.hit, hits]
