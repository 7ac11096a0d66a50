"""Requests of share and streams groups are refused without the permissions that Kafka requires.

Each case grants what an API needs, then all of it but one permission.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests import share_state_topic
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.simulation.disk import SimulatedDisk
from wirekafka.codec.message import Request
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.errors import Error
from wirekafka.protocol.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from wirekafka.protocol.create_acls import CreateAclsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from wirekafka.protocol.delete_share_group_state import DeleteShareGroupStateRequest
from wirekafka.protocol.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.initialize_share_group_state import InitializeShareGroupStateRequest
from wirekafka.protocol.read_share_group_state import ReadShareGroupStateRequest
from wirekafka.protocol.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from wirekafka.protocol.records.streams_groups import StreamsGroupTopologyValue, TopicInfo
from wirekafka.protocol.share_acknowledge import ShareAcknowledgeRequest
from wirekafka.protocol.share_fetch import ShareFetchRequest
from wirekafka.protocol.share_group_describe import ShareGroupDescribeRequest
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest
from wirekafka.protocol.streams_group_describe import StreamsGroupDescribeRequest
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from wirekafka.protocol.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from wirekafka.protocol.write_share_group_state import WriteShareGroupStateRequest
from wirekafka.security.acl import (
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    CREATE,
    DELETE,
    DESCRIBE,
    GROUP,
    READ,
    TOPIC,
    Operation,
    ResourceType,
)

_ALLOW = 3
_SHARE_KEY = "g:AAAAAAAAAAAAAAAAAAAAAQ:0"
Grant = tuple[Operation, ResourceType, str]


class Secured:
    """A broker with an authorizer, the topics `t` and `u`, and a super user."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.kafka = InProcessBroker(
            "/data",
            self.clock,
            disk=SimulatedDisk(),
            **{
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": "User:admin;User:ANONYMOUS",
                "group.streams.initial.rebalance.delay.ms": "0",
                "group.share.assignment.interval.ms": "0",
                "offsets.topic.num.partitions": "1",
                **share_state_topic.settings(),
            },
        )
        kind = CreateTopicsRequest.CreatableTopic
        topics = [kind(name=name, num_partitions=1, replication_factor=1) for name in "tu"]
        created = self.ask("admin", CreateTopicsRequest(topics=topics, timeout_ms=5000), 7)
        self.ids = {topic.name: topic.topic_id for topic in created.topics}
        for key_type, key in ((0, "g"), (2, _SHARE_KEY)):
            find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            assert not self.ask("admin", find, 6).coordinators[0].error_code

    def ask(self, user: str, request: Request, version: int) -> Any:
        exchange = self.kafka.begin(request, version, principal=f"User:{user}")
        self.clock.advance(1)
        assert exchange.is_done, "the request waits"
        return exchange.response

    def grant(self, user: str, *grants: Grant) -> None:
        creations = [
            CreateAclsRequest.AclCreation(
                resource_type=kind,
                resource_name=name,
                principal=f"User:{user}",
                host="*",
                operation=operation,
                permission_type=_ALLOW,
            )
            for operation, kind, name in grants
        ]
        answer = self.ask("admin", CreateAclsRequest(creations=creations), 3)
        assert {each.error_code for each in answer.results} <= {0}


@pytest.fixture
def secured() -> Iterator[Secured]:
    made = Secured()
    yield made
    made.kafka.stop()


def _errors(part: Any) -> set[int]:
    """All error codes in a response."""
    found = set()
    if isinstance(part, list | tuple):
        for each in part:
            found |= _errors(each)
    elif hasattr(part, "fields"):
        for field in part.fields:
            value = getattr(part, field.name)
            if field.name.endswith("error_code"):
                found.add(value)
            else:
                found |= _errors(value)
    return found


def _state(request: type[Any], part: str) -> Request:
    kind = getattr(request, part)
    topic = kind(topic_id=b"i" * 16, partitions=[kind.PartitionData(partition=0)])
    made: Request = request(group_id="g", topics=[topic])
    return made


def _streams(*sources: str, changelog: str | None = None, group: str = "g") -> Request:
    subtopology = StreamsGroupTopologyValue.Subtopology(
        subtopology_id="0",
        source_topics=list(sources),
        state_changelog_topics=[] if changelog is None else [TopicInfo(name=changelog)],
    )
    return StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id="m",
        rebalance_timeout_ms=60_000,
        process_id="p",
        topology=StreamsGroupHeartbeatRequest.Topology(epoch=0, subtopologies=[subtopology]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )


class Need(NamedTuple):
    """A request, the permissions it needs, and the error without each of them."""

    request: Request
    version: int
    grants: dict[Grant, Error]


