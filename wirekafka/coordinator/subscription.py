"""What consumers say inside the classic protocol, which a broker otherwise leaves opaque."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from wirekafka.codec.message import MalformedMessage
from wirekafka.coordinator.records import ConsumerProtocolSubscription

CONSUMER_PROTOCOL = "consumer"

_VERSION = Struct(">h")


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics all these subscriptions name; None if one of them is not a subscription."""
    topics: set[str] = set()
    for each in metadata:
        if len(each) < _VERSION.size:
            return None
        (version,) = _VERSION.unpack_from(each)
        if version < 0:
            return None
        # Newer versions only add fields at the end.
        decode = ConsumerProtocolSubscription.decoder(
            min(version, ConsumerProtocolSubscription.versions[1]))
        try:
            subscription, _ = decode(each, _VERSION.size, len(each))
        except MalformedMessage:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
