"""TLS in tests: certificates made on the spot, the flags for them, and clients that speak it."""

import socket
import ssl
import subprocess
from pathlib import Path

import redis
from support.wire import Wire


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def make_certificates(folder: Path) -> Path:
    """Fill a folder with ca.crt, and for `server`, `client` and `stranger` a certificate and a key each."""
    for ca in ("ca", "other"):
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={ca}",
                 "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                 "-keyout", f"{folder}/{ca}.key", "-out", f"{folder}/{ca}.crt")  # fmt: skip
    for name, ca in (("server", "ca"), ("client", "ca"), ("stranger", "other")):
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
                 "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.csr")  # fmt: skip
        _openssl("x509", "-req", "-in", f"{folder}/{name}.csr", "-days", "2", "-CA", f"{folder}/{ca}.crt",
                 "-CAkey", f"{folder}/{ca}.key", "-CAcreateserial", "-out", f"{folder}/{name}.crt")  # fmt: skip
    return folder


def flags(folder: Path, **more: object) -> list[str]:
    """What a server is started with to show its certificate and to ask for one."""
    settings = {
        "tls-cert-file": folder / "server.crt",
        "tls-key-file": folder / "server.key",
        "tls-ca-cert-file": folder / "ca.crt",
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    return [word for name, value in settings.items() for word in (f"--{name}", str(value))]


def connect(port: int, folder: Path, name: str | None = "client", **more: object) -> redis.Redis:
    """redis-py with the certificate of a name, or with none."""
    pair = (
        {}
        if name is None
        else {"ssl_certfile": folder / f"{name}.crt", "ssl_keyfile": folder / f"{name}.key"}
    )
    return redis.Redis(
        port=port, ssl=True, ssl_ca_certs=str(folder / "ca.crt"), ssl_check_hostname=False,
        retry=None, **pair, **more,
    )  # fmt: skip


def client_context(folder: Path) -> ssl.SSLContext:
    """Trusts our authority, and shows the client's certificate."""
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    context.check_hostname = False
    context.load_cert_chain(folder / "client.crt", folder / "client.key")
    return context


class TlsWire(Wire):
    """A raw RESP client over TLS."""

    def __init__(self, port: int, folder: Path, protocol: int = 2) -> None:
        self._context = client_context(folder)
        super().__init__(port, protocol)

    def _connect(self, port: int, timeout: float) -> socket.socket:
        return self._context.wrap_socket(super()._connect(port, timeout))
