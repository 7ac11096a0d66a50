"""Kafka's security protocols: which of them encrypt, and which require a login."""

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""In the order of the numbers that metadata records have for them."""


def uses_tls(protocol: str) -> bool:
    """Whether connections are encrypted."""
    return protocol in ("SSL", "SASL_SSL")


def logs_in(protocol: str) -> bool:
    """Whether clients authenticate by SASL."""
    return protocol in ("SASL_PLAINTEXT", "SASL_SSL")
