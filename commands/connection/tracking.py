"""Client-side caching: the keys that clients have read, invalidation messages, and CLIENT TRACKING.

In the default mode the table records each key that a tracking client reads; the first change of that key sends one
message and drops the record. Broadcasting mode records nothing: changes of keys with a registered prefix are collected
and sent once per batch. The keyspace hooks are set only while a client may need a message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError, shown
from ...storage.keyspace.database import Database
from ..runtime.arguments import Arguments
from ..runtime.client import Client, Tracking
from ..runtime.state import BLOCKED, CLOSING
from ..spec.command import REGISTRY, handles
from . import specs

if TYPE_CHECKING:
    from ..runtime.context import Server

_KEY_BYTES: Final = 300  # of a recorded key, without its name
CHANNEL: Final = b"__redis__:invalidate"
_MODE_SWITCH: Final = b"ERR You can't switch %b before disabling tracking for this client, and then re-enabling it with a different mode."
_OVERLAP: Final = (
    b"ERR Prefix '%b' overlaps with %b prefix '%b'. Prefixes for a single client must not overlap."
)


class TrackingTable:
    """Which clients must receive invalidation messages for which keys.

    Keys are recorded without their database, and clients by ID: an ID may outlive its client.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.clients: set[Client] = set()
        # By prefix, the keys changed since the last ``send_broadcasts``, each with the client that last changed it.
        # Empty when there is nothing to send.
        self.broadcasts: dict[bytes, dict[bytes, Client | None]] = {}
        self._readers: dict[bytes, set[int]] = {}
        self.key_bytes = 0  # of the recorded keys, including the overhead of each
        self._prefixes: dict[bytes, dict[Client, None]] = {}
        # Messages to the client whose command is running, with its options then: they follow its reply. None is a flush.
        self.own: list[tuple[Client, Tracking, bytes | None]] = []

    # Figures of INFO

    @property
    def total_keys(self) -> int:
        """INFO tracking_total_keys: the keys that are recorded for at least one client."""
        return len(self._readers)

    @property
    def total_items(self) -> int:
        """INFO tracking_total_items: pairs of key and client."""
        return sum(map(len, self._readers.values()))

    @property
    def total_prefixes(self) -> int:
        """INFO tracking_total_prefixes: the different prefixes that broadcasting clients have registered."""
        return len(self._prefixes)

    # On and off

    def start(self, client: Client, tracking: Tracking) -> None:
        """Start tracking for a client, or change its options. Prefixes that it has registered stay."""
        if client.tracking is not None:
            tracking.prefixes = client.tracking.prefixes + tracking.prefixes
            tracking.caching = client.tracking.caching
        client.tracking = tracking
        self.clients.add(client)
        for prefix in tracking.prefixes:
            self._prefixes.setdefault(prefix, {})[client] = None
        self._update(client)

    def stop(self, client: Client) -> None:
        """End tracking for a client. Keys recorded for it stay, and serve again if it restarts tracking."""
        tracking = client.tracking
        if tracking is None:
            return
        for prefix in tracking.prefixes:
            there = self._prefixes[prefix]
            del there[client]
            if not there:
                del self._prefixes[prefix]
                self.broadcasts.pop(prefix, None)
        client.tracking = None
        self.clients.discard(client)
        self._update(client)

    def remove(self, client: Client) -> None:
        """Remove a closed client; with the last tracking client, forget all recorded keys."""
        if client.tracking is not None:
            self.stop(client)
            if not self.clients:
                self._readers.clear()
                self.key_bytes = 0
                self._update(client)

    def _set_hooks(self) -> None:
        keyspace = self.server.keyspace
        if self.clients or self._readers:
            keyspace.on_modified = self.invalidate
            keyspace.on_flushed = self.flush
        else:
            keyspace.on_modified = keyspace.on_flushed = None

    def _update(self, client: Client) -> None:
        self._set_hooks()
        client.update_state()
        self.server.clients.update_observers()

    # What commands did

    def remember(self, client: Client, keys: Iterable[bytes]) -> None:
        """Record that a command of this client read the keys, if its mode requires that; called after the command."""
        if client.tracking is None or not client.tracking.remembers:
            return
        readers = self._readers
        for key in keys:
            there = readers.get(key)
            if there is None:
                there = readers[key] = set()
                self.key_bytes += len(key) + _KEY_BYTES
            there.add(client.id)
        self.shrink()

    def shrink(self) -> None:
        """Drop recorded keys beyond ``tracking-table-max-keys``, and send invalidations for them as if they had changed."""
        limit = self.server.config.tracking_table_max_keys
        while 0 < limit < len(self._readers):
            self._invalidate_readers(next(iter(self._readers)), None)

    def invalidate(self, database: Database, key: bytes, by_time: bool) -> None:
        """After a change of a key, send or collect invalidation messages: the hook ``Keyspace.on_modified``.

        With NOLOOP, a client gets no message about its own changes. These do not include the pop of a blocked
        client that its command serves, nor, with BCAST, changes by its scripts and by expiry.

        Args:
            database: not used; tracking ignores databases.
            by_time: it has expired.
        """
        del database
        server = self.server
        writer = server.blocking.served or server.current_client
        for prefix in self._prefixes:
            if key.startswith(prefix):
                own = not by_time and not server.in_script
                self.broadcasts.setdefault(prefix, {})[key] = writer if own else None
        if key in self._readers:
            self._invalidate_readers(key, writer)

    def flush(self) -> None:
        """Invalidate all keys for every tracking client: the hook ``Keyspace.on_flushed`` (FLUSHALL, FLUSHDB)."""
        for client in list(self.clients):
            if client is self.server.current_client and self.server.compat.flushes_before_reply:
                self._send_own()
                self._send(client, client.tracking, [None])
            else:
                self._invalidate(client, None)
        self._readers.clear()
        self.key_bytes = 0
        self._set_hooks()

    def finish(self, client: Client, argv: list[bytes]) -> None:
        """After a command of a tracking client, send the invalidations that waited for its reply, and end CLIENT CACHING.

        The dispatcher calls it once for each command such a client sent: for EXEC, but not for what EXEC ran.
        """
        if self.own:
            self._send_own()
        tracking = client.tracking
        if (
            tracking is not None
            and tracking.caching
            and client.transaction is None
            and client.state is not BLOCKED
            and not _is_about_clients(argv)
        ):
            tracking.caching = False

    def _send_own(self) -> None:
        own, self.own = self.own, []
        for client, before, key in own:
            # CLIENT TRACKING OFF in MULTI leaves the redirection.
            self._send(client, client.tracking or before, [key])

    def send_broadcasts(self) -> None:
        """Send the changes collected for broadcasting clients; once per batch, after its replies.

        A client receives the names of the keys that its user may read now. The user of the tracking client counts, not
        that of its redirection target. Redis before 8.10 sends all names; here no version does.
        """
        collected, self.broadcasts = self.broadcasts, {}
        for prefix in sorted(collected):
            changes = sorted(collected[prefix].items(), key=lambda change: change[0])
            everything: list[bytes | None] = [key for key, _ in changes]
            for client in list(self._prefixes.get(prefix, ())):
                tracking = client.tracking
                keys = everything
                if tracking is not None and tracking.noloop:
                    keys = [key for key, writer in changes if writer is not client]
                if not client.user.is_unlimited:
                    keys = [key for key in keys if key is not None and client.user.may_read(key)]
                if keys:
                    self._send(client, tracking, keys)

    # Messages

    def _invalidate_readers(self, key: bytes, writer: Client | None) -> None:
        self.key_bytes -= len(key) + _KEY_BYTES
        for client_id in sorted(self._readers.pop(key)):
            client = self.server.clients.get(client_id)
            if client is None or client.tracking is None or client.tracking.bcast:
                continue
            if not (client.tracking.noloop and client is writer):
                self._invalidate(client, key)
        if not self._readers:
            self._set_hooks()

    def _invalidate(self, client: Client, key: bytes | None) -> None:
        tracking = client.tracking
        assert tracking is not None
        if client is self.server.current_client:
            self.own.append((client, tracking, key))
        else:
            self._send(client, tracking, [key])

    def _send(self, client: Client, tracking: Tracking | None, keys: list[bytes | None]) -> None:
        """Send one message to the client or its redirection target; ``[None]`` is a flush."""
        assert tracking is not None
        target = client
        if tracking.redirect:
            found = self.server.clients.get(tracking.redirect)
            if found is None or found.state is CLOSING:
                tracking.broken_redirect = True
                if client.resp == 3:
                    text = replies.bulk(b"tracking-redir-broken") + replies.integer(tracking.redirect)
                    client.send(replies.push_header(2, 3) + text)
                return
            target = found
        if target.state is CLOSING:  # it killed itself
            return
        if target.resp == 3:
            head = replies.push_header(2, 3) + replies.bulk(b"invalidate")
        elif tracking.redirect and target.is_subscriber:
            # RESP2 has no push messages: send it as a published message, whatever channels the target listens to.
            head = replies.array_header(3) + replies.bulk(b"message") + replies.bulk(CHANNEL)
        else:
            return
        names = [key for key in keys if key is not None]
        target.send(head + (replies.bulk_array(names) if names else replies.null(target.resp)))


