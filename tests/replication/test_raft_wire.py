"""Raft's requests as Kafka's messages, and the answers in their responses."""

from __future__ import annotations

from typing import Any

import pytest

from wirekafka.codec.message import Message
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.log.directories.log_directory import METADATA_TOPIC_ID
from wirekafka.protocol.add_raft_voter import AddRaftVoterResponse
from wirekafka.protocol.api_versions import ApiVersionsResponse
from wirekafka.protocol.begin_quorum_epoch import BeginQuorumEpochResponse
from wirekafka.protocol.end_quorum_epoch import EndQuorumEpochResponse
from wirekafka.protocol.fetch import FetchResponse
from wirekafka.protocol.fetch_snapshot import FetchSnapshotResponse
from wirekafka.protocol.node_endpoints import NodeEndpoint
from wirekafka.protocol.quorum_endpoints import LeaderEndpoint, QuorumNodeEndpoint
from wirekafka.protocol.remove_raft_voter import RemoveRaftVoterResponse
from wirekafka.protocol.update_raft_voter import UpdateRaftVoterResponse
from wirekafka.protocol.vote import VoteResponse
from wirekafka.replication.partition.internal_topics import METADATA_TOPIC
from wirekafka.replication.raft import messages as m
from wirekafka.replication.raft.snapshot_file import SnapshotId
from wirekafka.replication.raft.wire import QuorumWire, decoded, encoded, exact_version

WIRE = QuorumWire(
    cluster_id="cluster",
    listener="CONTROLLER",
    config=BrokerConfig.of(
        {
            "controller.quorum.fetch.max.bytes": "1000",
            "controller.quorum.fetch.snapshot.max.bytes": "2000",
            "controller.quorum.request.timeout.ms": "3000",
        }
    ),
)
ONE, TWO = m.ReplicaKey(1, b"1" * 16), m.ReplicaKey(2, b"2" * 16)
ENDPOINTS = (("CONTROLLER", "one", 9093), ("SECURE", "one", 9094))
LEADERSHIP = m.LeaderAndEpoch(1, 7, ENDPOINTS)
LISTENERS = [
    LeaderEndpoint(name="CONTROLLER", host="one", port=9093),
    LeaderEndpoint(name="SECURE", host="one", port=9094),
]

VOTE = m.Vote(voter=TWO, candidate=ONE, epoch=7, last_epoch=6, end_offset=50)
PRE_VOTE = m.Vote(voter=TWO, candidate=ONE, epoch=7, last_epoch=6, end_offset=50, pre_vote=True)
BEGIN = m.BeginEpoch(voter=TWO, leadership=LEADERSHIP)
END = m.EndEpoch(leadership=LEADERSHIP, preferred=[TWO, ONE])
FETCH = m.FetchPosition(
    replica=TWO, leader_epoch=7, offset=50, last_fetched_epoch=6, high_watermark=49
)
SNAPSHOT = m.FetchSnapshot(replica=TWO, leader_epoch=7, snapshot=SnapshotId(50, 6), position=10)
ADD = m.AddVoter(voter=TWO, endpoints=ENDPOINTS, ack_when_committed=False)
REMOVE = m.RemoveVoter(voter=TWO)
UPDATE = m.UpdateVoter(voter=TWO, leader_epoch=7, endpoints=ENDPOINTS)


def partition_of(request: Any) -> Any:
    [topic] = request.topics
    [partition] = topic.partitions
    return partition


@pytest.mark.parametrize("vote", [VOTE, PRE_VOTE])
def test_a_vote_names_both_replicas_and_the_end_of_the_candidates_log(vote: m.Vote) -> None:
    request: Any = encoded(vote, WIRE)
    assert (request.cluster_id, request.voter_id) == ("cluster", 2)
    assert request.topics[0].topic_name == METADATA_TOPIC
    partition = partition_of(request)
    assert (partition.replica_id, partition.replica_directory_id) == (1, b"1" * 16)
    assert partition.voter_directory_id == b"2" * 16
    assert (partition.replica_epoch, partition.last_offset_epoch) == (7, 6)
    assert (partition.last_offset, partition.pre_vote) == (50, vote.pre_vote)


def test_a_pre_vote_is_never_sent_in_a_version_in_which_it_would_be_a_vote() -> None:
    assert exact_version(PRE_VOTE) == 2
    assert exact_version(VOTE) is None


