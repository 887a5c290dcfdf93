"""Set several strings at once, with one expiry and one condition: MSETEX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.keyspace import notifications as events
from ..keys.expiry import TIME_UNITS, checked_time_in
from ..runtime.arguments import Arguments, parse_integer
from ..runtime.client import needs_downgrade
from ..spec.command import handles
from . import specs
from .shared import overwrite

if TYPE_CHECKING:
    from ..runtime.client import Client

_INT_MAX: Final = (1 << 31) - 1
_SINCE: Final = (8, 4)


class _Options:
    """The options after the pairs: NX or XX, and a unit with its amount or KEEPTTL."""

    __slots__ = ("amount", "condition", "keep_ttl", "unit")

    def __init__(self, options: Arguments) -> None:
        self.condition = self.unit = self.amount = b""
        self.keep_ttl = False
        while options:
            option = options.option()
            if option in {b"NX", b"XX"} and self.condition in {b"", option}:
                self.condition = option
            elif option == b"KEEPTTL" and not self.unit:
                self.keep_ttl = True
            elif option in TIME_UNITS and self.unit in {b"", option} and not self.keep_ttl:
                self.unit = option
                self.amount = options.next()
            else:
                raise ReplyError(SYNTAX)

    def expiry(self, now: int) -> int | None:
        """Return the absolute time in milliseconds, None without a unit."""
        if not self.unit:
            return None
        return checked_time_in(self.unit, self.amount, "msetex", now)


@handles(specs.MSETEX)
def msetex(client: Client, args: list[bytes]) -> bytes:
    """Reply 1 if all were set, 0 if the condition fails for one key: then none was."""
    error = b"ERR invalid numkeys value"
    count = parse_integer(args[1], error)
    if not 1 <= count <= _INT_MAX:
        raise ReplyError(error)
    end = 2 + 2 * count
    if end > len(args):
        raise ReplyError(b"ERR wrong number of key-value pairs")
    options = _Options(Arguments(args, end))
    db = client.db
    keyspace = db.keyspace
    expiry = options.expiry(keyspace.now)
    names = args[2:end:2]
    if options.condition:
        wanted = options.condition == b"XX"
        if not all((db.write(name) is not None) == wanted for name in names):
            return replies.ZERO
    for at in range(2, end, 2):
        name = args[at]
        overwrite(client, name, args[at + 1], keep_ttl=options.keep_ttl)
        if expiry is not None:
            db.set_expiry(name, expiry)
            keyspace.notify(events.GENERIC, b"expire", name, db)
    _tell(client, args, end, options, expiry)
    return replies.ONE


def _tell(client: Client, args: list[bytes], end: int, options: _Options, expiry: int | None) -> None:
    """Propagate it with its time made absolute."""
    times = [b"KEEPTTL"] if options.keep_ttl else []
    if expiry is not None:
        times = [b"PXAT", b"%d" % expiry]
    condition = [options.condition] if options.condition else []
    older = None
    if needs_downgrade(client, _SINCE):
        older = [[b"SET", args[at], args[at + 1], *times] for at in range(2, end, 2)]
    client.propagate_with_downgrade([*args[:end], *condition, *times], older)
