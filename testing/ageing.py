"""Make the pending entries of a group older (``age``), on any Redis."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from .control import TakesCommands

# Only XCLAIM sets an idle time; JUSTID keeps the delivery count. The script skips deleted entries, which XCLAIM would
# remove from the PEL, and entries without a consumer (XNACK), which have no idle time.
_AGE: Final = b"""
local aged, from = 0, '-'
while true do
    local found = redis.call('XPENDING', KEYS[1], ARGV[1], from, '+', 1000)
    for _, each in ipairs(found) do
        local id, consumer, idle = each[1], each[2], each[3]
        from = '(' .. id
        if consumer ~= '' and #redis.call('XRANGE', KEYS[1], id, id) > 0 then
            redis.call('XCLAIM', KEYS[1], ARGV[1], consumer, 0, id, 'IDLE', idle + ARGV[2], 'JUSTID')
            aged = aged + 1
        end
    end
    if #found < 1000 then return aged end
end
"""


class HasAge(TakesCommands):
    """A server whose pending entries a test can make older."""

    def age(
        self,
        stream: str | bytes,
        group: str | bytes,
        *,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        by: timedelta | None = None,
    ) -> int:
        """Increase the idle times of a group's pending entries, as if that time had passed since their delivery.

        It works on any Redis, where tests cannot move the clock. A script lets each consumer claim its own entries with a
        longer idle time. Owners and delivery counts stay; each consumer's seen-time becomes the present. Deleted entries
        are skipped. Nothing else ages.

        Returns:
            The number of entries that were aged.

        Raises:
            ValueError: the time is not positive.
            hiredis.ReplyError: there is no such group, or the user of the URL may not run scripts.
        """
        total = hours * 3600 + minutes * 60 + seconds + (0 if by is None else by.total_seconds())
        if total <= 0:
            raise ValueError("age needs hours, minutes, seconds or by, together more than 0")
        key, name = (word if isinstance(word, bytes) else word.encode() for word in (stream, group))
        aged = self._command(b"EVAL", _AGE, b"1", key, name, b"%d" % round(total * 1000))
        assert isinstance(aged, int)
        return aged
