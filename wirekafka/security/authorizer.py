"""Decides who may do what, as Kafka's StandardAuthorizer, and keeps its audit log (KIP-801)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.authorization import Policy
from wirekafka.errors import Error, KafkaError
from wirekafka.security.acl import WILDCARD, Acl, Operation, PatternType, Permission, ResourceType
from wirekafka.security.acl_index import AclIndex, AclVerdict

AUDIT: Final = logging.getLogger("kafka.authorizer.logger")
_TRACE = 5
_LOGGED_NAME = 256
"""Longer names, which only groups, transactional ids and refused topics have, are cut."""

_SUPER_USER = AclVerdict(True, "SuperUser")
_DEFAULT_ALLOW = AclVerdict(True, "DefaultAllow")
_DEFAULT_DENY = AclVerdict(False, "DefaultDeny")


class Audit(Enum):
    """The outcomes of a check that the audit log reports; other outcomes it only traces."""

    ALL = "allowed and denied"
    ALLOWED = "allowed"
    """A denial means that something else is tried, or that a list has less."""
    NONE = "nothing"
    """The check only reports the rights of a client."""


class Subject(Protocol):
    """The client of a request, and its host."""

    api_name: str
    """Kafka's name of the request, such as "Fetch"."""

    @property
    def principal(self) -> str:
        """The client's principal, such as "User:alice"."""

    @property
    def client_host(self) -> str:
        """The IP address, with a `/` before it as Java prints one."""


class Authorizer:
    """The decisions of one node from its ACLs, which `index` returns.

    Until the index is loaded, only super users are allowed anything.
    """

    def __init__(self, policy: Policy, index: Callable[[], AclIndex]):
        self._policy = policy
        self._index = index
        self.decisions = self.denials = 0
        """How many decisions it has made, and how many of these have denied an operation."""

    @classmethod
    def of(cls, config: BrokerConfig, index: Callable[[], AclIndex]) -> Authorizer | None:
        """The authorizer that the configuration names, None for none. Raises ConfigError."""
        policy = Policy.of(config)
        return None if policy is None else cls(policy, index)

    @property
    def index(self) -> AclIndex:
        """The present ACLs."""
        return self._index()

    @property
    def records_all(self) -> bool:
        """Whether the audit log reports allowed requests too, so that none may go unchecked."""
        return AUDIT.isEnabledFor(logging.DEBUG)

    def allows(
        self,
        subject: Subject,
        operation: Operation,
        resource: tuple[ResourceType, str],
        audit: Audit = Audit.ALL,
        references: int = 1,
    ) -> bool:
        """Decide on an operation on a resource, which the request names `references` times.

        Raises KafkaError(UNKNOWN_SERVER_ERROR) until the ACLs are loaded.
        """
        resource_type, name = resource
        index = self._index()
        rule = index.decisions.get(
            (operation << 8 | resource_type, name, subject.principal, subject.client_host)
        ) or self._decide(index, subject, operation, resource)
        self.decisions += 1
        if rule.is_allowed:
            level = _TRACE if audit is Audit.NONE else logging.DEBUG
        else:
            self.denials += 1
            level = logging.INFO if audit is Audit.ALL else _TRACE
        if AUDIT.isEnabledFor(level):
            AUDIT.log(
                level,
                "Principal = %s is %s operation = %s from host = %s on resource = "
                "%s:LITERAL:%s for request = %s with resourceRefCount = %s based on rule %s",
                subject.principal,
                "Allowed" if rule.is_allowed else "Denied",
                operation.name,
                subject.client_host.removeprefix("/"),
                resource_type.label,
                _shown(name),
                subject.api_name,
                references,
                rule,
            )
        return rule.is_allowed

    def allows_on_some(
        self, subject: Subject, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether the operation is allowed on at least one resource of the type (KIP-679)."""
        # Any name will do for super users, and where everyone is allowed everything.
        if self.allows(
            subject, operation, (resource_type, "hardcode"), Audit.ALLOWED, references=0
        ):
            return True
        host = subject.client_host.removeprefix("/")
        allowed: list[Acl] = []
        denied: set[tuple[PatternType, str]] = set()
        for acl in self.index.of_type(resource_type):
            # As in Kafka, no other operation implies this one here.
            if acl.operation not in (Operation.ALL, operation):
                continue
            if not acl.is_about(subject.principal, host):
                continue
            if acl.permission is Permission.ALLOW:
                allowed.append(acl)
            else:
                denied.add((acl.pattern_type, acl.resource_name))
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(not _is_dominated(acl, denied) for acl in allowed)

    def _decide(
        self,
        index: AclIndex,
        subject: Subject,
        operation: Operation,
        resource: tuple[ResourceType, str],
    ) -> AclVerdict:
        resource_type, name = resource
        if subject.principal in self._policy.super_users:
            rule = _SUPER_USER
        elif not index.is_loaded:
            raise KafkaError(Error.UNKNOWN_SERVER_ERROR)
        else:
            host = subject.client_host.removeprefix("/")
            rule = self._search(index, resource, (subject.principal, host), operation)
        key = operation << 8 | resource_type, name, subject.principal, subject.client_host
        index.decisions.keep(key, rule)
        return rule

    def _search(
        self,
        index: AclIndex,
        resource: tuple[ResourceType, str],
        client: tuple[str, str],
        operation: Operation,
    ) -> AclVerdict:
        """The first ACL that denies, else the last that allows, else the policy."""
        found = _DEFAULT_ALLOW if self._policy.allows_without_acls else _DEFAULT_DENY
        has_acls = False
        for acl in index.of_resource(*resource):
            if not has_acls:
                has_acls, found = True, _DEFAULT_DENY
            if acl.concerns(*client, operation):
                if acl.permission is not Permission.ALLOW:
                    return AclVerdict(False, acl)
                found = AclVerdict(True, acl)
        return found


def _shown(name: str) -> str:
    """The name as the audit log has it: a request may have thousands of names of 32 KB."""
    if len(name) <= _LOGGED_NAME:
        return name
    return f"{name[:_LOGGED_NAME]}... ({len(name)} characters)"


def _is_dominated(allowed: Acl, denied: set[tuple[PatternType, str]]) -> bool:
    """Whether a DENY covers all that an ACL allows."""
    name = allowed.resource_name
    if allowed.resource_name == WILDCARD and allowed.pattern_type is PatternType.LITERAL:
        return False
    if allowed.pattern_type is PatternType.LITERAL and (PatternType.LITERAL, name) in denied:
        return True
    return any(
        (PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1)
    )
