"""The TLS of an HTTP server: a certificate and its key, in files of PEM."""

from __future__ import annotations

import ssl
from pathlib import Path

from wirekafka.config.option import ConfigError


def server_context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """The context of a listener; without `key`, the certificate's file has it, too.

    Raises ConfigError.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # A file with a passphrase is refused, rather than asked for on the terminal.
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except (OSError, ValueError) as error:
        reason = f"no usable certificate with its key: {error}"
        raise ConfigError(
            "certificate", str(certificate), reason, f"{certificate}: {reason}"
        ) from None
    return context


def client_context(authority: Path | None) -> ssl.SSLContext:
    """The context of connections to such servers, which trust the system's authorities or a file.

    Raises ConfigError.
    """
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ValueError) as error:
        reason = f"no usable certificate of an authority: {error}"
        raise ConfigError("authority", str(authority), reason, f"{authority}: {reason}") from None
