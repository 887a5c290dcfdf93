"""The options of reading as a consumer of a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..redis import ids
from ..redis.options import ENDPOINT_NAMES, Endpoint, OptionError, Options
from ..source.entry_batches import COLUMN_OPTIONS
from ..source.options import EARLIEST, LATEST, Bounds, read_bounds, read_discovery, read_streams, scan

if TYPE_CHECKING:
    from ..redis.connection import Connection

NAMES: Final = (
    "mode", "streams", "streamsPattern", "group", "consumer", "createGroup", "startingOffsets", "claimMinIdleMs",
    "startingTimestamp", "maxDeliveries", "deadLetterStream", "maxRowsPerTrigger", "maxBytesPerTrigger", "minPartitions",
    "maxRowsPerPartition", "fetchSize", "failOnDataLoss", "discoveryIntervalMs",
)  # fmt: skip


@dataclass(frozen=True)
class GroupOptions:
    """Which streams a consumer reads, how much at once, and what it claims; pickles into every task.

    Attributes:
        names: the streams; empty with a pattern.
        pattern: a glob of streams, looked for every ``discovery_seconds``.
        consumer: our name; two queries of one group need two names.
        start: after which id a group that we create reads.
        claim_min_idle_ms: take over what others have had for so long; None: nothing.
        max_deliveries: an entry delivered so often goes to ``dead_letter_stream`` instead of into a batch.
        fetch_size: entries in one reply.
    """

    endpoint: Endpoint
    names: tuple[str, ...]
    pattern: str | None
    group: str
    consumer: str
    create_group: bool
    start: Bounds
    claim_min_idle_ms: int | None
    max_deliveries: int | None
    dead_letter_stream: str | None
    max_rows: int
    max_bytes: int | None
    min_partitions: int
    max_rows_per_partition: int
    fetch_size: int
    fail_on_data_loss: bool
    discovery_seconds: float

    @classmethod
    def of(cls, options: Options) -> GroupOptions:
        """Read them.

        Raises:
            OptionError: one is unknown, missing or malformed, or contradicts another.
        """
        options.refuse_unknown((*ENDPOINT_NAMES, *COLUMN_OPTIONS, *NAMES))
        names, pattern = read_streams(options)
        result = cls(
            endpoint=Endpoint.of(options),
            names=names,
            pattern=pattern,
            group=options.required("group"),
            consumer=options.text("consumer") or "spark",
            create_group=options.flag("createGroup", default=True),
            start=read_bounds(options, "starting", LATEST),
            claim_min_idle_ms=options.number("claimMinIdleMs"),
            max_deliveries=options.number("maxDeliveries", least=1),
            dead_letter_stream=options.text("deadLetterStream"),
            max_rows=options.number("maxRowsPerTrigger", 100_000, least=1),
            max_bytes=options.number("maxBytesPerTrigger", least=1),
            min_partitions=options.number("minPartitions", 1, least=1),
            max_rows_per_partition=options.number("maxRowsPerPartition", 10_000, least=1),
            fetch_size=options.number("fetchSize", 1000, least=1),
            fail_on_data_loss=options.flag("failOnDataLoss", default=True),
            discovery_seconds=read_discovery(options),
        )
        if (result.max_deliveries is None) != (result.dead_letter_stream is None):
            raise OptionError("options 'maxDeliveries' and 'deadLetterStream' go together")
        return result

    def start_of(self, stream: str) -> str:
        """Return the id after which a new group reads a stream, as XGROUP CREATE takes it."""
        start = self.start.of(stream)
        if isinstance(start, int):
            return ids.text(start)
        return "0" if start == EARLIEST else "$"

    def streams_of(self, connection: Connection) -> list[str]:
        """Return the streams that there are to read now; dead letters are none of them."""
        if self.pattern is None:
            return list(self.names)
        return [name for name in scan(connection, self.pattern) if name != self.dead_letter_stream]
