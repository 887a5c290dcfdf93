"""A connection to a whole cluster: each command goes to the master that serves the slot of its key.

CLUSTER SLOTS tells which master that is; it is asked again if a node replies MOVED, is gone, or does not serve. A
single command that is redirected is sent to the other node: a node that redirects a command has not run it. Of a
redirected transaction nothing has run either; its caller gets `ConnectionLost` and starts again, WATCH included, as
after a broken connection.

Keys that must change in one transaction must be in one slot (``hash tags``): `key_in_slot_of` creates such a key.

Why not redis-py's client: executors get by without redis-py, which would add 43 % to the zip of ``rillet pipeline
package`` (0.55 MB to 1.28) and 65 ms of processor time to the 30 with which each Python worker imports its connection;
and it would save only the look-up of the topology, about a hundred lines. It sends no packed rows, does not say whether
a command that was cut off may have been run, and has no WATCH that survives a moved slot.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...protocol.key_slots import SLOTS, hash_tag, key_slot
from .addresses import Place, place_text
from .connection import (
    Answer,
    Connection,
    ConnectionLost,
    RedisError,
    Reply,
    ServerError,
    Unreachable,
    Word,
    command_name,
    is_not_yet,
    packed,
)
from .key_names import key_of

if TYPE_CHECKING:
    from .options import Endpoint

_REDIRECTS: Final = frozenset(
    {"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "LOADING", "MASTERDOWN"}
)
_NO_KEY: Final = frozenset(
    "PING INFO TIME COMMAND DBSIZE SCAN WAIT WAITAOF MULTI EXEC DISCARD UNWATCH HELLO ECHO CLUSTER ASKING READONLY".split()
)
_SECOND: Final = frozenset("XINFO XGROUP OBJECT MEMORY".split())
_AFTER_STREAMS: Final = frozenset({"XREAD", "XREADGROUP"})
_LONGEST_ANSWER_MS: Final = 3000
_BRACES: Final = (b"{", b"}")


class Slots(NamedTuple):
    """Which node of a cluster serves each slot, and its replicas."""

    masters: list[Place | None]
    replicas: dict[Place, list[Place]]


class ClusterConnection(Connection):
    """Connections to the nodes of a cluster, with the methods of a single one; opened when needed.

    Args:
        endpoint: an endpoint of kind ``cluster``.
        near: the node to use until a redirection, as ``shard_of`` returned it; empty: read the topology first.
        replica: read from replicas, if there are any.
    """

    def __init__(self, endpoint: Endpoint, *, near: str = "", replica: bool = False) -> None:
        super().__init__(endpoint)
        self._near = _place_of(near) if near else None
        self._replica = replica
        self._nodes: dict[Place, Connection] = {}
        self._slots: Slots | None = None
        self._known: list[Place] = []
        self._asked = 0  # of the places where the topology can be asked for
        self._transaction: Place | None = None  # the node where we watch keys
        self._held = False
        self._losses = 0
        self._silent: set[Place] = set()  # replicas that did not answer

    # The methods of a connection

    def pipeline(self, commands: Sequence[Sequence[Word]], *, repeatable: bool | None = None) -> list[Reply]:
        """Send each command to its node, in one round trip per node; return the replies in the order of the commands.

        A transaction has all its keys in one slot, and must be a pipeline of its own. ``repeatable``: True if
        all may be sent twice; None: if all of them only read.

        Raises ConnectionLost: not every reply came, or a transaction was redirected, so that nothing of it ran.
        """
        names = [command_name(words) for words in commands]
        if "MULTI" in names:
            keys = [key for words in commands if (key := command_key(words)) is not None]
            return self.exchange(packed(commands), names, key=keys[0] if keys else b"")
        replies: list[Reply] = [None] * len(commands)
        waiting = list(range(len(commands)))
        before = self._received_by_nodes()
        for attempt in range(self.endpoint.retries + 1):
            try:
                waiting = self._try(commands, waiting, replies, repeatable=repeatable)
            except Unreachable:
                if attempt == self.endpoint.retries or self._transaction is not None:
                    raise
            if not waiting:
                self.received += max(self._received_by_nodes() - before, 0)
                return replies
            if attempt == self.endpoint.retries or self._transaction is not None:
                break
            if attempt:
                self._pause(attempt - 1)
        raise self._lost(replies[waiting[0]])

    def exchange(
        self, request: bytes, names: Sequence[str], *, repeatable: bool = False, key: str | bytes = b""
    ) -> list[Reply]:
        """Send packed commands to the node of a key, and return their replies.

        Raises ConnectionLost: not every reply came, or commands were redirected. A redirected transaction did not
        run; of other commands, the ones that were not redirected ran.
        """
        for attempt in range(self.endpoint.retries + 1):
            last = attempt == self.endpoint.retries
            place = self._transaction
            try:
                place = place or self._place_of_slot(key_slot(_bytes(key)))
                replies = self._ask(place, lambda node: node.exchange(request, names, repeatable=repeatable))
            except ConnectionLost as error:
                if last or self._transaction is not None or not isinstance(error, Unreachable):
                    self._end_transaction()
                    raise
            else:
                redirected = next((reply for reply in replies if _is_redirection(reply)), None)
                if redirected is None:
                    self._note(names, place)
                    return replies
                self._forget(place)
                if last or not repeatable or "MULTI" in names:
                    raise self._lost(redirected)
            self._pause(attempt)
        raise AssertionError("the last attempt returns or raises")

    def _patiently(self, once: Callable[[], Answer]) -> Answer:
        """Retry a read, up to the number of tries, while nodes are gone or do not serve yet."""
        for attempt in range(self.endpoint.retries):
            try:
                return once()
            except RedisError as error:
                is_passing = isinstance(error, ConnectionLost) or is_not_yet(error)
                if not is_passing or self._transaction is not None:
                    raise
                self._slots = self._near = None
            self._pause(attempt)
        return once()

    def _ask(self, place: Place, ask: Callable[[Connection], Answer]) -> Answer:
        try:
            return ask(self._node(place))
        except ConnectionLost:
            self._forget(place)
            raise

    def _received_by_nodes(self) -> int:
        return sum(node.received for node in self._nodes.values())

    def hold(self) -> None:
        """From now on, do not reopen broken connections until ``close``: a command on one of them fails."""
        self._held = True

    def close(self) -> None:
        """Close all connections; keep the topology."""
        for node in self._nodes.values():
            node.close()
        self._nodes.clear()
        self._transaction = None
        self._held = False

    def ask_masters(self, ask: Callable[[Connection], Answer]) -> list[Answer]:
        """Call ``ask`` with a connection to each master that serves slots; return the answers.

        If a master died, wait until another one serves its slots.

        Raises ConnectionLost: a master stayed away for all tries.
        """
        answers: dict[Place, Answer] = {}

        def once() -> list[Answer]:
            places = sorted({place for place in self._topology().masters if place is not None})
            for place in places:
                if place not in answers:
                    answers[place] = self._ask(place, ask)
            return [answers[place] for place in places]

        return self._patiently(once)

    def written(self) -> list[Connection]:
        """Return the open connections, which are to the nodes that were written to."""
        return list(self._nodes.values())

    def ask_server_of(self, key: bytes, ask: Callable[[Connection], Answer]) -> Answer:
        """Call ``ask`` with a connection to the key's master, and return the answer; wait like ``ask_masters``."""
        return self._patiently(lambda: self._ask(self._place_of_slot(key_slot(key)), ask))

    def shard_of(self, name: bytes | str) -> str:
        """Return the address of the master that serves a stream: ``127.0.0.1:7000``."""
        return place_text(self._patiently(lambda: self._place_of_slot(key_slot(_bytes(name)))))

    def is_moving(self) -> bool:
        """Return True if slots are being moved from one master to another."""
        views = self.ask_masters(lambda node: node.call("CLUSTER", "NODES"))
        return any(sign in view for view in views for sign in (b"->-", b"-<-"))

    def refresh(self) -> bool:
        """Read the topology again; return True if masters serve other slots than before."""
        before = self._slots
        self._slots = None
        return self._patiently(self._topology).masters != (before.masters if before else None)

    # A single try

    def _try(
        self,
        commands: Sequence[Sequence[Word]],
        waiting: list[int],
        replies: list[Reply],
        *,
        repeatable: bool | None,
    ) -> list[int]:
        """Send the commands that have no reply yet; return those to send again.

        Raises ConnectionLost: a command without a reply may have run.
        """
        again: list[int] = []
        groups: dict[Place, list[int]] = {}
        for number in waiting:
            groups.setdefault(self._place_for(commands[number]), []).append(number)
        unreachable: Unreachable | None = None
        for place, members in groups.items():
            there = [commands[number] for number in members]
            try:
                found = self._ask(place, lambda node: node.pipeline(there, repeatable=repeatable))  # noqa: B023 - called at once
            except Unreachable as error:
                # Ask the other nodes all the same; their replies are kept.
                unreachable = error
                again += members
                continue
            except ConnectionLost:
                self._end_transaction()
                raise
            for number, reply in zip(members, found, strict=True):
                answer = (
                    self._asked_there(commands[number], place, reply) if _is_redirection(reply) else reply
                )
                replies[number] = answer
                if _is_redirection(answer):
                    again.append(number)
                    self._slots = self._near = None
                else:
                    self._note([command_name(commands[number])], place)
        if unreachable is not None and len(again) == len(waiting):
            waiting[:] = again
            raise unreachable
        return again

    def _asked_there(self, words: Sequence[Word], place: Place, reply: ServerError) -> Reply:
        """Follow ASK: if a slot is being moved, keys that have moved already are at the other node."""
        if reply.code != "ASK" or command_name(words) == "WATCH":
            return reply
        there = _place_of(str(reply).split()[2], place[0])
        try:
            return self._node(there).pipeline([("ASKING",), words], repeatable=None)[1]
        except Unreachable:
            return reply

    def _lost(self, redirected: Reply) -> ConnectionLost:
        """Give up commands that are still redirected, after a pause: a caller that retries at once gets the same reply."""
        self._end_transaction()
        self._slots = self._near = None
        self._pause(min(self._losses, self.endpoint.retries))
        self._losses += 1
        return ConnectionLost(f"{self.endpoint}: {redirected}")

    def _end_transaction(self) -> None:
        if self._transaction is not None and (node := self._nodes.get(self._transaction)) is not None:
            node.close()  # closing the connection ends its WATCH
        self._transaction = None

    def _note(self, names: Sequence[str], place: Place) -> None:
        for name in names:
            if name in {"WATCH", "MULTI"}:
                self._transaction = place
            elif name in {"EXEC", "DISCARD", "UNWATCH"}:
                self._transaction = None
                self._losses = 0

    # Places

    def _place_for(self, words: Sequence[Word]) -> Place:
        key = command_key(words)
        if key is not None:
            return self._place_of_slot(key_slot(key))
        if self._transaction is not None:
            return self._transaction
        return self._near or next(place for place in self._topology().masters if place is not None)

    def _place_of_slot(self, slot: int) -> Place:
        if self._slots is None and self._near is not None:
            return self._near
        slots = self._topology()
        master = slots.masters[slot]
        if master is None:
            self._slots = None
            raise Unreachable(f"{self.endpoint}: no node serves slot {slot}")
        others = slots.replicas.get(master, ()) if self._replica else ()
        return next((place for place in others if place not in self._silent), master)

    def _node(self, place: Place) -> Connection:
        found = self._nodes.get(place)
        if found is None:
            found = self._nodes[place] = _NodeConnection(self.endpoint.at(place), replica=self._replica)
            if self._held:
                found.hold()
        return found

    def _forget(self, place: Place | None) -> None:
        """Read the topology before the next command; the node may have left the cluster."""
        self._slots = self._near = None
        if place is not None:
            self._silent.add(place)
            self.breaks += 1
            if (node := self._nodes.pop(place, None)) is not None:
                node.close()

    def _topology(self) -> Slots:
        """Return the node that serves each slot. Raises Unreachable: no node answers."""
        if self._slots is not None:
            return self._slots
        places = list(dict.fromkeys([*self.endpoint.places, *self._known]))
        said: list[str] = []
        patience = min(self.endpoint.timeout_ms, _LONGEST_ANSWER_MS)
        for _ in places:
            # Ask another node each time: a node that was cut off has an old view.
            place = places[self._asked % len(places)]
            self._asked += 1
            try:
                with Connection(replace(self.endpoint.at(place), timeout_ms=patience)) as connection:
                    reply = connection.call("CLUSTER", "SLOTS")
            except ConnectionLost as error:
                said.append(str(error))
                continue
            except ServerError as error:
                if "cluster support disabled" in str(error):
                    raise RedisError(
                        f"{place_text(place)} is not a node of a cluster: the url of one server begins with redis:// or rediss://"
                    ) from error
                said.append(str(error))
                continue
            slots = _slots(reply, place[0])
            if any(slots.masters):
                self._slots = slots
                # The nodes in the URL may be gone while the others are still there.
                self._known = [
                    each for master, others in slots.replicas.items() for each in (master, *others)
                ]
                return slots
            said.append(f"{place_text(place)} knows no slots")
        raise Unreachable(f"{self.endpoint}: {'; '.join(said)}")


