"""A follower's Fetch: its frames with less work than the codec has, where they have a usual shape.

A busy partition is fetched some thousand times a second, or some dozen partitions at once. Between
two requests of a session only a few numbers change, and most responses have neither errors nor
anything else than offsets and records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

from wirekafka.codec.frame import CORRELATION_ID_AT, decode_response, encode_request
from wirekafka.codec.message import UnencodableMessage
from wirekafka.codec.outgoing_request import OutgoingRequest
from wirekafka.codec.varint import encode_uvarint
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error
from wirekafka.protocol.fetch import FetchRequest, FetchResponse
from wirekafka.replication.fetching.fetcher import FetchedPartition
from wirekafka.replication.fetching.fetcher_session import FollowedKey, PartitionFetch, Plan

_PartitionData = FetchResponse.FetchableTopicResponse.PartitionData
_NOT_DIVERGING = _PartitionData().diverging_epoch
"""The default, which most partitions of a response share."""

_HAS_TOPIC_IDS_SINCE = 13
"""The first version whose frames are written and read here; the layouts are of this version."""
_NONE, _NO_TAGS = 1, b"\0"
"""An empty array's size, as a compact array has it, and no tagged fields."""
_INT32 = Struct(">i")
_NO_ERROR = int(Error.NONE)
_new: Any = tuple.__new__  # Half the price of a NamedTuple's own constructor.

_WANTED = Struct(">iiqiqiB")
"""One partition of a request: its index, the fields of a `PartitionFetch`, most bytes, no tags."""

_HEAD = Struct(">iBihiB")
"""Of a response: correlation id, no tags, throttle time, error, session id, number of topics."""
_TOPIC = Struct(">16sB")
"""Topic id and number of partitions."""
_FOUND = Struct(">ihqqqBiB")
"""Index, error, high watermark, last stable and log start offset, number of aborted transactions,
preferred replica, and the first byte of the records' size."""


class LeaderResponse(NamedTuple):
    """The parts of a Fetch response that a follower needs."""

    error: int
    session_id: int
    partitions: Sequence[tuple[FollowedKey, FetchedPartition]]


@dataclass(frozen=True, slots=True)
class Terms:
    """The fields that all requests of a follower share until the configuration changes."""

    node_id: int
    broker_epoch: int
    config: BrokerConfig


class FollowerFetch(OutgoingRequest):
    """The Fetch requests of one follower to one leader, one after the other.

    Its response is a `LeaderResponse`.
    """

    __slots__ = ("_broker_epoch", "_config", "_node_id", "_plan", "_template")

    def __init__(
        self, node_id: int, config: Callable[[], BrokerConfig], broker_epoch: Callable[[], int]
    ):
        super().__init__(FetchRequest())
        self._node_id = node_id
        self._config = config
        self._broker_epoch = broker_epoch
        self._plan = Plan(0, 0, {}, [])
        self._template: FetchTemplate | None = None

    def planned(self, plan: Plan) -> FollowerFetch:
        """Return this, which sends `plan` from now on."""
        self._plan = plan
        return self

    def encode(self, correlation_id: int, client_id: str, version: int) -> bytes:
        plan = self._plan
        config = self._config()
        epoch = self._broker_epoch()
        if version < _HAS_TOPIC_IDS_SINCE or plan.forgotten:
            request = fetch_request(plan, Terms(self._node_id, epoch, config))
            return encode_request(correlation_id, client_id, request, version)
        template = self._template
        if template is None or not template.suits(plan.session_id, config, epoch, version):
            terms = Terms(self._node_id, epoch, config)
            template = self._template = FetchTemplate(plan.session_id, terms, client_id, version)
        try:
            return template.fill(correlation_id, plan)
        except StructError as error:
            raise UnencodableMessage(f"FetchRequest: {error}") from error

    def decode(self, frame: memoryview, version: int) -> LeaderResponse:
        if version >= _HAS_TOPIC_IDS_SINCE:
            usual = decode_usual(frame)
            if usual is not None:
                return usual
        return leader_response(decode_response(FetchResponse, version, frame)[1])


class FetchTemplate:
    """Encodes Fetch requests that forget no partition, and packs only their changing fields.

    These are the correlation id, the session's epoch, and the partitions. Fast twin of
    `wirekafka.replication.fetching.follower_fetch.fetch_request` and of the codec.
    """

    __slots__ = ("_epoch_at", "_head", "_session_id", "_tail", "_terms", "_version")

    def __init__(self, session_id: int, terms: Terms, client_id: str, version: int):
        self._session_id = session_id
        self._terms = terms
        self._version = version
        one, other = (
            encode_request(
                0, client_id, fetch_request(Plan(session_id, epoch, {}, []), terms), version
            )
            for epoch in (0, -1)
        )
        self._epoch_at = next(at for at, byte in enumerate(one) if byte != other[at])
        topics_at = self._epoch_at + _INT32.size
        self._head = bytearray(one[:topics_at])
        self._tail = one[topics_at + 1 :]

    def suits(self, session_id: int, config: BrokerConfig, broker_epoch: int, version: int) -> bool:
        """Whether requests of the session still have all else in common."""
        terms = self._terms
        return (
            session_id == self._session_id
            and config is terms.config
            and broker_epoch == terms.broker_epoch
            and version == self._version
        )

    def fill(self, correlation_id: int, plan: Plan) -> bytes:
        """Return the frame of a request."""
        head, pack = self._head, _WANTED.pack
        max_bytes = self._terms.config.replica_fetch_max_bytes
        chunks: list[bytes | bytearray] = [head, b""]
        count = _NONE
        for topic_id, wanted in groupby(plan.wanted.items(), _topic_of):
            found = [pack(index, *at, max_bytes, 0) for (_, index), at in wanted]
            chunks += (topic_id, encode_uvarint(_NONE + len(found)), *found, _NO_TAGS)
            count += 1
        chunks[1] = encode_uvarint(count)
        chunks.append(self._tail)
        _INT32.pack_into(head, 0, sum(map(len, chunks)) - _INT32.size)
        _INT32.pack_into(head, CORRELATION_ID_AT, correlation_id)
        _INT32.pack_into(head, self._epoch_at, plan.session_epoch)
        return b"".join(chunks)


