"""Refuse a schema with a metadata column whose name the entries use for a field.

Example: after ``XADD orders * ts 2026-01-01T00:00:00Z`` and with ``ts TIMESTAMP`` in the schema, the column is the
entry's own time, and the field would be dropped silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..redis.options import OptionError
from ..redis.stream_state import StreamState
from .entry_batches import METADATA, ColumnOptions, default_schema
from .values import decode_json

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


_MEANINGS: Final = {
    "stream": "the name of the stream",
    "id": "the id of the entry",
    "id_key": "the id of the entry in 16 bytes",
    "ts": "the time of the entry's id",
    "seq": "the sequence number of the entry's id",
    "fields": "all fields of the entry",
    "consumer": "the consumer that had the entry",
    "delivery_count": "how often the entry was delivered",
    "claimed": "whether the entry was claimed",
}


class ColumnClashes:
    """Checks the oldest and the newest entry of each stream, once: when it is first seen with entries.

    Args:
        schema: of the rows; the default schema keeps all fields in a column, so it loses nothing.
        options: how entries become rows.
        extra: the columns of group mode.
    """

    def __init__(
        self, schema: StructType, options: ColumnOptions, extra: Mapping[str, DataType] | None = None
    ) -> None:
        self._options = options
        self._seen: set[str] = set()
        known = {options.prefix + name: name for name in (*METADATA, *(extra or {}))}
        is_default = schema.names == default_schema(options.prefix, extra).names
        self._columns = {} if is_default else {name: known[name] for name in schema.names if name in known}

    def unseen(self, streams: Iterable[str]) -> list[str]:
        """Return the streams that were not checked for clashes yet."""
        return (
            list(dict.fromkeys(name for name in streams if name not in self._seen)) if self._columns else []
        )

    def check(self, states: Mapping[str, StreamState | None]) -> None:
        """Check the streams that were not checked before."""
        if not self._columns:
            return
        for stream, now in states.items():
            if now is None or not now.samples or stream in self._seen:
                continue
            self._seen.add(stream)
            for fields in now.samples:
                for name in self._names(fields):
                    if name in self._columns:
                        raise OptionError(self._text(stream, name))

    def _names(self, fields: Sequence[bytes]) -> list[str]:
        if self._options.value_format == "fields":
            return [name.decode("utf-8", "replace") for name in fields[::2]]
        values = dict(zip(fields[::2], fields[1::2], strict=True))
        try:
            document = decode_json(values.get(self._options.value_field.encode(), b"null"))
        except ValueError:
            return []
        return list(document) if isinstance(document, dict) else []

    def _text(self, stream: str, name: str) -> str:
        where = "field" if self._options.value_format == "fields" else "JSON member"
        return (
            f"entries of stream {stream!r} have a {where} {name!r}, and column {name!r} of the schema is "
            f"{_MEANINGS[self._columns[name]]}; set option 'metadataPrefix' to distinguish them: with '_', "
            f"'_{self._columns[name]}' is what we know of the entry, and {name!r} the {where}"
        )
