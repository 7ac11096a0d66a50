"""DescribeQuorum of a node that is the only controller: when its voter has a directory id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.errors import Error
from wirekafka.protocol.describe_quorum import DescribeQuorumRequest
from wirekafka.protocol.update_features import UpdateFeaturesRequest
from wirekafka.replication.partition.internal_topics import METADATA_TOPIC
from wirekafka.replication.raft.messages import NO_DIRECTORY

_NAMED = {
    "process_roles": "broker,controller",
    "node_id": "1",
    "controller_listener_names": "CONTROLLER",
    "controller_quorum_voters": "1@controller.test:9093",
    "listeners": "PLAINTEXT://broker.test:9092,CONTROLLER://controller.test:9093",
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}
_UPGRADE = 1


def described(broker: InProcessBroker, *indexes: int) -> Any:
    """The response about partitions of the metadata topic."""
    topic = DescribeQuorumRequest.TopicData
    partitions = [topic.PartitionData(partition_index=index) for index in indexes]
    request = DescribeQuorumRequest(
        topics=[topic(topic_name=METADATA_TOPIC, partitions=partitions)]
    )
    return broker.call(request, 2)


def test_the_quorum_is_unknown_beside_another_partition(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, ManualClock())
    [topic] = described(broker, 0).topics
    assert [each.error_code for each in topic.partitions] == [Error.NONE]
    answer = described(broker, 0, 1)
    [topic] = answer.topics
    unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (0, unknown),
        (1, unknown),
    ]
    assert answer.nodes == []
    broker.stop()


def directories(broker: InProcessBroker) -> tuple[list[bytes], bytes]:
    """The directory ids of the described voters, and that of the node's own directory."""
    [found] = described(broker, 0).topics[0].partitions
    [own] = broker.broker.directories
    assert own.identity is not None
    return [each.replica_directory_id for each in found.current_voters], own.identity.directory_id


@pytest.mark.parametrize("settings", [{}, _NAMED], ids=["alone", "controller.quorum.voters"])
def test_a_voter_of_the_configuration_has_none_until_the_voters_are_in_the_log(
    settings: dict[str, str], tmp_path: Path
) -> None:
    broker = InProcessBroker(tmp_path, ManualClock(), **settings)
    assert directories(broker)[0] == [NO_DIRECTORY]
    key = UpdateFeaturesRequest.FeatureUpdateKey
    update = key(feature="kraft.version", max_version_level=1, upgrade_type=_UPGRADE)
    answer: Any = broker.call(UpdateFeaturesRequest(feature_updates=[update]), 2)
    assert answer.error_code == 0, answer
    voters, own = directories(broker)
    assert voters == [own]
    broker.stop()
    broker = InProcessBroker(tmp_path, ManualClock(), **settings)
    assert directories(broker) == ([own], own)
    broker.stop()
