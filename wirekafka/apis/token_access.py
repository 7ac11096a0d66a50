"""Which connections may manage delegation tokens (KIP-48)."""

from __future__ import annotations

from wirekafka.apis.registry import Call
from wirekafka.errors import Error, KafkaError

_ANONYMOUS = "User:ANONYMOUS"


def require_may_manage_tokens(call: Call) -> None:
    """Raise DELEGATION_TOKEN_REQUEST_NOT_ALLOWED unless the client proved its own identity.

    Nobody did on a PLAINTEXT listener, nor over TLS without a certificate. A client that logged in
    with a token may not use that to get or prolong others.
    """
    is_anonymous = call.login is None and call.principal == _ANONYMOUS
    if is_anonymous or (call.login is not None and call.login.is_token_authenticated):
        raise KafkaError(Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
