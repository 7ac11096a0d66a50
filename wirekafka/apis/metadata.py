"""Metadata: lists the brokers, and topics with their partitions and leaders.

v4: no auto-creation on request, v7: leader epochs (KIP-320), v8: authorized operations (KIP-430),
v10: topic ids (KIP-516), v12: requests by topic id.
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.topic_access import topics_by_id
from wirekafka.apis.shared.turns import Turns
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.topic_names import check_name
from wirekafka.metadata.image.image import PartitionImage, TopicImage
from wirekafka.metadata.image.view import View, controller_for_clients, nodes
from wirekafka.protocol.authorized_operations import NOT_REQUESTED
from wirekafka.protocol.metadata import MetadataRequest, MetadataResponse
from wirekafka.replication.partition.internal_topics import INTERNAL_TOPICS, METADATA_TOPIC
from wirekafka.security.acl import CLUSTER, CREATE, DESCRIBE, TOPIC

_Topic = MetadataResponse.Topic
_Partition = _Topic.Partition
_NO_ID = bytes(16)


@api(MetadataRequest, MetadataResponse)
async def metadata(request: MetadataRequest, call: Call) -> MetadataResponse:
    """Describe the requested topics or all topics; create missing topics where enabled."""
    broker = call.broker
    descriptions = _Descriptions(request, call)
    asks_for_all = request.topics is None or (call.version == 0 and not request.topics)
    if asks_for_all:
        answers = await _all(call, descriptions)
    elif any(topic.topic_id != _NO_ID or topic.name is None for topic in request.topics or ()):
        answers = _by_id(request, call, descriptions)
    else:
        answers = await _by_name(request, call, descriptions)
    reachable = [node for node in nodes(broker.image, call.listener) if not node.broker.fenced]
    return MetadataResponse(
        brokers=[
            MetadataResponse.Broker(
                node_id=node.broker.id, host=node.host, port=node.port, rack=node.broker.rack
            )
            for node in reachable
        ],
        cluster_id=broker.cluster_id,
        controller_id=controller_for_clients(broker.image, broker.node_id),
        topics=answers,
        cluster_authorized_operations=(
            call.cluster_operations()
            if request.include_cluster_authorized_operations
            else NOT_REQUESTED
        ),
    )


class _Descriptions:
    """Describes topics as one request asks: for its listener, version and operations."""

    def __init__(self, request: MetadataRequest, call: Call):
        self._view = View(call.broker.image, call.listener)
        # Before v6 clients know only LEADER_NOT_AVAILABLE for an unreachable leader.
        self._knows_listener_errors = call.version >= 6
        # The first clients took every replica for one of the brokers listed.
        self._omits_unreachable = call.version == 0
        self._call = call
        self._includes_operations = request.include_topic_authorized_operations

    def known(self, topic: TopicImage) -> _Topic:
        return _Topic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=[
                self._partition(topic.partitions[index]) for index in sorted(topic.partitions)
            ],
            topic_authorized_operations=self._operations(topic.name),
        )

    def unknown(self, name: str, error: Error) -> _Topic:
        return _Topic(
            error_code=error,
            name=name,
            is_internal=name in INTERNAL_TOPICS,
            topic_authorized_operations=self._operations(name),
        )

    def _operations(self, name: str) -> int:
        if not self._includes_operations:
            return NOT_REQUESTED
        return self._call.allowed_operations(TOPIC, name)

    def _partition(self, partition: PartitionImage) -> _Partition:
        error, leader_id, offline = self._view.partition(partition)
        if error is Error.LISTENER_NOT_FOUND and not self._knows_listener_errors:
            error = Error.LEADER_NOT_AVAILABLE
        replicas, isr = partition.replicas, partition.isr
        if self._omits_unreachable:
            replicas, isr = self._view.reachable(replicas), self._view.reachable(isr)
            if error is Error.NONE and len(replicas) < len(partition.replicas):
                error = Error.REPLICA_NOT_AVAILABLE
        return _Partition(
            error_code=error,
            partition_index=partition.index,
            leader_id=leader_id,
            leader_epoch=partition.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=offline,
        )


async def _all(call: Call, descriptions: _Descriptions) -> list[_Topic]:
    turns = Turns()
    answers = []
    for topic in list(call.broker.image.topics.values()):
        if call.may(DESCRIBE, TOPIC, topic.name):
            answers.append(descriptions.known(topic))
            await turns.step(len(topic.partitions))
        await turns.step()
    return answers


def _by_id(request: MetadataRequest, call: Call, descriptions: _Descriptions) -> list[_Topic]:
    """Describe topics by id; names beside ids are ignored, as in Kafka."""
    if call.version < 12:
        raise KafkaError(Error.INVALID_REQUEST)
    wanted = {topic.topic_id: topic for topic in request.topics or () if topic.topic_id != _NO_ID}
    if not wanted:
        raise KafkaError(Error.UNKNOWN_SERVER_ERROR)
    found = topics_by_id(list(wanted.values()), DESCRIBE, call)
    return [
        descriptions.known(topic)
        if isinstance(topic, TopicImage)
        else _Topic(error_code=topic, name=None, topic_id=topic_id)
        for topic_id, topic in zip(wanted, found, strict=True)
    ]


async def _by_name(
    request: MetadataRequest, call: Call, descriptions: _Descriptions
) -> list[_Topic]:
    names = dict.fromkeys(topic.name or "" for topic in request.topics or ())
    topics = call.broker.image.topics
    turns = Turns()
    may_describe = await turns.authorized(call, DESCRIBE, TOPIC, names)
    hidden = [name for name in names if name not in may_describe]
    names = {name: None for name in names if name in may_describe}
    answers = await turns.map(
        lambda name: descriptions.known(topics[name]), [name for name in names if name in topics]
    )
    missing = {name: _why_missing(name) for name in names if name not in topics}
    if request.allow_auto_topic_creation and call.broker.config.auto_create_topics_enable:
        if missing and not call.may(CREATE, CLUSTER):
            may_create = call.authorized(CREATE, TOPIC, missing)
            hidden += [name for name in missing if name not in may_create]
            missing = {name: error for name, error in missing.items() if name in may_create}
        # Topics created here are still reported as missing, as in Kafka: clients retry, and a
        # check whether a topic exists must not find the topic that the check created.
        await _create(
            [name for name, error in missing.items() if error is Error.UNKNOWN_TOPIC_OR_PARTITION],
            call,
        )
    return [
        *answers,
        *(descriptions.unknown(name, error) for name, error in missing.items()),
        *(_Topic(error_code=Error.TOPIC_AUTHORIZATION_FAILED, name=name) for name in hidden),
    ]


async def _create(names: list[str], call: Call) -> None:
    wanted = [name for name in names if name != METADATA_TOPIC]
    if wanted:
        await call.broker.auto_creation.create(wanted, call)


def _why_missing(name: str) -> Error:
    try:
        check_name(name)
    except KafkaError as error:
        return error.error
    return Error.UNKNOWN_TOPIC_OR_PARTITION


@failure_of(metadata)
def metadata_failure(request: MetadataRequest, error: KafkaError, call: Call) -> MetadataResponse:
    """Report the error for every topic of the request."""
    return MetadataResponse(
        topics=[
            _Topic(error_code=error.error, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.topics or ()
        ],
        error_code=error.error,
    )
