"""The requests among the nodes of the metadata quorum, at the controller that receives them."""

from __future__ import annotations

import asyncio
import inspect
from types import SimpleNamespace
from typing import Any

import pytest

from tests.manual_clock import ManualClock
from wirekafka.apis.shared import registry
from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.codec.message import Request
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.add_raft_voter import AddRaftVoterRequest
from wirekafka.protocol.begin_quorum_epoch import BeginQuorumEpochRequest
from wirekafka.protocol.describe_quorum import DescribeQuorumRequest
from wirekafka.protocol.end_quorum_epoch import EndQuorumEpochRequest
from wirekafka.protocol.quorum_endpoints import LeaderEndpoint, QuorumNodeEndpoint
from wirekafka.protocol.remove_raft_voter import RemoveRaftVoterRequest
from wirekafka.protocol.update_raft_voter import UpdateRaftVoterRequest
from wirekafka.protocol.vote import VoteRequest
from wirekafka.replication.partition.internal_topics import METADATA_TOPIC
from wirekafka.replication.raft import messages as m
from wirekafka.replication.raft.parts import QuorumDescription, ReplicaProgress
from wirekafka.replication.raft.voter_set import Voter, VoterSet
from wirekafka.runtime.promise import Promise

OWN = b"2" * 16
ENDPOINTS = (("CONTROLLER", "one", 9093), ("SECURE", "one", 9094))
LEADERSHIP = m.LeaderAndEpoch(1, 7, ENDPOINTS)
LISTENERS = [
    LeaderEndpoint(name="CONTROLLER", host="one", port=9093),
    LeaderEndpoint(name="SECURE", host="one", port=9094),
]
AT_SECURE = [QuorumNodeEndpoint(node_id=1, host="one", port=9094)]


class ScriptedRaft:
    """A `Raft` with one answer, or error, for each request; it notes what it was asked."""

    def __init__(self) -> None:
        self.leadership = LEADERSHIP
        self.voters = VoterSet.of([Voter(1, b"1" * 16, ENDPOINTS), Voter(2, OWN)])
        self.asked: list[Any] = []
        self.answer: Any = None
        self.is_durable = True
        self.synced: list[Promise] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def ask(request: Any, now_ms: int) -> Any:
            self.asked.append(request)
            return self._result()

        return ask

    def describe(self, now_ms: int) -> Any:
        return self._result()

    async def durable(self) -> None:
        if not self.is_durable:
            self.synced.append(Promise())
            await self.synced[-1]

    def _result(self) -> Any:
        if isinstance(self.answer, KafkaError):
            raise self.answer
        return self.answer


def serve(raft: ScriptedRaft, request: Request, version: int | None = None) -> Any:
    """The response, or failure, of controller 2 on its listener SECURE."""
    declared = registry.load()[type(request).key]
    if version is None:
        version = declared.request.versions.last
    controller: Any = SimpleNamespace(
        raft=raft, cluster_id="cluster", node_id=2, clock=ManualClock(), authorizer=None
    )
    call = ControllerCall(controller, version)
    call.listener = "SECURE"
    received = declared.request.decode(request.encode(version), version)
    assert declared.decide is not None

    async def handle() -> Any:
        try:
            response = declared.decide(received, call)  # type: ignore[misc]
            return await response if inspect.isawaitable(response) else response
        except KafkaError as error:
            return declared.failure(received, error, call)

    return handle()


def served(raft: ScriptedRaft, request: Request, version: int | None = None) -> Any:
    return asyncio.run(serve(raft, request, version))


def about_metadata(kind: Any, **fields: Any) -> list[Any]:
    partition = kind.TopicData.PartitionData(partition_index=0, **fields)
    return [kind.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])]


def vote(**fields: Any) -> VoteRequest:
    topics = about_metadata(
        VoteRequest,
        replica_epoch=8,
        replica_id=3,
        replica_directory_id=b"3" * 16,
        voter_directory_id=OWN,
        last_offset_epoch=7,
        last_offset=50,
    )
    return VoteRequest(**{"cluster_id": "cluster", "voter_id": 2, "topics": topics} | fields)


def begin(**fields: Any) -> BeginQuorumEpochRequest:
    kind = BeginQuorumEpochRequest
    topics = about_metadata(kind, leader_id=1, leader_epoch=7, voter_directory_id=OWN)
    values = {"voter_id": 2, "topics": topics, "leader_endpoints": LISTENERS}
    return kind(**{"cluster_id": "cluster"} | values | fields)


