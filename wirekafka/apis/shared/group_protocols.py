"""Checks that the broker's options and the cluster's feature levels enable a group protocol."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.errors import Error, KafkaError


def check_consumer_protocol(call: Call) -> None:
    """Raise UNSUPPORTED_VERSION unless the consumer protocol is enabled (KIP-848)."""
    _check(call, "consumer", "group.version")


def check_streams_protocol(call: Call) -> None:
    """Raise UNSUPPORTED_VERSION unless the streams protocol is enabled (KIP-1071)."""
    _check(call, "streams", "streams.version")


def _check(call: Call, protocol: str, feature: str) -> None:
    broker = call.broker
    if (
        protocol not in broker.config.group_coordinator_rebalance_protocols
        or broker.image.features.get(feature, 0) < 1
    ):
        raise KafkaError(Error.UNSUPPORTED_VERSION)
