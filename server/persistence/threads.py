"""Do work that waits for the disk: in a thread, or at once in a test's event loop, which allows no threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..server import Server


def begin_in_thread(server: Server, work: Callable[[], None]) -> Future[None]:
    """Begin ``work`` in a new thread and return its future.

    In a test's event loop, do it before this returns.
    """
    if not server.shares_loop:
        pool = ThreadPoolExecutor(1, "rillet-disk")
        begun = pool.submit(work)
        pool.shutdown(wait=False)
        return begun
    done: Future[None] = Future()
    try:
        work()
    except BaseException as error:  # noqa: BLE001 - asking for the result raises it, like that of a thread
        done.set_exception(error)
    else:
        done.set_result(None)
    return done


async def in_thread(server: Server, work: Callable[[], None]) -> None:
    """Do ``work`` in a thread and wait for it; in a test's event loop, do it here."""
    if server.shares_loop:
        work()
    else:
        await server.loop.run_in_executor(None, work)