def end(**fields: Any) -> EndQuorumEpochRequest:
    kind = EndQuorumEpochRequest
    info = kind.TopicData.PartitionData.ReplicaInfo
    candidates = [info(candidate_id=2, candidate_directory_id=OWN)]
    topics = about_metadata(kind, leader_id=1, leader_epoch=7, preferred_candidates=candidates)
    values = {"topics": topics, "leader_endpoints": LISTENERS}
    return kind(**{"cluster_id": "cluster"} | values | fields)


def only_partition(response: Any) -> Any:
    [topic] = response.topics
    [partition] = topic.partitions
    assert (topic.topic_name, partition.partition_index) == (METADATA_TOPIC, 0)
    return partition


def test_a_vote_is_passed_on_and_the_response_has_the_leader_at_the_same_listener() -> None:
    raft = ScriptedRaft()
    raft.answer = m.VoteAnswer(leadership=LEADERSHIP, granted=True)
    response = served(raft, vote())
    assert raft.asked == [
        m.Vote(
            voter=m.ReplicaKey(2, OWN),
            candidate=m.ReplicaKey(3, b"3" * 16),
            epoch=8,
            last_epoch=7,
            end_offset=50,
        )
    ]
    partition = only_partition(response)
    assert (partition.error_code, partition.vote_granted) == (0, True)
    assert (partition.leader_id, partition.leader_epoch) == (1, 7)
    assert (response.error_code, response.node_endpoints) == (0, AT_SECURE)


def test_old_votes_do_not_name_the_voter() -> None:
    raft = ScriptedRaft()
    raft.answer = m.VoteAnswer(leadership=m.LeaderAndEpoch(-1, 8))
    response = served(raft, vote(), version=0)
    assert raft.asked[0].voter == m.ReplicaKey(2)
    assert raft.asked[0].candidate == m.ReplicaKey(3)
    assert not only_partition(response).vote_granted and response.node_endpoints == []


@pytest.mark.parametrize("request_", [vote(), begin(), end()])
def test_no_response_is_sent_before_the_epoch_is_on_the_disk(request_: Request) -> None:
    async def test() -> None:
        raft = ScriptedRaft()
        raft.is_durable = False
        raft.answer = m.VoteAnswer(leadership=LEADERSHIP)
        serving = asyncio.create_task(serve(raft, request_))
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(raft.asked) == 1 and not serving.done()
        raft.synced[0].set(None)
        assert only_partition(await serving).error_code == 0

    asyncio.run(test())


@pytest.mark.parametrize("request_", [vote(), begin(), end()])
def test_an_epoch_that_is_over_is_answered_with_the_present_one(request_: Request) -> None:
    raft = ScriptedRaft()
    raft.answer = KafkaError(Error.FENCED_LEADER_EPOCH)
    response = served(raft, request_)
    partition = only_partition(response)
    assert (response.error_code, partition.error_code) == (0, Error.FENCED_LEADER_EPOCH)
    assert (partition.leader_id, partition.leader_epoch) == (1, 7)
    assert response.node_endpoints == AT_SECURE


@pytest.mark.parametrize("make", [vote, begin, end])
def test_requests_of_another_cluster_or_about_another_log_are_refused(make: Any) -> None:
    raft = ScriptedRaft()
    assert served(raft, make(cluster_id="x")).error_code == Error.INCONSISTENT_CLUSTER_ID
    assert served(raft, make(topics=[])).error_code == Error.INVALID_REQUEST
    other = make()
    other.topics[0].partitions[0].partition_index = 1
    assert served(raft, other).error_code == Error.INVALID_REQUEST
    other.topics[0].partitions[0].partition_index = 0
    other.topics[0].topic_name = "orders"
    assert served(raft, other).error_code == Error.INVALID_REQUEST
    assert raft.asked == []


def test_a_new_leader_is_followed_at_its_listeners() -> None:
    raft = ScriptedRaft()
    raft.answer = m.EpochAnswer(leadership=LEADERSHIP)
    assert only_partition(served(raft, begin())).error_code == 0
    assert raft.asked == [m.BeginEpoch(voter=m.ReplicaKey(2, OWN), leadership=LEADERSHIP)]


