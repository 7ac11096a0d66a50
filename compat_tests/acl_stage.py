"""A secured broker with two topics, its ACLs, and its responses in comparable form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from compat_tests import acl_group_cases
from compat_tests.secured import ADMIN
from compat_tests.wire import comparable
from tests.eventually import eventually
from wirekafka.codec.message import Request
from wirekafka.protocol.create_acls import CreateAclsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.describe_acls import DescribeAclsRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.describe_transactions import DescribeTransactionsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.security.acl import CLUSTER_NAME, Operation, PatternType, ResourceType

RESOURCES = {
    ResourceType.TOPIC: "t",
    ResourceType.GROUP: "g",
    ResourceType.CLUSTER: CLUSTER_NAME,
    ResourceType.TRANSACTIONAL_ID: "x",
}
FURTHER = {
    ResourceType.GROUP: acl_group_cases.GROUPS,
    ResourceType.TOPIC: acl_group_cases.CHANGELOGS,
}
"""Other resources on which each user has the same permissions."""


class Grant(NamedTuple):
    """A permission on the resource of a type, or with PREFIXED on all whose names begin so."""

    kind: ResourceType
    operation: Operation
    permission: int
    pattern: int = PatternType.LITERAL


class Users(Protocol):
    """A broker with an authorizer."""

    def ask(self, user: str, request: Request, version: int) -> Any:
        """The response to a request of a user."""


class Stage:
    """A secured broker with topics `t` and `u`, and ACLs for the users who have grants."""

    def __init__(self, users: Users, granted: Mapping[str, Sequence[Grant]]):
        self.users = users
        self.ids: dict[str, bytes] = {}
        created = users.ask(ADMIN, create_topics("t", "u"), 7)
        for topic in created.topics:
            assert topic.error_code == 0, topic
            self.ids[topic.name] = topic.topic_id
        acls = [
            acl(user, grant, name)
            for user, grants in granted.items()
            for grant in grants
            for name in (RESOURCES[grant.kind], *FURTHER.get(grant.kind, ()))
        ]
        answer = users.ask(ADMIN, CreateAclsRequest(creations=acls), 3)
        assert {each.error_code for each in answer.results} == {0}
        eventually(lambda: self._knows_acls(len(acls)) and self._coordinates(), timeout_s=60)
        acl_group_cases.prepare(self)

    def ask(self, user: str, request: Request, version: int) -> Any:
        """The response in comparable form."""
        names: dict[Any, str] = {id: f"id of {name}" for name, id in self.ids.items()}
        return plain(comparable(self.users.ask(user, request, version), names))

    def _knows_acls(self, count: int) -> bool:
        request = DescribeAclsRequest(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        answer = self.users.ask(ADMIN, request, 3)
        return sum(len(each.acls) for each in answer.resources) == count

    def _coordinates(self) -> bool:
        for kind, key in ((0, "g"), (1, "x")):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            if self.users.ask(ADMIN, request, 4).coordinators[0].error_code:
                return False
        described = self.users.ask(ADMIN, DescribeGroupsRequest(groups=["g"]), 5)
        listed = self.users.ask(ADMIN, DescribeTransactionsRequest(transactional_ids=["x"]), 0)
        loading = 14, 15, 16
        producer = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        if self.users.ask(ADMIN, producer, 4).error_code:
            return False
        return (
            described.groups[0].error_code not in loading
            and listed.transaction_states[0].error_code not in loading
        )


def acl(user: str, grant: Grant, name: str) -> CreateAclsRequest.AclCreation:
    """The ACL that gives a user a permission on a resource."""
    return CreateAclsRequest.AclCreation(
        resource_type=grant.kind,
        resource_pattern_type=grant.pattern,
        resource_name=name,
        principal=f"User:{user}",
        host="*",
        operation=grant.operation,
        permission_type=grant.permission,
    )


def create_topics(*names: str, validate_only: bool = False) -> CreateTopicsRequest:
    """A request for topics with two partitions each."""
    new = CreateTopicsRequest.CreatableTopic
    topics = [new(name=name, num_partitions=2, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=5000, validate_only=validate_only)


_IGNORED = {
    *("port", "host", "cluster_id", "nodes", "brokers", "log_end_offset"),
    *("group_epoch", "assignment_epoch", "member_epoch"),
}
"""Fields that depend on the broker, or on how often members sent heartbeats meanwhile."""


def plain(answer: Any) -> Any:
    """Without what a refusal repeats of the request, and without `_IGNORED`."""
    if isinstance(answer, dict):
        return {name: plain(value) for name, value in answer.items() if name not in _IGNORED}
    if isinstance(answer, list):
        return [plain(each) for each in answer]
    if isinstance(answer, str):
        return re.sub(r"^Request .* (needs \w+ permission\.)$", r"\1", answer, flags=re.S)
    return answer