_READS_GROUP = {(READ, GROUP, "g"): Error.GROUP_AUTHORIZATION_FAILED}
_DESCRIBES_GROUP = {(DESCRIBE, GROUP, "g"): Error.GROUP_AUTHORIZATION_FAILED}
_READS_TOPIC = {(READ, TOPIC, "t"): Error.TOPIC_AUTHORIZATION_FAILED}
_DESCRIBES_TOPIC = {(DESCRIBE, TOPIC, "t"): Error.TOPIC_AUTHORIZATION_FAILED}
_ACTS = {(CLUSTER_ACTION, CLUSTER, CLUSTER_NAME): Error.CLUSTER_AUTHORIZATION_FAILED}

NEEDS = {
    "share heartbeat": Need(
        ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["t"]),
        1,
        {**_READS_GROUP, **_DESCRIBES_TOPIC},
    ),
    "share group description": Need(
        ShareGroupDescribeRequest(group_ids=["g"]), 1, _DESCRIBES_GROUP
    ),
    "alter offsets": Need(
        AlterShareGroupOffsetsRequest(
            group_id="g",
            topics=[
                AlterShareGroupOffsetsRequest.Topic(
                    topic_name="t",
                    partitions=[AlterShareGroupOffsetsRequest.Topic.Partition(partition_index=0)],
                )
            ],
        ),
        0,
        {**_READS_GROUP, **_READS_TOPIC},
    ),
    "describe offsets": Need(
        DescribeShareGroupOffsetsRequest(
            groups=[
                DescribeShareGroupOffsetsRequest.Group(
                    group_id="g",
                    topics=[
                        DescribeShareGroupOffsetsRequest.Group.Topic(topic_name="t", partitions=[0])
                    ],
                )
            ]
        ),
        1,
        {**_DESCRIBES_GROUP, **_DESCRIBES_TOPIC},
    ),
    "delete offsets": Need(
        DeleteShareGroupOffsetsRequest(
            group_id="g", topics=[DeleteShareGroupOffsetsRequest.Topic(topic_name="t")]
        ),
        0,
        # Not READ on the topic too: a missing group is reported first.
        {(DELETE, GROUP, "g"): Error.GROUP_AUTHORIZATION_FAILED},
    ),
    "initialize": Need(_state(InitializeShareGroupStateRequest, "InitializeStateData"), 0, _ACTS),
    "read": Need(_state(ReadShareGroupStateRequest, "ReadStateData"), 0, _ACTS),
    "write": Need(_state(WriteShareGroupStateRequest, "WriteStateData"), 1, _ACTS),
    "delete": Need(_state(DeleteShareGroupStateRequest, "DeleteStateData"), 0, _ACTS),
    "summary": Need(_state(ReadShareGroupStateSummaryRequest, "ReadStateSummaryData"), 1, _ACTS),
    "find": Need(FindCoordinatorRequest(key_type=2, coordinator_keys=[_SHARE_KEY]), 6, _ACTS),
    "streams heartbeat": Need(_streams("t"), 1, {**_READS_GROUP, **_DESCRIBES_TOPIC}),
    "streams description": Need(StreamsGroupDescribeRequest(group_ids=["g"]), 1, _DESCRIBES_GROUP),
    "topology description": Need(
        StreamsGroupTopologyDescriptionUpdateRequest(group_id="g"), 0, _READS_GROUP
    ),
}
_REFUSALS = {
    Error.GROUP_AUTHORIZATION_FAILED,
    Error.TOPIC_AUTHORIZATION_FAILED,
    Error.CLUSTER_AUTHORIZATION_FAILED,
}


@pytest.mark.parametrize("name", NEEDS)
def test_each_permission_is_needed(secured: Secured, name: str) -> None:
    request, version, grants = NEEDS[name]
    for number, (missing, error) in enumerate(grants.items()):
        user = f"user-{number}"
        secured.grant(user, *(grant for grant in grants if grant != missing))
        assert _errors(secured.ask(user, request, version)) & _REFUSALS == {error}
    secured.grant("allowed", *grants)
    assert not _errors(secured.ask("allowed", request, version)) & _REFUSALS


def _fetch(secured: Secured, epoch: int = 0) -> Request:
    kind = ShareFetchRequest.FetchTopic
    return ShareFetchRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=epoch,
        max_wait_ms=0,
        max_records=10,
        batch_size=10,
        topics=[
            kind(topic_id=id, partitions=[kind.FetchPartition(partition_index=0)])
            for id in secured.ids.values()
        ],
    )


def test_share_fetch_reads_only_the_topics_that_are_allowed(secured: Secured) -> None:
    answer = secured.ask("reader", _fetch(secured), 2)
    assert (answer.error_code, answer.responses) == (Error.GROUP_AUTHORIZATION_FAILED, [])
    secured.grant("reader", (READ, GROUP, "g"), (READ, TOPIC, "t"))
    answer = secured.ask("reader", _fetch(secured), 2)
    errors = {topic.topic_id: topic.partitions[0].error_code for topic in answer.responses}
    assert answer.error_code == 0
    assert errors[secured.ids["u"]] == Error.TOPIC_AUTHORIZATION_FAILED
    assert errors.get(secured.ids["t"]) != Error.TOPIC_AUTHORIZATION_FAILED


