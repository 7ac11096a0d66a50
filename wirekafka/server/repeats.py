"""Produce requests that are as one before but for their batch: served without decoding them.

A producer of small batches sends the same bytes around each of them, over and over. The first
such request goes to the handler; then what it came to is remembered by those bytes, and of the
next only the batch is looked at. Whatever is out of the ordinary, a refused batch first of all,
goes to the handler, which tells it. A request takes 7 µs so, and 14 where it is decoded, handled
and its answer encoded (`python -m benchmarks.bare_loop`).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from wirekafka.apis.produce import ProduceRequest, ProduceResponse
from wirekafka.apis.registry import Call
from wirekafka.codec.batch import ATTRIBUTES_AT, HEADER_BYTES, TRANSACTIONAL_BIT
from wirekafka.codec.varint import encode_uvarint

if TYPE_CHECKING:
    from wirekafka.server.dispatch import Replies

_header = Struct(">Iih").unpack_from
_tags = Struct(">BH").unpack_from
_NO_TAGS = (0, 0)
"""The empty tagged sections of the partition, the topic and the request."""
_PARTITION_FORMAT = ">ihqqq"
"""In a response: index, error, base offset, append time and start offset of a partition."""
_MARKS = (0x55667788, 0, 0x1122334455667788, 0x2233445566778811, 0x3344556677881122)
_CLIENT_ID_AT = 8
_TOPIC_AT = 19
"""In a request with a client id of no bytes: behind the header, a null transactional id, acks,
the timeout and the count of topics."""
_INDEX_BYTES = 5
"""The count of partitions and the index of the one."""
_TAGS_BYTES = 3
_TOPIC_ID_BYTES = 16
_ID_VERSION = 13
_VERSIONS = range(9, _ID_VERSION + 1)
LAST_VERSION = _VERSIONS[-1]
"""Of Produce, whose key is 0."""
_ATTRIBUTES_LOW_BYTE_AT = ATTRIBUTES_AT + 1
_MOST = 8192


class _Answer:
    """The response about a partition of one topic, but for the partition and its offsets."""

    __slots__ = ("after", "before", "pack", "size")

    def __init__(self, topic: ProduceRequest.TopicProduceData, version: int):
        kind = ProduceResponse.TopicProduceResponse
        index, _, base_offset, log_append_time_ms, log_start_offset = _MARKS
        encoded = ProduceResponse(responses=[kind(
            name=topic.name, topic_id=topic.topic_id, partition_responses=[
                kind.PartitionProduceResponse(
                    index=index, base_offset=base_offset, log_append_time_ms=log_append_time_ms,
                    log_start_offset=log_start_offset)])]).encode(version)
        before, self.after = encoded.split(Struct(_PARTITION_FORMAT).pack(*_MARKS))
        self.before = b"\0" + before  # The header's tagged section is empty.
        form = f">ii{len(self.before)}s{_PARTITION_FORMAT[1:]}{len(self.after)}s"
        self.pack = Struct(form).pack
        self.size = Struct(form).size - 4


class _Known:
    """A partition written to."""

    __slots__ = ("answer", "key", "topic_id")

    def __init__(self, key: tuple[str, int], topic_id: bytes | None, answer: _Answer | None):
        self.key = key
        self.topic_id = topic_id
        """None where requests tell the topic by its name."""
        self.answer = answer
        """None for acks=0."""


_known: dict[int, dict[bytes, _Known]] = {version: {} for version in _VERSIONS}
"""By version, and by the bytes from the client id to the partition's index."""
_answers: dict[tuple[int, str, bytes], _Answer] = {}


def serve(data: Any, at: int, end: int, call: Call, replies: Replies) -> bool:
    """Serve the Produce request at `data[at:end]` if it is as one before; else nothing is done."""
    version, correlation_id, client_id_bytes = _header(data, at)
    known = _known.get(version)
    topic_at = at + _TOPIC_AT + (client_id_bytes if client_id_bytes > 0 else 0)
    if not known or topic_at >= end:
        return False
    size_at = topic_at + _INDEX_BYTES + (
        _TOPIC_ID_BYTES if version == _ID_VERSION else data[topic_at])
    found = known.get(bytes(data[at + _CLIENT_ID_AT:size_at]))
    stop = end - _TAGS_BYTES
    if found is None or size_at >= stop - HEADER_BYTES:
        return False
    size = data[size_at]
    start = size_at + 1
    if size > 127:
        byte = data[start]
        start += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[start]
            start += 1
            size += (byte << 14) - 16384
    # A size of four bytes, or tagged fields, show here too.
    if start + size - 1 != stop or _tags(data, stop) != _NO_TAGS:
        return False
    if data[start + _ATTRIBUTES_LOW_BYTE_AT] & TRANSACTIONAL_BIT:
        return False
    partition = call.broker.partitions.get(found.key)
    if partition is None or (
            found.topic_id is not None and partition.topic_id != found.topic_id):
        return False
    appended = partition.append_at_once(data[start:stop], call.broker.clock.now_ms())
    if appended is None:
        return False
    answer = found.answer
    if answer is not None:
        replies.tail += answer.pack(
            answer.size, correlation_id, answer.before, found.key[1], 0, appended[0], appended[2],
            appended[3], answer.after)
    return True


def note(frame: Any, request: Any, response: ProduceResponse | None, call: Call) -> None:
    """Remember what a Produce request came to that the handler has answered, if it can be."""
    if (call.version not in _VERSIONS or call.wants_close or len(request.topic_data) != 1
            or request.transactional_id is not None or not -1 <= request.acks <= 1):
        return
    [topic] = request.topic_data
    if len(topic.partition_data) != 1 or topic.partition_data[0].records is None:
        return
    if response is not None and response.responses[0].partition_responses[0].error_code:
        return
    [data] = topic.partition_data
    size_at = _size_at(frame, call.version)
    size_bytes = len(encode_uvarint(len(data.records) + 1))
    if size_at + size_bytes + len(data.records) + _TAGS_BYTES != len(frame):
        return  # With tagged fields, or counts in more bytes than they need.
    around = bytes(frame[_CLIENT_ID_AT:size_at])
    known = _known[call.version]
    if around in known:
        return
    name, topic_id = topic.name, None
    if call.version >= _ID_VERSION:
        topic_id = topic.topic_id
        name = call.broker.image.topics_by_id[topic_id].name
    partition = call.broker.partition(name, data.index)
    if partition.is_internal:
        return
    if len(known) >= _MOST:
        known.clear()
        _answers.clear()
    answer = _answer(topic, call.version) if request.acks else None
    known[around] = _Known((partition.topic, partition.index), topic_id, answer)


def _size_at(frame: Any, version: int) -> int:
    """Where `serve` looks for the size of the batch."""
    topic_at: int = _TOPIC_AT + max(_header(frame)[2], 0)
    return topic_at + _INDEX_BYTES + (
        _TOPIC_ID_BYTES if version == _ID_VERSION else frame[topic_at])


def _answer(topic: ProduceRequest.TopicProduceData, version: int) -> _Answer:
    answer = _answers.get((version, topic.name, topic.topic_id))
    if answer is None:
        answer = _answers[version, topic.name, topic.topic_id] = _Answer(topic, version)
    return answer
