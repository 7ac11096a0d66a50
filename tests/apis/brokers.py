"""Registers further brokers at the controller of an in-process broker, and plays followers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.in_process import InProcessBroker, now
from wirekafka.metadata.controller.heartbeats import BrokerHeartbeat
from wirekafka.metadata.controller.registration import Endpoint, RegisterBroker
from wirekafka.metadata.controller.topics import CreateTopics, NewTopic
from wirekafka.protocol.fetch import FetchRequest


def register(kafka: InProcessBroker, id: int, rack: str | None = None) -> int:
    """Register and unfence a broker without a process; returns its broker epoch."""
    controller = kafka.broker.controller
    epoch: int = now(
        controller.submit(
            RegisterBroker(
                id=id,
                incarnation_id=id.to_bytes(16),
                epoch=controller.quorum.end_offset,
                endpoints=[Endpoint("PLAINTEXT", f"host{id}", 9092)],
                rack=rack,
                log_dirs=[bytes([id]) * 16],
            )
        )
    )
    beat(kafka, id)
    return epoch


def beat(kafka: InProcessBroker, id: int, **wants: bool) -> None:
    """A heartbeat of a broker that has applied all metadata."""
    controller = kafka.broker.controller
    end_offset = controller.quorum.end_offset
    heartbeat = BrokerHeartbeat(
        broker_id=id,
        broker_epoch=controller.image.brokers[id].epoch,
        metadata_offset=end_offset - 1,
        log_end=end_offset,
        **wants,
    )
    now(controller.submit(heartbeat))


def create_on(kafka: InProcessBroker, name: str, *replicas: Sequence[int], **configs: str) -> bytes:
    """A topic whose partitions have these replicas; returns its id."""
    topic = NewTopic(
        name=name,
        assignments=list(enumerate(replicas)),
        configs={key.replace("_", "."): value for key, value in configs.items()},
    )
    created = now(kafka.broker.controller.submit(CreateTopics([topic])))[name]
    if isinstance(created, Exception):
        raise created
    topic_id: bytes = created.id
    return topic_id


def follower_fetch(
    kafka: InProcessBroker, topic: str, id: int, offset: int, **options: Any
) -> FetchRequest:
    """A follower's request (version 15 and later) for one partition, outside of sessions."""
    image = kafka.broker.image
    index = options.pop("index", 0)
    partition = image.partition(topic, index)
    assert partition is not None
    fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20}
    return FetchRequest(
        **{**fields, **options},
        isolation_level=0,
        session_epoch=-1,
        replica_state=FetchRequest.ReplicaState(
            replica_id=id, replica_epoch=image.brokers[id].epoch
        ),
        topics=[
            FetchRequest.Topic(
                topic_id=image.topics[topic].id,
                partitions=[
                    FetchRequest.Topic.Partition(
                        partition=index,
                        current_leader_epoch=partition.leader_epoch,
                        fetch_offset=offset,
                        log_start_offset=0,
                        partition_max_bytes=1 << 20,
                    )
                ],
            )
        ],
    )
