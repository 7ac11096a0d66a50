"""Whether the cluster's feature level permits share groups (KIP-932)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.errors import Error, KafkaError

_FEATURE = "share.version"


def check_share_version(call: Call, message: str | None = None) -> None:
    """Raise UNSUPPORTED_VERSION, with this message, unless share groups are enabled."""
    if call.broker.image.features.get(_FEATURE, 0) < 1:
        raise KafkaError(Error.UNSUPPORTED_VERSION, message)


UNSUPPORTED = "The version of API is not supported."
"""The message of the APIs that report one."""
