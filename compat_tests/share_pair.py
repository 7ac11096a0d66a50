"""Apache Kafka and our share groups in this process, with our share coordinator beside them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from compat_tests.consumer_pair import BothBrokers
from tests.eventually import eventually
from tests.memory_log import MemoryLog
from wirekafka.codec.message import Request
from wirekafka.coordinator.groups.share.groups import ShareGroups
from wirekafka.coordinator.groups.share.latest_offsets import LatestOffsets
from wirekafka.coordinator.groups.share.topics import StoredTopics
from wirekafka.coordinator.routing import Routing
from wirekafka.coordinator.share_state.client import ShareStateClient
from wirekafka.coordinator.share_state.coordinator import ShareCoordinator, ShareCoordinatorParts
from wirekafka.coordinator.share_state.shard import ShareCoordinatorConfig
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.describe_share_group_offsets import DescribeShareGroupOffsetsRequest


class BothShareBrokers(BothBrokers):
    """Both brokers; Kafka initializes states after its response, which is awaited."""

    def __init__(self, address: tuple[str, int], data: Path, **settings: Any):
        super().__init__(address, data, **settings)
        ours = self.ours
        ours.image.features["share.version"] = 1
        coordinator = ShareCoordinator(
            ShareCoordinatorParts(ShareCoordinatorConfig(), ours.topics, lambda *_: None),
            ours.clock,
            lambda: 1,
            ours._observer_failed,
        )
        coordinator.lead(0, MemoryLog())
        self._coordinator = coordinator
        alone = Routing(0, lambda *_: 0)
        states = ShareStateClient(coordinator, alone, _nothing, ours.clock)
        latest = LatestOffsets(ours.partition, alone)
        ours.share_groups = ShareGroups(ours.groups, states, ours.topics, latest)

    def ask(self, request: Request, version: int) -> Any:
        """Kafka's response; raises Difference if ours is not equal."""
        response = super().ask(request, version)
        group_id = getattr(request, "group_id", None)
        if "share_group" in request.__module__ and group_id:
            self.await_states([group_id])
        return response

    def await_states(self, group_ids: Iterable[str]) -> None:
        """Wait until Kafka has initialized the states that we have."""
        for group_id in group_ids:
            ours = _partitions_here(self.ours.groups.shard_for(group_id).machine, group_id)
            eventually(
                lambda id=group_id, known=ours: self._partitions_there(id) == known, timeout_s=60
            )
        self.keep_time()

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics of both; Kafka's groups forget them soon."""
        topics = list(names)
        states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in topics]
        self._exchange(DeleteTopicsRequest(topics=states, timeout_ms=9000), 6)
        # A description that still found a topic in the group, but not its states, would be
        # answered after many retries.
        eventually(lambda: not self._assigned_to_probe(topics), timeout_s=60)
        for name in topics:
            id = self._ids.pop(name)
            self.ours.remove_topic(name)
            self._coordinator.delete_topics(frozenset({id}))
        self.ours.clock.advance(0)

    def _partitions_there(self, group_id: str) -> dict[bytes, set[int]]:
        kind = DescribeShareGroupOffsetsRequest.Group
        request = DescribeShareGroupOffsetsRequest(groups=[kind(group_id=group_id, topics=None)])
        [group] = self._exchange(request, 1).groups
        return {
            topic.topic_id: {partition.partition_index for partition in topic.partitions}
            for topic in group.topics
        }


def _partitions_here(machine: Any, group_id: str) -> dict[bytes, set[int]]:
    group = machine.groups.get(group_id)
    stored = getattr(group, "stored", None) or StoredTopics()
    return {
        id: set(topic.partitions) for id, topic in stored.initialized.items() if topic.partitions
    }


async def _nothing() -> None:
    """Create no topic: our coordinator needs none."""