def test_permission_is_checked_in_every_request_of_a_share_session(secured: Secured) -> None:
    secured.ask("admin", _fetch(secured), 2)
    secured.grant("reader", (READ, GROUP, "g"))
    later = _fetch(secured, epoch=1)
    later.topics = []
    answer = secured.ask("reader", later, 2)
    assert _errors(answer.responses) == {0, Error.TOPIC_AUTHORIZATION_FAILED}
    assert not any(part.records for topic in answer.responses for part in topic.partitions)


def test_acknowledgements_need_permission_for_their_topics(secured: Secured) -> None:
    secured.ask("admin", _fetch(secured), 2)
    kind = ShareAcknowledgeRequest.AcknowledgeTopic
    part = kind.AcknowledgePartition
    batch = part.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
    request = ShareAcknowledgeRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=1,
        topics=[
            kind(
                topic_id=secured.ids["t"],
                partitions=[part(partition_index=0, acknowledgement_batches=[batch])],
            )
        ],
    )
    refused = secured.ask("reader", request, 2)
    assert (refused.error_code, refused.responses) == (Error.GROUP_AUTHORIZATION_FAILED, [])
    secured.grant("reader", (READ, GROUP, "g"))
    answer = secured.ask("reader", request, 2)
    assert _errors(answer.responses) == {Error.TOPIC_AUTHORIZATION_FAILED}


def test_groups_with_hidden_topics_are_not_described(secured: Secured) -> None:
    joining = ShareGroupHeartbeatRequest(
        group_id="shared", member_id="m", subscribed_topic_names=["t"]
    )
    assert secured.ask("admin", joining, 1).error_code == 0
    assert secured.ask("admin", _streams("t", group="streamed"), 1).error_code == 0
    groups = [(DESCRIBE, GROUP, name) for name in ("shared", "streamed")]
    secured.grant("blind", *groups)
    secured.grant("seeing", *groups, (DESCRIBE, TOPIC, "t"))
    for group, request, version in (
        ("shared", ShareGroupDescribeRequest, 1),
        ("streamed", StreamsGroupDescribeRequest, 1),
    ):
        secured.ask("admin", joining, 1)
        asked = request(group_ids=[group], include_authorized_operations=True)
        [hidden] = secured.ask("blind", asked, version).groups
        assert (hidden.error_code, hidden.members) == (Error.TOPIC_AUTHORIZATION_FAILED, [])
        [shown] = secured.ask("seeing", asked, version).groups
        assert (shown.error_code, len(shown.members)) == (0, 1)
        assert shown.authorized_operations == 1 << DESCRIBE


@pytest.mark.parametrize("creation", [(CREATE, TOPIC, "log"), (CREATE, CLUSTER, CLUSTER_NAME)])
def test_internal_topics_of_streams_need_permission_to_create(
    secured: Secured, creation: Grant
) -> None:
    secured.grant("app", (READ, GROUP, "g"), (DESCRIBE, TOPIC, "t"), (DESCRIBE, TOPIC, "log"))
    [status] = secured.ask("app", _streams("t", changelog="log"), 1).status
    assert status.status_detail.endswith("; Unauthorized to CREATE on topics log.")
    assert "log" not in secured.kafka.broker.image.topics
    secured.grant("app", creation)
    secured.ask("app", _streams("t", changelog="log"), 1)
    assert "log" in secured.kafka.broker.image.topics


def test_topologies_cannot_name_internal_topics_of_kafka(secured: Secured) -> None:
    secured.grant("app", (READ, GROUP, "g"))
    answer = secured.ask("app", _streams("t", "__share_group_state"), 1)
    assert answer.error_code == Error.STREAMS_INVALID_TOPOLOGY


def test_offsets_of_hidden_topics_are_left_out(secured: Secured) -> None:
    kind = AlterShareGroupOffsetsRequest.Topic
    alter = AlterShareGroupOffsetsRequest(
        group_id="g",
        topics=[
            kind(topic_name=name, partitions=[kind.Partition(partition_index=0)]) for name in "tu"
        ],
    )
    assert secured.ask("admin", alter, 0).error_code == 0
    secured.grant("app", (DESCRIBE, GROUP, "g"), (DESCRIBE, TOPIC, "u"))
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequest.Group(group_id="g", topics=None)]
    )
    [group] = secured.ask("app", request, 1).groups
    assert [topic.topic_name for topic in group.topics] == ["u"]
