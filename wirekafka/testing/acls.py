"""ACLs of a broker under test, in one line each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from wirekafka.security.acl import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from wirekafka.testing.settings import unknown

_NOT_OF_ACLS = (Operation.UNKNOWN, Operation.ANY)
_OPERATIONS = {each.name.lower(): each for each in Operation if each not in _NOT_OF_ACLS}


@dataclass(frozen=True, slots=True)
class Allow:
    """Lets a user do something with topics, groups, transactional ids or the cluster.

        Allow("alice", "read", topic="orders", group="billing*")

    `user` is a name, or "*" for everyone. `operations` is one of Kafka's operations or several:
    "read", "write", "describe", "all", .... A resource is a name, a prefix that ends in "*", or "*"
    for all; at least one is given. As in Kafka, a denial takes precedence over a permission.
    """

    user: str
    operations: str | Iterable[str]
    topic: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    cluster: bool = False
    host: str = WILDCARD

    permission: ClassVar[Permission] = Permission.ALLOW

    def acls(self) -> list[Acl]:
        """The ACLs that Kafka stores. Raises ValueError for an unknown operation or no resource."""
        given = [self.operations] if isinstance(self.operations, str) else self.operations
        operations = [_operation(each) for each in given]
        resources = [
            (ResourceType.TOPIC, self.topic),
            (ResourceType.GROUP, self.group),
            (ResourceType.TRANSACTIONAL_ID, self.transactional_id),
            (ResourceType.CLUSTER, CLUSTER_NAME if self.cluster else None),
        ]
        found = [
            Acl(kind, *_pattern(name), f"User:{self.user}", self.host, operation, self.permission)
            for kind, name in resources
            if name is not None
            for operation in operations
        ]
        if not found:
            raise ValueError(f"{self!r} needs an operation and a topic, a group or cluster=True")
        return found


@dataclass(frozen=True, slots=True)
class Deny(Allow):
    """Denies a user operations on resources; takes the same arguments as `Allow`."""

    permission: ClassVar[Permission] = Permission.DENY


def _operation(name: str) -> Operation:
    found = _OPERATIONS.get(name.lower().replace("-", "_"))
    if found is None:
        raise ValueError(unknown("operation", name, _OPERATIONS))
    return found


def _pattern(name: str) -> tuple[str, PatternType]:
    if name != WILDCARD and name.endswith(WILDCARD):
        return name[:-1], PatternType.PREFIXED
    return name, PatternType.LITERAL