def test_a_leader_that_resigns_names_its_successors_in_old_and_new_versions() -> None:
    raft = ScriptedRaft()
    raft.answer = m.EpochAnswer(leadership=LEADERSHIP)
    served(raft, end())
    old = end(leader_endpoints=[])
    old.topics[0].partitions[0].preferred_candidates = []
    old.topics[0].partitions[0].preferred_successors = [2, 3]
    served(raft, old, version=0)
    assert raft.asked == [
        m.EndEpoch(leadership=LEADERSHIP, preferred=[m.ReplicaKey(2, OWN)]),
        m.EndEpoch(leadership=m.LeaderAndEpoch(1, 7), preferred=[m.ReplicaKey(2), m.ReplicaKey(3)]),
    ]


def finished(value: Any = None) -> Promise:
    promise = Promise()
    promise.set(value)
    return promise


ADD = AddRaftVoterRequest(
    cluster_id="cluster",
    timeout_ms=1,
    voter_id=3,
    voter_directory_id=b"3" * 16,
    listeners=LISTENERS,
    ack_when_committed=False,
)
REMOVE = RemoveRaftVoterRequest(cluster_id="cluster", voter_id=3, voter_directory_id=b"3" * 16)


def test_a_voter_is_added_and_removed() -> None:
    raft = ScriptedRaft()
    raft.answer = finished()
    for request in (ADD, REMOVE):
        response = served(raft, request)
        assert (response.error_code, response.error_message) == (0, None)
    voter = m.ReplicaKey(3, b"3" * 16)
    assert raft.asked == [
        m.AddVoter(voter=voter, endpoints=ENDPOINTS, ack_when_committed=False),
        m.RemoveVoter(voter=voter),
    ]


@pytest.mark.parametrize("request_", [ADD, REMOVE])
def test_a_change_of_the_voters_fails_at_once_or_later(request_: Request) -> None:
    raft = ScriptedRaft()
    refused = KafkaError(Error.REQUEST_TIMED_OUT, "not in time")
    for raft.answer in (refused, finished(refused)):
        response = served(raft, request_)
        assert (response.error_code, response.error_message) == (
            Error.REQUEST_TIMED_OUT,
            "not in time",
        )


@pytest.mark.parametrize("request_", [ADD, REMOVE])
def test_a_node_that_does_not_lead_refuses_a_change_without_a_message(request_: Request) -> None:
    raft = ScriptedRaft()
    raft.answer = KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
    response = served(raft, request_)
    assert (response.error_code, response.error_message) == (Error.NOT_LEADER_OR_FOLLOWER, "")


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        (AddRaftVoterRequest(cluster_id=None, voter_id=3), "Add"),
        (RemoveRaftVoterRequest(cluster_id=None, voter_id=-1, voter_directory_id=OWN), "Remove"),
    ],
)
def test_a_change_needs_the_voters_id_and_directory(request_: Request, what: str) -> None:
    response = served(ScriptedRaft(), request_)
    assert response.error_code == Error.INVALID_REQUEST
    assert response.error_message == f"{what} voter request didn't include a valid voter"


def update(**fields: Any) -> UpdateRaftVoterRequest:
    versions = UpdateRaftVoterRequest.KRaftVersionFeature(
        min_supported_version=fields.pop("low", 0), max_supported_version=fields.pop("high", 1)
    )
    values = {"voter_id": 3, "voter_directory_id": b"3" * 16, "listeners": LISTENERS}
    return UpdateRaftVoterRequest(
        **{"cluster_id": "cluster", "current_leader_epoch": 7}
        | values
        | {"kraft_version_feature": versions}
        | fields
    )


