"""The version of Redis that the server answers as, and every difference between versions that it minds.

One table: a field for each difference, named for what the server does, told for every version by ``compat_with``.
Handlers ask ``client.server.compat``, and only where the difference shows, never on the way every command takes.
What is merely newer (a command, an option) needs no field: ``knows("8.2")``, and for commands their ``since``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from .command import REGISTRY

if TYPE_CHECKING:
    from .command import Command

# Each with the release that stands for it.
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
    """What one version does; the sections are those of the reference on streams.

    Attributes:
        version: one of VERSIONS.
        number: the same as two numbers.
        release: what INFO, HELLO and LOLWUT tell: ``8.10.0``.
        creates_consumer_on_empty_read: XREADGROUP and X[AUTO]CLAIM make their consumer, and count as having seen it, even if
            nothing is read or claimed (1, 7.2).
        reports_active_time: XINFO tells a consumer's inactive and active-time (12.2, 7.2).
        reruns_blocked_command: a blocked command runs again when it wakes up; else only the key that changed is read, whether or
            not anything is left, and texts of its own tell of a key or group that went (1 and 14, 7.2).
        sends_own_pushes_after_reply: a push that a client's own command causes comes behind its reply (7.2).
        names_command_in_unbalanced_error: the text on an odd number of keys and IDs names the command (10.1, 7.2).
        supports_plus_in_xread: ``+`` is an ID of XREAD (10.2, 7.4).
        refuses_overflowing_timeouts: a timeout that overflows the clock is refused; else it is for ever (10.1, 7.2).
        counts_from_last_id: a group's counter goes on where it was trusted last, and tombstones count from there
            (15, #13338, #13473); else as 7.0 did.
        lags_by_position: a group behind all deletions lags by the length, one of an empty stream by nothing (15,
            rules 2 and 3).
        treats_partial_ids_as_small: ``ms-*`` with a full sequence is a small ID; else something is too large (6.1, 7.2).
        guards_max_deleted: XSETID of an empty stream may not go below max-deleted-entry-id (12.3, 7.2).
        checks_bit_range_before_key: BITCOUNT and BITPOS look at their range before they look for the key (7.2).
        refuses_unknown_scan_types: SCAN TYPE knows which types there are (7.2).
        names_protocol_in_hello_error: the text on HELLO without AUTH has a place for the protocol (7.2).
        details_acl_denials: what ACL denies names the user, and ACL LOG numbers its entries (7.2).
        uses_imperative_help_line: HELP's last line is in the imperative (18, 7.2).
        reads_propagate_setid: XREADGROUP's XCLAIMs are followed by XGROUP SETID; else only NOACK states it (13.2, 7.4).
        reads_propagate_own_lastid: XREADGROUP's XCLAIMs carry as LASTID the entry itself; else where the group was
            before the read (13.2, #14516).
        empty_read_propagates_new_consumer: XREADGROUP that delivers nothing to a consumer it made propagates
            XGROUP CREATECONSUMER; else it says nothing unless NOACK is given (13.1, #14963).
        propagates_consumer_before_setid: XREADGROUP NOACK for a new consumer propagates CREATECONSUMER, then SETID; else the
            other way round (13.2).
        caps_entries_read: XGROUP's ENTRIESREAD is lowered to the entries ever added (12.1, #14259).
        supports_reference_policies: KEEPREF, DELREF and ACKED are options of XADD and XTRIM (8.2).
        supports_xadd_idmp: IDMP and IDMPAUTO are options of XADD, and XINFO STREAM tells of them (8.6).
        reports_nacked_count: XINFO STREAM FULL tells nacked-count (8.8).
        compact_sets: OBJECT ENCODING calls a small set a listpack; else it is a hashtable (7.2).
        shortest_doubles: a score has the fewest digits that tell it from others; else always up to 17 (7.2).
        compact_lists: OBJECT ENCODING calls a small list a listpack; else every list is a quicklist (7.2).
        refuses_minimum_list_counts: LREM's count and LPOS's RANK may not be the least integer there is (7.2).
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
        """Whether what came with a version (``8.2`` or ``8.6.2``) is there."""
        return _number(since) <= self.number


def _number(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def compat_with(version: str) -> Compat:
    """The row of one of VERSIONS."""
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
    """Every command and subcommand of a version by its full name, containers too."""
    return {name: as_known(compat, entry) for name, entry in REGISTRY.items() if compat.knows(entry.since)}


# 8.10 refuses subscriptions when memory is short, and no longer the commands that let fields of hashes expire.
_REFUSED_SINCE_810: Final = frozenset(("subscribe", "psubscribe", "ssubscribe"))


_REFUSED_BEFORE_810: Final = frozenset(("hexpire", "hexpireat", "hpexpire", "hpexpireat"))


def as_known(compat: Compat, entry: Command) -> Command:
    """A command with the arity and the flags that it had in a version."""
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
