"""Exactly once: the driver publishes the rows that its tasks wrote, together with a marker, in one transaction.

The marker is one key per query. It holds the last published batch, ``{"v": 2, "batch": 7}``. The driver watches it
while a transaction writes a batch and the new value. A batch that is not above the marker was published before, by this
driver or by one that died. If two drivers try at the same time, both change the watched key: one transaction fails, and
that driver reads the marker again. This also fences off a transaction that was under way when its connection broke.

A batch larger than ``chunkRows`` would block the server for long, so it is published in several transactions. For that
its rows are first staged in the server, and the marker counts the published parts: ``{"v": 2, "batch": 8, "published":
2, "of": 5}``. A driver that restarts continues with the staged rows; it drops the rows that its tasks produced again,
because they may be in another order.

Every batch raises the marker, even one without rows. So before batch 9 the marker says 8. If it does not, the target
was rolled back or emptied, and has lost the batches published since.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..redis.cluster import key_in_slot_of
from ..redis.connection import (
    Answer,
    Connection,
    ConnectionLost,
    RedisError,
    ServerError,
    in_spite_of_losses,
    packed,
)
from ..redis.key_names import key_of, name_of
from ..source.losses import DataLossError, report_loss
from .options import SinkOptions
from .xadd_encoding import Chunk
from .xadd_sending import SinkError, check, check_wait

Command = tuple[bytes | str | int, ...]
_NO_STREAM: Final = "streams"
_VERSION: Final = 2
_LASTING_MS: Final = 10 * 365 * 86_400_000


@dataclass(frozen=True)
class Staged:
    """A chunk of ``rows`` rows, stored as a string at ``key`` until it is published or expires."""

    key: str
    rows: int


@dataclass(frozen=True)
class Progress:
    """The content of the marker: how far the batch with its number is published."""

    batch: int = -1  # the last batch whose publication began; -1 before the first
    published: int = 0  # how many of its parts are published
    steps: int = 0  # the number of its parts

    @classmethod
    def of(cls, text: bytes) -> Progress | None:
        """Parse the value of a marker key; None if it is something else."""
        try:
            fields = json.loads(text)
            found = cls(int(fields["batch"]), int(fields.get("published", 0)), int(fields.get("of", 0)))
            return found if fields["v"] == _VERSION else None
        except (ValueError, TypeError, KeyError):
            return None

    @property
    def complete(self) -> bool:
        """Whether all parts of the marker's batch are published."""
        return self.published == self.steps

    def text(self) -> str:
        """Return the progress as the value of the marker key."""
        words = {"v": _VERSION, "batch": self.batch}
        if not self.complete:
            words |= {"published": self.published, "of": self.steps}
        return json.dumps(words)


def marker_of(options: SinkOptions, query: str) -> str:
    """Return the key of the marker that records a query's last batch, in the cluster slot of its stream."""
    if options.marker:
        return options.marker
    stream = options.stream or _NO_STREAM
    return name_of(key_in_slot_of(key_of(stream), "rillet:sink:", f":{query}"))


class Stage:
    """Passes the rows of a task to the driver: few inside the task's message, more through keys in the server (staged)."""

    def __init__(self, connection: Connection, options: SinkOptions, marker: str) -> None:
        self._connection = connection
        self._options = options
        self._prefix = f"{marker}:staged:{uuid.uuid4().hex}"
        self._number = 0

    def collect(self, chunks: Iterable[Chunk]) -> tuple[Chunk | Staged, ...]:
        """Return all chunks in order: itself while they are at most ``inlineBytes`` in all, further ones staged."""
        kept: list[Chunk | Staged] = []
        size = 0
        for chunk in chunks:
            size += len(chunk.data)
            kept.append(chunk if size <= self._options.inline_bytes else self.put(chunk))
        return tuple(kept)

    def put(self, chunk: Chunk) -> Staged:
        """Stage one chunk of rows in the server; it expires if it is not published."""
        key = f"{self._prefix}:{self._number}"
        self._number += 1
        self._connection.call("SET", key, chunk.data, "PX", self._options.staging_ttl_ms, repeatable=True)
        return Staged(key, chunk.rows)


