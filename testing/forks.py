"""Close a parent's server sockets in forked children.

A socket is closed, and its port free, only once every process has closed it. Otherwise a child that lives on would hold its
parent's port, and clients would not notice when the server closes their connections.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from ..server.server import Server

_DESCRIPTORS: Final = Path("/dev/fd")
_RUNNING: Final[WeakKeyDictionary[Server, int]] = WeakKeyDictionary()  # with the thread of each


def let_go_in_forks(server: Server) -> None:
    """Register a server, so that later forks of this process close their copies of its sockets.

    Call it in the server's thread.
    """
    _RUNNING[server] = threading.get_ident()


def _let_go() -> None:
    """Replace the sockets, so that no file of the child gets a number that an object of the server still has."""
    own = threading.get_ident()
    places = {
        place
        for server, thread in _RUNNING.items()
        # A fork from the server's own thread is a child that saves its data.
        if not server.stopping and (thread != own or server.shares_loop)
        for place in (server.config.port, server.config.tls_port, server.listeners.unix_place)
        if place
    }
    if not places or not _DESCRIPTORS.is_dir():
        return
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in list(_sockets()):
        if _place_of(descriptor) in places:
            os.dup2(null, descriptor, inheritable=False)
    os.close(null)


def _sockets() -> Iterator[int]:
    for path in _DESCRIPTORS.iterdir():
        with contextlib.suppress(OSError):  # the descriptor that lists them
            if stat.S_ISSOCK(os.fstat(int(path.name)).st_mode):
                yield int(path.name)


def _place_of(descriptor: int) -> Any:
    """Return the local port or path of a socket."""
    with contextlib.closing(socket.socket(fileno=os.dup(descriptor))) as sock:
        name = sock.getsockname()
    return name[1] if isinstance(name, tuple) else name


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
