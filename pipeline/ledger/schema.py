r"""The rows of the ledger: their columns, their events, and the source of each value.

Every row comes from one record of the file alone, so that many tasks can read one file. What a record *means* may
depend on what was there before it (does the entry still exist? who owned it?): ``spans`` replays the rows, and its
spans say which consumer held what at which moment.

The position of a row:

- ``file_seq`` is the number of the incr file (``appendonly.aof.7.incr.aof`` is 7). Rows of the base that lies before
  the first file read have the number of that file and a *negative* ordinal: they describe the state at the beginning
  and are not events (``ordinal < 0``).
- ``ordinal`` orders the rows of a file. It is made of the 64 KiB block of the file in which the record ends (from bit
  38), the number of the record in this block (from bit 25) and the number of the row in its record. It depends on the
  file alone, never on how it was split. In a base, 2^62 is subtracted.

Rows sorted by ``(file_seq, ordinal)`` are in the order of the server's commands. Tasks return them in another order.

The time of a row:

- ``clock_ms`` is the last annotation before the record, in Unix milliseconds: ``#MS:`` (Rillet's
  ``aof-timestamp-enabled ms``) or ``#TS:`` times 1000; null before the first annotation and in files without any.
- ``at_ms`` is the event's own time. ``delivered`` and ``claimed``: the TIME of the record. ``added``: the
  milliseconds of the id (``clock_ms`` if they exceed 2^63-1). All others: ``clock_ms``.

Text: ``stream``, ``group``, ``consumer`` are the names if they are UTF-8; in other names each byte that is not UTF-8,
and each backslash, is spelled ``\xNN``. ``entry_id`` and ``last_id`` are canonical (``5`` is ``5-0``, ``007-1`` is
``7-1``).

The events, with their columns besides ``db``, ``stream``, ``event``, ``at_ms``, ``clock_ms`` and the position:

==================  =============================================================================================
added               entry_id. XADD. Null entry_id: the id is not in the file (only in files that no server wrote).
deleted             entry_id; detail null (XDEL), KEEPREF, DELREF or ACKED (XDELEX). The entry no longer exists; with
                    DELREF no group has it pending either; ACKED deletes it only if no group still needs it.
trimmed             XTRIM, or XADD with a limit (then its row follows that of ``added``). last_id is the MINID: all
                    entries below it are removed. Or retry_count is the MAXLEN: the oldest entries are removed until
                    this many are left. detail as for ``deleted``. Only ``spans`` derives the removed ids.
delivered           group, entry_id, consumer, at_ms, retry_count, last_id. An XCLAIM record of a first delivery:
                    RETRYCOUNT is 1, and the group's last delivered id is not beyond this entry (LASTID; a base has
                    no LASTID).
claimed             the same columns; any other XCLAIM record. An entry moved to another consumer, was delivered
                    once more, or left the PEL because it was deleted: servers write these in the same way.
                    A JUSTID claim of the newest entry, still at count 1, is written as a delivery by servers before
                    8.4 and therefore ``delivered``. Spans distinguish first deliveries from others without exception.
acked               group, entry_id. XACK; detail null. XACKDEL: detail is its policy; a pending entry is then
                    deleted according to it.
nacked              group, entry_id; XNACK. detail SILENT, FAIL or FATAL, followed by " FORCE" if given; retry_count is
                    its RETRYCOUNT or null. From then on no consumer owns the entry.
group-created       group, last_id ("$": the newest entry there), retry_count: ENTRIESREAD (-1: unknown, null: not given)
group-set           the same columns; XGROUP SETID, which also follows deliveries.
group-destroyed     group
consumer-created    group, consumer. A delivery can also create a consumer, without such a row.
consumer-deleted    group, consumer. Its pending entries leave the PEL.
stream-set          last_id, retry_count: ENTRIESADDED or null. XSETID. ``added`` counts from this on.
key-deleted         the key holds no stream any more: DEL, UNLINK, GETDEL, or another value was stored there (SET,
                    MSET, RESTORE, … STORE). There is a row for every key, whatever its type. stream null: the whole
                    database (FLUSHDB); db null as well: all of them (FLUSHALL).
key-copied          the key now holds the value that another key held at this moment, with groups and PELs; detail is
                    that other key, as "<db> <stream>". COPY, and with a following ``key-deleted`` of the other key
                    RENAME, RENAMENX and MOVE.
databases-swapped   db and the database whose number is in detail exchanged their contents. SWAPDB.
==================  =============================================================================================

A RESTOREd stream, and the streams of an RDB base, appear as the rows that would create them: added, stream-set,
group-created, consumer-created, and delivered, claimed or nacked ("FAIL FORCE") by their counter; of these the detail
ends in FOUND, or in GONE if the entry is pending but no longer in the stream.

No append-only file of any server contains:

- Reads of a consumer's own history (XREADGROUP with an id): they count a delivery and set its time. The next record of
  the entry has the new count.
- Pending entries that were deleted, in a base in command form (aof-use-rdb-preamble no). A server that restarts from
  one has lost them; a ledger that begins before that base has not.
- Consumers that were created by a command without a delivery, and never got one (before 8.8).
- The time before the first annotation of a file. With ``yes`` a file may begin up to a second before it, with
  ``ms`` each file begins with one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    # A row in progress, its words as in the file: db, stream, group, entry id, consumer, event, at, retry count, last
    # id, clock, detail
    Row = tuple[
        int | None, bytes | None, bytes | None, bytes | None, bytes | None, int,
        bytes | None, bytes | None, bytes | None, int | None, bytes | None,
    ]  # fmt: skip

# A row in progress names its event by the index in this list.
EVENTS: Final = (
    "added", "deleted", "trimmed", "delivered", "claimed", "acked", "nacked", "group-created", "group-set",
    "group-destroyed", "consumer-created", "consumer-deleted", "stream-set", "key-deleted", "key-copied",
    "databases-swapped",
)  # fmt: skip
(
    ADDED, DELETED, TRIMMED, DELIVERED, CLAIMED, ACKED, NACKED,
    GROUP_CREATED, GROUP_SET, GROUP_DESTROYED, CONSUMER_CREATED, CONSUMER_DELETED,
    STREAM_SET, KEY_DELETED, KEY_COPIED, DATABASES_SWAPPED,
) = range(len(EVENTS))  # fmt: skip

BLOCK: Final = 1 << 16  # bytes; of these the ordinals are made
BLOCK_ORDINAL: Final = 1 << 38  # from one block to the next
RECORD: Final = 1 << 25  # from one record to the next
BASE_ORDINAL: Final = -(1 << 62)

_COLUMNS: Final = (
    ("db", "int"),
    ("stream", "string"),
    ("group", "string"),
    ("entry_id", "string"),
    ("consumer", "string"),
    ("event", "string"),
    ("at_ms", "bigint"),
    ("retry_count", "bigint"),
    ("last_id", "string"),
    ("clock_ms", "bigint"),
    ("file_seq", "bigint"),
    ("ordinal", "bigint"),
    ("detail", "string"),
)
NAMES: Final = tuple(name for name, _ in _COLUMNS)


class Span(NamedTuple):
    """The result of replaying the rows: one time that a consumer (or, after XNACK, none) held an entry."""

    db: int
    stream: str
    group: str
    entry_id: str
    consumer: str | None  # None: none, after XNACK
    retry_count: int
    at_ms: int | None  # when it was delivered to this consumer
    added_ms: int | None  # when the entry was added, by its id
    # first | claimed (from another consumer) | repeated (to the same one) | nacked | found (was so in the base or in
    # what was restored or copied).
    began: str
    from_seq: int
    from_ordinal: int
    from_clock_ms: int | None
    # acked | claimed | repeated | nacked | dropped (claimed, but the message was gone) | dereferenced (DELREF) |
    # consumer-deleted | group-destroyed | key-deleted | None (still pending where the ledger ends).
    ended: str | None = None
    until_seq: int | None = None
    until_ordinal: int | None = None
    until_clock_ms: int | None = None


_SPAN_COLUMNS: Final = tuple(
    (name, "string" if "str" in str(kind) else "int" if name == "db" else "bigint")
    for name, kind in Span.__annotations__.items()
)
SPAN_DDL: Final = ", ".join(f"`{name}` {kind}" for name, kind in _SPAN_COLUMNS)


def struct() -> StructType:
    """Return the schema of ``redis-aof`` as a Spark type."""
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    kinds = {"int": IntegerType(), "bigint": LongType(), "string": StringType()}
    return StructType([StructField(name, kinds[kind], nullable=True) for name, kind in _COLUMNS])


def arrow(*, spans: bool = False) -> pa.Schema:
    """Return the Arrow schema of the rows' batches, equal to Spark's for ``struct``; with ``spans`` that of the spans."""
    import pyarrow as pa

    kinds = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string()}
    return pa.schema([(name, kinds[kind]) for name, kind in (_SPAN_COLUMNS if spans else _COLUMNS)])
