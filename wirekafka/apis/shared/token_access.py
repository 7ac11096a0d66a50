"""Which connections may manage delegation tokens (KIP-48)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.errors import Error, KafkaError


def require_may_manage_tokens(call: Call | ControllerCall) -> None:
    """Raise DELEGATION_TOKEN_REQUEST_NOT_ALLOWED unless the client proved its own identity.

    No client did on a PLAINTEXT listener, nor over TLS without a certificate. A client that logged
    in with a token may not get or prolong tokens by it. Brokers check this for their clients, and
    controllers once more: clients reach them directly too, and the login of a client behind a
    broker is known from the broker's envelope.
    """
    if call.is_anonymous or call.is_token_authenticated:
        raise KafkaError(Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
