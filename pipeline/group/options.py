"""The options of reading as a consumer of a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...protocol.key_slots import key_slot
from ..redis import ids
from ..redis.cluster import key_in_slot_of
from ..redis.key_names import key_of, name_of
from ..redis.options import ENDPOINT_NAMES, Endpoint, OptionError, Options
from ..source.entry_batches import COLUMN_OPTIONS
from ..source.options import (
    ALIASES,
    EARLIEST,
    LATEST,
    Bounds,
    find_streams,
    read_bounds,
    read_discovery,
    read_streams,
)

if TYPE_CHECKING:
    from ..redis.connection import Connection

NAMES: Final = (
    "mode", "streams", "streamsPattern", "subscribePattern", "group", "consumer", "createGroup", "startingOffsets", "claimMinIdleMs",
    "startingTimestamp", "startingOffsetsByTimestamp", "maxDeliveries", "deadLetterStream", "maxRowsPerTrigger", "maxBytesPerTrigger", "minPartitions",
    "maxRowsPerPartition", "fetchSize", "failOnDataLoss", "discoveryIntervalMs",
)  # fmt: skip
_PLACE: Final = "<stream>"


@dataclass(frozen=True)
class GroupOptions:
    """Which streams a consumer reads, how much at once, and what it claims; pickles into every task.

    Attributes:
        names: the streams; empty with a pattern.
        pattern: a glob of streams, looked for every ``discovery_seconds``.
        consumer: our name; None: one by chance, which the checkpoint keeps. Two queries of one group need two names.
        start: after which id a group that we create reads.
        claim_min_idle_ms: take over what others have had for so long; None: nothing.
        max_deliveries: an entry delivered so often goes to ``dead_letter_stream`` instead of into a batch.
        fetch_size: entries in one reply.
    """

    endpoint: Endpoint
    names: tuple[str, ...]
    pattern: str | None
    group: str
    consumer: str | None
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
        options = options.renamed(ALIASES)
        options.refuse_unknown((*ENDPOINT_NAMES, *COLUMN_OPTIONS, *NAMES))
        names, pattern = read_streams(options)
        result = cls(
            endpoint=Endpoint.of(options),
            names=names,
            pattern=pattern,
            group=options.required("group"),
            consumer=options.text("consumer"),
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
        result._refuse_other_slots()
        return result

    def _refuse_other_slots(self) -> None:
        if self.endpoint.kind == "cluster" and self.dead_letter_stream is not None:
            for name in self.names:
                letters = self.dead_letters_of(name)
                if key_slot(key_of(name)) != key_slot(key_of(letters)):
                    raise OptionError(
                        f"an entry of {name!r} moves to {letters!r} in one transaction, so in a cluster both are to be in one "
                        "hash slot: a deadLetterStream with <stream> in it is one for each hash tag, as in '<stream>:dead'"
                    )

    def dead_letters_of(self, stream: str) -> str:
        """Return the dead-letter stream of a stream: ``<stream>`` in it becomes the hash tag of the stream, with braces."""
        target = self.dead_letter_stream
        assert target is not None
        before, placed, after = target.partition(_PLACE)
        return name_of(key_in_slot_of(key_of(stream), before, after)) if placed else target

    def start_of(self, stream: str) -> str:
        """Return the id after which a new group reads a stream, as XGROUP CREATE takes it."""
        start = self.start.of(stream)
        if isinstance(start, int):
            return ids.text(start)
        return "0" if start == EARLIEST else "$"

    def later_start_of(self, stream: str) -> str:
        """Return the same of a stream that comes to a query that runs: all of it is new, unless an id or a time is given."""
        start = self.start.later(stream)
        return ids.text(start) if isinstance(start, int) else "0"

    def streams_of(self, connection: Connection) -> list[str]:
        """Return the streams that there are to read now; dead letters are none of them."""
        if self.pattern is None:
            return list(self.names)
        found = find_streams(connection, self.pattern)
        if self.dead_letter_stream is None:
            return found
        letters = {self.dead_letters_of(name) for name in found}
        return [name for name in found if name not in letters]