def _is_about_clients(argv: list[bytes]) -> bool:
    """Return True for a (known) CLIENT subcommand; these do not consume CLIENT CACHING."""
    if len(argv) == 1 or argv[0].upper() != b"CLIENT":
        return False
    return f"client|{argv[1].lower().decode('latin-1')}" in REGISTRY


def _parse_options(client: Client, rest: Arguments) -> Tracking:
    tracking = Tracking()
    while rest:
        option = rest.option()
        if option == b"REDIRECT" and rest:
            if tracking.redirect:
                raise ReplyError(b"ERR A client can only redirect to a single other client")
            tracking.redirect = rest.integer()
            if tracking.redirect not in client.server.clients:
                raise ReplyError(b"ERR The client ID you want redirect to does not exist")
        elif option == b"PREFIX" and rest:
            tracking.prefixes.append(rest.next())
        elif option == b"BCAST":
            tracking.bcast = True
        elif option == b"OPTIN":
            tracking.optin = True
        elif option == b"OPTOUT":
            tracking.optout = True
        elif option == b"NOLOOP":
            tracking.noloop = True
        else:
            raise ReplyError(SYNTAX)
    return tracking


def _check_options(old: Tracking | None, new: Tracking) -> None:
    if new.prefixes and not new.bcast:
        raise ReplyError(b"ERR PREFIX option requires BCAST mode to be enabled")
    if old is not None and old.bcast != new.bcast:
        raise ReplyError(_MODE_SWITCH % b"BCAST mode on/off")
    if new.bcast and (new.optin or new.optout):
        raise ReplyError(b"ERR OPTIN and OPTOUT are not compatible with BCAST")
    if new.optin and new.optout:
        raise ReplyError(b"ERR You can't specify both OPTIN mode and OPTOUT mode")
    if old is not None and ((new.optin and old.optout) or (new.optout and old.optin)):
        raise ReplyError(_MODE_SWITCH % b"OPTIN/OPTOUT mode")
    for index, prefix in enumerate(new.prefixes):
        for other in sorted(old.prefixes) if old is not None else ():  # as in Redis' tree
            if prefix.startswith(other) or other.startswith(prefix):
                raise ReplyError(_OVERLAP % (shown(prefix), b"an existing", shown(other)))
        for other in new.prefixes[index + 1 :]:
            if prefix.startswith(other) or other.startswith(prefix):
                raise ReplyError(_OVERLAP % (shown(prefix), b"another provided", shown(other)))


