r"""One row of the ledger: its columns, its events, and how each value is known.

Every row comes from one record of the file alone, so that many tasks can read one file. What a record *means* may
depend on what was there before it (does the entry still exist? who owned it?): ``spans`` replays the rows, and its
spans say which consumer held what at which moment.

Where a row stands:

- ``file_seq`` is the number of the incr file (``appendonly.aof.7.incr.aof`` is 7). Rows of the base that lies before
  the first file read have the number of that file and a *negative* ordinal: they describe the state at the beginning
  and are not events (``ordinal < 0``).
- ``ordinal`` orders the rows of a file. It is made of the 64 KiB block of the file in which the record ends (from bit
  38), the number of the record among those that end there (from bit 25) and the number of the row in its record. It
  depends on the file alone, never on how it was split. In a base, 2^62 is taken off.

Rows sorted by ``(file_seq, ordinal)`` are in the order in which the server did what they say. Tasks give them in
another one.

When it happened:

- ``clock_ms`` is the last annotation before the record, in Unix milliseconds: ``#MS:`` (Rillet's
  ``aof-timestamp-enabled ms``) or ``#TS:`` times 1000; null before the first and in files without.
- ``at_ms`` is the event's own time. ``delivered`` and ``claimed``: the TIME of the record. ``added``: the
  milliseconds of the id (where they are beyond 2^63-1: as clock_ms). All others: as ``clock_ms``.

Text: ``stream``, ``group``, ``consumer`` are the names where they are UTF-8; a byte that is not, and every backslash
of such a name, is spelled ``\xNN``. ``entry_id`` and ``last_id`` are canonical (``5`` is ``5-0``, ``007-1`` is ``7-1``).

The events, with the columns they fill beside ``db``, ``stream``, ``event``, ``at_ms``, ``clock_ms`` and the position:

==================  =============================================================================================
added               entry_id. XADD. Null entry_id: the id is not in the file (only files not made by a server).
deleted             entry_id; detail null (XDEL), KEEPREF, DELREF or ACKED (XDELEX). After it the entry is not there;
                    with DELREF no group has it pending either; with ACKED only if no group still needs it.
trimmed             XTRIM, or XADD with a limit (then its row follows that of ``added``). last_id is the MINID: all below
                    it is gone. Or retry_count is the MAXLEN: of the oldest so many are gone that this many are left.
                    detail as for ``deleted``. Which ids went only ``spans`` knows.
delivered           group, entry_id, consumer, at_ms, retry_count, last_id. An XCLAIM record that says "for the first
                    time": RETRYCOUNT is 1 and the group had not come further than this entry (LASTID, or no LASTID
                    as in a base).
claimed             the same columns; any other XCLAIM record. An entry moved to another consumer, was delivered
                    once more, or (its message being gone) left the pending list: servers write this the same way.
                    A JUSTID claim of the newest entry, still at count 1, is written as a delivery by servers before
                    8.4 and therefore ``delivered``. Spans distinguish first deliveries from others without exception.
acked               group, entry_id. XACK; detail null. XACKDEL: detail is its policy; if the entry was pending it is
                    then deleted as that says.
nacked              group, entry_id; XNACK. detail SILENT, FAIL or FATAL, with " FORCE" behind where given; retry_count
                    is its RETRYCOUNT or null. No consumer owns the entry from here on.
group-created       group, last_id ("$": the newest entry there), retry_count: ENTRIESREAD (-1 unknown, null not said)
group-set           the same columns; XGROUP SETID, which also follows deliveries.
group-destroyed     group
consumer-created    group, consumer. Consumers also come into being by deliveries, with no such row.
consumer-deleted    group, consumer. What it had pending is pending no more.
stream-set          last_id, retry_count: ENTRIESADDED or null. XSETID. ``added`` counts from here.
key-deleted         the key holds no stream from here on: DEL, UNLINK, GETDEL, or something else was stored there (SET,
                    MSET, RESTORE, … STORE). Emitted for every key, whatever it held. stream null: the whole database
                    (FLUSHDB); db null as well: all of them (FLUSHALL).
key-copied          the key now holds what another one held at this moment, groups and pending lists included; detail
                    is that other one, as "<db> <stream>". COPY, and with a following ``key-deleted`` of the other one
                    RENAME, RENAMENX and MOVE.
databases-swapped   db and the database whose number is in detail changed contents. SWAPDB.
==================  =============================================================================================

A RESTOREd stream, and the streams of an RDB base, come as the rows that would make them: added, stream-set,
group-created, consumer-created, and delivered, claimed or nacked ("FAIL FORCE") by their counter; of these the detail
ends in FOUND, or in GONE if the message is not there any more though the entry is still pending.

What no such file contains, of any server:

- Reading one's own history (XREADGROUP with an id) counts a delivery and sets its time, and is not written. The next
  record of the entry shows the new count.
- Entries that are pending though their message is gone are not in a base in command form (aof-use-rdb-preamble no).
  A server that restarts from one has forgotten them; a ledger that begins before that base has not.
- Consumers that never got anything, when they were made by a command that delivered nothing (before 8.8).
- Up to the first annotation of a file, what time it was. With ``yes`` a file may begin up to a second before it, with
  ``ms`` each file begins with one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
    "added",
    "deleted",
    "trimmed",
    "delivered",
    "claimed",
    "acked",
    "nacked",
    "group-created",
    "group-set",
    "group-destroyed",
    "consumer-created",
    "consumer-deleted",
    "stream-set",
    "key-deleted",
    "key-copied",
    "databases-swapped",
)
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

# The result of replaying the rows: one row for each time that a consumer (or, after XNACK, none) held an entry.
_SPAN_COLUMNS: Final = (
    ("db", "int"),
    ("stream", "string"),
    ("group", "string"),
    ("entry_id", "string"),
    ("consumer", "string"),  # null: none, after XNACK
    ("retry_count", "bigint"),
    ("at_ms", "bigint"),  # when it was delivered to this consumer
    ("added_ms", "bigint"),  # when the entry was added, by its id
    # first | claimed (from another consumer) | repeated (to the same one) | nacked | found (was so in the base or in
    # what was restored or copied)
    ("began", "string"),
    ("from_seq", "bigint"),
    ("from_ordinal", "bigint"),
    ("from_clock_ms", "bigint"),
    # acked | claimed | repeated | nacked | dropped (claimed, but the message was gone) | dereferenced (DELREF) |
    # consumer-deleted | group-destroyed | key-deleted | null (still pending where the ledger ends)
    ("ended", "string"),
    ("until_seq", "bigint"),
    ("until_ordinal", "bigint"),
    ("until_clock_ms", "bigint"),
)
SPAN_DDL: Final = ", ".join(f"`{name}` {kind}" for name, kind in _SPAN_COLUMNS)


def struct() -> StructType:
    """Return the schema of ``redis-aof`` as a Spark type."""
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    kinds = {"int": IntegerType(), "bigint": LongType(), "string": StringType()}
    return StructType([StructField(name, kinds[kind], nullable=True) for name, kind in _COLUMNS])


def arrow(*, spans: bool = False) -> pa.Schema:
    """Return the schema of the batches, equal to the one that Spark derives from ``struct``; or the schema of spans."""
    import pyarrow as pa

    kinds = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string()}
    return pa.schema([(name, kinds[kind]) for name, kind in (_SPAN_COLUMNS if spans else _COLUMNS)])
