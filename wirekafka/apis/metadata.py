"""Metadata: tells brokers, topics and leaders;
v4: opt out of auto-creation, v7: leader epochs (KIP-320), v12: by topic id (KIP-516).
"""

from __future__ import annotations

import logging

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import (
    Bool,
    Int16,
    Int32,
    Part,
    Request,
    Response,
    String,
    Uuid,
    field,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata import operations
from wirekafka.metadata.image import PartitionImage, TopicImage, is_internal
from wirekafka.metadata.topic_names import check_name
from wirekafka.metadata.view import View, nodes


class MetadataRequest(Request, key=3, versions="0-13", flexible="9+"):
    topics: list[Topic] | None = field(nullable="1+", default=[])
    allow_auto_topic_creation: Bool = field("4+", default=True)
    include_cluster_authorized_operations: Bool = field("8-10")
    include_topic_authorized_operations: Bool = field("8+")

    class Topic(Part):
        topic_id: Uuid = field("10+")
        name: String | None = field(nullable="10+", default="")


class MetadataResponse(Response, answers=MetadataRequest):
    throttle_time_ms: Int32 = field("3+")
    brokers: list[Broker]
    cluster_id: String | None = field("2+", default=None)
    controller_id: Int32 = field("1+", default=-1)
    topics: list[Topic]
    cluster_authorized_operations: Int32 = field("8-10", default=-2147483648)
    error_code: Int16 = field("13+")

    class Broker(Part):
        node_id: Int32
        host: String
        port: Int32
        rack: String | None = field("1+", default=None)

    class Topic(Part):
        error_code: Int16
        name: String | None = field(nullable="12+", default="")
        topic_id: Uuid = field("10+")
        is_internal: Bool = field("1+")
        partitions: list[Partition]
        topic_authorized_operations: Int32 = field("8+", default=-2147483648)

        class Partition(Part):
            error_code: Int16
            partition_index: Int32
            leader_id: Int32
            leader_epoch: Int32 = field("7+", default=-1)
            replica_nodes: list[Int32]
            isr_nodes: list[Int32]
            offline_replicas: list[Int32] = field("5+")


_Topic = MetadataResponse.Topic
_Partition = _Topic.Partition
_NO_ID = bytes(16)
_METADATA_TOPIC = "__cluster_metadata"

logger = logging.getLogger(__name__)


@api(MetadataRequest, MetadataResponse)
async def metadata(request: MetadataRequest, call: Call) -> MetadataResponse:
    """Tell who serves what, creating topics that are asked for and may come into being."""
    broker = call.broker
    teller = _Teller(request, call)
    asks_for_all = request.topics is None or (call.version == 0 and not request.topics)
    if asks_for_all:
        answers = [teller.known(topic) for topic in broker.image.topics.values()]
    elif any(topic.topic_id != _NO_ID or topic.name is None for topic in request.topics or ()):
        answers = _by_id(request, call, teller)
    else:
        answers = await _by_name(request, call, teller)
    reachable = [node for node in nodes(broker.image, call.listener) if not node.broker.fenced]
    return MetadataResponse(
        brokers=[
            MetadataResponse.Broker(
                node_id=node.broker.id, host=node.host, port=node.port, rack=node.broker.rack)
            for node in reachable
        ],
        cluster_id=broker.cluster_id,
        # Any broker passes on what is for the controller; asking this one saves a way.
        controller_id=broker.node_id,
        topics=answers,
        cluster_authorized_operations=(
            operations.ON_CLUSTER if request.include_cluster_authorized_operations
            else operations.NOT_ASKED),
    )


class _Teller:
    """Puts topics into the words of one request."""

    def __init__(self, request: MetadataRequest, call: Call):
        self._view = View(call.broker.image, call.listener)
        # Before v6 a client knows of one kind of missing leader.
        self._tells_listeners = call.version >= 6
        self._operations = (operations.ON_TOPIC if request.include_topic_authorized_operations
                            else operations.NOT_ASKED)

    def known(self, topic: TopicImage) -> _Topic:
        return _Topic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=is_internal(topic.name),
            partitions=[self._partition(topic.partitions[index])
                        for index in sorted(topic.partitions)],
            topic_authorized_operations=self._operations,
        )

    def unknown(self, name: str, error: Error) -> _Topic:
        return _Topic(
            error_code=error,
            name=name,
            is_internal=is_internal(name),
            topic_authorized_operations=self._operations,
        )

    def _partition(self, partition: PartitionImage) -> _Partition:
        error, leader_id, offline = self._view.partition(partition)
        if error is Error.LISTENER_NOT_FOUND and not self._tells_listeners:
            error = Error.LEADER_NOT_AVAILABLE
        return _Partition(
            error_code=error,
            partition_index=partition.index,
            leader_id=leader_id,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
            offline_replicas=offline,
        )


def _by_id(request: MetadataRequest, call: Call, teller: _Teller) -> list[_Topic]:
    """Names beside ids are not looked at, as Kafka does it."""
    if call.version < 12:
        raise KafkaError(Error.INVALID_REQUEST)
    wanted = {topic.topic_id: None for topic in request.topics or () if topic.topic_id != _NO_ID}
    if not wanted:
        raise KafkaError(Error.UNKNOWN_SERVER_ERROR)
    answers = []
    for topic_id in wanted:
        topic = call.broker.image.topics_by_id.get(topic_id)
        if topic is not None:
            answers.append(teller.known(topic))
        else:
            answers.append(_Topic(error_code=Error.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id))
    return answers


async def _by_name(request: MetadataRequest, call: Call, teller: _Teller) -> list[_Topic]:
    names = dict.fromkeys(topic.name or "" for topic in request.topics or ())
    topics = call.broker.image.topics
    answers = [teller.known(topics[name]) for name in names if name in topics]
    missing = {name: _why_missing(name) for name in names if name not in topics}
    if request.allow_auto_topic_creation and call.broker.config.auto_create_topics_enable:
        # What was missing is told to be missing even so: a client asks again, and a look at
        # whether a topic is there must not find what the look itself brought about.
        await _create([name for name, error in missing.items()
                       if error is Error.UNKNOWN_TOPIC_OR_PARTITION], call)
    return answers + [teller.unknown(name, error) for name, error in missing.items()]


async def _create(names: list[str], call: Call) -> None:
    wanted = [name for name in names if name != _METADATA_TOPIC]
    if not wanted:
        return
    try:
        await call.broker.auto_creation.create(wanted)
    except KafkaError as error:
        logger.warning("Topics %s could not be created: %s", wanted[:10], error)


def _why_missing(name: str) -> Error:
    try:
        check_name(name)
    except KafkaError as error:
        return error.error
    return Error.UNKNOWN_TOPIC_OR_PARTITION


def metadata_failure(request: MetadataRequest, error: KafkaError, call: Call) -> MetadataResponse:
    """Every topic that was asked for fails the same way."""
    return MetadataResponse(
        topics=[
            _Topic(error_code=error.error, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.topics or ()
        ],
        error_code=error.error,
    )
