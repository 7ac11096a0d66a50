"""Hints for listeners that break off the first exchanges: they may expect TLS or a login."""

from __future__ import annotations

from wirekafka.config.client_config import ClientConfig

_TLS_ALERT = b"\x15\x03"
"""The first bytes of a TLS listener's answer to a plain request: kind and version."""
_NOT_TLS = frozenset(
    {"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE", None}
)
"""OpenSSL's reasons if nothing was received, or no TLS."""


def is_tls_alert(start: bytes) -> bool:
    """Whether the first bytes of the first response are an alert of TLS."""
    return start.startswith(_TLS_ALERT)


def of_tls(config: ClientConfig | None) -> str:
    """The remedy for a connection without TLS to a listener with TLS."""
    wanted = "SASL_SSL" if config is not None and config.logs_in else "SSL or SASL_SSL"
    return f"the listener expects TLS: {_set(config, wanted)}"


def of_closed(config: ClientConfig | None) -> str:
    """The remedy for a connection that was closed before a request was served; empty if none."""
    uses_tls = config is not None and config.uses_tls
    logs_in = config is not None and config.logs_in
    if uses_tls and logs_in:
        return ""
    if uses_tls:
        return (
            "the listener may expect a login, or another client certificate:"
            f" {_set(config, 'SASL_SSL')}, or ssl.keystore.location"
        )
    if logs_in:
        return f"the listener may expect TLS: {_set(config, 'SASL_SSL')}"
    return (
        f"the listener may expect TLS or a login: {_set(config, 'SSL, SASL_PLAINTEXT or SASL_SSL')}"
    )


def of_no_tls(error: OSError, config: ClientConfig) -> str:
    """The remedy for a handshake that the other side does not take part in; begins with "; "."""
    reason = getattr(error, "reason", None)
    if reason not in _NOT_TLS and not isinstance(error, ConnectionResetError):
        return ""
    protocol = "SASL_PLAINTEXT" if config.logs_in else "PLAINTEXT or SASL_PLAINTEXT"
    return f"; the listener may be one without TLS: {_set(config, protocol)}"


def _set(config: ClientConfig | None, protocol: str) -> str:
    if config is None:
        return f"give --command-config FILE with security.protocol={protocol}"
    return (
        f"set security.protocol={protocol} in the file of --command-config, which has"
        f" {config.security_protocol}"
    )
