"""How many clients of a listener have authenticated, by TLS or SASL, and how many have failed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Authentications:
    """Counted since the start of the listener, as in Kafka: a login over TLS is one of both."""

    successes: int = 0
    failures: int = 0
    renewals: int = 0
    """Later logins of connections whose session would have ended (KIP-368)."""
    failed_renewals: int = 0
    without_renewal: int = 0
    """The successes of clients that are too old to renew their session."""
