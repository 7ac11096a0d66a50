"""Decodes and encodes the subscriptions and assignments of the classic consumer protocol."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import TypeVar

from wirekafka.codec.message import MalformedMessage, Message
from wirekafka.protocol.records.groups_and_transactions import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

_VERSION = Struct(">h")
M = TypeVar("M", bound=Message)


def parse_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Decode a member's subscription; raises MalformedMessage."""
    return _parse(ConsumerProtocolSubscription, data)


def parse_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Decode a member's assignment, which may be empty; raises MalformedMessage."""
    return _parse(ConsumerProtocolAssignment, data) if data else ConsumerProtocolAssignment()


def pack_assignment(topics: Iterable[tuple[str, Sequence[int]]], subscription: bytes) -> bytes:
    """Encode an assignment in the version of a member's subscription."""
    version = min(_version(subscription), ConsumerProtocolAssignment.versions[1])
    kind = ConsumerProtocolAssignment.TopicPartition
    return _VERSION.pack(version) + bytes(
        ConsumerProtocolAssignment(
            assigned_partitions=[
                kind(topic=topic, partitions=list(partitions)) for topic, partitions in topics
            ]
        ).encode(version)
    )


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size or data[0] & 0x80:
        raise MalformedMessage("the consumer protocol begins with a version")
    version: int = _VERSION.unpack_from(data)[0]
    return version


def _parse(schema: type[M], data: bytes) -> M:
    # Newer versions only add fields at the end.
    version = min(_version(data), schema.versions[1])
    message, _ = schema.decoder(version)(data, _VERSION.size, len(data))
    parsed: M = message
    return parsed
