"""The options for reading as a consumer of a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...protocol.key_slots import key_slot
from ..redis import ids
from ..redis.cluster import key_in_slot_of
from ..redis.connection import Connection
from ..redis.key_names import key_of, name_of
from ..redis.options import FLAG, Kind, OptionError, number, option
from ..source.options import EARLIEST, TriggerOptions

_PLACE: Final = "<stream>"


@dataclass(frozen=True, kw_only=True)
class GroupOptions(TriggerOptions):
    """The options of ``spark.readStream`` in group mode; ``start`` is the id after which a group created by us reads."""

    max_rows: int = option(
        "maxRowsPerTrigger",
        number("rows", 1),
        100_000,
        "the most in a micro-batch",
        kafka="maxOffsetsPerTrigger",
    )
    max_rows_per_partition: int = option(
        "maxRowsPerPartition", number("rows", 1), 10_000, "the most that a task reads"
    )
    group: str = option("group", Kind("name"), None, "of the consumer group; required", required=True)
    consumer: str | None = option(
        "consumer", Kind("name"), None,
        "none: a name of its own for each checkpoint; two queries of one group need two names",
    )  # fmt: skip
    create_group: bool = option("createGroup", FLAG, True, "create the group where it is missing")
    claim_min_idle_ms: int | None = option(
        "claimMinIdleMs", number("ms"), None, "claim what other consumers have had for so long"
    )
    # The console and the report call an entry poison from POISON_DELIVERIES on (console/style), whatever this option is.
    max_deliveries: int | None = option(
        "maxDeliveries",
        number("deliveries", 1),
        None,
        "an entry delivered so often goes to `deadLetterStream`",
        needs=("deadLetterStream",),
    )
    dead_letter_stream: str | None = option(
        "deadLetterStream",
        Kind("name"),
        None,
        "`<stream>` in it is the entry's stream; goes with `maxDeliveries`",
        needs=("maxDeliveries",),
    )

    def _refuse_contradictions(self) -> None:
        """A dead letter moves in one transaction, and one of a cluster is of one slot."""
        if self.endpoint.kind == "cluster" and self.dead_letter_stream is not None:
            for name in self.streams:
                letters = self.dead_letters_of(name)
                if key_slot(key_of(name)) != key_slot(key_of(letters)):
                    raise OptionError(
                        f"an entry of {name!r} moves to {letters!r} in one transaction, so in a cluster both are to be in one "
                        "hash slot: a deadLetterStream with <stream> in it is one for each hash tag, as in '<stream>:dead'"
                    )

    def dead_letters_of(self, stream: str) -> str:
        """Return the name of a stream's dead-letter stream.

        ``<stream>`` in the option becomes the stream's hash tag in braces, so that both are in one slot of a cluster.
        """
        target = self.dead_letter_stream
        assert target is not None
        before, placed, after = target.partition(_PLACE)
        return name_of(key_in_slot_of(key_of(stream), before, after)) if placed else target

    def start_of(self, stream: str) -> str:
        """Return the id after which a new group reads a stream, in the form for XGROUP CREATE."""
        start = self.start.of(stream)
        if isinstance(start, int):
            return ids.text(start)
        return "0" if start == EARLIEST else "$"

    def later_start_of(self, stream: str) -> str:
        """Return the start for a stream that appears during the query: ``0``, unless the option names an id or a time."""
        start = self.start.later(stream)
        return ids.text(start) if isinstance(start, int) else "0"

    def names(self, connection: Connection) -> list[str]:
        """Return the existing streams to read now, without dead-letter streams."""
        found = super().names(connection)
        if self.pattern is None or self.dead_letter_stream is None:
            return found
        letters = {self.dead_letters_of(name) for name in found}
        return [name for name in found if name not in letters]
