"""The options of writing into streams, checked against the columns of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, cast

from ...protocol.key_slots import key_slot
from ..redis import ids
from ..redis.key_names import key_of
from ..redis.options import ENDPOINT_NAMES, Endpoint, OptionError, Options
from .durability import Wait

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

Delivery = Literal["exactly-once", "at-least-once", "idmp"]
NullPolicy = Literal["skip", "empty", "fail"]
OldIds = Literal["check", "skip"]

NAMES: Final = (
    "stream", "streamColumn", "idColumn", "fieldsColumn", "delivery", "maxLen", "minId", "approximate", "nullPolicy",
    "chunkRows", "inlineBytes", "stagingTtlMs", "oldIds", "marker", "writeId", "writeNumber", "markerTtlMs", "producer", "wait", "waitTimeoutMs",
    "failOnDataLoss",
)  # fmt: skip


@dataclass(frozen=True)
class SinkOptions:
    """How rows become entries, and how they get there; pickles into every task.

    Attributes:
        stream: the stream all rows go to; None: ``stream_column`` says it for each row.
        id_column: explicit ids; with ``idmp`` the idempotent id. None: the server gives the ids.
        fields_column: an array of structs of a name and a value, which is all of an entry; None: every column that is
            not the stream or the id is a field.
        trim: ``("MAXLEN", "~", "1000")`` or the like, to follow XADD's key.
        null_policy: a null column is left out, written as an empty string, or an error.
        chunk_rows: the most entries in one transaction or request; 0: all rows of a batch in one transaction.
        inline_bytes: what a task may send through Spark; beyond, it stages its rows in the server.
        staging_ttl_ms: how long staged rows live unpublished.
        old_ids: an explicit id that is not above the stream's last one counts as written: if it is there (``check``),
            or in any case (``skip``).
        marker: the key that remembers the last batch published, instead of one named after stream and query.
        write_id: makes a batch write that is repeated with the same id a write that happens once.
        write_number: with it, the number of the write, which rises: all writes of an id share one marker.
        marker_ttl_ms: how long the marker of a batch write lives; None: for ever.
        producer: IDMP's producer, instead of one named after the query.
        wait: what else has to have a batch before it counts as done.
        fail_on_data_loss: stop when the target has lost a batch that was published.
    """

    endpoint: Endpoint
    delivery: Delivery
    stream: str | None
    stream_column: str | None
    id_column: str | None
    fields_column: str | None
    trim: tuple[str, ...]
    null_policy: NullPolicy
    chunk_rows: int
    inline_bytes: int
    staging_ttl_ms: int
    old_ids: OldIds
    marker: str | None
    write_id: str | None
    write_number: int | None
    marker_ttl_ms: int | None
    producer: str | None
    wait: Wait
    fail_on_data_loss: bool
    overwrite: bool

    @classmethod
    def of(cls, given: Options | Mapping[str, str], schema: StructType, *, overwrite: bool) -> SinkOptions:
        """Read them for rows of a schema.

        Raises:
            OptionError: an option is unknown or malformed, names a column that is not there, or contradicts another.
        """
        options = given if isinstance(given, Options) else Options(given)
        options.refuse_unknown((*ENDPOINT_NAMES, *NAMES))
        stream = options.text("stream")
        stream_column = None if stream else options.text("streamColumn", "stream")
        fields_column = options.text("fieldsColumn")
        if fields_column is None and _holds_fields(schema, "fields"):
            fields_column = "fields"
        endpoint = Endpoint.of(options)
        result = cls(
            endpoint=endpoint,
            delivery=cast(
                "Delivery",
                options.choice("delivery", ("exactly-once", "at-least-once", "idmp"), "exactly-once"),
            ),
            stream=stream,
            stream_column=stream_column,
            id_column=options.text("idColumn"),
            fields_column=fields_column,
            trim=_trim(options),
            null_policy=cast("NullPolicy", options.choice("nullPolicy", ("skip", "empty", "fail"), "skip")),
            chunk_rows=options.number("chunkRows", 10_000),
            inline_bytes=options.number("inlineBytes", 1 << 20),
            staging_ttl_ms=options.number("stagingTtlMs", 3_600_000, least=1),
            old_ids=cast("OldIds", options.choice("oldIds", ("check", "skip"), "check")),
            marker=options.text("marker"),
            write_id=options.text("writeId"),
            write_number=options.number("writeNumber"),
            marker_ttl_ms=options.number("markerTtlMs", least=1),
            producer=options.text("producer"),
            wait=Wait.of(options, endpoint),
            fail_on_data_loss=options.flag("failOnDataLoss", default=True),
            overwrite=overwrite,
        )
        result._refuse_contradictions(options, schema)
        return result

    def _refuse_contradictions(self, options: Options, schema: StructType) -> None:
        columns = set(schema.fieldNames())
        if self.stream and "streamColumn" in options:
            raise OptionError("options 'stream' and 'streamColumn' exclude each other")
        if self.stream_column and self.stream_column not in columns:
            raise OptionError(
                f"where do rows go? Give option 'stream', or a column {self.stream_column!r} (columns: "
                f"{', '.join(schema.fieldNames()) or 'none'})"
            )
        for name, column in (("idColumn", self.id_column), ("fieldsColumn", self.fields_column)):
            if column and column not in columns:
                raise OptionError(f"option {name!r} names {column!r}, which is no column of the rows")
        if self.fields_column and not _holds_fields(schema, self.fields_column):
            raise OptionError(
                f"column {self.fields_column!r} is no array of structs of a name and a value, nor a map"
            )
        if not self.fields_column and not columns - {self.stream_column, self.id_column}:
            raise OptionError("no column is left to be a field of the entries")
        self._refuse_other_slots()
        for name, value in (("writeNumber", self.write_number), ("markerTtlMs", self.marker_ttl_ms)):
            if value is not None and self.write_id is None:
                raise OptionError(f"option {name!r} goes with 'writeId'")
        if self.delivery != "idmp" and self.producer:
            raise OptionError("option 'producer' goes with delivery=idmp")
        if self.overwrite:
            if not self.stream or self.delivery != "exactly-once":
                raise OptionError(
                    "overwriting needs option 'stream' and delivery=exactly-once: the old entries go when the new come"
                )
            if self.id_column:
                raise OptionError(
                    "overwriting keeps the stream's last id, so that explicit ids could not be written: delete the "
                    "stream and append"
                )

    def _refuse_other_slots(self) -> None:
        """A transaction of a cluster is of one slot, and the marker is in each of ours."""
        if self.endpoint.kind != "cluster" or self.delivery != "exactly-once":
            return
        if self.stream is None and self.marker is None:
            raise OptionError(
                "exactly once into several streams of a cluster, these are to be in one hash slot: give all of them one hash "
                "tag, and option 'marker', too (streams {shop}:orders, {shop}:bills; marker {shop}:marker); or use "
                "delivery=at-least-once"
            )
        if self.stream is not None and self.marker is not None and not self.is_in_marker_slot(self.stream):
            raise OptionError(
                f"option 'marker' ({self.marker}) is to be in the hash slot of stream {self.stream!r}, by the same hash tag"
            )

    def is_in_marker_slot(self, stream: str) -> bool:
        """Return whether a transaction of a cluster can write a stream and the given marker."""
        return self.marker is None or key_slot(key_of(stream)) == key_slot(key_of(self.marker))


def _trim(options: Options) -> tuple[str, ...]:
    longest = options.number("maxLen")
    least = options.text("minId")
    if longest is None and least is None:
        if "approximate" in options:
            raise OptionError("option 'approximate' goes with 'maxLen' or 'minId'")
        return ()
    if longest is not None and least is not None:
        raise OptionError("options 'maxLen' and 'minId' exclude each other")
    sign = "~" if options.flag("approximate", default=True) else "="
    if least is not None:
        try:
            return ("MINID", sign, ids.text(ids.parse(least)))
        except ValueError as error:
            raise OptionError(f"option 'minId': {error}") from None
    return ("MAXLEN", sign, str(longest))


def _holds_fields(schema: StructType, name: str) -> bool:
    """Return whether a column is a map or an array of structs of two."""
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

    if name not in schema.fieldNames():
        return False
    kind = schema[name].dataType
    if isinstance(kind, MapType):
        parts = [kind.keyType, kind.valueType]
    elif isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
        parts = [field.dataType for field in kind.elementType.fields]
    else:
        return False
    return len(parts) == 2 and all(isinstance(part, (StringType, BinaryType)) for part in parts)
