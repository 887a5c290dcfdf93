"""What the operating system offers; everything of the server that depends on that asks here.

``HERE`` is the system in force. Tests replace it by the other one.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import Any, Final


class Posix:
    """Linux, macOS and their relatives.

    Attributes:
        has_fork: a child process may have the data of the moment at which it began.
        has_unix_sockets: asyncio listens on a path of the file system.
        has_uvloop: uvloop supports the system.
        watches_pipes: an event loop hears of bytes in a pipe.
        locks_folders: a folder can be opened and locked.
        removes_open_files: a name can be removed while a process has the file open.
        syncs_folders: a folder can be synced, so that names in it last.
        reuses_addresses: SO_REUSEADDR takes a port whose last connections are still closing, and no port that is in use.
    """

    has_fork = True
    has_unix_sockets = True
    has_uvloop = True
    watches_pipes = True
    locks_folders = True
    removes_open_files = True
    syncs_folders = True
    reuses_addresses = True

    def lock(self, fd: int) -> None:
        """Lock an open file, against other servers of this process, too. Raises BlockingIOError: it is locked."""
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def share(self, fd: int) -> None:
        """Lock an open file or folder together with others: ``lock`` fails. Raises BlockingIOError: one has it alone."""
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def unlock(self, fd: int) -> None:
        """Unlock it; to close it would not be enough where a forked child has it as well."""
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_UN)

    def has_ended(self, pid: int) -> bool:
        """Return whether no process has this ID; False where that is unknown."""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # a process of another user
        return False

    def allow_open_files(self, wanted: int) -> tuple[int, int, str]:
        """Raise the limit of open files to ``wanted``, or as far as possible.

        Returns:
            The limit before, the limit now, and why it is not as wanted.
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
        """Return the largest physical memory that the process had, in bytes; 0 where it is unknown."""
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024

    def memory(self) -> int:
        """Return the memory of the machine in bytes; 0 where it is unknown."""
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def thread_times(self) -> tuple[float, float] | None:
        """Return the seconds that this thread took, in the system and by itself; None where they are not kept apart."""
        import resource

        if not hasattr(resource, "RUSAGE_THREAD"):  # macOS
            return None
        own = resource.getrusage(resource.RUSAGE_THREAD)
        return own.ru_stime, own.ru_utime

    def function_of_c(self, name: str) -> Any:
        """Return a function of glibc, or None where the C library is another one, or has no such function."""
        if not sys.platform.startswith("linux"):
            return None
        import ctypes

        return getattr(ctypes.CDLL(None), name, None)

    def end_within(self, seconds: int) -> None:
        """End the process after that time, whatever it does."""
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

    # No process can read a locked byte: this one lies behind the text.
    _FAR: Final = 1 << 30

    def lock(self, fd: int) -> None:
        """Lock a byte behind the end."""
        msvcrt: Any = import_module("msvcrt")  # a type checker knows it on Windows alone
        os.lseek(fd, self._FAR, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError as error:  # its error does not say whether the file is locked
            raise BlockingIOError(*error.args) from None

    def unlock(self, fd: int) -> None:
        """Unlock that byte."""
        msvcrt: Any = import_module("msvcrt")
        os.lseek(fd, self._FAR, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

    def has_ended(self, pid: int) -> bool:
        """Return False: ``os.kill`` does not ask there, it kills."""
        del pid
        return False

    def allow_open_files(self, wanted: int) -> tuple[int, int, str]:
        """Return the wanted number: there is no such limit."""
        return wanted, wanted, ""

    def peak_memory(self) -> int:
        """Return 0."""
        return 0

    def memory(self) -> int:
        """Return 0."""
        return 0

    def thread_times(self) -> tuple[float, float] | None:
        """Return None."""
        return None

    def function_of_c(self, name: str) -> Any:
        """Return None."""
        del name

    def end_within(self, seconds: int) -> None:
        """End the process by a thread."""
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
