"""The version of Redis that the server presents, and every difference between versions that it implements.

One table: an attribute for each difference, named for what the server does.
Handlers read ``client.server.compat`` only where the difference shows, never on the path of every command. A newer
command or option needs no field: commands have ``since``, options use ``knows("8.2")``.
"""

from __future__ import annotations

from functools import cache
from typing import Final

# Each version with its release.
VERSIONS: Final = {
    "7.0": "7.0.15",
    "7.2": "7.2.0",
    "7.4": "7.4.0",
    "8.0": "8.0.0",
    "8.2": "8.2.3",
    "8.4": "8.4.0",
    "8.6": "8.6.2",
    "8.8": "8.8.0",
    "8.10": "8.10.2",
}
NEWEST: Final = "8.10"

# The first Redis that writes each version of the RDB format, the newest first.
FIRST_WITH_RDB: Final = {15: (8, 10), 14: (8, 8), 13: (8, 6), 12: (7, 4), 11: (7, 2), 10: (7, 0)}


class Compat:
    """The behaviour of one version. A plain class: a dataclass of so many fields costs each start 2 ms.

    Each comparison says which versions behave like that; in parentheses: the Redis issue or pull request, if there is one.
    """

    def __init__(self, version: str) -> None:
        number = _number(version)
        self.version = version  # one of VERSIONS
        self.number = number  # the version as two numbers
        self.release = VERSIONS[version]  # the version that INFO, HELLO and LOLWUT show: ``8.10.2``
        # XREADGROUP and X[AUTO]CLAIM create their consumer and set its seen-time even if they read or claim nothing.
        self.creates_consumer_on_empty_read = number >= (7, 2)
        self.reports_active_time = number >= (7, 2)  # XINFO shows a consumer's inactive and active-time
        # A blocked command runs again when it wakes up. Before: it reads only the key that changed, even if no entry
        # is left, and has its own errors for a deleted key or group.
        self.reruns_blocked_command = number >= (7, 2)
        # SORT with STORE, and pushes to a list that is there, wake clients that wait for it (not in 8.6.2). Before: only
        # a new key does.
        self.present_lists_wake = number >= (8, 8)
        self.reset_ends_no_evict = number >= (7, 2)  # RESET turns off CLIENT NO-EVICT
        # A message that a client's own command publishes follows its reply.
        self.sends_own_messages_after_reply = number >= (7, 2)
        # A client tracks the keys that its script reads. Before: the keys that its call declares.
        self.tracks_reads_of_scripts = number >= (7, 2)
        # XADD and LREM: clients that track the key hear of the change before its events.
        self.signals_before_events = number < (7, 2)
        self.getdel_unlinks = number < (7, 2)  # GETDEL is propagated as UNLINK under lazyfree-lazy-user-del
        # The SELECT of a transaction's database is propagated before its MULTI.
        self.selects_before_multi = number < (7, 2)
        # A client that waits for its flush gets the invalidation before the reply.
        self.flushes_before_reply = number >= (7, 4)
        # The error for an odd number of keys and IDs names the command.
        self.names_command_in_unbalanced_error = number >= (7, 2)
        self.supports_plus_in_xread = number >= (7, 4)  # ``+`` is an ID of XREAD
        # A timeout that overflows the clock is an error. Before: it means no limit.
        self.refuses_overflowing_timeouts = number >= (7, 2)
        # A group's entries-read counter continues from its last trusted value, and tombstones count from there
        # (#13338, #13473). Before: as in 7.0.
        self.counts_from_last_id = number >= (7, 2)
        # The lag of a group before the first entry is the length of the stream if every deleted entry precedes that
        # entry; the lag for an empty stream is 0.
        self.lags_by_position = number >= (7, 4)
        # ``ms-*`` with an exhausted sequence is an ID that is too small. Before: the error says that the elements are
        # too large.
        self.treats_partial_ids_as_small = number >= (7, 2)
        self.guards_max_deleted = number >= (7, 2)  # XSETID may not go below max-deleted-entry-id
        # BITCOUNT and BITPOS check their range before they look up the key.
        self.checks_bit_range_before_key = number >= (7, 2)
        # ZADD leaves a compact encoding before it adds many members, new or not.
        self.prepares_sorted_sets = number >= (7, 2)
        # Also before long members. Since 8.2 (Valkey 9: always) only if they are added.
        self.prepares_for_long_members = number < (8, 2)
        # TIME stays the same within a script or a transaction. Before: it advances.
        self.freezes_time = number >= (7, 2)
        # RENAME and MOVE keep the OBJECT FREQ of a key. Since then: that of a new key.
        self.renames_keep_frequency = number < (7, 2)
        # OBJECT REFCOUNT of small integers is 2147483647. Since 8.2 (Valkey: since 7.2): 1.
        self.shares_integers = number < (7, 2)
        # SCAN and its relatives refuse ``-1`` and an empty cursor, and skip leading blanks. Before: ``-1`` wraps
        # around, an empty cursor is 0.
        self.refuses_negative_cursors = number >= (7, 2)
        # SCAN with TYPE counts a hit or a miss for each key that MATCH chooses.
        self.scan_looks_up_types = number < (7, 2)
        # SCAN deletes expired keys that MATCH does not choose, too (seen in 8.2.3).
        self.scan_expires_unmatched = (8, 2) <= number < (8, 6)
        # ACL shows sanitize-payload of each user. Before: only if a rule set it.
        self.shows_sanitize_payload = number >= (7, 2)
        # XREAD with BLOCK may be called by scripts, and does not block.
        self.may_ask_to_block_in_scripts = number >= (7, 2)
        # The error for an unknown command without arguments does not mention any.
        self.names_unknown_command_only = number >= (8, 6)
        # The error of HELLO without AUTH shows an argument for the protocol.
        self.names_protocol_in_hello_error = number >= (7, 2)
        # The error of a denial names the user, and ACL LOG numbers its entries.
        self.details_acl_denials = number >= (7, 2)
        self.uses_imperative_help_line = number >= (7, 2)  # HELP's last line is in the imperative
        # Every claim creates its consumer and marks it as seen. Before: only one that claims something.
        self.claims_see_consumers = number >= (7, 2)
        # XGROUP SETID follows the XCLAIMs of XREADGROUP. Before: only with NOACK.
        self.reads_propagate_setid = number >= (7, 4)
        # The LASTID of XREADGROUP's XCLAIMs is the entry itself. Later: the group's position before the read (8.4,
        # #14516).
        self.reads_propagate_own_lastid = number < (8, 4)
        # XREADGROUP that delivers nothing to a consumer that it created propagates XGROUP CREATECONSUMER (#14963).
        # Before: only with NOACK.
        self.empty_read_propagates_new_consumer = number >= (8, 8)
        # XREADGROUP NOACK for a new consumer propagates CREATECONSUMER, then SETID. Later: in the other order (8.8).
        self.propagates_consumer_before_setid = number < (8, 8)
        # XGROUP's ENTRIESREAD is capped at the number of entries ever added (#14259).
        self.caps_entries_read = number >= (8, 2)
        # KEEPREF, DELREF and ACKED are options of XADD and XTRIM.
        self.supports_reference_policies = number >= (8, 2)
        # IDMP and IDMPAUTO are options of XADD, and XINFO STREAM has their fields.
        self.supports_xadd_idmp = number >= (8, 6)
        self.reports_nacked_count = number >= (8, 8)  # XINFO STREAM FULL shows nacked-count
        self.compact_sets = number >= (7, 2)  # OBJECT ENCODING of a small set is listpack. Before: hashtable.
        # A score has the fewest digits that identify it. Before: always up to 17.
        self.shortest_doubles = number >= (7, 2)
        # OBJECT ENCODING of a small list is listpack. Before: every list is a quicklist.
        self.compact_lists = number >= (7, 2)
        # LREM's count and LPOS's RANK may not be the smallest 64-bit integer.
        self.refuses_minimum_list_counts = number >= (7, 2)
        self.wraps_lset_index = (7, 2) <= number < (8, 10)  # LSET takes the lowest 32 bits of its index
        # SET with PXAT is propagated word by word. Before: rewritten, as with EX.
        self.propagates_pxat_as_given = number >= (7, 2)
        # NX and XX are allowed after IFEQ and the other comparisons of SET.
        self.mixes_set_conditions = number < (8, 8)
        # Bounds of scores may be hexadecimal and have white space before them.
        self.reads_bounds_as_strtod = not (8, 0) <= number < (8, 8)
        # A position has the fewest digits that identify it. Before: up to 17 after the point (#13494).
        self.shortest_coordinates = number >= (8, 0)
        self.counts_tree_leaves = number < (8, 10)  # radix-tree-nodes of XINFO STREAM includes the leaves
        # An approximate trim with DELREF or ACKED removes entries. Before: it removes nothing (#14623).
        self.trims_nodes_by_policy = number >= (8, 6)
        # Options may follow the fields of HGETEX, HSETEX and HEXPIRE. Before: FIELDS ends them.
        self.takes_fields_anywhere = number >= (8, 6)
        # A string is embstr up to 41 bytes with its key. Before: up to 44 bytes without.
        self.embeds_keys = number >= (8, 2)
        # A score beyond the range of doubles becomes infinite or 0, unless it has too many digits.
        self.rounds_scores = number >= (8, 8)
        # SORT reads numbers as ZADD reads scores. From 8.0 to 8.6: as bounds of scores, before: as strtod.
        self.sorts_numbers_as_scores = number >= (8, 8)
        # SET and INCREX do not store a value whose expiry is already past: they delete the key, propagate that, and
        # count an expired key (#14784).
        self.discards_expired_values = number >= (8, 8)
        # A read that finds the last field of a hash expired sends hexpired before del.
        self.names_last_expired = number < (8, 10)
        # master_repl_offset counts the commands of the append-only file while there is no replication stream.
        self.counts_without_replicas = number >= (7, 2)
        # The manifest has replication offsets, from which a start continues to count.
        self.writes_aof_offsets = number >= (8, 0)
        # The RDB version of the files, DUMP payloads and snapshots that the server writes.
        self.rdb_version = rdb_version_of(number)

    def knows(self, since: str) -> bool:
        """Return True if the emulated version of Redis is ``since`` (``8.2`` or ``8.6.2``) or newer."""
        return _number(since) <= self.number


@cache  # each start compares the same few versions with hundreds of commands
def _number(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def rdb_version_of(number: tuple[int, int]) -> int:
    """Return the RDB version that a Redis version, given as numbers, writes; 7.0 or later."""
    return next(rdb for rdb, since in FIRST_WITH_RDB.items() if number >= since)


@cache
def compat_with(version: str) -> Compat:
    """Return the behaviour of a version of Redis, one of VERSIONS such as ``8.2``."""
    return Compat(version)


POLICIES_SINCE: Final = (8, 2)  # XDELEX, XACKDEL and the options KEEPREF, DELREF, ACKED
IDMP_SINCE: Final = (8, 6)
XNACK_SINCE: Final = (8, 8)