class Publisher:
    """Publishes the batches of one query, in the driver.

    Args:
        lasting: a driver may come back; if False, nothing is kept for longer than staged rows.
        rising: batch numbers may have gaps, as in a program that numbers its own writes.

    Raises:
        SinkError: from its methods: the server refused rows, and nothing of that transaction stays; or the
            confirmations of ``wait`` did not come, and the rows stay.
        DataLossError: from ``publish``: the target has lost a batch, and ``failOnDataLoss`` is set.
        ConnectionLost: from its methods: the server stays unreachable.
    """

    def __init__(
        self,
        connection: Connection,
        options: SinkOptions,
        query: str,
        *,
        lasting: bool = True,
        rising: bool = False,
    ) -> None:
        self._rising = rising
        self._connection = connection
        self._options = options
        ttl = options.marker_ttl_ms if lasting else options.staging_ttl_ms
        self._keep: Command = () if ttl is None else ("PX", ttl)
        self.marker = marker_of(options, query)

    def publish(self, batch: int, parts: Sequence[Chunk | Staged]) -> bool:
        """Publish a batch unless it was published before; return False if it was. Batch numbers rise."""
        result: bool | None = None
        while result is None:
            try:
                # The marker tells if the transaction ran.
                result = self._in_spite_of_losses(lambda: self._try_to_publish(batch, parts))
            except BaseException:
                self._connection.close()  # closing the connection ends its WATCH
                raise
        self._forget([part for part in parts if isinstance(part, Staged)])
        return result

    def discard(self, parts: Iterable[Chunk | Staged]) -> None:
        """Remove the staged rows of a failed batch, except those that a begun publication needs."""
        needed = {each.key for step in self._plan(self.progress().batch) for each in step}
        self._forget([part for part in parts if isinstance(part, Staged) and part.key not in needed])

    def progress(self) -> Progress:
        """Read the marker of the query from the server."""
        text = self._connection.call("GET", self.marker)
        found = Progress() if text is None else Progress.of(text)
        if found is None:
            raise SinkError(f"key {self.marker!r} is no marker of this sink: {text[:80]!r}")
        return found

    # The steps of a batch

    def _try_to_publish(self, batch: int, parts: Sequence[Chunk | Staged]) -> bool | None:
        """Try once; return None to look again, because another driver moved the marker or one step is done."""
        now = self._watch()
        if now.batch > batch:
            self._connection.call("UNWATCH")
            return False
        if now.batch == batch and now.complete:
            return False if self._waited_for(now) else None
        if not now.complete and (now.batch == batch or self._plan(now.batch)):
            # This batch, or an earlier one that was published before the target was rolled back to the middle of it.
            done = self._step(now)
            return done if now.batch == batch else None
        self._refuse_a_gap(now, batch)
        rows = sum(part.rows for part in parts)
        if self._options.chunk_rows and rows > self._options.chunk_rows:
            self._begin(batch, parts)
            return None
        done = self._transaction(now, Progress(batch), [self._fetched(part) for part in parts])
        return True if done else None

    def _refuse_a_gap(self, now: Progress, batch: int) -> None:
        """Check that the marker is not behind the previous batch, which Spark has committed.

        Raises DataLossError: it is behind, and ``failOnDataLoss`` is set.
        """
        if self._rising:
            return
        if now.complete and now.batch == batch - 1:
            return
        first = now.batch + now.complete
        found = f"says {now.text()}" if now.batch >= 0 else "is not there"
        lost = f"batch {first} is" if first == batch - 1 else f"batches {first} to {batch - 1} are"
        text = (
            f"the marker {self.marker!r} {found} where batch {batch - 1} was published: the target was rolled back, emptied, "
            f"or is another one, and {lost} not in it. To publish again, remove from the checkpoint what is in "
            f"'offsets' from {first + 1} on and in 'commits' from {first} on"
        )
        try:
            report_loss(text, fail=self._options.fail_on_data_loss)
        except DataLossError:
            self._connection.call("UNWATCH")
            raise

    def _waited_for(self, now: Progress) -> bool:
        """Wait for the confirmations of a batch published before, perhaps by a driver that died; False: look again.

        A server waits only for the writes of this connection. So the marker is first written again, unchanged.
        """
        wait = self._options.wait_commands
        if not wait:
            self._connection.call("UNWATCH")
            return True
        again: list[Command] = [("MULTI",), ("SET", self.marker, now.text(), *self._keep), ("EXEC",)]
        replies = self._connection.pipeline([*again, *wait])
        _raise_first(replies[: len(again)])
        if replies[len(again) - 1] is None:
            return False
        check_wait(self._options, replies[len(again) :])
        return True

    def _begin(self, batch: int, parts: Sequence[Chunk | Staged]) -> None:
        """Stage all rows without an expiry, and record in the marker that their publication has begun."""
        stage = Stage(self._connection, self._options, self.marker)
        staged = [part if isinstance(part, Staged) else stage.put(part) for part in parts]
        for each in staged:
            if not self._connection.call("PEXPIRE", each.key, self._options.staging_ttl_ms, repeatable=True):
                raise _vanished(each)
        steps: list[list[Staged]] = []
        rows = 0
        for each in staged:
            if not steps or rows + each.rows > self._options.chunk_rows:
                steps.append([])
                rows = 0
            steps[-1].append(each)
            rows += each.rows
        plan = json.dumps([[[each.key, each.rows] for each in step] for step in steps])
        self._at_once(
            [
                ("SET", self._plan_key(batch), plan, *self._keep),
                ("SET", self.marker, Progress(batch, 0, len(steps)).text(), *self._keep),
                *[self._kept(each.key) for each in staged],
            ]
        )

    def _step(self, now: Progress) -> bool | None:
        """Publish the next part of a begun batch; None: look again, for the next one or after another driver."""
        try:
            step = self._planned(now)
            chunks = [self._fetched(each) for each in step]
        except SinkError:
            if self.progress() == now:
                raise
            self._connection.call("UNWATCH")  # a faster driver has published and removed them
            return None
        following = replace(now, published=now.published + 1)
        if not self._transaction(now, following, chunks, step) or not following.complete:
            return None
        self._connection.call("DEL", self._plan_key(now.batch), repeatable=True)
        return True

    def _transaction(
        self, now: Progress, following: Progress, chunks: Sequence[Chunk], step: Sequence[Staged] = ()
    ) -> bool:
        """Write rows and the marker's new value in one transaction; False: another driver changed the marker."""
        before: list[Command] = []
        if self._options.overwrite and following.published <= 1:
            assert self._options.stream is not None
            before.append(("XTRIM", self._options.stream, "MAXLEN", 0))
        # Kept for a while, in case an undo needs them.
        done_with = [each.key for each in step]
        if step and following.complete:
            done_with.append(self._plan_key(now.batch))
        after: list[Command] = [("PEXPIRE", key, self._options.staging_ttl_ms) for key in done_with]
        after.append(("SET", self.marker, following.text(), *self._keep))
        data = b"".join(chunk.data for chunk in chunks)
        whole = Chunk(data, sum(chunk.rows for chunk in chunks))
        wait = self._options.wait_commands if following.complete else []
        request = b"".join([packed([("MULTI",), *before]), data, packed([*after, ("EXEC",), *wait])])
        names = ["MULTI"] * (1 + len(before)) + ["XADD"] * whole.rows + ["SET"] * len(after) + ["EXEC"]
        # In one request, so that the server that wrote is the one that waits.
        names += [str(words[0]) for words in wait]
        replies = self._connection.exchange(request, names, key=self.marker)
        waited = replies[len(names) - len(wait) :]
        del replies[len(names) - len(wait) :]
        results = replies[-1]
        if results is None:
            return False
        first = 1 + len(before)
        if isinstance(results, ServerError):  # nothing ran: the server refused a command when it was queued
            check(self._connection, self._options, whole, replies[first : first + whole.rows])
            _raise_first(replies)
        written = results[first - 1 : first - 1 + whole.rows]
        # The marker already says that this step is done, so a lost connection must not leave it unchecked.
        try:
            self._in_spite_of_losses(lambda: check(self._connection, self._options, whole, written))
            _raise_first(results[: first - 1])
            _raise_first(results[first - 1 + whole.rows :])
        except (SinkError, RedisError) as error:
            try:
                self._in_spite_of_losses(lambda: self._undo(now, following, whole, written, step))
            except ConnectionLost as lost:
                mend = "remove it" if now.batch < 0 else f"set it to {now.text()}"
                raise SinkError(
                    f"{error.words}; entries of batch {following.batch} may be there ({lost.words}), and the marker {self.marker!r} "
                    f"may say that all of it is: if it does, {mend} before the query starts again"
                ) from error
            raise
        if wait:
            check_wait(self._options, waited)
        self._forget(step)
        return True

    def _undo(
        self, now: Progress, following: Progress, whole: Chunk, written: Sequence[Any], step: Sequence[Staged]
    ) -> None:
        """Undo a transaction that failed in part: remove its entries, and restore the marker.

        Not if another driver has already continued from there: that driver's rows would be published twice.
        """
        if self._watch() != following:
            self._connection.call("UNWATCH")
            return
        added: dict[bytes, list[bytes]] = {}
        for words, reply in zip(whole.commands(), written, strict=True):
            if isinstance(reply, bytes):
                added.setdefault(words[1], []).append(reply)
        undo: list[Command] = [("XDEL", stream, *members) for stream, members in added.items()]
        if step:
            undo += [self._kept(key) for key in (*(each.key for each in step), self._plan_key(now.batch))]
        undo.append(("DEL", self.marker) if now.batch < 0 else ("SET", self.marker, now.text(), *self._keep))
        self._at_once(undo)

    def _in_spite_of_losses(self, once: Callable[[], Answer]) -> Answer:
        return in_spite_of_losses(once, self._connection.endpoint.retries)

    def _kept(self, key: str) -> Command:
        # PERSIST would need one more permission, and only when the first large batch comes.
        return ("PEXPIRE", key, self._options.staging_ttl_ms if self._keep else _LASTING_MS)

    def _at_once(self, commands: Sequence[Command]) -> None:
        """Run commands in one transaction; run none if a watched key was changed."""
        _raise_first(self._connection.pipeline([("MULTI",), *commands, ("EXEC",)]))

    def _watch(self) -> Progress:
        self._connection.call("WATCH", self.marker)
        return self.progress()

    def _plan_key(self, batch: int) -> str:
        # One key per batch: a driver that wakes up late removes only its own batch's plan, not that of another driver.
        return f"{self.marker}:plan:{batch}"

    def _planned(self, now: Progress) -> list[Staged]:
        plan = self._plan(now.batch)
        if len(plan) != now.steps:
            raise SinkError(
                f"key {self._plan_key(now.batch)!r} is gone: what is left of batch {now.batch} cannot be found"
            )
        return plan[now.published]

    def _plan(self, batch: int) -> list[list[Staged]]:
        text = self._connection.call("GET", self._plan_key(batch))
        return [[Staged(key, rows) for key, rows in step] for step in json.loads(text)] if text else []

    def _fetched(self, part: Chunk | Staged) -> Chunk:
        if isinstance(part, Chunk):
            return part
        data = self._connection.call("GET", part.key)
        if data is None:
            raise _vanished(part)
        return Chunk(data, part.rows)

    def _forget(self, staged: Sequence[Staged]) -> None:
        if staged:
            self._connection.call("DEL", *[each.key for each in staged], repeatable=True)


def _raise_first(replies: Iterable[Any]) -> None:
    for reply in replies:
        if isinstance(reply, ServerError):
            raise SinkError(f"the server refused to publish: {reply.words}")


def _vanished(staged: Staged) -> SinkError:
    return SinkError(
        f"staged rows are gone (key {staged.key!r}): see stagingTtlMs; the batch must be run again"
    )