def test_a_new_leader_announces_all_of_its_listeners() -> None:
    request: Any = encoded(BEGIN, WIRE)
    assert (request.cluster_id, request.voter_id) == ("cluster", 2)
    assert request.leader_endpoints == LISTENERS
    partition = partition_of(request)
    assert (partition.leader_id, partition.leader_epoch) == (1, 7)
    assert partition.voter_directory_id == b"2" * 16


def test_a_resigning_leader_names_its_successors_for_old_and_new_versions() -> None:
    request: Any = encoded(END, WIRE)
    partition = partition_of(request)
    assert request.leader_endpoints == LISTENERS
    assert partition.preferred_successors == [2, 1]
    candidates = [
        (each.candidate_id, each.candidate_directory_id) for each in partition.preferred_candidates
    ]
    assert candidates == [TWO, ONE]


def test_a_fetch_is_limited_and_reports_the_replicas_high_watermark() -> None:
    request: Any = encoded(FETCH, WIRE)
    assert (request.replica_id, request.replica_state.replica_id) == (2, 2)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 0, 1000)
    assert request.topics[0].topic_id == METADATA_TOPIC_ID
    partition = partition_of(request)
    assert (partition.current_leader_epoch, partition.fetch_offset) == (7, 50)
    assert (partition.last_fetched_epoch, partition.high_watermark) == (6, 49)
    assert partition.replica_directory_id == b"2" * 16


def test_a_part_of_a_snapshot_is_requested_by_its_position() -> None:
    request: Any = encoded(SNAPSHOT, WIRE)
    assert (request.cluster_id, request.replica_id, request.max_bytes) == ("cluster", 2, 2000)
    partition = partition_of(request)
    assert (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == (50, 6)
    assert (partition.position, partition.current_leader_epoch) == (10, 7)


def test_changes_of_the_voters_carry_their_listeners() -> None:
    add: Any = encoded(ADD, WIRE)
    assert (add.cluster_id, add.timeout_ms, add.ack_when_committed) == ("cluster", 3000, False)
    assert (add.voter_id, add.voter_directory_id, add.listeners) == (2, b"2" * 16, LISTENERS)
    remove: Any = encoded(REMOVE, WIRE)
    assert (remove.voter_id, remove.voter_directory_id) == (2, b"2" * 16)
    update: Any = encoded(UPDATE, WIRE)
    assert (update.current_leader_epoch, update.listeners) == (7, LISTENERS)
    versions = update.kraft_version_feature
    assert (versions.min_supported_version, versions.max_supported_version) == (0, 1)


@pytest.mark.parametrize(
    "request_", [VOTE, PRE_VOTE, BEGIN, END, FETCH, SNAPSHOT, ADD, REMOVE, UPDATE]
)
def test_every_request_can_be_encoded(request_: m.Request) -> None:
    message = encoded(request_, WIRE)
    last = type(message).versions.last
    assert type(message).decode(message.encode(last), last).encode(last) == message.encode(last)


def answered(request: m.Request, response: Any) -> m.Answer:
    """The answer, after the response has travelled in its newest version."""
    version = type(response).versions.last
    return decoded(request, _through_the_wire(response, version), "CONTROLLER")


def _through_the_wire(response: Message, version: int) -> Any:
    return type(response).decode(response.encode(version), version)


def answer_of(kind: Any, **fields: Any) -> Any:
    partition = kind.TopicData.PartitionData(partition_index=0, **fields)
    return [kind.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])]


NODES = [
    QuorumNodeEndpoint(node_id=3, host="three", port=1),
    QuorumNodeEndpoint(node_id=1, host="one", port=9093),
]
REPORTED = m.LeaderAndEpoch(1, 7, (("CONTROLLER", "one", 9093),))


def test_a_vote_is_granted_or_refused_with_the_leader_that_is_known() -> None:
    topics = answer_of(VoteResponse, leader_id=-1, leader_epoch=7, vote_granted=True)
    expected = m.VoteAnswer(leadership=m.LeaderAndEpoch(-1, 7), granted=True)
    assert answered(VOTE, VoteResponse(topics=topics)) == expected
    fenced = Error.FENCED_LEADER_EPOCH
    topics = answer_of(VoteResponse, error_code=fenced, leader_id=1, leader_epoch=7)
    expected = m.VoteAnswer(leadership=REPORTED, error=fenced)
    assert answered(VOTE, VoteResponse(topics=topics, node_endpoints=NODES)) == expected


