"""Serves Produce requests that differ from an earlier one only in their batch, without decoding.

A producer of small batches repeats the bytes around them in every request. The handler serves the
first such request; the cache remembers its partition by these bytes and by the client's identity,
and appends the batches of the next requests itself. Anything unusual, above all a refused batch, is
left to the handler. `python -m benchmarks.twins` prints how much time that saves.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from wirekafka.apis.shared.call import Call
from wirekafka.codec.batch import ATTRIBUTES_AT, HEADER_BYTES, TRANSACTIONAL_BIT
from wirekafka.codec.varint import encode_uvarint
from wirekafka.protocol.produce import ProduceResponse
from wirekafka.quotas.client_quotas import PERCENT_PER_NS
from wirekafka.quotas.rate import Rate
from wirekafka.server.connections.parked_produce import ParkedProduce
from wirekafka.server.connections.parked_request import Parked
from wirekafka.server.connections.repeated_produce import RepeatedProduce
from wirekafka.server.connections.replies import Replies

_header = Struct(">Iih").unpack_from
_int32 = Struct(">i").pack
_tags = Struct(">BH").unpack_from
_NO_TAGS = (0, 0)
"""The empty tagged sections of the partition, the topic and the request."""
_CLIENT_ID_AT = 8
_TOPIC_AT = 19
"""Offset of the topic in a request with an empty client id: after the header, a null
transactional id, acks, the timeout and the number of topics."""
_INDEX_BYTES = 5
"""The number of partitions and the index of the only one."""
_TAGS_BYTES = 3
OUTER_BYTES = _CLIENT_ID_AT + _TAGS_BYTES
"""The bytes of a request before its client id and behind its batch, in all."""
_TOPIC_ID_BYTES = 16
_ID_VERSION = 13
_ALL = -1
VERSIONS = range(9, _ID_VERSION + 1)
"""The versions that can be served from the cache."""
_ATTRIBUTES_LOW_BYTE_AT = ATTRIBUTES_AT + 1
_THROTTLE = slice(-5, -1)
"""The throttle time in a response: before the empty tagged section at its end."""
_BATCH_BYTES, _MESSAGES = 4, 5
"""Positions in `RepeatedProduce.counts`; the positions before are for batch sizes of so many
bytes."""
_MOST = 8192
"""The largest number of requests remembered."""
_LONGEST = 1024
"""Requests with more bytes before the batch, which has a long client id, are not."""


_NO_ENTRIES: dict[int, dict[bytes, RepeatedProduce]] = {}


class ProduceCache:
    """The cache of one broker; a change of the metadata clears it."""

    __slots__ = ("_count", "_generation", "_known")

    def __init__(self) -> None:
        self._known: dict[str, dict[int, dict[bytes, RepeatedProduce]]] = {}
        """By client identity, version, and the bytes from the client id to the partition index."""
        self._count = 0
        self._generation = -1
        """Of the metadata image that the entries depend on."""

    def serve(self, data: Any, at: int, end: int, call: Call, replies: Replies) -> Parked | bool:
        """Serve the request at `data[at:end]` if it is cached; else return False without effect.

        A request whose batch waits for the in-sync replicas is returned. Fast twin of
        `wirekafka.server.connections.pipeline.Pipeline._serve_decoded`.
        """
        version, correlation_id, client_id_bytes = _header(data, at)
        known = (self._known.get(call.client.identity) or _NO_ENTRIES).get(version)
        if known is None:
            return False
        broker = call.broker
        if broker.image.generation != self._generation:
            self._clear(broker.image.generation)
            return False
        topic_at = at + _TOPIC_AT + (client_id_bytes if client_id_bytes > 0 else 0)
        if topic_at >= end:
            return False
        name_bytes = _TOPIC_ID_BYTES if version == _ID_VERSION else data[topic_at]
        size_at = topic_at + _INDEX_BYTES + name_bytes
        entry = known.get(bytes(data[at + _CLIENT_ID_AT : size_at]))
        stop = end - _TAGS_BYTES
        if entry is None or size_at >= stop - HEADER_BYTES:
            return False
        size, start = data[size_at], size_at + 1
        if size > 127:
            byte = data[start]
            start += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[start]
                start += 1
                size += (byte << 14) - 16384
        # A size of four bytes and tagged fields fail this check too.
        if start + size - 1 != stop or _tags(data, stop) != _NO_TAGS:
            return False
        if data[start + _ATTRIBUTES_LOW_BYTE_AT] & TRANSACTIONAL_BIT:
            return False
        partition = broker.partitions.get(entry.key)
        if partition is None or (version == _ID_VERSION and partition.topic_id != entry.topic[1]):
            return False
        leader, now_ms = partition.leader, broker.clock.now_ms()
        if leader is None or not (
            appended := leader.append_valid(data[start:stop], entry.acks, now_ms)
        ):
            return False
        if (counts := entry.counts) is not None:
            counts[start - size_at] += 1
            counts[_BATCH_BYTES] += size
            counts[_MESSAGES] += appended[1] - appended[0]
        if entry.acks:
            if entry.acks == _ALL and appended[1] > partition.high_watermark:
                call.version = version
                return ParkedProduce(call, entry, correlation_id, partition, leader, appended)
            entry.put(replies, correlation_id, appended)
        if entry.is_limited:
            _charge(entry, call, end - at, now_ms)
            if call.throttle_ms and entry.acks:
                replies.tail[_THROTTLE] = _int32(call.throttle_ms)
        return True

    def note(self, frame: Any, request: Any, response: ProduceResponse | None, call: Call) -> None:
        """Remember a Produce request that the handler has served, if it can be cached.

        `response` is None for acks=0, and for a request that waits: its batch is appended.
        """
        if (
            call.version not in VERSIONS
            or call.wants_close
            or len(request.topic_data) != 1
            or request.transactional_id is not None
            or not -1 <= request.acks <= 1
        ):
            return
        [topic] = request.topic_data
        if len(topic.partition_data) != 1 or topic.partition_data[0].records is None:
            return
        if response is not None and response.responses[0].partition_responses[0].error_code:
            return
        if call.authorizer is not None and call.authorizer.records_all:
            return
        [data] = topic.partition_data
        size_at = _size_at(frame, call.version)
        if size_at > _LONGEST:
            return
        size_bytes = len(encode_uvarint(len(data.records) + 1))
        if size_at + size_bytes + len(data.records) + _TAGS_BYTES != len(frame):
            return  # It has tagged fields, or varints longer than necessary.
        self._remember(bytes(frame[_CLIENT_ID_AT:size_at]), request, call)

    def _remember(self, around: bytes, request: Any, call: Call) -> None:
        """Add an entry, unless requests for the partition are not cached."""
        [topic] = request.topic_data
        name = topic.name
        if call.version >= _ID_VERSION:
            name = call.broker.image.topics_by_id[topic.topic_id].name
        partition = call.broker.partition(name, topic.partition_data[0].index)
        quotas = call.broker.quotas
        if partition.is_internal or (
            # The handler counts the work before and after a wait.
            quotas is not None and request.acks == _ALL and len(partition.replicas) > 1
        ):
            return
        generation = call.broker.image.generation
        if generation != self._generation or self._count >= _MOST:
            self._clear(generation)
        known = self._known.setdefault(call.client.identity, {}).setdefault(call.version, {})
        self._count += around not in known
        entry = RepeatedProduce((partition.topic, partition.index), request, call.version)
        if quotas is not None:
            entry.limit(call.account_of(quotas))
        entry.counts = self._counts_of(entry, around, call)
        known[around] = entry

    def _counts_of(self, entry: RepeatedProduce, around: bytes, call: Call) -> list[int] | None:
        """The counters of a new entry; None while there are no metrics.

        `around` are the bytes from the client id to the partition index.
        """
        return None

    def _clear(self, generation: int) -> None:
        self._known.clear()
        self._count = 0
        self._generation = generation


def _charge(entry: RepeatedProduce, call: Call, size_bytes: int, now_ms: int) -> None:
    """Count a request as `accounting.charge` does."""
    rate = entry.produced
    if rate is not None:
        call.throttle_ms = rate.add(size_bytes, now_ms)
    rate = entry.worked
    if rate is not None:
        if now_ms < rate.ample_until_ms and call.metering.account is entry.account:
            rate.pending_ms = now_ms  # `charge_sending` counts the work.
        else:
            _charge_work(entry, rate, call, now_ms)


def _charge_work(entry: RepeatedProduce, rate: Rate, call: Call, now_ms: int) -> None:
    """Count the work for a request as `accounting.charge` does; it did not wait."""
    quotas, metering = call.broker.quotas, call.metering
    assert entry.account is not None and quotas is not None
    metering.use_account(entry.account, quotas)
    throttle_ms = rate.add(metering.take_work_ns() * PERCENT_PER_NS, now_ms)
    call.throttle_ms = max(throttle_ms, call.throttle_ms)


def _size_at(frame: Any, version: int) -> int:
    """The position of the batch size in a request, computed as `serve` does."""
    topic_at: int = _TOPIC_AT + max(_header(frame)[2], 0)
    return (
        topic_at + _INDEX_BYTES + (_TOPIC_ID_BYTES if version == _ID_VERSION else frame[topic_at])
    )
