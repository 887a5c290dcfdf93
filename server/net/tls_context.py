"""TLS contexts built from the ``tls-*`` directives, for clients and for our own links."""

from __future__ import annotations

import ssl
from typing import Final

from ..config.config import Config

_VERIFY: Final = {"yes": ssl.CERT_REQUIRED, "optional": ssl.CERT_OPTIONAL, "no": ssl.CERT_NONE}
_PROTOCOLS: Final = {
    "tlsv1": ssl.TLSVersion.TLSv1,
    "tlsv1.1": ssl.TLSVersion.TLSv1_1,
    "tlsv1.2": ssl.TLSVersion.TLSv1_2,
    "tlsv1.3": ssl.TLSVersion.TLSv1_3,
}


class TlsError(Exception):
    """The TLS settings are unusable; the text is for the log."""


def server_context(config: Config) -> ssl.SSLContext:
    """Return the context for clients of tls-port. Raises TlsError: files are missing or bad."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    configure_server(context, config)
    return context


def configure_server(context: ssl.SSLContext, config: Config) -> None:
    """Apply the directives to a context; existing connections keep their settings.

    Raises TlsError: files are missing or bad; the context may be half changed.
    """
    if not config.tls_cert_file:
        raise TlsError("No tls-cert-file configured!")
    if not config.tls_key_file:
        raise TlsError("No tls-key-file configured!")
    if config.tls_auth_clients != "no" and not (config.tls_ca_cert_file or config.tls_ca_cert_dir):
        raise TlsError(
            "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, tls-replication or "
            "tls-auth-clients are enabled!"
        )
    _common(context, config)
    _load_certificate(context, config, config.tls_cert_file, config.tls_key_file, config.tls_key_file_pass)
    context.verify_mode = _VERIFY[config.tls_auth_clients]
    if config.tls_prefer_server_ciphers:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if config.tls_session_caching:
        context.options &= ~ssl.OP_NO_TICKET
    else:
        context.options |= ssl.OP_NO_TICKET
    if config.tls_dh_params_file:
        try:
            context.load_dh_params(config.in_dir(config.tls_dh_params_file))
        except (OSError, ssl.SSLError) as error:
            raise TlsError(f"Failed to load DH params file: {config.tls_dh_params_file}: {error}") from None


def client_context(config: Config) -> ssl.SSLContext:
    """Return the context for a link to a master (tls-replication).

    As in Redis, the certificate of the master is verified, but not its host name.

    Raises TlsError: files are missing or bad.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if not (config.tls_ca_cert_file or config.tls_ca_cert_dir):
        raise TlsError("tls-replication needs tls-ca-cert-file or tls-ca-cert-dir")
    _common(context, config)
    if config.tls_client_cert_file:
        _load_certificate(
            *(context, config, config.tls_client_cert_file, config.tls_client_key_file),
            config.tls_client_key_file_pass,
        )
    elif config.tls_cert_file:
        _load_certificate(
            context, config, config.tls_cert_file, config.tls_key_file, config.tls_key_file_pass
        )
    return context


def _common(context: ssl.SSLContext, config: Config) -> None:
    versions = _versions(config.tls_protocols)
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    try:
        if config.tls_ciphers:
            context.set_ciphers(config.tls_ciphers)
    except ssl.SSLError as error:
        raise TlsError(f"Failed to configure ciphers: {config.tls_ciphers}: {error}") from None
    if config.tls_ca_cert_file or config.tls_ca_cert_dir:
        try:
            context.load_verify_locations(
                config.in_dir(config.tls_ca_cert_file) or None, config.in_dir(config.tls_ca_cert_dir) or None
            )
        except (OSError, ssl.SSLError) as error:
            raise TlsError(f"Failed to configure CA certificate(s) file/directory: {error}") from None


def _versions(protocols: str) -> list[ssl.TLSVersion]:
    """Return the named versions; by default TLSv1.2 and TLSv1.3."""
    words = (protocols or "TLSv1.2 TLSv1.3").split()
    try:
        return [_PROTOCOLS[word.lower()] for word in words]
    except KeyError:
        raise TlsError(
            "Invalid tls-protocols specified. Use a combination of 'TLSv1', 'TLSv1.1', 'TLSv1.2' and 'TLSv1.3'."
        ) from None


def _load_certificate(
    context: ssl.SSLContext, config: Config, certificate: str, key: str, password: str
) -> None:
    try:
        # Without a password callback OpenSSL would prompt on the terminal.
        context.load_cert_chain(config.in_dir(certificate), config.in_dir(key) or None, lambda: password)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"Failed to load certificate: {certificate}: {error}") from None
