"""The features of the operating system. All code that differs between POSIX and Windows is here.

``HERE`` is the current system. Tests replace it by the other one.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import Any, Final


class Posix:
    """Linux, macOS and other POSIX systems."""

    has_fork = True  # a child process can have a snapshot of the data
    has_unix_sockets = True  # asyncio can listen on a path of the file system
    has_uvloop = True  # uvloop supports the system
    watches_pipes = True  # an event loop can wait for bytes in a pipe
    locks_folders = True  # a folder can be opened and locked
    removes_open_files = True  # a file can be removed while a process has it open
    syncs_folders = True  # a folder can be synced, so that names in it survive a crash
    # SO_REUSEADDR takes a port whose last connections are still closing, but no port in use.
    reuses_addresses = True

    def lock(self, fd: int) -> None:
        """Lock an open file, even against other servers of this process. Raises BlockingIOError: it is locked."""
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def share(self, fd: int) -> None:
        """Lock an open file or folder shared, so that ``lock`` fails. Raises BlockingIOError: ``lock`` holds it."""
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def unlock(self, fd: int) -> None:
        """Unlock an open file; closing it is not enough if a forked child has it open as well."""
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_UN)

    def has_ended(self, pid: int) -> bool:
        """Return True if no process has this ID; False if that is unknown."""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # the process of another user
        return False

    def allow_open_files(self, wanted: int) -> tuple[int, int, str]:
        """Raise the limit of open files to ``wanted``, or as far as possible.

        Return the limit before, the limit now, and the reason why it is lower than wanted.
        """
        import errno
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard == resource.RLIM_INFINITY:
            hard = sys.maxsize
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return wanted, wanted, ""
        reason = ""
        for most in (wanted, min(wanted, hard)):
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, max(most, hard)))
            except (OSError, ValueError) as error:  # ValueError: above the hard limit
                reason = getattr(error, "strerror", None) or os.strerror(errno.EPERM)
            else:
                return soft, most, reason
        return soft, soft, reason

    def peak_memory(self) -> int:
        """Return the peak of the process' physical memory in bytes; 0 if it is unknown."""
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024

    def memory(self) -> int:
        """Return the memory of the machine in bytes; 0 if it is unknown."""
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def thread_times(self) -> tuple[float, float] | None:
        """Return the system and user time of this thread in seconds; None if the system does not count threads."""
        import resource

        if not hasattr(resource, "RUSAGE_THREAD"):  # macOS
            return None
        own = resource.getrusage(resource.RUSAGE_THREAD)
        return own.ru_stime, own.ru_utime

    def function_of_c(self, name: str) -> Any:
        """Return a function of glibc; None if there is another C library or no such function."""
        if not sys.platform.startswith("linux"):
            return None
        import ctypes

        return getattr(ctypes.CDLL(None), name, None)

    def end_within(self, seconds: int) -> None:
        """End the process after ``seconds``, even if it hangs."""
        signal.alarm(seconds)


class Windows(Posix):
    """Windows: asyncio over selectors, no fork, no unix sockets, locks on bytes."""

    has_fork = False
    has_unix_sockets = False
    has_uvloop = False
    watches_pipes = False
    locks_folders = False
    removes_open_files = False
    syncs_folders = False
    reuses_addresses = False

    # No process can read a locked byte, so this one lies far after the text.
    _FAR: Final = 1 << 30

    def lock(self, fd: int) -> None:
        """Lock a byte after the end of the file."""
        msvcrt: Any = import_module("msvcrt")  # type checkers know it only on Windows
        os.lseek(fd, self._FAR, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError as error:  # the error does not tell if the file is locked
            raise BlockingIOError(*error.args) from None

    def unlock(self, fd: int) -> None:
        """Unlock the byte after the end of the file."""
        msvcrt: Any = import_module("msvcrt")
        os.lseek(fd, self._FAR, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

    def has_ended(self, pid: int) -> bool:
        """Return False: on Windows ``os.kill`` cannot test a process, it would kill it."""
        del pid
        return False

    def allow_open_files(self, wanted: int) -> tuple[int, int, str]:
        """Return the wanted number: Windows has no such limit."""
        return wanted, wanted, ""

    def peak_memory(self) -> int:
        """Return 0: on Windows the peak memory of the process is unknown."""
        return 0

    def memory(self) -> int:
        """Return 0: on Windows the memory of the machine is unknown."""
        return 0

    def thread_times(self) -> tuple[float, float] | None:
        """Return None, for unknown."""
        return None

    def function_of_c(self, name: str) -> Any:
        """Return None: there is no glibc."""
        del name

    def end_within(self, seconds: int) -> None:
        """End the process from a thread after ``seconds``."""
        import threading

        timer = threading.Timer(seconds, os._exit, [1])
        timer.daemon = True
        timer.start()


POSIX: Final = Posix()
WINDOWS: Final = Windows()
HERE: Posix = WINDOWS if sys.platform == "win32" else POSIX

_BREAK: Final = getattr(signal, "SIGBREAK", None)  # Ctrl-Break, on Windows

# Signals that request an orderly end.
END_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, *(() if _BREAK is None else (_BREAK,)))
