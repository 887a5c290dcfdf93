"""Blocked clients: block, signal, serve, time out.

The contract: a handler that finds nothing calls ``server.blocking.block(client, keys, timeout, argv)`` and returns None. A blocked
client keeps its parsed command, and its later input waits. When a command changes a key in a way that may matter,
storage puts the key into ``keyspace.ready``. After that command (or the whole EXEC) is finished and propagated, the
dispatcher calls ``serve``. For each ready key, in order, each client that waits on it re-runs its whole command, first
come first served. The command then either replies, or blocks again at the tail of the queue with its original
deadline. Each served client is an execution unit of its own.

A client may also wait for time to pass (XREADGROUP CLAIM): ``recheck_at`` holds, for each key, the time after which
the key is signalled as if it had changed.

A disconnected client is forgotten immediately (``forget``), so it consumes nothing afterwards. Deadlines follow the
server's clock, so a virtual clock moves them.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from ...commands.runtime.client import Client
from ...commands.runtime.denials import refusal
from ...commands.runtime.state import BLOCKED
from ...protocol import replies
from ...protocol.errors import ReplyError
from ...storage.keyspace.database import Database
from ...storage.streams.stream import Stream
from ...storage.value_types import Value
from .checks import refusal_of_write
from .command_entry import CommandEntry

if TYPE_CHECKING:
    from ...commands.spec.command import Handler
    from ..server import Server


_TIDY_AT: Final = 64


class Waiter:
    """One blocked client: its keys, its deadline, and the command to re-run."""

    __slots__ = (
        "argv", "client", "db", "deadline", "entry", "is_held", "keys", "on_missing", "on_timeout",
        "still_blocked", "wants",
    )  # fmt: skip

    def __init__(
        self,
        client: Client,
        db: Database,
        keys: tuple[bytes, ...],
        deadline: int | None,
        entry: CommandEntry,
        argv: list[bytes],
        on_missing: bool,
        wants: type[Value] = Stream,
        on_timeout: bytes | None = None,
        still_blocked: Callable[[], bool] | None = None,
    ) -> None:
        self.client = client
        self.db = db
        self.keys = keys
        self.deadline = deadline  # in milliseconds of the server's clock; None: no limit
        self.entry = entry
        self.argv = argv
        self.on_missing = on_missing  # also served when a key is deleted or changes its type
        self.wants = wants  # the type of value that it waits for
        self.on_timeout = on_timeout  # the reply when the time is up; None: a null array
        # A cheap check: True if the command would only block again.
        self.still_blocked = still_blocked
        self.is_held = False  # a fault delays it: neither a key nor its deadline may end the wait


class Blocking:
    """All blocked clients of a server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        # (database, key) to its waiters, in the order in which they blocked; a dict, to remove in O(1).
        self.waiting: dict[tuple[Database, bytes], dict[Client, Waiter]] = {}
        self.waiters: dict[Client, Waiter] = {}
        # (when, order, waiter, key, loop time): the waiter's deadline, or the time to signal its key.
        # `when` is by the server's clock. The loop's time of the same moment is kept too, because a library that stops
        # the system's clock in tests (freezegun) must not make a timeout endless.
        self._deadlines: list[tuple[int, int, Waiter, bytes | None, float]] = []
        self._tidy_at = _TIDY_AT
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self._resumed: Waiter | None = None  # the waiter whose command is being re-run
        # Whether a blocking command is counted when it ends; 7.0 counts it when it blocks.
        self._counts_late = server.compat.reruns_blocked_command

    def is_serving(self, client: Client) -> bool:
        """Return True if a client's blocked command is being re-run."""
        return self._resumed is not None and self._resumed.client is client

    @property
    def served(self) -> Client | None:
        """The client whose blocked command is being re-run; None if there is none."""
        return None if self._resumed is None else self._resumed.client

    @property
    def resuming(self) -> bool:
        """Whether the running command is the re-run of a blocked one."""
        return self._resumed is not None

    # Block

    def note_blocked(self, client: Client, entry: CommandEntry, nanoseconds: int) -> None:
        """Adjust the statistics for a command that blocks: it counts when it is served; in 7.0 it counts now."""
        if self._counts_late:
            client.total_commands -= 1
        else:
            entry.calls += 1
            entry.nanoseconds += nanoseconds

    def block(
        self,
        client: Client,
        keys: Sequence[bytes],
        timeout: int,
        argv: list[bytes],
        *,
        on_missing: bool = False,
        wants: type[Value] = Stream,
        on_timeout: bytes | None = None,
        recheck_at: Mapping[bytes, int] | None = None,
        still_blocked: Callable[[], bool] | None = None,
    ) -> None:
        """Block a client until one of the keys is signalled, then re-run ``argv``.

        A re-run command that blocks again keeps its deadline.

        Args:
            keys: keys of the selected database; without any, only time ends the wait (WAIT).
            timeout: milliseconds, 0 for no limit. On timeout the client receives a null array.
            argv: the command to run on wake-up (``$`` already replaced by a concrete ID).
            wants: the class of the value that it waits for.
            on_timeout: the encoded reply on timeout, if it is not a null array.
            on_missing: the client also wakes up when a key disappears (XREADGROUP).
            recheck_at: by key, the millisecond after which the wait may end although the key did not change.
            still_blocked: a cheap check at wake-up. It returns True if running ``argv`` would only block again; in that
                case it must itself apply the other effects of running it.
        """
        again = self._resumed
        if again is not None and again.client is client:
            deadline = again.deadline
            entry = again.entry
        else:
            deadline = self.server.clock.tick() + timeout if timeout else None
            entry = self.server.calls.current
        waiter = Waiter(
            client,
            client.db,
            tuple(dict.fromkeys(keys)),
            deadline,
            entry,
            argv,
            on_missing,
            wants,
            on_timeout,
            still_blocked,
        )
        try:
            self._enlist(waiter)
            if deadline is not None:
                self._remind(deadline, waiter, None)
            if recheck_at is not None:
                for key, when in recheck_at.items():
                    self._remind(when + 1, waiter, key)
        except BaseException:
            self._release(waiter)
            raise

    def _enlist(self, waiter: Waiter) -> None:
        client, db = waiter.client, waiter.db
        self.waiters[client] = waiter
        client.wait(BLOCKED)
        client.argv_bytes = sum(map(len, waiter.argv))
        awaited = db.awaited
        for key in waiter.keys:
            number = awaited.get(key, 0)
            there = self.waiting.setdefault((db, key), {})
            there[client] = waiter
            awaited[key] = number + 1

    def _remind(self, when: int, waiter: Waiter, key: bytes | None) -> None:
        if len(self._deadlines) >= self._tidy_at:
            # Clients served before their deadline leave it behind.
            self._deadlines = [entry for entry in self._deadlines if not self._is_stale(entry[2])]
            heapq.heapify(self._deadlines)
            self._tidy_at = 2 * len(self._deadlines) + _TIDY_AT
        heapq.heappush(self._deadlines, (when, next(self._order), waiter, key, self._loop_time(when)))
        if self._deadlines[0][2] is waiter:
            self._arm()

    def _release(self, waiter: Waiter) -> None:
        """Remove a waiter from all its queues; it may be in only some of them."""
        client = waiter.client
        awaited = waiter.db.awaited
        for key in waiter.keys:
            place = waiter.db, key
            if place not in self.waiting:
                continue
            there = self.waiting[place]
            if client in there:
                del there[client]
                if awaited[key] == 1:
                    del awaited[key]
                else:
                    awaited[key] -= 1
            if not there:
                del self.waiting[place]
        if client in self.waiters:
            del self.waiters[client]
            client.argv_bytes = 0
        client.end_wait()

    # Serve

    def serve(self) -> None:
        """Re-run the commands of clients whose keys were signalled, until no key is ready."""
        keyspace = self.server.keyspace
        # A key may have expired since the command that changed it began.
        keyspace.now = self.server.clock.tick()
        while keyspace.ready:
            ready = keyspace.ready
            keyspace.ready = {}
            try:
                for (db, key), overwritten in ready.items():
                    waiters = list(self.waiting.get((db, key), {}).values())
                    if overwritten and not any(waiter.on_missing for waiter in waiters):
                        continue
                    if not self.server.compat.reruns_blocked_command:
                        self._drop_if_due(waiters, db, key)
                    for waiter in waiters:
                        self._serve_one(waiter, db, key)
            except BaseException:
                keyspace.ready = {**ready, **keyspace.ready}
                raise

    def _drop_if_due(self, waiters: list[Waiter], db: Database, key: bytes) -> None:
        """For 7.0: delete an expired key that SWAPDB made visible to waiters, if one of them waits for its type."""
        if db.is_due(key) and any(each.on_missing or type(db.entries[key]) is each.wants for each in waiters):
            db.peek(key)
            self.server.calls.propagate()

    def _serve_one(self, waiter: Waiter, db: Database, key: bytes) -> None:
        """Serve a waiter whose key was signalled."""
        try:
            if (
                self.waiters.get(waiter.client) is waiter
                and self._concerns(waiter, db, key)
                and not waiter.is_held
            ):
                interceptor = self.server.interceptor
                if interceptor is None:
                    self._look_again(waiter, key)
                else:
                    interceptor.wake(waiter, lambda: self._look_again(waiter, key))
        except BaseException:
            # The command may have run. The client may get neither a second reply nor none, so close it.
            self._release(waiter)
            waiter.client.close(after_reply=False)
            raise

    def _look_again(self, waiter: Waiter, key: bytes) -> None:
        """Re-run a waiter's command because of a key, unless it is refused or would only block again."""
        if not self.server.compat.reruns_blocked_command:
            self._serve_from(waiter, key)
        elif waiter.still_blocked is not None and waiter.still_blocked():
            self.server.calls.track(waiter.client, waiter.entry, waiter.argv)
            self._to_the_tail(waiter)
        elif not self._is_refused(waiter):
            self._run_again(waiter)

    def end_hold(self, waiter: Waiter) -> None:
        """End the delay of a blocked command by a fault: re-run it if one of its keys has data, else check its deadline."""
        waiter.is_held = False
        self.server.keyspace.now = now = self.server.clock.tick()
        for key in waiter.keys:
            self._serve_one(waiter, waiter.db, key)
        self.server.finish_unit()
        if waiter.deadline is not None and waiter.deadline <= now and not self._is_stale(waiter):
            self.unblock(waiter.client)

    @staticmethod
    def _concerns(waiter: Waiter, db: Database, key: bytes) -> bool:
        """Return True if a signalled key matters to a waiter: it has the wanted type, or the waiter is XREADGROUP.

        An expired key matters to no other waiter, and is not deleted here.
        """
        return waiter.on_missing or (type(db.entries.get(key)) is waiter.wants and not db.is_due(key))

    def _to_the_tail(self, waiter: Waiter) -> None:
        """Move a waiter behind all others that wait for the same keys, as if it blocked again."""
        client = waiter.client
        for key in waiter.keys:
            there = self.waiting[waiter.db, key]
            del there[client]
            there[client] = waiter

    def _serve_from(self, waiter: Waiter, key: bytes) -> None:
        """Serve a waiter from the signalled key only, as 7.0 does, or leave it in its place."""
        if waiter.wants is not Stream:
            from ...commands.lists.v7_0 import UNCOUNTED, of_one_key

            waiter.argv = of_one_key(waiter.argv, key)
            keyspace = self.server.keyspace
            dirty = keyspace.dirty
            self._run_again(waiter)
            if waiter.entry.name in UNCOUNTED:
                keyspace.dirty = dirty
            return
        from ...commands.streams.v7_0 import serve_7_0

        reply = self._call(waiter, lambda client, argv: serve_7_0(client, argv, key))
        if reply is None:
            waiter.client.send_deferred()
        else:
            self.end_wait(waiter, reply)

    def _is_refused(self, waiter: Waiter) -> bool:
        """Return True if the command may no longer run; its wait then ends with the error.

        Reasons: the user has lost the permission, the keys are moving to another node of the cluster, memory is short,
        or writes are refused.
        """
        client, entry, server = waiter.client, waiter.entry, self.server
        if client.trusted:
            return False
        denial = None if client.user.is_unlimited else client.user.check(entry.command, waiter.argv)
        text: bytes | None = None
        if denial is not None:
            text = refusal(denial, client.user.name, server.compat)
        elif server.config.cluster_enabled:
            from ..cluster import redirects

            text = redirects.refusal_of_resumed(server.cluster, client, entry, waiter.argv)
        if text is None and server.config.maxmemory:
            text = server.eviction.refusal(client, entry, waiter.argv)
        if text is None and server.needs_all_checks and entry.write:
            text = refusal_of_write(server)
        if text is None:
            return False
        if denial is not None:
            server.acl_log.note_denial(client, denial)
        error = ReplyError(text)
        entry.rejected += 1
        server.stats.count_error(error.text)
        self.end_wait(waiter, error.encoded)
        return True

    def _run_again(self, waiter: Waiter) -> None:
        self._release(waiter)
        reply = self._call(waiter)
        if reply is None:
            waiter.client.send_deferred()
        elif self.server.interceptor is None:
            waiter.client.answer(reply)
        else:
            self.answer(waiter, reply)

    def end_wait(self, waiter: Waiter, reply: bytes) -> None:
        """Unblock a client and send it the encoded reply."""
        self._release(waiter)
        self.answer(waiter, reply)

    def answer(self, waiter: Waiter, reply: bytes) -> None:
        """Send a client that is no longer blocked its encoded reply, unless a fault replaces it."""
        interceptor = self.server.interceptor
        sent = reply if interceptor is None else interceptor.answer(waiter, reply)
        if sent is not None:
            waiter.client.answer(sent)

    def _call(self, waiter: Waiter, handler: Handler | None = None) -> bytes | None:
        """Run the waiter's command, or another handler for it, as a unit of its own."""
        server = self.server
        self._resumed = waiter
        if waiter.client.no_touch:
            server.keyspace.touching = False
        try:
            waiter.client.total_commands += self._counts_late
            reply = server.calls.call(waiter.client, waiter.entry, waiter.argv, handler)
            waiter.entry.calls -= not self._counts_late
        finally:
            self._resumed = None
            server.keyspace.touching = not server.keyspace.by_modification
        if server.propagation.effects:
            server.calls.propagate(waiter.client)
        return reply

    # Time out, unblock, forget

    def unblock(self, client: Client, error: bytes | None = None, *, asked: bool = False) -> bool:
        """Unblock a client before its keys have data.

        Return False if the client was not blocked.

        Args:
            error: the encoded error to send; None: the reply for a timeout.
            asked: CLIENT UNBLOCK requested it, which matters for the statistics.
        """
        waiter = self.waiters.get(client)
        if waiter is None:
            return False
        self._release(waiter)
        entry = waiter.entry
        started = perf_counter_ns()
        if error is not None:
            entry.failed += 1
            self.server.stats.count_error(error[1:])
            if asked:  # as Redis counts: CLIENT UNBLOCK fails with it
                self.server.calls.note_failure()
            self.answer(waiter, error)
        elif waiter.on_timeout is not None:
            entry.failed += asked and not self._counts_late
            self.answer(waiter, waiter.on_timeout)
        else:
            entry.failed += asked and not self._counts_late
            self.answer(waiter, replies.null_array(client.resp))
        nanoseconds = perf_counter_ns() - started
        if self._counts_late:
            entry.count(nanoseconds)
            if error is not None and not waiter.keys:  # Redis counts a WAIT that ends with an error twice
                entry.count(nanoseconds)
            client.total_commands += 1
        elif asked:  # 7.0 counts the time of clients that are served or unblocked
            entry.histogram[nanoseconds.bit_length()] += 1
        return True

    def send_away_all(self, error: bytes) -> None:
        """Unblock all clients with an encoded error and close them, because the server becomes a replica."""
        for client, waiter in list(self.waiters.items()):
            self.unblock(client, error)
            if not self.server.compat.knows("7.2"):
                waiter.entry.failed -= 1
            client.close()

    def forget(self, client: Client) -> None:
        """Forget a blocked client that has disconnected, so that no entry or element goes to it."""
        waiter = self.waiters.get(client)
        if waiter is not None:
            if self._counts_late and not waiter.keys:  # WAIT counts nevertheless
                waiter.entry.count(0)
            self._release(waiter)

    def expire(self) -> None:
        """Time out waits whose deadline has passed, signal keys whose recheck time has come, and set the next timer."""
        now = self.server.clock.tick()
        by_loop = -1.0 if self.server.clock.is_frozen else self.server.loop.time()
        while self._deadlines:
            when, _, waiter, key, loop_time = self._deadlines[0]
            if not (self._is_stale(waiter) or when <= now or loop_time <= by_loop):
                break
            heapq.heappop(self._deadlines)
            if self._is_stale(waiter) or waiter.is_held:
                continue
            if key is None:
                self.unblock(waiter.client)
            else:
                self.server.keyspace.now = now
                waiter.db.signal_ready(key)
                self.server.finish_unit()
        self._arm()

    def expire_overdue(self) -> None:
        """Call ``expire`` if a deadline has passed although no timer fired: something has moved the system's clock."""
        if self._deadlines and self._deadlines[0][0] <= self.server.clock.now:
            self.expire()

    def _is_stale(self, waiter: Waiter) -> bool:
        return self.waiters.get(waiter.client) is not waiter

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._deadlines and not self.server.clock.is_frozen:
            when, _, _, _, loop_time = self._deadlines[0]
            at = min(loop_time, self._loop_time(max(when, self.server.clock.now + 1)))
            self._timer = self.server.loop.call_at(at, self.expire)

    def _loop_time(self, when: int) -> float:
        """Convert a time of the server's clock to the loop's time."""
        return self.server.loop.time() + (when - self.server.clock.now) / 1000

    def time_moved(self) -> None:
        """After a clock change, time out the blocked clients whose deadline has passed."""
        self.server.clock.tick()
        self._deadlines = [(*entry[:4], self._loop_time(entry[0])) for entry in self._deadlines]
        self.expire()

    def next_deadline(self) -> int | None:
        """Return the next deadline or recheck time, in milliseconds of the server's clock; None without one."""
        return min((entry[0] for entry in self._deadlines if not self._is_stale(entry[2])), default=None)

    def stop(self) -> None:
        """Disconnect all blocked clients, because the server stops or is reset."""
        for client in list(self.waiters):
            self.forget(client)
            client.close()
        self._deadlines.clear()
        self._tidy_at = _TIDY_AT
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Statistics

    def keys(self) -> int:
        """Return the number of keys that clients wait for (INFO total_blocking_keys)."""
        return len(self.waiting)

    def with_deadline(self) -> int:
        """Return the number of blocked clients that have a timeout (INFO clients_in_timeout_table)."""
        return sum(waiter.deadline is not None for waiter in self.waiters.values())

    def keys_on_missing(self) -> int:
        """Return the number of keys whose deletion unblocks a client, too (INFO total_blocking_keys_on_nokey)."""
        return sum(any(waiter.on_missing for waiter in there.values()) for there in self.waiting.values())
