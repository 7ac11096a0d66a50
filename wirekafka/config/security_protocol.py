"""Kafka's security protocols, some of which encrypt or require a login."""

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""In the order of their numbers in metadata records."""


def uses_tls(protocol: str) -> bool:
    """Whether connections are encrypted."""
    return protocol in ("SSL", "SASL_SSL")


def logs_in(protocol: str) -> bool:
    """Whether clients authenticate by SASL."""
    return protocol in ("SASL_PLAINTEXT", "SASL_SSL")
