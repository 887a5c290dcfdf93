"""The watch over one server: send it INFO and PING periodically, and reconnect whenever the connection is lost."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import hiredis

from .link import Link
from .state import Instance, Master

if TYPE_CHECKING:
    from .monitor import Monitor

_LONGEST_PERIOD: Final = 1.0  # seconds, as in Redis
_FIRST_RETRY: Final = 0.02
_UNSETTLED_PERIOD: Final = 0.05
_ALIVE: Final = ("LOADING", "MASTERDOWN")  # errors that a working server may reply to PING


class Watch:
    """Monitors one server with INFO and PING; reconnects when the connection is lost."""

    def __init__(self, monitor: Monitor, master: Master, instance: Instance) -> None:
        self._monitor = monitor
        self._master = master
        self.instance = instance
        self.refused = False  # the last attempt to connect was refused: nothing listens at the address
        self._link: Link | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0  # when the timer should fire
        self._wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._judge()

    def stop(self) -> None:
        """Close the connection and stop monitoring the server."""
        self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._link is not None:
            self._link.close()

    def hurry(self) -> None:
        """Send INFO and PING now instead of after the usual period."""
        self._wake.set()

    async def refresh(self) -> bool:
        """Send INFO and let the monitor record the reply; return False if none came in time."""
        link = self._link
        if link is None:
            return False
        try:
            async with asyncio.timeout(self._patience):
                text = await link.send(b"INFO")
        except (OSError, TimeoutError):
            return False
        if not isinstance(text, bytes):
            return False
        self._monitor.note_info(self._master, self.instance, text)
        return True

    async def make_follow(self, host: bytes, port: bytes) -> bool:
        """Make the server a replica of ``host`` and ``port``, or a master (``NO``, ``ONE``); return True if it has agreed.

        The server also disconnects its clients, so that they ask the sentinel for the new address.
        """
        link = self._link
        if link is None:
            return False
        words = (
            (b"MULTI",),
            (b"REPLICAOF", host, port),
            (b"CONFIG", b"REWRITE"),
            (b"CLIENT", b"KILL", b"TYPE", b"normal"),
            (b"CLIENT", b"KILL", b"TYPE", b"pubsub"),
            (b"EXEC",),
        )
        try:
            async with asyncio.timeout(self._patience):
                *_, results = await asyncio.gather(*[link.send(*each) for each in words])
        except (OSError, TimeoutError):
            return False
        return isinstance(results, list) and not isinstance(results[0], hiredis.ReplyError)

    def _on_lost(self) -> None:
        self.instance.connected = False
        self.hurry()

    @property
    def _down_after(self) -> float:
        return self._master.settings.down_after / 1000

    @property
    def _patience(self) -> float:
        """Seconds to wait for a reply before reconnecting."""
        return max(self._down_after / 2, 0.05)

    @property
    def _period(self) -> float:
        usual = max(min(self._down_after / 3, _LONGEST_PERIOD), 0.01)
        return (
            usual if self._monitor.is_settled(self._master, self.instance) else min(usual, _UNSETTLED_PERIOD)
        )

    async def _run(self) -> None:
        pause = _FIRST_RETRY
        while True:
            try:
                async with asyncio.timeout(self._patience):
                    link = await Link.open(self.instance, self._on_lost)
            except (OSError, TimeoutError) as error:
                self.refused = isinstance(error, ConnectionRefusedError)
                self._judge()
            else:
                self.refused = False
                pause = _FIRST_RETRY
                with contextlib.suppress(OSError, TimeoutError), contextlib.closing(link):
                    await self._converse(link)
                self._link = None
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._period)

    async def _converse(self, link: Link) -> None:
        settings = self._master.settings
        async with asyncio.timeout(self._patience):
            if settings.auth_pass:
                user = [settings.auth_user] if settings.auth_user else []
                await link.send(b"AUTH", *user, settings.auth_pass)
            await link.send(
                b"CLIENT", b"SETNAME", f"sentinel-{self._monitor.sentinel.my_id[:8]}-cmd".encode()
            )
        if link.closed:
            return
        self.instance.connected = True
        self._link = link
        while not link.closed:
            self._wake.clear()
            await self.refresh()
            await self._ping(link)
            await self._monitor.correct(self._master, self.instance)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._period):
                    await self._wake.wait()

    async def _ping(self, link: Link) -> None:
        instance = self.instance
        if instance.pinged is None:
            instance.pinged = self._monitor.now
        async with asyncio.timeout(self._patience):
            reply = await link.send(b"PING")
        instance.last_reply = self._monitor.now
        if reply == b"PONG" or (isinstance(reply, hiredis.ReplyError) and str(reply).startswith(_ALIVE)):
            instance.last_ok, instance.pinged = instance.last_reply, None
        self._judge()

    def _on_time(self) -> None:
        """Decide whether the server is down; if this sentinel itself stood still for long, wait a little more first."""
        if self._monitor.now - self._due > self._down_after / 4:
            self._arm(self._down_after / 2)
        else:
            self._judge()

    def _arm(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = self._monitor.now + seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._on_time)

    def _judge(self) -> None:
        """Decide whether the server is down now, and set the timer for the next decision."""
        monitor, instance = self._monitor, self.instance
        left = instance.last_ok + self._down_after - monitor.now
        if left < 0 or (self.refused and monitor.sentinel.settings.down_if_refused):
            monitor.note_down(self._master, instance)
            return
        monitor.note_up(self._master, instance)
        self._arm(left + 0.001)
