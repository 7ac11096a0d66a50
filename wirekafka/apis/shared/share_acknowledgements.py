"""Acknowledgements in ShareFetch and ShareAcknowledge requests: validation and results."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from wirekafka.coordinator.share_state.states import ShareKey
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.share.acknowledgement import Acknowledgement, AcknowledgeType
from wirekafka.replication.share.sessions import MemberSessionKey, SharedKey
from wirekafka.runtime.promise import Promise

if TYPE_CHECKING:
    from wirekafka.broker import Broker

_LONGEST_MEMBER_ID = 36
_RENEWING_VERSION = 2


class AcknowledgedPartition(NamedTuple):
    """The result for one partition."""

    error: Error = Error.NONE
    message: str | None = None


class ShareRequest(NamedTuple):
    """The parts of a request of a share group's member that both APIs have."""

    broker: Broker
    key: MemberSessionKey
    version: int
    is_renewal: bool


def checked_request(broker: Broker, request: Any, version: int) -> ShareRequest:
    """Check the group and the member of a ShareFetchRequest or a ShareAcknowledgeRequest.

    KafkaError: INVALID_REQUEST.
    """
    group_id, member_id = request.group_id, request.member_id
    if group_id is None or not member_id or len(member_id) > _LONGEST_MEMBER_ID:
        raise KafkaError(Error.INVALID_REQUEST)
    is_renewal = version >= _RENEWING_VERSION and request.is_renew_ack
    return ShareRequest(broker, MemberSessionKey(group_id, member_id), version, is_renewal)


class Acknowledging:
    """The acknowledgements of one request, which are stored while its fetch goes on.

    `readable` are the names of topics that the client may read; others are refused.
    """

    def __init__(self, request: ShareRequest, readable: Container[str]):
        self._request = request
        self._readable = readable
        self._results: dict[SharedKey, AcknowledgedPartition] = {}
        self._empty: list[SharedKey] = []
        self._promises: dict[SharedKey, Promise[None]] = {}

    def begin(self, topics: Iterable[Any]) -> None:
        """Apply the acknowledgements of the request's topics, as far as they are valid."""
        broker = self._request.broker
        wanted: dict[SharedKey, list[Acknowledgement]] = {}
        for topic in topics:
            is_known = topic.topic_id in broker.image.topics_by_id
            for partition in topic.partitions:
                key = topic.topic_id, partition.partition_index
                if not is_known:
                    self._results[key] = AcknowledgedPartition(Error.UNKNOWN_TOPIC_ID)
                    continue
                wanted[key] = [
                    Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                    for batch in partition.acknowledgement_batches
                ]
        for key, acknowledgements in wanted.items():
            self._begin(key, acknowledgements)

    async def results(self) -> dict[SharedKey, AcknowledgedPartition]:
        """Wait until all is stored, and return the results."""
        for key, promise in self._promises.items():
            try:
                await promise
            except KafkaError as error:
                self._results[key] = AcknowledgedPartition(error.error, error.message)
            else:
                self._results[key] = AcknowledgedPartition()
        if self._promises:
            # Without any other acknowledgement, Kafka leaves these out of its response.
            self._results.update(dict.fromkeys(self._empty, AcknowledgedPartition()))
        self._count()
        return self._results

    def _count(self) -> None:
        """Count the topics whose acknowledgements succeeded and failed, as Kafka."""
        broker = self._request.broker
        if broker.measures is not None:
            traffic, topics = broker.measures.traffic, broker.image.topics_by_id
            results = self._results.items()
            for id in {id for (id, _), _ in results} & topics.keys():
                traffic.of(topics[id].name).share_acknowledgements += 1
            for id in {id for (id, _), (error, _) in results if error} & topics.keys():
                traffic.of(topics[id].name).failed_share_acknowledgements += 1

    def _begin(self, key: SharedKey, acknowledgements: Sequence[Acknowledgement]) -> None:
        request = self._request
        topic = request.broker.image.topics_by_id[key[0]]
        if not self._are_valid(acknowledgements):
            self._results[key] = AcknowledgedPartition(Error.INVALID_REQUEST)
        elif topic.name not in self._readable:
            self._results[key] = AcknowledgedPartition(Error.TOPIC_AUTHORIZATION_FAILED)
        elif key[1] not in topic.partitions:
            self._results[key] = AcknowledgedPartition(Error.UNKNOWN_TOPIC_OR_PARTITION)
        elif not acknowledgements:
            self._empty.append(key)
        else:
            self._promises[key] = request.broker.shares.acknowledge(
                ShareKey(request.key.group_id, *key), request.key.member_id, acknowledgements
            )

    def _are_valid(self, acknowledgements: Sequence[Acknowledgement]) -> bool:
        last = -1
        for first, end, types in acknowledgements:
            if first > end or first < last or not types:
                return False
            if len(types) > 1 and len(types) != end - first + 1:
                return False
            if not self._has_valid_types(types):
                return False
            last = end
        return True

    def _has_valid_types(self, types: Sequence[int]) -> bool:
        is_renewing = self._request.version >= _RENEWING_VERSION
        last = AcknowledgeType.RENEW if is_renewing else AcknowledgeType.REJECT
        if min(types) < AcknowledgeType.GAP or max(types) > last:
            return False
        return self._request.is_renewal or AcknowledgeType.RENEW not in types