def test_a_voter_reports_its_listeners_and_versions() -> None:
    raft = ScriptedRaft()
    raft.answer = finished()
    response = served(raft, update())
    assert raft.asked == [
        m.UpdateVoter(
            voter=m.ReplicaKey(3, b"3" * 16),
            leader_epoch=7,
            endpoints=ENDPOINTS,
            versions=m.VersionRange(min_supported=0, max_supported=1),
        )
    ]
    leader = response.current_leader
    assert response.error_code == 0
    assert (leader.leader_id, leader.leader_epoch, leader.host, leader.port) == (1, 7, "one", 9094)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (update(cluster_id="x"), Error.INCONSISTENT_CLUSTER_ID),
        (update(voter_id=-1), Error.INVALID_REQUEST),
        (update(voter_directory_id=bytes(16)), Error.INVALID_REQUEST),
        (update(low=2, high=1), Error.INVALID_REQUEST),
        (update(low=-1), Error.INVALID_REQUEST),
        (update(), Error.VOTER_NOT_FOUND),
    ],
)
def test_a_refused_report_has_the_leader_too(
    request_: UpdateRaftVoterRequest, error: Error
) -> None:
    raft = ScriptedRaft()
    raft.answer = KafkaError(Error.VOTER_NOT_FOUND)
    response = served(raft, request_)
    assert (response.error_code, response.current_leader.leader_id) == (error, 1)


def described(raft: ScriptedRaft, version: int | None = None, *, indexes: Any = (0,)) -> Any:
    kind = DescribeQuorumRequest
    partitions = [kind.TopicData.PartitionData(partition_index=index) for index in indexes]
    topics = [kind.TopicData(topic_name=METADATA_TOPIC, partitions=partitions)]
    return served(raft, kind(topics=topics), version)


def test_the_quorum_is_described_with_the_progress_of_each_replica() -> None:
    raft = ScriptedRaft()
    raft.answer = QuorumDescription(
        leadership=LEADERSHIP,
        high_watermark=50,
        voters=(
            ReplicaProgress(
                key=m.ReplicaKey(1), log_end_offset=55, last_fetch_ms=9, last_caught_up_ms=9
            ),
            ReplicaProgress(key=m.ReplicaKey(2, OWN)),
        ),
        observers=(
            ReplicaProgress(
                key=m.ReplicaKey(4), log_end_offset=50, last_fetch_ms=8, last_caught_up_ms=7
            ),
        ),
    )
    response = described(raft)
    partition = only_partition(response)
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 7, 50)
    [first, second] = partition.current_voters
    assert (first.log_end_offset, first.last_fetch_timestamp) == (55, 9)
    assert second.replica_directory_id == OWN
    assert (second.log_end_offset, second.last_caught_up_timestamp) == (-1, -1)
    [observer] = partition.observers
    assert (observer.replica_id, observer.last_caught_up_timestamp) == (4, 7)
    nodes = [
        (node.node_id, [(each.name, each.host, each.port) for each in node.listeners])
        for node in response.nodes
    ]
    assert nodes == [(1, list(ENDPOINTS)), (2, [])]


@pytest.mark.parametrize("version", range(3))
def test_the_only_partition_of_the_metadata_has_index_0(version: int) -> None:
    raft = ScriptedRaft()
    raft.answer = QuorumDescription(
        leadership=LEADERSHIP, high_watermark=50, voters=(), observers=()
    )
    response = described(raft, version, indexes=(0,))
    [quorum] = response.topics[0].partitions
    assert (quorum.error_code, quorum.leader_epoch) == (0, 7)
    response = type(response).decode(response.encode(version), version)
    assert [node.node_id for node in response.nodes] == ([1, 2] if version >= 2 else [])
    [unknown] = described(raft, version, indexes=(1,)).topics[0].partitions
    assert unknown.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION


def test_only_the_leader_describes_the_quorum() -> None:
    raft = ScriptedRaft()
    raft.answer = KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
    response = described(raft)
    assert (response.error_code, response.nodes) == (0, [])
    assert only_partition(response).error_code == Error.NOT_LEADER_OR_FOLLOWER


def test_changes_are_authorized(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def refuse(self: Call, operation: Any, kind: Any) -> bool:
        asked.append((operation.name, kind.name))
        return False

    def authorize(self: Call, operation: Any, kind: Any) -> None:
        refuse(self, operation, kind)
        raise KafkaError(Error.CLUSTER_AUTHORIZATION_FAILED)

    monkeypatch.setattr(ControllerCall, "authorize", authorize)
    monkeypatch.setattr(ControllerCall, "is_authorized", refuse)
    for request in (vote(), begin(), end(), update(), ADD, REMOVE):
        refused = served(ScriptedRaft(), request)
        assert refused.error_code == Error.CLUSTER_AUTHORIZATION_FAILED
    assert asked == [("CLUSTER_ACTION", "CLUSTER")] * 4 + [("ALTER", "CLUSTER")] * 2