@pytest.mark.parametrize(
    ("request_", "kind"), [(BEGIN, BeginQuorumEpochResponse), (END, EndQuorumEpochResponse)]
)
def test_epochs_are_answered_with_the_leader(request_: m.Request, kind: Any) -> None:
    topics = answer_of(kind, leader_id=1, leader_epoch=7)
    expected = m.EpochAnswer(leadership=REPORTED)
    assert answered(request_, kind(topics=topics, node_endpoints=NODES)) == expected


def fetched(**fields: Any) -> FetchResponse:
    topic = FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData(
        partition_index=0,
        current_leader=topic.PartitionData.LeaderIdAndEpoch(leader_id=1, leader_epoch=7),
        **fields,
    )
    return FetchResponse(
        responses=[topic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        node_endpoints=[NodeEndpoint(node_id=1, host="one", port=9093)],
    )


def test_a_fetch_brings_records_or_a_divergence_or_a_snapshot_or_an_error() -> None:
    data = FetchResponse.FetchableTopicResponse.PartitionData
    records: Any = answered(FETCH, fetched(high_watermark=60, log_start_offset=5, records=b"xyz"))
    assert bytes(records.records) == b"xyz" and records.leadership == REPORTED
    assert (records.high_watermark, records.log_start_offset) == (60, 5)
    assert (records.diverging, records.snapshot, records.error) == (None, None, Error.NONE)
    diverging = fetched(
        high_watermark=60, diverging_epoch=data.EpochEndOffset(epoch=6, end_offset=40)
    )
    found: Any = answered(FETCH, diverging)
    assert found.diverging == (6, 40) and found.records == b""
    snapshot = fetched(high_watermark=60, snapshot_id=data.SnapshotId(end_offset=45, epoch=6))
    found = answered(FETCH, snapshot)
    assert found.snapshot == SnapshotId(45, 6)
    found = answered(FETCH, fetched(high_watermark=-1, error_code=Error.NOT_LEADER_OR_FOLLOWER))
    assert (found.error, found.leadership) == (Error.NOT_LEADER_OR_FOLLOWER, REPORTED)


def test_a_part_of_a_snapshot_has_its_position_and_the_whole_size() -> None:
    topic = FetchSnapshotResponse.TopicSnapshot
    partition = topic.PartitionSnapshot(
        index=0,
        snapshot_id=topic.PartitionSnapshot.SnapshotId(end_offset=50, epoch=6),
        current_leader=topic.PartitionSnapshot.LeaderIdAndEpoch(leader_id=1, leader_epoch=7),
        size=100,
        position=10,
        unaligned_records=b"part",
    )
    response = FetchSnapshotResponse(topics=[topic(name=METADATA_TOPIC, partitions=[partition])])
    found: Any = answered(SNAPSHOT, response)
    assert (found.size_bytes, found.position, bytes(found.data)) == (100, 10, b"part")
    assert found.leadership == m.LeaderAndEpoch(1, 7)


def test_changes_of_the_voters_are_answered_with_an_error_code() -> None:
    duplicate = Error.DUPLICATE_VOTER
    assert answered(ADD, AddRaftVoterResponse()) == m.ChangeAnswer()
    refused = AddRaftVoterResponse(error_code=duplicate)
    assert answered(ADD, refused) == m.ChangeAnswer(error=duplicate)
    assert answered(REMOVE, RemoveRaftVoterResponse()) == m.ChangeAnswer()
    leader = UpdateRaftVoterResponse.CurrentLeader(
        leader_id=1, leader_epoch=7, host="one", port=9093
    )
    updated = UpdateRaftVoterResponse(current_leader=leader)
    assert answered(UPDATE, updated) == m.ChangeAnswer(leadership=REPORTED)


def test_the_versions_of_a_node_are_those_of_its_feature_kraft_version() -> None:
    request = m.SupportedVersions()
    feature = ApiVersionsResponse.SupportedFeatureKey
    other = feature(name="metadata.version", min_version=7, max_version=30)
    kraft = feature(name="kraft.version", min_version=0, max_version=1)
    response = ApiVersionsResponse(supported_features=[other, kraft])
    assert answered(request, response) == m.VersionsAnswer(versions=m.VersionRange())
    old = ApiVersionsResponse(supported_features=[other])
    assert answered(request, old) == m.VersionsAnswer(versions=None)


def test_a_response_without_the_metadata_log_is_an_error() -> None:
    with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
        answered(VOTE, VoteResponse(error_code=Error.CLUSTER_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaError, match="INVALID_REQUEST"):
        answered(FETCH, FetchResponse())
