"""Decodes consumer subscriptions in the metadata of classic groups."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from wirekafka.codec.message import MalformedMessage
from wirekafka.protocol.records.groups_and_transactions import ConsumerProtocolSubscription

CONSUMER_PROTOCOL = "consumer"

_VERSION = Struct(">h")


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of all these subscriptions; None if any subscription cannot be decoded.

    As in Kafka, only the fields of version 0 are read: some clients write a newer version number
    without the fields of that version.
    """
    decode = ConsumerProtocolSubscription.decoder(0)
    topics: set[str] = set()
    for each in metadata:
        if len(each) < _VERSION.size:
            return None
        (version,) = _VERSION.unpack_from(each)
        if version < 0:
            return None
        try:
            subscription, _ = decode(each, _VERSION.size, len(each))
        except MalformedMessage:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