def fetch_request(plan: Plan, terms: Terms) -> FetchRequest:
    """Return the message of any planned request."""
    config, node_id = terms.config, terms.node_id
    return FetchRequest(
        replica_id=node_id,
        replica_state=FetchRequest.ReplicaState(
            replica_id=node_id, replica_epoch=terms.broker_epoch
        ),
        max_wait_ms=config.replica_fetch_wait_max_ms,
        min_bytes=config.replica_fetch_min_bytes,
        max_bytes=config.replica_fetch_response_max_bytes,
        session_id=plan.session_id,
        session_epoch=plan.session_epoch,
        topics=_topics(plan, config.replica_fetch_max_bytes),
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(topic_id=topic_id, partitions=[index for _, index in keys])
            for topic_id, keys in groupby(sorted(plan.forgotten), lambda key: key[0])
        ],
    )


def leader_response(response: FetchResponse) -> LeaderResponse:
    """Return the parts of any response that a follower needs."""
    return LeaderResponse(
        response.error_code,
        response.session_id,
        [
            ((topic.topic_id, data.partition_index), _fetched(data))
            for topic in response.responses
            for data in topic.partitions
        ],
    )


def decode_usual(frame: memoryview) -> LeaderResponse | None:
    """Decode a response that has no error and no tagged field, since version 13.

    None for any other, which may be malformed. Fast twin of
    `wirekafka.replication.fetching.follower_fetch.leader_response` and of the codec.
    """
    try:
        _, header_tags, _, error, session_id, topics = _HEAD.unpack_from(frame)
        if header_tags or error or not _NONE <= topics < 128:
            return None
        at = _HEAD.size
        found: list[tuple[FollowedKey, FetchedPartition]] = []
        for _ in range(topics - _NONE):
            topic_id, partitions = _TOPIC.unpack_from(frame, at)
            if not _NONE <= partitions < 128:
                return None
            at = _decode_partitions(frame, at + _TOPIC.size, topic_id, partitions - _NONE, found)
            if not at or frame[at]:
                return None
            at += 1
        if frame[at] or at + 1 != len(frame):
            return None
    except (StructError, IndexError):
        return None
    response: LeaderResponse = _new(LeaderResponse, (_NO_ERROR, session_id, found))
    return response


def _decode_partitions(
    frame: memoryview,
    at: int,
    topic_id: bytes,
    count: int,
    found: list[tuple[FollowedKey, FetchedPartition]],
) -> int:
    """Decode partitions of a topic, and return the position after them; 0 if one is unusual."""
    for _ in range(count):
        index, error, high_watermark, _, start_offset, aborted, _, size = _FOUND.unpack_from(
            frame, at
        )
        if error or aborted > _NONE:
            return 0
        at += _FOUND.size
        if size > 127:
            byte = frame[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = frame[at]
                at += 1
                size += (byte << 14) - 16384
                if byte > 127:
                    return 0
        end = at + size - 1 if size else at  # 0 is null.
        if frame[end]:
            return 0
        fetched = FetchedPartition(
            error=_NO_ERROR,
            high_watermark=high_watermark,
            start_offset=start_offset,
            records=frame[at:end],
        )
        found.append(((topic_id, index), fetched))
        at = end + 1
    return at


def _topics(plan: Plan, max_bytes: int) -> list[FetchRequest.Topic]:
    """Group partitions by topic, in their order, since the leader serves them in that order."""
    topics = []
    for topic_id, wanted in groupby(plan.wanted.items(), _topic_of):
        partitions = [
            FetchRequest.Topic.Partition(
                partition=index,
                current_leader_epoch=at.leader_epoch,
                fetch_offset=at.fetch_offset,
                last_fetched_epoch=at.last_fetched_epoch,
                log_start_offset=at.log_start_offset,
                partition_max_bytes=max_bytes,
            )
            for (_, index), at in wanted
        ]
        topics.append(FetchRequest.Topic(topic_id=topic_id, partitions=partitions))
    return topics


def _fetched(data: Any) -> FetchedPartition:
    diverging = data.diverging_epoch
    return FetchedPartition(
        error=data.error_code,
        high_watermark=data.high_watermark,
        start_offset=data.log_start_offset,
        diverging=None
        if diverging is _NOT_DIVERGING or (diverging.epoch < 0 and diverging.end_offset < 0)
        else (diverging.epoch, diverging.end_offset),
        records=data.records or b"",
    )


def _topic_of(wanted: tuple[FollowedKey, PartitionFetch]) -> bytes:
    return wanted[0][0]
