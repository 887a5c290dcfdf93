"""The options that XADD and XTRIM share: parse them, trim by them, propagate the trim.

Replicas that do not know reference policies or producers receive equivalent older commands, which leave them with the
same entries and the same pending entries. XNACK, XCFGSET and XIDMPRECORD have no older form: only replicas that know
these commands run them, so only those remember producers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ...protocol.errors import SYNTAX, ReplyError
from ...storage.groups.references import forget, forget_later, holders, trim_acked
from ...storage.streams import ids as stream_id
from ...storage.streams.macro_nodes import FAR
from ...storage.streams.stream import Stream
from ...storage.streams.trimming import Removed, trim, trims_far
from ..runtime.arguments import parse_integer
from ..runtime.client import Client
from ..runtime.downgrades import needs_downgrade, where_known
from ..spec.versions import IDMP_SINCE, POLICIES_SINCE
from .deferral import removes_in_steps, require_groups, require_nodes
from .lookup import parse_new_id

TWO_STRATEGIES = b"ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
NEGATIVE_MAXLEN = b"ERR The MAXLEN argument must be >= 0."
NEGATIVE_LIMIT = b"ERR The LIMIT argument must be >= 0."
LIMIT_WITHOUT_STRATEGY = b"ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
LIMIT_WITHOUT_TILDE = b"ERR syntax error, LIMIT cannot be used without the special ~ option"
POLICIES = frozenset((b"KEEPREF", b"DELREF", b"ACKED"))
NO_STRATEGY = b"ERR syntax error, XTRIM must be called with a trimming strategy"
TWO_PRODUCERS = b"ERR syntax error, IDMP/IDMPAUTO specified multiple times"
EMPTY_PRODUCER = b"ERR syntax error, %b requires a non-empty producer ID"
EMPTY_IID = b"ERR syntax error, IDMP requires a non-empty idempotent ID"
IDMP_WITH_ID = b"ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs"

_STRATEGIES: Final = frozenset((b"MAXLEN", b"MINID"))
_OPERATORS: Final = frozenset((b"~", b"="))
_USUAL: Final = [b"MAXLEN", b"~"]
_STAR: Final = [b"*"]


class TrimOptions:
    """The parsed options of XADD or XTRIM; positions are word indices."""

    strategy: bytes | None = None  # ``b"MAXLEN"``, ``b"MINID"`` or None
    by_length: bool = False
    approximate: bool = False
    # A length or an ID; its word is at ``threshold_at``, directly after the operator if there is one.
    threshold: int = 0
    threshold_at: int = 0
    limit: int = 0  # the most entries to remove, 0 for no limit
    # What happens to the groups' references: one of POLICIES; None if it is not given (KEEPREF).
    policy: bytes | None = None
    reached: int = 0  # after trimming with ACKED, the ID up to which entries were examined
    no_mkstream: bool = False
    # XADD: the given ID, None for ``*``; its word is at ``id_at`` (after the last word if there is none).
    new_id: int | None = None
    seq_given: bool = True  # XADD: False for ``ms-*``
    id_at: int = 0
    producer: bytes = b""  # XADD: the pid of IDMP or IDMPAUTO, empty without
    iid: bytes = b""  # XADD: the idempotent ID, empty for IDMPAUTO
    # A replica needs older commands for the policy or the producer. Only then are the next two filled in, and only
    # with DELREF or ACKED.
    needs_downgrade: bool = False
    removed: list[bytes] | None = None  # IDs of the trimmed entries; None if no replica needs them
    # The trimmed entries that were pending: names of groups with IDs.
    held: Sequence[tuple[bytes, list[bytes]]] = ()

    def require_ready(self, client: Client, stream: Stream) -> None:
        """Raise ``Deferred`` unless groups and macro nodes are ready for the trim, or the client may not wait.

        Call this before any change.
        """
        if self.policy is not None and self.policy != b"KEEPREF":
            require_groups(client, stream)
        if self.policy == b"ACKED" and self.approximate:
            require_nodes(client, stream, are_far=stream.macro_nodes.is_behind)
        elif len(stream.chunks) > FAR:  # in fewer chunks no border is far
            is_far = trims_far(stream, self.by_length, self.threshold, self.limit)
            require_nodes(client, stream, are_far=is_far)

    def removes_nothing(self, stream: Stream) -> bool:
        """Return True if it is certain that a trim after one more entry removes nothing; False if it may."""
        return (
            self.approximate
            and self.policy is None
            and self.by_length
            and untrimmed(stream, self.threshold) > 0
        )

    def trim(self, client: Client, stream: Stream) -> int:
        """Trim the stream; return the number of removed entries."""
        by_policy = self.policy is not None and self.policy != b"KEEPREF"
        if by_policy and self.approximate and not client.server.compat.trims_nodes_by_policy:
            return 0
        if self.policy == b"ACKED" and stream.groups:
            removed, self.reached = trim_acked(
                stream,
                self.threshold,
                by_length=self.by_length,
                approximate=self.approximate,
                limit=self.limit,
                removed_ids=self.removed,
            )
            return removed
        gone = Removed() if self.policy == b"DELREF" and stream.groups else None
        # With a policy Redis examines the last node entry by entry, unless the limit forbids the whole node.
        removed = trim(
            stream,
            self.threshold,
            by_length=self.by_length,
            approximate=self.approximate and not by_policy,
            limit=self.limit,
            gone=gone,
        )
        if gone is not None and removed:
            self._forget(client, stream, gone)
        return removed

    def _forget(self, client: Client, stream: Stream, gone: Removed) -> None:
        if removes_in_steps(client, gone.number) and not self.needs_downgrade:
            for job in forget_later(stream, gone):
                client.server.background_jobs.run_soon(job)
            return
        numbers = gone.ids()
        if self.needs_downgrade:
            self.held = holders(stream, numbers)
        forget(stream, numbers)

    def rewrite(self, words: list[bytes], stream: Stream) -> None:
        """Rewrite the words of an approximate trim to an exact one, so that a replay ends with the same entries.

        With a policy, the first ID of the first remaining node does not tell which entries were removed. Redis propagates it
        even so; here the replay must remove the same entries, so the ID of the first remaining entry is propagated.
        """
        if self.approximate:
            border = self.reached + 1 if self.reached else stream.macro_nodes.first_id
            if self.policy is not None and self.policy != b"KEEPREF":
                border = max(border, stream.first_id)
            words[self.threshold_at - 1] = b"="
            words[self.threshold_at] = b"%d" % stream.length if self.by_length else stream_id.encode(border)

    def downgraded(self, words: list[bytes], stream: Stream) -> list[Sequence[bytes]]:
        """Return XADD or XTRIM for replicas that do not know the policy or the producer, then commands with their effects.

        Args:
            words: the command as it is propagated, its ID and threshold final.
            stream: the stream after the command.
        """
        verb, name = words[:2]
        older: list[Sequence[bytes]] = []
        trimming: list[bytes] = []
        by_policy = self.policy == b"ACKED" and stream.groups
        if self.strategy is not None and not by_policy:
            trimming = [self.strategy, b"=", words[self.threshold_at]]
        if self.id_at < len(words):
            older.append([verb, name, *trimming, *words[self.id_at :]])
        elif trimming:
            older.append([verb, name, *trimming])
        older += downgraded_deletion(name, self.held, [])
        if self.producer:
            record = (b"XIDMPRECORD", name, self.producer, self.iid, words[self.id_at])
            older.append(where_known(record))
        if by_policy and self.removed:
            if not stream.length:
                older.append((b"XTRIM", name, b"MAXLEN", b"=", b"0"))
            elif stream_id.parse(self.removed[-1]) < stream.first_id:
                older.append((b"XTRIM", name, b"MINID", b"=", stream_id.encode(stream.first_id)))
            else:
                older.append((b"XDEL", name, *self.removed))
        return older


def downgraded_deletion(
    name: bytes, held: Iterable[tuple[bytes, list[bytes]]], deleted: list[bytes]
) -> list[Sequence[bytes]]:
    """Return commands for replicas that do not know XDELEX and XACKDEL: an XACK for each group, then an XDEL.

    Args:
        held: names of the groups that lose references, each with the IDs.
        deleted: IDs of the deleted entries.
    """
    older: list[Sequence[bytes]] = [(b"XACK", name, group, *texts) for group, texts in held if texts]
    if deleted:
        older.append((b"XDEL", name, *deleted))
    return older


def parse_trim_options(client: Client, args: list[bytes], *, adding: bool) -> TrimOptions:
    """Parse the options of XADD (``adding``: up to and including the ID) or XTRIM (up to the end).

    An option that the version does not know, or a second policy, counts as an unknown word: a bad ID in XADD, a
    syntax error in XTRIM.

    Raises ReplyError: the options are invalid.
    """
    options = TrimOptions()
    if adding and args[2:4] == _USUAL and args[5:6] == _STAR and not client.replays:
        # XADD key MAXLEN ~ threshold *: fast path, same as below.
        options.threshold = parse_integer(args[4])
        if options.threshold < 0:
            raise ReplyError(NEGATIVE_MAXLEN)
        options.strategy, options.by_length, options.approximate = b"MAXLEN", True, True
        options.threshold_at, options.id_at = 4, 5
        options.limit = default_limit(client.server.config.stream_node_max_entries)
        return options
    limit_given = False
    count = len(args)
    at = 2
    while at < count:
        word = args[at]
        if adding and (word == b"*" or word.partition(b"\0")[0] == b"*"):
            break
        name = word.upper()
        more = count - 1 - at
        if name in _STRATEGIES and more:
            if options.strategy is not None:
                raise ReplyError(TWO_STRATEGIES)
            at += 1
            if more >= 2 and args[at] in _OPERATORS:
                options.approximate = args[at] == b"~"
                at += 1
            if name == b"MAXLEN":
                options.threshold = parse_integer(args[at])
                if options.threshold < 0:
                    raise ReplyError(NEGATIVE_MAXLEN)
            else:
                options.threshold = stream_id.parse(args[at])
            options.strategy, options.by_length = name, name == b"MAXLEN"
            options.threshold_at = at
        elif name == b"LIMIT" and more:
            at += 1
            options.limit = parse_integer(args[at])
            if options.limit < 0:
                raise ReplyError(NEGATIVE_LIMIT)
            limit_given = True
        elif adding and name == b"NOMKSTREAM":
            options.no_mkstream = True
        elif name in POLICIES and options.policy is None and client.server.compat.supports_reference_policies:
            options.policy = name
        elif (
            adding
            and name in {b"IDMP", b"IDMPAUTO"}
            and more > (name == b"IDMP")
            and client.server.compat.supports_xadd_idmp
        ):
            if options.producer:
                raise ReplyError(TWO_PRODUCERS)
            at += 1
            options.producer = args[at]
            if not options.producer:
                raise ReplyError(EMPTY_PRODUCER % name)
            if name == b"IDMP":
                at += 1
                options.iid = args[at]
                if not options.iid:
                    raise ReplyError(EMPTY_IID)
        elif adding:
            options.new_id, options.seq_given = parse_new_id(word)
            break
        else:
            raise ReplyError(SYNTAX)
        at += 1
    options.id_at = at

    if options.producer and options.new_id is not None and not client.replays:
        raise ReplyError(IDMP_WITH_ID)
    if options.limit and options.strategy is None:
        raise ReplyError(LIMIT_WITHOUT_STRATEGY)
    if not adding and options.strategy is None:
        raise ReplyError(NO_STRATEGY)
    if client.replays:
        # The trim became exact when it was propagated: only the threshold counts.
        options.limit = 0
    elif limit_given:
        if not options.approximate:
            raise ReplyError(LIMIT_WITHOUT_TILDE)
    elif options.approximate:
        options.limit = default_limit(client.server.config.stream_node_max_entries)
    if options.policy is not None or options.producer:
        options.needs_downgrade = needs_downgrade(client, IDMP_SINCE if options.producer else POLICIES_SINCE)
        options.removed = [] if options.needs_downgrade else None
    return options


def default_limit(node_max_entries: int) -> int:
    """Return the LIMIT of an approximate trim without LIMIT: the entries of a hundred nodes, at most a million.

    It is 10,000 if nodes have no limit of entries.
    """
    limit = 100 * node_max_entries
    return min(limit, 1_000_000) if limit > 0 else 10_000


def untrimmed(stream: Stream, threshold: int) -> int:
    """Return how many entries can be added before an approximate trim to ``threshold`` entries removes any.

    A negative number means that it would remove entries now.
    """
    known = stream.macro_nodes.known
    return threshold - stream.length + (known[0].live - 1 if known else 0)
