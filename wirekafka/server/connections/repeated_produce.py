"""A Produce request that is repeated: its partition, its client's quotas and its response."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

from wirekafka.log.append import Appended
from wirekafka.protocol.produce import ProduceRequest, ProduceResponse
from wirekafka.quotas.client_quotas import Account
from wirekafka.quotas.rate import Rate
from wirekafka.server.connections.replies import Replies

_PLACEHOLDERS = (0x1122334455667788, 0x2233445566778811, 0x3344556677881122)
_OFFSETS = Struct(">qqq")
"""In a response: a partition's base offset, log append time and start offset."""


class RepeatedProduce:
    """The common part of a request's repetitions: everything except their batches.

    The response is encoded once, except for the correlation id and the partition's offsets.
    """

    __slots__ = (
        "account",
        "acks",
        "after",
        "before",
        "counts",
        "is_limited",
        "key",
        "pack",
        "produced",
        "size",
        "timeout_ms",
        "topic",
        "worked",
    )

    def __init__(self, key: tuple[str, int], request: ProduceRequest, version: int):
        """`key` is the partition's in `Broker.partitions`."""
        [topic] = request.topic_data
        self.acks = request.acks
        self.timeout_ms = request.timeout_ms
        self.topic = topic.name, topic.topic_id
        """As the client names it: by an empty name or by the id of zeros."""
        self.counts: list[int] | None = None
        """The counts of served requests, as `RepeatedRequests.counts`; None without metrics."""
        self.account: Account | None = None
        self.is_limited = False
        """Whether a quota applies to the client's Produce requests."""
        self.produced: Rate | None = None
        self.worked: Rate | None = None
        """The client's rates; None if it has no such quota."""
        self.key = key
        before, self.after = self._response(version).split(_OFFSETS.pack(*_PLACEHOLDERS))
        self.before = b"\0" + before  # The header's tagged section is empty.
        layout = _layout(len(self.before), len(self.after))
        self.pack = layout.pack
        self.size = layout.size - 4
        """Of the response, without the bytes that have its size."""

    def limit(self, account: Account) -> None:
        """Count requests against the client's quotas."""
        self.account = account
        self.produced = account.produce
        # Producers that get no response have no limit on work, as in Kafka.
        self.worked = account.request if self.acks else None
        self.is_limited = self.produced is not None or self.worked is not None

    def put(self, replies: Replies, correlation_id: int, appended: Appended) -> None:
        """Append the response of a batch without error."""
        base_offset, _, time_ms, start_offset, _ = appended
        replies.tail += self.pack(
            self.size, correlation_id, self.before, base_offset, time_ms, start_offset, self.after
        )

    def _response(self, version: int) -> bytes:
        base_offset, log_append_time_ms, log_start_offset = _PLACEHOLDERS
        kind = ProduceResponse.TopicProduceResponse
        placed = kind.PartitionProduceResponse(
            index=self.key[1],
            base_offset=base_offset,
            log_append_time_ms=log_append_time_ms,
            log_start_offset=log_start_offset,
        )
        name, topic_id = self.topic
        topic = kind(name=name, topic_id=topic_id, partition_responses=[placed])
        return ProduceResponse(responses=[topic]).encode(version)


@lru_cache(maxsize=256)
def _layout(before_bytes: int, after_bytes: int) -> Struct:
    """The layout of a response: it mostly depends on the length of the topic's name."""
    return Struct(f">ii{before_bytes}sqqq{after_bytes}s")
