"""Record in the server which planned entries the tasks missed, because Spark has no channel from a task to its source."""

from __future__ import annotations

import json
import uuid
from typing import Final

from ..redis.connection import Connection, ServerError, checked
from ..redis.options import Endpoint
from ..redis.shards import connect
from .losses import LOG

_KEPT_MS: Final = 86_400_000
_NOT_COUNTED: Final = "what tasks miss is not counted in rillet_spark_entries_gone_total: %s"


class MissedEntries:
    """The record in the server of planned entries that the tasks of one driver did not find.

    ``stops``: a loss stops the query anyway, so nothing is recorded.
    """

    def __init__(self, *, stops: bool) -> None:
        # The key of the record; "" if nothing is recorded.
        self.key = "" if stops else f"rillet:gone:{uuid.uuid4().hex}"

    def take(self, connection: Connection) -> dict[str, int]:
        """Return the number of entries missed since the last call, by stream, and remove them from the record."""
        if not self.key:
            return {}
        try:
            words = connection.call("HGETALL", self.key)
            if words:
                connection.call("HDEL", self.key, *words[::2], repeatable=True)
        except ServerError as error:
            LOG.warning(_NOT_COUNTED, error)
            self.key = ""
            return {}
        found: dict[str, int] = {}
        for field, count in zip(words[::2], words[1::2], strict=True):
            name = json.loads(field)[0]
            found[name] = found.get(name, 0) + int(count)
        return found


def note_missed(endpoint: Endpoint, key: str, part: tuple[str, int, int], count: int) -> None:
    """Record in the server that ``count`` entries are missing in a part of a batch (stream, first id, last id).

    Repeating a task records the same again, without effect. Without a key it does nothing.
    """
    if not key:
        return
    steps = [("HSET", key, json.dumps(part), count), ("PEXPIRE", key, _KEPT_MS)]
    try:
        with connect(endpoint) as master:
            checked(master.pipeline(steps, repeatable=True))
    except ServerError as error:
        LOG.warning(_NOT_COUNTED, error)
