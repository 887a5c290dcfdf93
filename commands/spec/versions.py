"""The version of Redis that the server presents, and every difference between versions that it implements.

One table: a field for each difference, named for what the server does; ``compat_with`` fills it for a version.
Handlers read ``client.server.compat`` only where the difference shows, never on the path of every command. A newer
command or option needs no field: commands have ``since``, options use ``knows("8.2")``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from .command import REGISTRY

if TYPE_CHECKING:
    from .command import Command

# Each version with its release.
VERSIONS: Final = {
    "7.0": "7.0.15",
    "7.2": "7.2.0",
    "7.4": "7.4.0",
    "8.0": "8.0.0",
    "8.2": "8.2.0",
    "8.4": "8.4.0",
    "8.6": "8.6.2",
    "8.8": "8.8.0",
    "8.10": "8.10.0",
}


NEWEST: Final = "8.10"


@dataclass(frozen=True, slots=True)
class Compat:
    """The behaviour of one version.

    In parentheses: the first version with the behaviour, and the Redis issue or pull request where there is one.

    Attributes:
        version: one of VERSIONS.
        number: the same as two numbers.
        release: the version that INFO, HELLO and LOLWUT show: ``8.10.0``.
        creates_consumer_on_empty_read: XREADGROUP and X[AUTO]CLAIM create their consumer and set its seen-time even
            if they read or claim nothing (7.2).
        reports_active_time: XINFO shows a consumer's inactive and active-time (7.2).
        reruns_blocked_command: a blocked command runs again when it wakes up. Before: it reads only the key that
            changed, even if no entry is left, and has its own errors for a deleted key or group (7.2).
        sends_own_pushes_after_reply: a push that a client's own command causes follows its reply (7.2).
        names_command_in_unbalanced_error: the error for an odd number of keys and IDs names the command (7.2).
        supports_plus_in_xread: ``+`` is an ID of XREAD (7.4).
        refuses_overflowing_timeouts: a timeout that overflows the clock is an error. Before: it means no limit (7.2).
        counts_from_last_id: a group's entries-read counter continues from its last trusted value, and tombstones
            count from there (7.2, #13338, #13473). Before: as in 7.0.
        lags_by_position: the lag of a group before the first entry is the length of the stream if every deleted entry
            precedes that entry; the lag for an empty stream is 0 (7.4).
        treats_partial_ids_as_small: ``ms-*`` with an exhausted sequence is an ID that is too small. Before: the error
            says that the elements are too large (7.2).
        guards_max_deleted: XSETID on an empty stream may not go below max-deleted-entry-id (7.2).
        checks_bit_range_before_key: BITCOUNT and BITPOS check their range before they look up the key (7.2).
        refuses_unknown_scan_types: SCAN TYPE refuses unknown types (7.2).
        names_protocol_in_hello_error: the error of HELLO without AUTH shows an argument for the protocol (7.2).
        details_acl_denials: the error of a denial names the user, and ACL LOG numbers its entries (7.2).
        uses_imperative_help_line: HELP's last line is in the imperative (7.2).
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
    """

    version: str
    number: tuple[int, int]
    release: str
    creates_consumer_on_empty_read: bool
    reports_active_time: bool
    reruns_blocked_command: bool
    sends_own_pushes_after_reply: bool
    names_command_in_unbalanced_error: bool
    supports_plus_in_xread: bool
    refuses_overflowing_timeouts: bool
    counts_from_last_id: bool
    lags_by_position: bool
    treats_partial_ids_as_small: bool
    guards_max_deleted: bool
    checks_bit_range_before_key: bool
    refuses_unknown_scan_types: bool
    names_protocol_in_hello_error: bool
    details_acl_denials: bool
    uses_imperative_help_line: bool
    reads_propagate_setid: bool
    reads_propagate_own_lastid: bool
    empty_read_propagates_new_consumer: bool
    propagates_consumer_before_setid: bool
    caps_entries_read: bool
    supports_reference_policies: bool
    supports_xadd_idmp: bool
    reports_nacked_count: bool
    compact_sets: bool
    shortest_doubles: bool
    compact_lists: bool
    refuses_minimum_list_counts: bool

    def knows(self, since: str) -> bool:
        """Whether this version includes the features of a version (``8.2`` or ``8.6.2``)."""
        return _number(since) <= self.number


def _number(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def compat_with(version: str) -> Compat:
    """Return the row of one of VERSIONS."""
    number = _number(version)
    return Compat(
        version=version,
        number=number,
        release=VERSIONS[version],
        creates_consumer_on_empty_read=number >= (7, 2),
        reports_active_time=number >= (7, 2),
        reruns_blocked_command=number >= (7, 2),
        sends_own_pushes_after_reply=number >= (7, 2),
        names_command_in_unbalanced_error=number >= (7, 2),
        supports_plus_in_xread=number >= (7, 4),
        refuses_overflowing_timeouts=number >= (7, 2),
        counts_from_last_id=number >= (7, 2),
        lags_by_position=number >= (7, 4),
        treats_partial_ids_as_small=number >= (7, 2),
        guards_max_deleted=number >= (7, 2),
        checks_bit_range_before_key=number >= (7, 2),
        refuses_unknown_scan_types=number >= (7, 2),
        names_protocol_in_hello_error=number >= (7, 2),
        details_acl_denials=number >= (7, 2),
        uses_imperative_help_line=number >= (7, 2),
        reads_propagate_setid=number >= (7, 4),
        reads_propagate_own_lastid=number < (8, 4),
        empty_read_propagates_new_consumer=number >= (8, 8),
        propagates_consumer_before_setid=number < (8, 8),
        caps_entries_read=number >= (8, 2),
        supports_reference_policies=number >= (8, 2),
        supports_xadd_idmp=number >= (8, 6),
        reports_nacked_count=number >= (8, 8),
        compact_sets=number >= (7, 2),
        shortest_doubles=number >= (7, 2),
        compact_lists=number >= (7, 2),
        refuses_minimum_list_counts=number >= (7, 2),
    )


def known_commands(compat: Compat) -> dict[str, Command]:
    """Return every command and subcommand of a version by its full name, containers included."""
    return {name: as_known(compat, entry) for name, entry in REGISTRY.items() if compat.knows(entry.since)}


# Under memory pressure 8.10 refuses subscriptions, and no longer refuses the commands that expire hash fields.
_REFUSED_SINCE_810: Final = frozenset(("subscribe", "psubscribe", "ssubscribe"))


_REFUSED_BEFORE_810: Final = frozenset(("hexpire", "hexpireat", "hpexpire", "hpexpireat"))


def as_known(compat: Compat, entry: Command) -> Command:
    """Return a command with its arity and flags of a version."""
    if entry.name in _REFUSED_SINCE_810 and compat.number < (8, 10):
        return replace(entry, flags=entry.flags - {"denyoom"})
    if entry.name in _REFUSED_BEFORE_810 and compat.number < (8, 10):
        return replace(entry, flags=entry.flags | {"denyoom"})
    if entry.name == "command|getkeys" and compat.number < (7, 2):
        return replace(entry, arity=-4)
    if entry.name in {"zrank", "zrevrank"} and compat.number < (7, 2):
        return replace(entry, arity=3)
    return entry


POLICIES_SINCE: Final = (8, 2)  # XDELEX, XACKDEL and the options KEEPREF, DELREF, ACKED


IDMP_SINCE: Final = (8, 6)
