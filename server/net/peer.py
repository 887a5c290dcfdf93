"""The other end of a connection."""

from __future__ import annotations

import socket


def address_of(name: object) -> bytes:
    """Format an asyncio address (host, port, …) as ``127.0.0.1:6379`` or ``[::1]:6379``."""
    if isinstance(name, tuple) and len(name) >= 2:
        host, port = str(name[0]), name[1]
        return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()
    return b"?:0"


def keep_alive(sock: socket.socket, seconds: int) -> None:
    """Let the system send keepalive probes after ``seconds`` without data, and close after about as many more."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, seconds)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(seconds // 3, 1))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