@handles(specs.CLIENT_TRACKING)
def client_tracking(client: Client, args: list[bytes]) -> bytes:
    """Switch tracking on or off and reply OK; for OFF the options are parsed but not checked."""
    new = _parse_options(client, Arguments(args, 3))
    mode = args[2].upper()
    registry = client.server.tracking
    if mode == b"ON":
        _check_options(client.tracking, new)
        if (
            new.bcast
            and not new.prefixes
            and (client.tracking is None or b"" not in client.tracking.prefixes)
        ):
            new.prefixes.append(b"")
        registry.start(client, new)
    elif mode == b"OFF":
        registry.stop(client)
    else:
        raise ReplyError(SYNTAX)
    return replies.OK


@handles(specs.CLIENT_CACHING)
def client_caching(client: Client, args: list[bytes]) -> bytes:
    """OPTIN: track the keys of the next command (YES); OPTOUT: do not track them (NO). Reply OK."""
    tracking = client.tracking
    if tracking is None:
        raise ReplyError(
            b"ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode "
            b"enabled"
        )
    choice = args[2].upper()
    if choice == b"YES":
        if not tracking.optin:
            raise ReplyError(b"ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
    elif choice == b"NO":
        if not tracking.optout:
            raise ReplyError(b"ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
    else:
        raise ReplyError(SYNTAX)
    tracking.caching = True
    return replies.OK


@handles(specs.CLIENT_GETREDIR)
def client_getredir(client: Client, _args: list[bytes]) -> bytes:
    """Reply -1 without tracking, 0 without redirection, else with the ID of the target client."""
    return replies.integer(client.tracking.redirect if client.tracking is not None else -1)


@handles(specs.CLIENT_TRACKINGINFO)
def client_trackinginfo(client: Client, _args: list[bytes]) -> bytes:
    """Reply with a map: flags (a set), redirect, prefixes."""
    tracking = client.tracking
    if tracking is None:
        flags = [b"off"]
        redirect, prefixes = -1, []
    else:
        redirect, prefixes = tracking.redirect, sorted(tracking.prefixes)
        flags = [b"on"]
        if tracking.bcast:
            flags.append(b"bcast")
        if tracking.optin:
            flags.append(b"optin")
            if tracking.caching:
                flags.append(b"caching-yes")
        if tracking.optout:
            flags.append(b"optout")
            if tracking.caching:
                flags.append(b"caching-no")
        if tracking.noloop:
            flags.append(b"noloop")
        if tracking.broken_redirect:
            flags.append(b"broken_redirect")
    return replies.map_of(
        (
            (b"flags", replies.set_of([replies.bulk(flag) for flag in flags], client.resp)),
            (b"redirect", replies.integer(redirect)),
            (b"prefixes", replies.bulk_array(prefixes)),
        ),
        client.resp,
    )
