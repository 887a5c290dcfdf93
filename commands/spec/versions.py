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

    In parentheses: the first version with the behaviour, and the Redis issue or pull request where there is one.

    Attributes:
        version: one of VERSIONS.
        number: the version as two numbers.
        release: the version that INFO, HELLO and LOLWUT show: ``8.10.2``.
        creates_consumer_on_empty_read: XREADGROUP and X[AUTO]CLAIM create their consumer and set its seen-time even
            if they read or claim nothing (7.2).
        reports_active_time: XINFO shows a consumer's inactive and active-time (7.2).
        reruns_blocked_command: a blocked command runs again when it wakes up. Before: it reads only the key that
            changed, even if no entry is left, and has its own errors for a deleted key or group (7.2).
        reset_ends_no_evict: RESET turns off CLIENT NO-EVICT (7.2).
        sends_own_messages_after_reply: a message that a client's own command publishes follows its reply (7.2).
        tracks_reads_of_scripts: a client tracks the keys that its script reads. Before: the keys that its call declares
            (7.2).
        getdel_unlinks: GETDEL is propagated as UNLINK under lazyfree-lazy-user-del (up to 7.0).
        selects_before_multi: the SELECT of a transaction's database is propagated before its MULTI (up to 7.0).
        flushes_before_reply: a client that waits for its flush gets the invalidation before the reply (7.4).
        names_command_in_unbalanced_error: the error for an odd number of keys and IDs names the command (7.2).
        supports_plus_in_xread: ``+`` is an ID of XREAD (7.4).
        refuses_overflowing_timeouts: a timeout that overflows the clock is an error. Before: it means no limit (7.2).
        counts_from_last_id: a group's entries-read counter continues from its last trusted value, and tombstones
            count from there (7.2, #13338, #13473). Before: as in 7.0.
        lags_by_position: the lag of a group before the first entry is the length of the stream if every deleted entry
            precedes that entry; the lag for an empty stream is 0 (7.4).
        treats_partial_ids_as_small: ``ms-*`` with an exhausted sequence is an ID that is too small. Before: the error
            says that the elements are too large (7.2).
        guards_max_deleted: XSETID may not go below max-deleted-entry-id (7.2).
        checks_bit_range_before_key: BITCOUNT and BITPOS check their range before they look up the key (7.2).
        prepares_sorted_sets: ZADD leaves a compact encoding before it adds many members, new or not (7.2).
        prepares_for_long_members: also before long members. Since 8.2 (Valkey 9: always) only if they are added.
        freezes_time: TIME stays the same within a script or a transaction (7.2). Before: it advances.
        renames_keep_frequency: RENAME and MOVE keep the OBJECT FREQ of a key (7.0). Since then: that of a new key.
        shares_integers: OBJECT REFCOUNT of small integers is 2147483647. Since 8.2 (Valkey: since 7.2): 1.
        refuses_negative_cursors: SCAN and its relatives refuse ``-1`` and an empty cursor, and skip leading blanks
            (7.2). Before: ``-1`` wraps around, an empty cursor is 0.
        scan_looks_up_types: SCAN with TYPE counts a hit or a miss for each key that MATCH chooses (up to 7.0).
        scan_expires_unmatched: SCAN deletes expired keys that MATCH does not choose, too (seen in 8.2.3 alone).
        shows_sanitize_payload: ACL shows sanitize-payload of each user. Before: only if a rule set it (7.2).
        may_ask_to_block_in_scripts: XREAD with BLOCK may be called by scripts, and does not block (7.2).
        names_unknown_command_only: the error for an unknown command without arguments does not mention any (8.6).
        names_protocol_in_hello_error: the error of HELLO without AUTH shows an argument for the protocol (7.2).
        details_acl_denials: the error of a denial names the user, and ACL LOG numbers its entries (7.2).
        uses_imperative_help_line: HELP's last line is in the imperative (7.2).
        claims_see_consumers: every claim creates its consumer and marks it as seen (7.2). Before: only one that claims
            something.
        reads_propagate_setid: XGROUP SETID follows the XCLAIMs of XREADGROUP. Before: only with NOACK (7.4).
        reads_propagate_own_lastid: the LASTID of XREADGROUP's XCLAIMs is the entry itself (up to 8.2). Later: the
            group's position before the read (8.4, #14516).
        empty_read_propagates_new_consumer: XREADGROUP that delivers nothing to a consumer that it created propagates
            XGROUP CREATECONSUMER (8.8, #14963). Before: only with NOACK.
        propagates_consumer_before_setid: XREADGROUP NOACK for a new consumer propagates CREATECONSUMER, then SETID
            (up to 8.6). Later: in the other order (8.8).
        caps_entries_read: XGROUP's ENTRIESREAD is capped at the number of entries ever added (8.2, #14259).
        supports_reference_policies: KEEPREF, DELREF and ACKED are options of XADD and XTRIM (8.2).
        supports_xadd_idmp: IDMP and IDMPAUTO are options of XADD, and XINFO STREAM has their fields (8.6).
        reports_nacked_count: XINFO STREAM FULL shows nacked-count (8.8).
        compact_sets: OBJECT ENCODING of a small set is listpack. Before: hashtable (7.2).
        shortest_doubles: a score has the fewest digits that identify it. Before: always up to 17 (7.2).
        compact_lists: OBJECT ENCODING of a small list is listpack. Before: every list is a quicklist (7.2).
        refuses_minimum_list_counts: LREM's count and LPOS's RANK may not be the smallest 64-bit integer (7.2).
        wraps_lset_index: LSET takes the lowest 32 bits of its index (7.2 to 8.8).
        propagates_pxat_as_given: SET with PXAT is propagated word by word (7.2). Before: rewritten, as with EX.
        mixes_set_conditions: NX and XX are allowed after IFEQ and the other comparisons of SET (up to 8.6).
        reads_bounds_as_strtod: bounds of scores may be hexadecimal and have white space before them (all but 8.0 to
            8.6).
        shortest_coordinates: a position has the fewest digits that identify it. Before: up to 17 after the point
            (8.0, #13494).
        counts_tree_leaves: radix-tree-nodes of XINFO STREAM includes the leaves (up to 8.8).
        trims_nodes_by_policy: an approximate trim with DELREF or ACKED removes entries. Before: it removes nothing
            (8.6, #14623).
        takes_fields_anywhere: options may follow the fields of HGETEX, HSETEX and HEXPIRE. Before: FIELDS ends them (8.6).
        embeds_keys: a string is embstr up to 41 bytes with its key. Before: up to 44 bytes without (8.2).
        rounds_scores: a score beyond the range of doubles becomes infinite or 0, unless it has too many digits (8.8).
        sorts_numbers_as_scores: SORT reads numbers as ZADD reads scores (8.8). From 8.0 to 8.6: as bounds of scores,
            before: as strtod.
        discards_expired_values: SET and INCREX do not store a value whose expiry is already past: they delete the
            key, propagate that, and count an expired key (8.8, #14784).
        names_last_expired: a read that finds the last field of a hash expired sends hexpired before del (up to
            8.8).
        counts_without_replicas: master_repl_offset counts the commands of the append-only file while there is no
            replication stream (7.2).
        writes_aof_offsets: the manifest has replication offsets, from which a start continues to count (8.0).
        rdb_version: the RDB version of the files, DUMP payloads and snapshots that the server writes.
    """

    def __init__(self, version: str) -> None:
        number = _number(version)
        self.version = version
        self.number = number
        self.release = VERSIONS[version]
        self.creates_consumer_on_empty_read = number >= (7, 2)
        self.reports_active_time = number >= (7, 2)
        self.reruns_blocked_command = number >= (7, 2)
        self.reset_ends_no_evict = number >= (7, 2)
        self.sends_own_messages_after_reply = number >= (7, 2)
        self.tracks_reads_of_scripts = number >= (7, 2)
        self.getdel_unlinks = number < (7, 2)
        self.selects_before_multi = number < (7, 2)
        self.flushes_before_reply = number >= (7, 4)
        self.names_command_in_unbalanced_error = number >= (7, 2)
        self.supports_plus_in_xread = number >= (7, 4)
        self.refuses_overflowing_timeouts = number >= (7, 2)
        self.counts_from_last_id = number >= (7, 2)
        self.lags_by_position = number >= (7, 4)
        self.treats_partial_ids_as_small = number >= (7, 2)
        self.guards_max_deleted = number >= (7, 2)
        self.checks_bit_range_before_key = number >= (7, 2)
        self.prepares_sorted_sets = number >= (7, 2)
        self.prepares_for_long_members = number < (8, 2)
        self.freezes_time = number >= (7, 2)
        self.renames_keep_frequency = number < (7, 2)
        self.shares_integers = number < (7, 2)
        self.refuses_negative_cursors = number >= (7, 2)
        self.scan_looks_up_types = number < (7, 2)
        self.scan_expires_unmatched = (8, 2) <= number < (8, 6)
        self.shows_sanitize_payload = number >= (7, 2)
        self.may_ask_to_block_in_scripts = number >= (7, 2)
        self.names_unknown_command_only = number >= (8, 6)
        self.names_protocol_in_hello_error = number >= (7, 2)
        self.details_acl_denials = number >= (7, 2)
        self.uses_imperative_help_line = number >= (7, 2)
        self.claims_see_consumers = number >= (7, 2)
        self.reads_propagate_setid = number >= (7, 4)
        self.reads_propagate_own_lastid = number < (8, 4)
        self.empty_read_propagates_new_consumer = number >= (8, 8)
        self.propagates_consumer_before_setid = number < (8, 8)
        self.caps_entries_read = number >= (8, 2)
        self.supports_reference_policies = number >= (8, 2)
        self.supports_xadd_idmp = number >= (8, 6)
        self.reports_nacked_count = number >= (8, 8)
        self.compact_sets = number >= (7, 2)
        self.shortest_doubles = number >= (7, 2)
        self.compact_lists = number >= (7, 2)
        self.refuses_minimum_list_counts = number >= (7, 2)
        self.wraps_lset_index = (7, 2) <= number < (8, 10)
        self.propagates_pxat_as_given = number >= (7, 2)
        self.mixes_set_conditions = number < (8, 8)
        self.reads_bounds_as_strtod = not (8, 0) <= number < (8, 8)
        self.shortest_coordinates = number >= (8, 0)
        self.counts_tree_leaves = number < (8, 10)
        self.trims_nodes_by_policy = number >= (8, 6)
        self.takes_fields_anywhere = number >= (8, 6)
        self.embeds_keys = number >= (8, 2)
        self.rounds_scores = number >= (8, 8)
        self.sorts_numbers_as_scores = number >= (8, 8)
        self.discards_expired_values = number >= (8, 8)
        self.names_last_expired = number < (8, 10)
        self.counts_without_replicas = number >= (7, 2)
        self.writes_aof_offsets = number >= (8, 0)
        self.rdb_version = rdb_version_of(number)

    def knows(self, since: str) -> bool:
        """Return True if the emulated version is ``since`` (``8.2`` or ``8.6.2``) or newer."""
        return _number(since) <= self.number


def _number(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def rdb_version_of(number: tuple[int, int]) -> int:
    """Return the RDB version that a Redis version, given as numbers, writes; 7.0 or later."""
    return next(rdb for rdb, since in FIRST_WITH_RDB.items() if number >= since)


@cache
def compat_with(version: str) -> Compat:
    """Return the behaviour of a version, one of VERSIONS such as ``8.2``."""
    return Compat(version)


POLICIES_SINCE: Final = (8, 2)  # XDELEX, XACKDEL and the options KEEPREF, DELREF, ACKED
IDMP_SINCE: Final = (8, 6)
XNACK_SINCE: Final = (8, 8)
