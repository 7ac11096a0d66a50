"""Requests that wait while the ACL that has allowed them is removed end as in Apache Kafka.

Both brokers decide about a request when it arrives: what waits then is served, and the same
request is refused afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from compat_tests.acl_stage import Grant, acl
from compat_tests.secured import ADMIN, KafkaUsers, OurPatientUsers, secured_kafka
from compat_tests.simulated_broker import Position, fetch_of, heartbeat, registration
from compat_tests.stage import batch
from compat_tests.wire import comparable
from tests.eventually import eventually
from wirekafka.codec.message import Request
from wirekafka.errors import Error
from wirekafka.protocol.create_acls import CreateAclsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_acls import DeleteAclsRequest
from wirekafka.protocol.describe_acls import DescribeAclsRequest
from wirekafka.protocol.describe_cluster import DescribeClusterRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.join_group import JoinGroupRequest, JoinGroupResponse
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.security.acl import Operation, ResourceType

LEADER, FOLLOWER = 1, 9
_ALLOW, _ANY = 3, 1
_PRODUCE, _FETCH, _JOIN, _BEAT, _REGISTER = 9, 12, 3, 1, 3
_WAIT_MS = 20_000
_SLOW_MS = "600000"
_RECORDS = 3
"""The records of a batch."""
_ONE_REPLICA = {"offsets_topic_replication_factor": "1"}


class Side:
    """One of the brokers, with a follower that only fetches in `follow`."""

    def __init__(self, users: KafkaUsers | OurPatientUsers):
        self.users = users
        self.names: dict[Any, str] = {}
        cluster = users.ask(ADMIN, DescribeClusterRequest(), 0)
        registered = users.ask_controller(registration(FOLLOWER, cluster.cluster_id), _REGISTER)
        assert registered.error_code == 0, Error(registered.error_code)
        self._follower_epoch = registered.broker_epoch
        assert not self._beat().is_fenced

    def close(self) -> None:
        """End the follower, for which the broker would wait when it stops, then the connections."""
        self._beat(wants_fence=True)
        self.users.close()

    def _beat(self, wants_fence: bool = False) -> Any:
        request = heartbeat(FOLLOWER, self._follower_epoch, wants_fence)
        return self.users.ask_controller(request, _BEAT)

    def allow(self, user: str, kind: ResourceType, operation: Operation, name: str) -> None:
        """Allow a user one operation, and wait until the broker knows."""
        creation = acl(user, Grant(kind, operation, _ALLOW), name)
        answer = self.users.ask(ADMIN, CreateAclsRequest(creations=[creation]), 3)
        assert answer.results[0].error_code == 0
        eventually(lambda: self._has_acl(user))

    def revoke(self, user: str) -> None:
        """Remove the ACL of a user, and wait until the broker knows."""
        every = DeleteAclsRequest.Filter(
            resource_type_filter=_ANY,
            pattern_type_filter=_ANY,
            principal_filter=f"User:{user}",
            resource_name_filter=None,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )
        answer = self.users.ask(ADMIN, DeleteAclsRequest(filters=[every]), 3)
        assert len(answer.filter_results[0].matching_acls) == 1
        eventually(lambda: not self._has_acl(user))

    def _has_acl(self, user: str) -> bool:
        request = DescribeAclsRequest(
            resource_type_filter=_ANY,
            pattern_type_filter=_ANY,
            principal_filter=f"User:{user}",
            resource_name_filter=None,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )
        return bool(self.users.ask(ADMIN, request, 3).resources)

    def topic(self, name: str, *replicas: int) -> None:
        """A topic of one partition with one record."""
        kind = CreateTopicsRequest.CreatableTopic
        assigned = kind.CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
        topic = kind(name=name, num_partitions=-1, replication_factor=-1, assignments=[assigned])
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        assert self.users.ask(ADMIN, request, 5).topics[0].error_code == 0
        eventually(lambda: not self.produced(name).error_code)

    def produced(self, name: str) -> Any:
        """The result of one batch by the administrator, which waits for no follower."""
        answer = self.users.ask(ADMIN, produce_to(name, 1), _PRODUCE)
        return answer.responses[0].partition_responses[0]

    def outcome(self, response: Any) -> Any:
        """A response in comparable form."""
        if isinstance(response, JoinGroupResponse) and response.member_id:
            self.names[response.member_id] = "the second member"
        return comparable(response, self.names)

    def group(self) -> str | None:
        """A group that the leader coordinates; the follower may have a part of the groups."""
        keys = [f"group-{number}" for number in range(20)]
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=keys)
        found = self.users.ask(ADMIN, request, 4).coordinators
        return next((each.key for each in found if each.node_id == LEADER), None)

    def follow(self, name: str, offset: int) -> None:
        """Let the follower fetch, by which the leader learns its end offset."""
        end = Position(offset=offset, current_epoch=-1)
        request = fetch_of((name, b""), _FETCH, [end], replica_id=FOLLOWER)
        answer = self.users.ask(ADMIN, request, _FETCH)
        assert answer.responses[0].partitions[0].error_code == 0


def produce_to(name: str, acks: int) -> ProduceRequest:
    """A Produce of one batch of three records."""
    kind = ProduceRequest.TopicProduceData
    data = kind.PartitionProduceData(index=0, records=batch())
    topic = kind(name=name, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=_WAIT_MS, topic_data=[topic])


def join(group: str, member_id: str = "") -> JoinGroupRequest:
    """A JoinGroup of a new or a known member."""
    protocol = JoinGroupRequest.Protocol(name="range", metadata=b"m")
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=_WAIT_MS,
        rebalance_timeout_ms=_WAIT_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[protocol],
    )


class Case(NamedTuple):
    """A request of a user with one permission, and what ends its wait."""

    user: str
    kind: ResourceType
    operation: Operation
    name: str
    request: Request
    version: int
    release: Callable[[], Any]


def produce(side: Side) -> Case:
    """A Produce that waits for a follower."""
    side.topic("written", LEADER, FOLLOWER)
    request = produce_to("written", -1)
    return Case(
        *("writer", ResourceType.TOPIC, Operation.WRITE, "written"),
        *(request, _PRODUCE, partial(side.follow, "written", 2 * _RECORDS)),
    )


def fetch(side: Side) -> Case:
    """A Fetch that waits for records."""
    side.topic("read", LEADER)
    end = Position(offset=_RECORDS, current_epoch=-1)
    request = fetch_of(("read", b""), _FETCH, [end], max_wait_ms=_WAIT_MS)
    return Case(
        *("reader", ResourceType.TOPIC, Operation.READ, "read"),
        *(request, _FETCH, partial(side.produced, "read")),
    )


def join_group(side: Side) -> Case:
    """A JoinGroup that waits for another member to join again."""
    group = eventually(side.group)

    def first() -> Any:
        response = side.users.ask(ADMIN, join(group), _JOIN)
        side.names[response.member_id] = "the first member"
        return None if response.error_code else response.member_id

    rejoin = partial(side.users.begin, ADMIN, join(group, eventually(first)), _JOIN)
    return Case(
        *("member", ResourceType.GROUP, Operation.READ, group), *(join(group), _JOIN, rejoin)
    )


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Side]]:
    users = ["writer", "reader", "member"]
    ours = OurPatientUsers()
    # The follower neither fetches nor sends heartbeats by itself, and yet stays in sync.
    slow = {"broker_session_timeout_ms": _SLOW_MS, "replica_lag_time_max_ms": _SLOW_MS}
    directory = tmp_path_factory.mktemp("secured")
    with secured_kafka(directory, users, **slow, **_ONE_REPLICA) as kafka:
        both = [Side(ours), Side(kafka)]
        yield both
        for side in both:
            side.close()


@pytest.mark.parametrize("prepare", [produce, fetch, join_group])
def test_what_waits_while_its_permission_is_removed_ends_as_in_kafka(
    prepare: Callable[[Side], Case], sides: list[Side]
) -> None:
    ends = []
    for side in sides:
        case = prepare(side)
        side.allow(case.user, case.kind, case.operation, case.name)
        pending = side.users.begin(case.user, case.request, case.version)
        side.revoke(case.user)
        assert not pending.is_answered()
        # Kept until the responses are there: it may be a request that waits as well.
        released = case.release()
        response = side.outcome(pending.response())
        refused = side.outcome(side.users.ask(case.user, case.request, case.version))
        ends.append((response, refused))
        del released
    ours, kafkas = ends
    assert ours == kafkas
    for outcome, is_served in zip(ours, (True, False), strict=True):
        assert (_errors(outcome) == {0}) is is_served, outcome


def _errors(outcome: Any) -> set[int]:
    """All error codes in a response."""
    if isinstance(outcome, list):
        return set().union(*map(_errors, outcome))
    if not isinstance(outcome, dict):
        return set()
    own = {outcome["error_code"]} if "error_code" in outcome else set()
    return own.union(*map(_errors, outcome.values()))
