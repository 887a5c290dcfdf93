"""The options that XADD and XTRIM share: how much of a stream is to go, and how that is propagated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..protocol.errors import SYNTAX, ReplyError
from ..storage import stream_id
from .arguments import parse_integer
from .stream_ids import parse_id, parse_new_id

if TYPE_CHECKING:
    from ..storage.stream import Stream
    from .client import Client

TWO_STRATEGIES = b"ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
NEGATIVE_MAXLEN = b"ERR The MAXLEN argument must be >= 0."
NEGATIVE_LIMIT = b"ERR The LIMIT argument must be >= 0."
LIMIT_WITHOUT_STRATEGY = b"ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
LIMIT_WITHOUT_TILDE = b"ERR syntax error, LIMIT cannot be used without the special ~ option"
NO_STRATEGY = b"ERR syntax error, XTRIM must be called with a trimming strategy"


@dataclass(slots=True)
class AddOrTrim:
    """The parsed options of XADD or XTRIM; positions are word indices.

    Attributes:
        strategy: ``b"MAXLEN"``, ``b"MINID"`` or None.
        threshold: a length or an ID; its word is at ``threshold_at``, an operator right before it.
        limit: entries to remove at most, 0 for no limit.
        new_id: XADD: the ID given, None for ``*``; its word is at ``id_at`` (behind the last word if there is none).
        seq_given: XADD: False for ``ms-*``.
    """

    strategy: bytes | None = None
    approximate: bool = False
    threshold: int = 0
    threshold_at: int = 0
    limit: int = 0
    no_mkstream: bool = False
    new_id: int | None = None
    seq_given: bool = True
    id_at: int = 0

    def trim(self, stream: Stream) -> int:
        """Trim the stream; returns how many entries went."""
        if self.strategy == b"MAXLEN":
            return stream.trim_to_length(self.threshold, approximate=self.approximate, limit=self.limit)
        return stream.trim_before(self.threshold, approximate=self.approximate, limit=self.limit)

    def rewrite(self, words: list[bytes], stream: Stream) -> None:
        """Make the words of an approximate trim exact: whoever replays them must end with the same entries."""
        if self.approximate:
            words[self.threshold_at - 1] = b"="
            words[self.threshold_at] = (
                b"%d" % stream.length
                if self.strategy == b"MAXLEN"
                else stream_id.encode(stream.first_physical_id)
            )


def parse_add_or_trim(client: Client, args: list[bytes], *, adding: bool) -> AddOrTrim:
    """Read the options of XADD (``adding``: up to and including the ID) or XTRIM (up to the end).

    KEEPREF, DELREF and ACKED (8.2) and IDMP, IDMPAUTO (8.6) belong into the loop, each as a branch before ``adding``;
    until then they are what any unknown word is: a bad ID in XADD, a syntax error in XTRIM.
    """
    options = AddOrTrim()
    limit_given = False
    count = len(args)
    at = 2
    while at < count:
        word = args[at]
        if adding and word.partition(b"\0")[0] == b"*":
            break
        name = word.upper()
        more = count - 1 - at
        if name in {b"MAXLEN", b"MINID"} and more:
            if options.strategy is not None:
                raise ReplyError(TWO_STRATEGIES)
            at += 1
            if more >= 2 and args[at] in {b"~", b"="}:
                options.approximate = args[at] == b"~"
                at += 1
            if name == b"MAXLEN":
                options.threshold = parse_integer(args[at])
                if options.threshold < 0:
                    raise ReplyError(NEGATIVE_MAXLEN)
            else:
                options.threshold = parse_id(args[at])
            options.strategy = name
            options.threshold_at = at
        elif name == b"LIMIT" and more:
            at += 1
            options.limit = parse_integer(args[at])
            if options.limit < 0:
                raise ReplyError(NEGATIVE_LIMIT)
            limit_given = True
        elif adding and name == b"NOMKSTREAM":
            options.no_mkstream = True
        elif adding:
            options.new_id, options.seq_given = parse_new_id(word)
            break
        else:
            raise ReplyError(SYNTAX)
        at += 1
    options.id_at = at

    if options.limit and options.strategy is None:
        raise ReplyError(LIMIT_WITHOUT_STRATEGY)
    if not adding and options.strategy is None:
        raise ReplyError(NO_STRATEGY)
    if client.trusted:
        # It was made exact when it was propagated: the threshold alone decides.
        options.limit = 0
    elif limit_given:
        if not options.approximate:
            raise ReplyError(LIMIT_WITHOUT_TILDE)
    elif options.approximate:
        options.limit = _default_limit(client.server.config.stream_node_max_entries)
    return options


def _default_limit(node_max_entries: int) -> int:
    """About a hundred nodes, so that one approximate trim stays short."""
    limit = 100 * node_max_entries
    return min(limit, 1_000_000) if limit > 0 else 10_000