class _NodeConnection(Connection):
    """A connection to one node; READONLY lets a replica answer."""

    def __init__(self, endpoint: Endpoint, *, replica: bool) -> None:
        super().__init__(endpoint)
        self._replica = replica

    def _introduce(self, sock: socket.socket) -> None:
        super()._introduce(sock)
        if self._replica:
            sock.sendall(packed([("READONLY",)]))
            self._replies(sock, 1)


def command_key(words: Sequence[Word]) -> bytes | None:
    """Return the first key of a command; None: it has none."""
    name = command_name(words)
    if name in _NO_KEY or len(words) < 2:
        return None
    if name in _AFTER_STREAMS:
        at = next(at for at, word in enumerate(words) if _bytes(word).upper() == b"STREAMS") + 1
    else:
        at = 2 if name in _SECOND else 1
    return _bytes(words[at]) if at < len(words) else None


def key_in_slot_of(key: bytes, prefix: str, suffix: str) -> bytes:
    """Return ``<prefix>{tag}<suffix>``, a key in the slot of ``key``.

    The tag is the key's own hash tag or the whole key; if that has braces, it is a number in the same slot.
    """
    tag = hash_tag(key)
    if any(brace in tag for brace in _BRACES):
        slot = key_slot(key)
        tag = next(word for number in range(1 << 20) if key_slot(word := b"%d" % number) == slot)
    return b"%b{%b}%b" % (prefix.encode(), tag, key_of(suffix))


def _slots(reply: list[Any], host: str) -> Slots:
    masters: list[Place | None] = [None] * SLOTS
    replicas: dict[Place, list[Place]] = {}
    for first, last, master, *others in reply:
        place = _place_in(master, host)
        masters[first : last + 1] = [place] * (last + 1 - first)
        replicas[place] = [_place_in(other, host) for other in others]
    return Slots(masters, replicas)


def _place_in(row: list[Any], host: str) -> Place:
    # A node that does not know its own name has an empty one: then use the address that we asked.
    return (row[0] or b"").decode() or host, int(row[1])


def _place_of(text: str, host: str = "") -> Place:
    """Parse ``host:port``; without a host, it is the host that replied."""
    name, _, port = text.rpartition(":")
    return name.strip("[]") or host, int(port)


def _is_redirection(reply: Reply) -> bool:
    return isinstance(reply, ServerError) and (reply.code in _REDIRECTS or is_not_yet(reply))


def _bytes(word: Word) -> bytes:
    return word if isinstance(word, bytes) else key_of(str(word))
