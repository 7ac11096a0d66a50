"""Names of TLS cipher suites: as Java and the standards write them, and as OpenSSL does."""

from __future__ import annotations

import re

TLS_1_3 = frozenset(
    ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
)
"""The suites of TLS 1.3 in OpenSSL's default selection, which have the same name in both."""

_OLDER = re.compile(r"(?:TLS|SSL)_(?P<exchange>\w+?)_WITH_(?P<cipher>\w+)_(?P<digest>[A-Z0-9]+)")
_BLOCK_CIPHER = re.compile(r"(AES|ARIA|CAMELLIA)_(\d+)(_CBC)?")


def openssl_name(suite: str) -> str | None:
    """OpenSSL's name of a suite up to TLS 1.2; None for an unknown name."""
    found = _OLDER.fullmatch(suite)
    if found is None:
        return None
    exchange, cipher, digest = found["exchange"], found["cipher"], found["digest"]
    # Plain RSA key exchange has no prefix, and block ciphers no word for their CBC mode.
    prefix = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
    cipher = _BLOCK_CIPHER.sub(r"\1\2", cipher)
    suffix = "" if "POLY1305" in cipher or cipher.endswith("CCM") else f"-{digest}"
    return f"{prefix}{cipher.replace('_', '-')}{suffix}"
