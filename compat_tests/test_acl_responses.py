"""Clients with missing, sufficient and denied permissions get Kafka's responses, for every API."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest

from compat_tests import acl_group_cases
from compat_tests.acl_cases import CASES, FIRST
from compat_tests.acl_stage import RESOURCES, Grant, Stage
from compat_tests.secured import ADMIN, OurUsers, secured_kafka
from tests.eventually import eventually
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.security.acl import Operation, ResourceType

OPERATIONS = [operation for operation in Operation if operation > Operation.ALL]
_ALLOW, _DENY = 3, 2


def _users() -> dict[str, list[Grant]]:
    """Each user has one permission, or all except for one operation on one type of resource."""
    everything = [Grant(kind, Operation.ALL, _ALLOW) for kind in RESOURCES]
    users: dict[str, list[Grant]] = {"nothing": [], "everything": everything}
    for kind in RESOURCES:
        for operation in OPERATIONS[:10]:
            users[f"{kind.name}_{operation.name}"] = [Grant(kind, operation, _ALLOW)]
            users[f"not_{kind.name}_{operation.name}"] = [
                *everything,
                Grant(kind, operation, _DENY),
            ]
    group = Grant(ResourceType.GROUP, Operation.ALL, _ALLOW)
    streams = [group, Grant(ResourceType.TOPIC, Operation.DESCRIBE, _ALLOW)]
    users["streams"] = streams
    users["streams_by_topic"] = [*streams, Grant(ResourceType.TOPIC, Operation.CREATE, _ALLOW)]
    users["streams_by_cluster"] = [*streams, Grant(ResourceType.CLUSTER, Operation.CREATE, _ALLOW)]
    users["readers"] = [group, Grant(ResourceType.TOPIC, Operation.READ, _ALLOW)]
    return users


USERS = _users()
FEW = ["nothing", "everything", "TOPIC_DESCRIBE", "GROUP_READ", "CLUSTER_ALTER", "CLUSTER_DESCRIBE"]
"""Users that suffice for the versions before the latest."""


class Pair(NamedTuple):
    ours: Stage
    kafka: Stage


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    ours = OurUsers()
    with secured_kafka(tmp_path_factory.mktemp("secured"), list(USERS)) as kafka:
        yield Pair(Stage(ours, USERS), Stage(kafka, USERS))
    ours.close()


@pytest.mark.parametrize("case", CASES)
def test_every_user_gets_the_same_response_as_from_kafka(pair: Pair, case: str) -> None:
    kind = type(CASES[case](pair.ours))
    first, latest = kind.versions
    first = max(first, FIRST.get(case, first))
    asked = [(user, latest) for user in USERS] + [
        (user, version) for version in range(first, latest) for user in FEW
    ]
    different = []
    for user, version in asked:
        ours = pair.ours.ask(user, CASES[case](pair.ours), version)
        kafkas = pair.kafka.ask(user, CASES[case](pair.kafka), version)
        if ours != kafkas:
            different.append((user, version, ours, kafkas))
    assert not different, "\n".join(map(str, (len(different), *different[0])))


@pytest.mark.parametrize(
    ("number", "creator"), [(0, "streams_by_topic"), (1, "streams_by_cluster")]
)
def test_internal_topics_of_streams_are_created_only_with_permission(
    pair: Pair, number: int, creator: str
) -> None:
    request = acl_group_cases.creating(number)
    answers = [
        (pair.ours.ask(user, request, number), pair.kafka.ask(user, request, number))
        for user in ("streams", creator)
    ]
    assert [ours for ours, _ in answers] == [kafkas for _, kafkas in answers]
    [refused, granted] = [ours["status"][0]["status_detail"] for ours, _ in answers]
    assert refused.endswith(
        f"; Unauthorized to CREATE on topics {acl_group_cases.CHANGELOGS[number]}."
    )
    assert "Unauthorized" not in granted
    topics = MetadataRequest(
        topics=[MetadataRequest.Topic(name=acl_group_cases.CHANGELOGS[number])],
        allow_auto_topic_creation=False,
    )
    for stage in pair:
        eventually(partial(_exist, stage, topics))


def _exist(stage: Stage, topics: MetadataRequest) -> bool:
    return not any(topic["error_code"] for topic in stage.ask(ADMIN, topics, 12)["topics"])
