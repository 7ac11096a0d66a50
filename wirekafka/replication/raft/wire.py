"""Translates the requests that Raft sends into Kafka's messages, and their responses back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from wirekafka.codec import message
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.version import VERSION
from wirekafka.errors import Error, KafkaError
from wirekafka.log.directories.log_directory import METADATA_TOPIC_ID
from wirekafka.protocol.add_raft_voter import AddRaftVoterRequest
from wirekafka.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wirekafka.protocol.begin_quorum_epoch import BeginQuorumEpochRequest
from wirekafka.protocol.end_quorum_epoch import EndQuorumEpochRequest
from wirekafka.protocol.fetch import FetchRequest, FetchResponse
from wirekafka.protocol.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from wirekafka.protocol.quorum_endpoints import LeaderEndpoint
from wirekafka.protocol.remove_raft_voter import RemoveRaftVoterRequest
from wirekafka.protocol.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from wirekafka.protocol.vote import VoteRequest, VoteResponse
from wirekafka.replication.partition.internal_topics import METADATA_TOPIC
from wirekafka.replication.partition.replica import NO_LEADER
from wirekafka.replication.raft import messages as m
from wirekafka.replication.raft.snapshot_file import SnapshotId
from wirekafka.replication.raft.voter_set import KRAFT_FEATURE

_MAX_WAIT_MS = 500
_SOFTWARE = "wirekafka"
_FIRST_WITH_PRE_VOTE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumWire:
    """The values of Kafka's messages that Raft does not know.

    `listener` is the name of the controllers' listener, to which requests are sent.
    """

    cluster_id: str
    listener: str
    config: BrokerConfig


def exact_version(request: m.Request) -> int | None:
    """The only version in which a request may be sent; None for the newest common one.

    A pre-vote in an older version would be a vote.
    """
    return _FIRST_WITH_PRE_VOTE if isinstance(request, m.Vote) and request.pre_vote else None


def encoded(request: m.Request, wire: QuorumWire) -> message.Request:
    """Return the message of a request."""
    match request:
        case m.Vote():
            return _vote(request, wire)
        case m.BeginEpoch():
            return _begin_epoch(request, wire)
        case m.EndEpoch():
            return _end_epoch(request, wire)
        case m.FetchPosition():
            return _fetch(request, wire)
        case m.FetchSnapshot():
            return _fetch_snapshot(request, wire)
        case m.SupportedVersions():
            return ApiVersionsRequest(
                client_software_name=_SOFTWARE, client_software_version=VERSION
            )
        case m.AddVoter():
            return AddRaftVoterRequest(
                cluster_id=wire.cluster_id,
                timeout_ms=wire.config.controller_quorum_request_timeout_ms,
                voter_id=request.voter.id,
                voter_directory_id=request.voter.directory_id,
                listeners=_listeners(request.endpoints),
                ack_when_committed=request.ack_when_committed,
            )
        case m.RemoveVoter():
            return RemoveRaftVoterRequest(
                cluster_id=wire.cluster_id,
                voter_id=request.voter.id,
                voter_directory_id=request.voter.directory_id,
            )
        case m.UpdateVoter():
            return _update_voter(request, wire)
    assert_never(request)


def decoded(request: m.Request, response: Any, listener: str) -> m.Answer:
    """Return the answer in the response to a request.

    Raises KafkaError: the response's top-level error, or INVALID_REQUEST if the response is not
    about the metadata log. An error of the partition is part of the answer.
    """
    match request:
        case m.Vote():
            return _vote_answer(response, listener)
        case m.BeginEpoch() | m.EndEpoch():
            _check(response.error_code)
            partition = _only_partition(response.topics)
            return m.EpochAnswer(
                leadership=_leadership(partition, response.node_endpoints, listener),
                error=Error.of(partition.error_code),
            )
        case m.FetchPosition():
            return _fetch_answer(response, listener)
        case m.FetchSnapshot():
            return _snapshot_answer(response, listener)
        case m.SupportedVersions():
            return _versions_answer(response)
        case m.AddVoter() | m.RemoveVoter():
            return m.ChangeAnswer(error=Error.of(response.error_code))
        case m.UpdateVoter():
            return _update_answer(response, listener)
    assert_never(request)


def _vote(request: m.Vote, wire: QuorumWire) -> VoteRequest:
    topic = VoteRequest.TopicData
    partition = topic.PartitionData(
        partition_index=0,
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=request.voter.directory_id,
        last_offset_epoch=request.last_epoch,
        last_offset=request.end_offset,
        pre_vote=request.pre_vote,
    )
    return VoteRequest(
        cluster_id=wire.cluster_id,
        voter_id=request.voter.id,
        topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])],
    )


def _begin_epoch(request: m.BeginEpoch, wire: QuorumWire) -> BeginQuorumEpochRequest:
    topic = BeginQuorumEpochRequest.TopicData
    partition = topic.PartitionData(
        partition_index=0,
        voter_directory_id=request.voter.directory_id,
        leader_id=request.leadership.leader_id,
        leader_epoch=request.leadership.epoch,
    )
    return BeginQuorumEpochRequest(
        cluster_id=wire.cluster_id,
        voter_id=request.voter.id,
        topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=_listeners(request.leadership.endpoints),
    )


def _end_epoch(request: m.EndEpoch, wire: QuorumWire) -> EndQuorumEpochRequest:
    topic = EndQuorumEpochRequest.TopicData
    partition = topic.PartitionData(
        partition_index=0,
        leader_id=request.leadership.leader_id,
        leader_epoch=request.leadership.epoch,
        preferred_successors=[voter.id for voter in request.preferred],
        preferred_candidates=[
            topic.PartitionData.ReplicaInfo(
                candidate_id=voter.id, candidate_directory_id=voter.directory_id
            )
            for voter in request.preferred
        ],
    )
    return EndQuorumEpochRequest(
        cluster_id=wire.cluster_id,
        topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=_listeners(request.leadership.endpoints),
    )


def _fetch(request: m.FetchPosition, wire: QuorumWire) -> FetchRequest:
    topic = FetchRequest.Topic
    partition = topic.Partition(
        partition=0,
        current_leader_epoch=request.leader_epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=0,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return FetchRequest(
        cluster_id=wire.cluster_id,
        replica_id=request.replica.id,
        replica_state=FetchRequest.ReplicaState(replica_id=request.replica.id),
        max_wait_ms=_MAX_WAIT_MS,
        min_bytes=0,
        max_bytes=wire.config.controller_quorum_fetch_max_bytes,
        topics=[topic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def _fetch_snapshot(request: m.FetchSnapshot, wire: QuorumWire) -> FetchSnapshotRequest:
    topic = FetchSnapshotRequest.TopicSnapshot
    id = request.snapshot
    partition = topic.PartitionSnapshot(
        partition=0,
        current_leader_epoch=request.leader_epoch,
        snapshot_id=topic.PartitionSnapshot.SnapshotId(end_offset=id.end_offset, epoch=id.epoch),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=wire.cluster_id,
        replica_id=request.replica.id,
        max_bytes=wire.config.controller_quorum_fetch_snapshot_max_bytes,
        topics=[topic(name=METADATA_TOPIC, partitions=[partition])],
    )


def _update_voter(request: m.UpdateVoter, wire: QuorumWire) -> UpdateRaftVoterRequest:
    return UpdateRaftVoterRequest(
        cluster_id=wire.cluster_id,
        current_leader_epoch=request.leader_epoch,
        voter_id=request.voter.id,
        voter_directory_id=request.voter.directory_id,
        listeners=_listeners(request.endpoints),
        kraft_version_feature=UpdateRaftVoterRequest.KRaftVersionFeature(
            min_supported_version=request.versions.min_supported,
            max_supported_version=request.versions.max_supported,
        ),
    )


def _listeners(endpoints: m.Endpoints) -> list[LeaderEndpoint]:
    return [LeaderEndpoint(name=name, host=host, port=port) for name, host, port in endpoints]


def _vote_answer(response: VoteResponse, listener: str) -> m.VoteAnswer:
    _check(response.error_code)
    partition = _only_partition(response.topics)
    return m.VoteAnswer(
        leadership=_leadership(partition, response.node_endpoints, listener),
        granted=partition.vote_granted,
        error=Error.of(partition.error_code),
    )


def _fetch_answer(response: FetchResponse, listener: str) -> m.FetchAnswer:
    _check(response.error_code)
    partition = _only_partition(response.responses)
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    return m.FetchAnswer(
        leadership=_leadership(partition.current_leader, response.node_endpoints, listener),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        records=partition.records or b"",
        diverging=(diverging.epoch, diverging.end_offset) if diverging.epoch >= 0 else None,
        snapshot=SnapshotId(snapshot.end_offset, snapshot.epoch)
        if snapshot.end_offset >= 0
        else None,
        error=Error.of(partition.error_code),
    )


def _snapshot_answer(response: FetchSnapshotResponse, listener: str) -> m.SnapshotAnswer:
    _check(response.error_code)
    partition = _only_partition(response.topics)
    return m.SnapshotAnswer(
        leadership=_leadership(partition.current_leader, response.node_endpoints, listener),
        size_bytes=partition.size,
        position=partition.position,
        data=partition.unaligned_records,
        error=Error.of(partition.error_code),
    )


def _versions_answer(response: ApiVersionsResponse) -> m.VersionsAnswer:
    for feature in response.supported_features:
        if feature.name == KRAFT_FEATURE:
            versions = m.VersionRange(
                min_supported=feature.min_version, max_supported=feature.max_version
            )
            return m.VersionsAnswer(versions=versions, error=Error.of(response.error_code))
    return m.VersionsAnswer(versions=None, error=Error.of(response.error_code))


def _update_answer(response: UpdateRaftVoterResponse, listener: str) -> m.ChangeAnswer:
    leader = response.current_leader
    endpoints = ((listener, leader.host, leader.port),) if leader.host else ()
    return m.ChangeAnswer(
        leadership=m.LeaderAndEpoch(leader.leader_id, leader.leader_epoch, endpoints),
        error=Error.of(response.error_code),
    )


def _leadership(partition: Any, nodes: Sequence[Any], listener: str) -> m.LeaderAndEpoch:
    leader_id = partition.leader_id
    endpoints = tuple(
        (listener, node.host, node.port) for node in nodes if node.node_id == leader_id != NO_LEADER
    )
    return m.LeaderAndEpoch(leader_id, partition.leader_epoch, endpoints)


def _check(code: int) -> None:
    if code:
        raise KafkaError.of(code)


def _only_partition(topics: Sequence[Any]) -> Any:
    """The only partition of a response. Raises INVALID_REQUEST."""
    partitions = [partition for topic in topics for partition in topic.partitions]
    if len(partitions) != 1:
        reason = f"a response with {len(partitions)} partitions of the metadata log"
        raise KafkaError(Error.INVALID_REQUEST, reason)
    return partitions[0]
