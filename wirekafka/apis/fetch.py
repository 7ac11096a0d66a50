"""Fetch: reads batches, waiting for new ones;
v7: sessions (KIP-227), v12: epochs (KIP-595), v13: topic ids (KIP-516).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import (
    Int8,
    Int16,
    Int32,
    Int64,
    Part,
    Records,
    Request,
    Response,
    String,
    Uuid,
    field,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.replication import partition as replicas
from wirekafka.replication.fetch_sessions import FetchTarget, Key, Told, Wanted
from wirekafka.replication.partition import ReadRange, ReadResult
from wirekafka.replication.waiting import Watched


class FetchRequest(Request, key=1, versions="4-18", flexible="12+"):
    cluster_id: String | None = field("12+", default=None, tag=0)
    replica_id: Int32 = field("4-14", default=-1)
    replica_state: ReplicaState = field("15+", tag=1)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(default=2147483647)
    isolation_level: Int8
    session_id: Int32 = field("7+")
    session_epoch: Int32 = field("7+", default=-1)
    topics: list[Topic]
    forgotten_topics_data: list[ForgottenTopic] = field("7+")
    rack_id: String = field("11+")

    class ReplicaState(Part):
        replica_id: Int32 = field(default=-1)
        replica_epoch: Int64 = field(default=-1)

    class Topic(Part):
        topic: String = field("4-12")
        topic_id: Uuid = field("13+")
        partitions: list[Partition]

        class Partition(Part):
            partition: Int32
            current_leader_epoch: Int32 = field("9+", default=-1)
            fetch_offset: Int64
            last_fetched_epoch: Int32 = field("12+", default=-1)
            log_start_offset: Int64 = field("5+", default=-1)
            partition_max_bytes: Int32
            replica_directory_id: Uuid = field("17+", tag=0)
            high_watermark: Int64 = field("18+", default=9223372036854775807, tag=1)

    class ForgottenTopic(Part):
        topic: String = field("7-12")
        topic_id: Uuid = field("13+")
        partitions: list[Int32]


class FetchResponse(Response, answers=FetchRequest):
    throttle_time_ms: Int32
    error_code: Int16 = field("7+")
    session_id: Int32 = field("7+")
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0)

    class FetchableTopicResponse(Part):
        topic: String = field("4-12")
        topic_id: Uuid = field("13+")
        partitions: list[PartitionData]

        class PartitionData(Part):
            partition_index: Int32
            error_code: Int16
            high_watermark: Int64
            last_stable_offset: Int64 = field(default=-1)
            log_start_offset: Int64 = field("5+", default=-1)
            diverging_epoch: EpochEndOffset = field("12+", tag=0)
            current_leader: LeaderIdAndEpoch = field("12+", tag=1)
            snapshot_id: SnapshotId = field("12+", tag=2)
            aborted_transactions: list[AbortedTransaction] | None = field(default=[])
            preferred_read_replica: Int32 = field("11+", default=-1)
            records: Records | None = field(default=b"")

            class EpochEndOffset(Part):
                epoch: Int32 = field(default=-1)
                end_offset: Int64 = field(default=-1)

            class LeaderIdAndEpoch(Part):
                leader_id: Int32 = field(default=-1)
                leader_epoch: Int32 = field(default=-1)

            class SnapshotId(Part):
                end_offset: Int64 = field(default=-1)
                epoch: Int32 = field(default=-1)

            class AbortedTransaction(Part):
                producer_id: Int64
                first_offset: Int64

    class NodeEndpoint(Part):
        node_id: Int32
        host: String
        port: Int32
        rack: String | None = field(default=None)


_TopicResponse = FetchResponse.FetchableTopicResponse
_PartitionData = _TopicResponse.PartitionData

_SENT_FROM_FILE_BYTES = 1 << 15
"""Larger slices stay in their file until the connection sends them, those below are read."""
_CONSUMER = -1
_READ_COMMITTED = 1


@api(FetchRequest, FetchResponse)
async def fetch(request: FetchRequest, call: Call) -> FetchResponse:
    """Read what is wanted, waiting for `min_bytes` of it, and tell what is new to the fetcher."""
    broker = call.broker
    now_ms = call.now_ms
    if request.isolation_level not in (0, _READ_COMMITTED):
        raise KafkaError(Error.UNKNOWN_SERVER_ERROR)
    target = _target(request, call.version)
    context = broker.sessions.open(target, now_ms)
    if target.wanted and not target.is_follower:
        readers = broker.readers
        reader = readers.reader(call.connection_id, call.client_id or "", call.client_host)
        readers.note(reader, target.wanted, now_ms)
    fetching = _Fetching(request, call, list(context.wanted))
    fetching.read()
    if not fetching.is_ready and request.max_wait_ms > 0:
        await broker.waiting.until(fetching.has_become_ready, fetching.watched(),
                                   now_ms + request.max_wait_ms)
        fetching.read()
    session_id, unchanged = context.settle(fetching.told(), call.now_ms)
    return fetching.response(session_id, unchanged)


def _target(request: FetchRequest, version: int) -> FetchTarget:
    by_id = version >= 13
    wanted: dict[Key, Wanted] = {}
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.topic
        for asked in topic.partitions:
            # A partition named twice counts once, as it was named last.
            wanted[name, asked.partition] = Wanted(
                name, asked.partition, fetch_offset=asked.fetch_offset,
                max_bytes=asked.partition_max_bytes,
                current_leader_epoch=max(asked.current_leader_epoch, -1),
                last_fetched_epoch=max(asked.last_fetched_epoch, -1))
    forgotten: list[Key] = [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data for index in topic.partitions]
    return FetchTarget(
        session_id=request.session_id, epoch=request.session_epoch,
        wanted=list(wanted.values()),
        forgotten=forgotten, uses_topic_ids=by_id, is_follower=_replica_id(request) >= 0)


def _replica_id(request: FetchRequest) -> int:
    """Who fetches: -1 a consumer, -2 a debugger, else a follower (KIP-903 moved the field)."""
    return max(request.replica_id, request.replica_state.replica_id)


class _Found:
    """One partition of a fetch: what is wanted, and what a read of it gave (a session's `Told`)."""

    __slots__ = ("error", "partition", "result", "wanted")

    def __init__(self, wanted: Wanted):
        self.wanted = wanted
        self.partition: replicas.Partition | None = None
        self.result = _NOTHING
        self.error = Error.NONE

    @property
    def size_bytes(self) -> int:
        records = self.result.records
        return records.size_bytes if records is not None else 0

    @property
    def high_watermark(self) -> int:
        return self.result.high_watermark

    @property
    def start_offset(self) -> int:
        return self.result.start_offset

    @property
    def has_records(self) -> bool:
        return self.size_bytes > 0

    @property
    def has_error(self) -> bool:
        return self.error is not Error.NONE

    @property
    def is_notable(self) -> bool:
        return self.result.diverging is not None


_NOTHING = ReadResult()


class _Fetching:
    """The reads of one request, which can be done over when there is more."""

    __slots__ = ("_broker", "_by_partition", "_call", "_found", "_is_final", "_max_bytes",
                 "_min_bytes", "_reading", "_refuses_zstd", "_replica_id", "_size_bytes")

    def __init__(self, request: FetchRequest, call: Call, wanted: list[Wanted]):
        self._broker = call.broker
        self._call = call
        self._found = [_Found(each) for each in wanted]
        self._replica_id = _replica_id(request)
        # One for all partitions: what is wanted of each is written over it in turn.
        self._reading = ReadRange(
            offset=0, max_bytes=0, committed=request.isolation_level == _READ_COMMITTED,
            to_log_end=self._replica_id != _CONSUMER)
        self._refuses_zstd = call.version < 10
        self._max_bytes = min(request.max_bytes, call.broker.config.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._size_bytes = 0
        self._is_final = False
        self._by_partition: dict[Watched, _Found] = {}

    @property
    def is_ready(self) -> bool:
        """Whether there is enough to answer, or something that must not wait."""
        return self._is_final or self._size_bytes >= self._min_bytes

    def read(self) -> None:
        """Read every partition, as far as the limits allow.

        The first batch of the first partition that has any is read whatever its size: a fetcher
        with too small limits gets on all the same.
        """
        left_bytes = self._max_bytes
        self._size_bytes = unknown = 0
        for found in self._found:
            found.error, found.result, found.partition = Error.NONE, _NOTHING, None
            try:
                found.partition = partition = self._partition(found.wanted)
            except KafkaError as error:
                found.error = error.error
                unknown += 1
                continue
            try:
                if self._replica_id >= 0:
                    partition.check_follower(self._replica_id)
                found.result = self._read_one(partition, found.wanted, left_bytes)
            except KafkaError as error:
                found.error = error.error
                self._is_final = True
                continue
            if found.result.diverging is not None:
                self._is_final = True
            size_bytes = found.size_bytes
            if size_bytes:
                self._size_bytes += size_bytes
                left_bytes = max(left_bytes - size_bytes, 0)
        # Unknown partitions alone do not hasten the answer: a client would ask in a busy loop.
        self._is_final = self._is_final or unknown == len(self._found)
        if unknown:
            self._found.sort(key=lambda found: found.partition is None)

    def watched(self) -> Iterable[Watched]:
        """What to wait for."""
        self._by_partition = {found.partition: found for found in self._found
                              if found.partition is not None}
        return self._by_partition

    def has_become_ready(self, changed: Watched) -> bool:
        """Whether, after a change, there is enough to answer."""
        found = self._by_partition.get(changed)
        if found is None or found.partition is None or self._has_ended(found.partition):
            return True
        if self._min_bytes <= 1:
            return found.wanted.fetch_offset != self._end_offset(found.partition)
        # Only what changed is looked at: with many partitions, every append would cost them all.
        before_bytes = found.size_bytes
        try:
            found.result = self._read_one(found.partition, found.wanted, self._max_bytes)
        except KafkaError:
            return True
        self._size_bytes += found.size_bytes - before_bytes
        return self._size_bytes >= self._min_bytes

    def told(self) -> Iterator[tuple[Wanted, Told]]:
        """What the response says, for the session to remember."""
        return ((found.wanted, found) for found in self._found)

    def response(self, session_id: int, unchanged: set[Key]) -> FetchResponse:
        """The response, without the partitions that are `unchanged`."""
        by_id = self._call.version >= 13
        topics: list[_TopicResponse] = []
        latest: str | bytes | None = None
        moved = False
        for found in self._found:
            if unchanged and found.wanted.key in unchanged:
                continue
            topic = found.wanted.topic
            if topic != latest:
                latest = topic
                topics.append(_TopicResponse(topic_id=topic) if by_id
                              else _TopicResponse(topic=topic))
            topics[-1].partitions.append(self._partition_data(found))
            moved = moved or found.error in _MOVED
        return FetchResponse(session_id=session_id, responses=topics,
                             node_endpoints=self._node_endpoints() if moved else [])

    def _partition(self, wanted: Wanted) -> replicas.Partition:
        topic = wanted.topic
        if isinstance(topic, bytes):
            return self._broker.partition_by_id(topic, wanted.partition)
        partition = (self._broker.partitions.get((topic, wanted.partition))
                     or self._broker.partition(topic, wanted.partition))
        if self._refuses_zstd and partition.log.config.compression_type == "zstd":
            raise KafkaError(Error.UNSUPPORTED_COMPRESSION_TYPE)
        return partition

    def _read_one(self, partition: replicas.Partition, wanted: Wanted,
                  left_bytes: int) -> ReadResult:
        reading = self._reading
        reading.offset = wanted.fetch_offset
        reading.max_bytes = min(wanted.max_bytes, left_bytes)
        reading.at_least_one = self._size_bytes == 0
        reading.current_leader_epoch = wanted.current_leader_epoch
        reading.last_fetched_epoch = wanted.last_fetched_epoch
        return partition.read(reading)

    def _has_ended(self, partition: replicas.Partition) -> bool:
        """Whether it is led elsewhere by now, or gone."""
        key = partition.topic, partition.index
        return not partition.is_leader or self._broker.partitions.get(key) is not partition

    def _end_offset(self, partition: replicas.Partition) -> int:
        if self._reading.to_log_end:
            return partition.log.end_offset
        if self._reading.committed:
            return partition.last_stable_offset
        return partition.high_watermark

    def _partition_data(self, found: _Found) -> _PartitionData:
        result = found.result
        data = _PartitionData(
            partition_index=found.wanted.partition, error_code=found.error,
            high_watermark=result.high_watermark, last_stable_offset=result.last_stable_offset,
            log_start_offset=result.start_offset)
        if found.partition is not None:
            data.aborted_transactions = self._aborted(found, found.partition)
        records = result.records
        if records is not None and records.size_bytes:
            found.wanted.sent_bytes = records.size_bytes
            data.records = (records,) if records.size_bytes >= _SENT_FROM_FILE_BYTES else records
        if result.diverging is not None:
            epoch, end_offset = result.diverging
            data.diverging_epoch = _PartitionData.EpochEndOffset(
                epoch=epoch, end_offset=end_offset)
        if found.error in _MOVED and found.partition is not None:
            data.current_leader = _PartitionData.LeaderIdAndEpoch(
                leader_id=found.partition.leader_id, leader_epoch=found.partition.leader_epoch)
        return data

    def _aborted(self, found: _Found,
                 partition: replicas.Partition) -> list[_PartitionData.AbortedTransaction] | None:
        """Null unless read_committed, as in Kafka."""
        if not self._reading.committed or found.error is not Error.NONE:
            return None
        if not found.size_bytes:
            return []
        return [_PartitionData.AbortedTransaction(
                    producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                for aborted in partition.log.aborted_transactions(
                    found.wanted.fetch_offset, found.result.last_stable_offset)]

    def _node_endpoints(self) -> list[FetchResponse.NodeEndpoint]:
        return [FetchResponse.NodeEndpoint(node_id=node.id, host=node.host, port=node.port,
                                           rack=node.rack)
                for node in self._broker.nodes(self._call.listener)]


_MOVED = frozenset({Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH})
"""Errors that name the leader a client should go to (KIP-951)."""


_SESSION_ERRORS = frozenset({
    Error.FETCH_SESSION_ID_NOT_FOUND, Error.INVALID_FETCH_SESSION_EPOCH,
    Error.FETCH_SESSION_TOPIC_ID_ERROR})


def fetch_failure(request: FetchRequest, error: KafkaError, call: Call) -> FetchResponse:
    """A session error is told at the top alone, any other of each partition too."""
    if error.error in _SESSION_ERRORS:
        return FetchResponse(error_code=error.error)
    return FetchResponse(error_code=error.error, responses=[] if call.version >= 13 else [
        _TopicResponse(topic=topic.topic, partitions=[
            _PartitionData(partition_index=asked.partition, error_code=error.error,
                           high_watermark=-1)
            for asked in topic.partitions])
        for topic in request.topics])
