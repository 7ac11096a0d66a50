"""ACLs: their types with Kafka's codes, and the filters that select them (KIP-11, KIP-290)."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple, TypeVar

WILDCARD = "*"
"""The resource name or host that stands for all names or hosts."""
ANYONE = "User:*"
"""The principal that stands for all principals."""
CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class _Named(IntEnum):
    @property
    def label(self) -> str:
        """The name in Kafka's logs and tools, such as "TransactionalId"."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class ResourceType(_Named):
    """The types of resources that ACLs protect."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an ACL's resource name is compared; ANY and MATCH occur only in filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_Named):
    """The operations of requests on resources."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Named):
    """Whether an ACL denies or allows."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_RANGE_4 = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)

_Code = TypeVar("_Code", ResourceType, PatternType, Operation, Permission)


def of_code(kind: type[_Code], code: int) -> _Code:
    """The member of this code; UNKNOWN for a code of a later Kafka."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)


READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, CLUSTER_ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
IDEMPOTENT_WRITE, CREATE_TOKENS = Operation.IDEMPOTENT_WRITE, Operation.CREATE_TOKENS
DESCRIBE_TOKENS, TWO_PHASE_COMMIT = Operation.DESCRIBE_TOKENS, Operation.TWO_PHASE_COMMIT
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID, USER = ResourceType.TRANSACTIONAL_ID, ResourceType.USER
DELEGATION_TOKEN = ResourceType.DELEGATION_TOKEN

_ALSO_ALLOWED_BY = {
    DESCRIBE: frozenset({DESCRIBE, READ, WRITE, DELETE, ALTER}),
    DESCRIBE_CONFIGS: frozenset({DESCRIBE_CONFIGS, ALTER_CONFIGS}),
}
"""The operations whose ALLOW implies another; DENY implies none."""


class Acl(NamedTuple):
    """One ACL: it allows or denies a principal on a host an operation on resources."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    """The principal, such as "User:alice"; `ANYONE` for all."""
    host: str
    """An IP address, a range of addresses such as "10.0.0.0/8", or `WILDCARD`."""
    operation: Operation
    permission: Permission

    def concerns(self, principal: str, host: str, operation: Operation) -> bool:
        """Whether the ACL decides on this operation, given that it applies to the resource."""
        return self.is_about(principal, host) and self._covers(operation)

    def is_about(self, principal: str, host: str) -> bool:
        """Whether the ACL's principal and host include the client."""
        return self.principal in (principal, ANYONE) and (
            self.host in (WILDCARD, host) or _is_in_range(host, self.host)
        )

    def _covers(self, operation: Operation) -> bool:
        if self.operation in (Operation.ALL, operation):
            return True
        return self.permission is Permission.ALLOW and self.operation in _ALSO_ALLOWED_BY.get(
            operation, ()
        )

    def __str__(self) -> str:
        """The text of Kafka's audit log."""
        return (
            f"StandardAcl[resourceType={self.resource_type.name}, "
            f"resourceName={self.resource_name}, patternType={self.pattern_type.name}, "
            f"principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission.name}]"
        )


class AclFilter(NamedTuple):
    """Selects ACLs; None and ANY match everything, MATCH the patterns that apply to a name."""

    resource_type: ResourceType
    resource_name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: Operation
    permission: Permission

    @property
    def has_unknown_pattern(self) -> bool:
        """Whether this release does not know its type of resource or of pattern."""
        return 0 in (self.resource_type, self.pattern_type)

    @property
    def has_unknown_entry(self) -> bool:
        """Whether this release does not know its operation or its permission."""
        return 0 in (self.operation, self.permission)

    def matches(self, acl: Acl) -> bool:
        """Whether the ACL is selected."""
        return (
            self._matches_resource(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_resource(self, acl: Acl) -> bool:
        if self.resource_type not in (ResourceType.ANY, acl.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.resource_name == acl.resource_name
        if acl.pattern_type is PatternType.LITERAL:
            return acl.resource_name in (self.resource_name, WILDCARD)
        return self.resource_name.startswith(acl.resource_name)


def parsed_range(text: str) -> IPv4Network | IPv6Network:
    """The addresses of a range such as "10.0.0.0/8". Raises ValueError."""
    address, _, bits = text.rpartition("/")
    if ":" in address:
        return _parsed_range_6(text, address, bits)
    match = _RANGE_4.fullmatch(text)
    if match is None:
        raise ValueError(f"Could not parse [{text}]")
    *octets, size = map(int, match.groups())
    for number, most in [*((each, 255) for each in octets), (size, 32)]:
        if number > most:
            raise ValueError(f"Value [{number}] not in range [0,{most}]")
    return ip_network((bytes(octets), size), strict=False)


def _parsed_range_6(text: str, address: str, bits: str) -> IPv4Network | IPv6Network:
    reason = f"Could not parse [{text}]"
    if not (bits.isascii() and bits.removeprefix("-").isdecimal()):
        raise ValueError(f"{reason} - invalid prefix length")
    if not 0 <= int(bits) <= 128:
        raise ValueError(f"{reason} - prefix length must be between 0 and 128")
    try:
        return ip_network((address, int(bits)), strict=False)
    except ValueError:
        raise ValueError(reason) from None


@lru_cache(maxsize=1024)
def _range_or_none(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return parsed_range(text)
    except ValueError:
        return None


def _is_in_range(host: str, text: str) -> bool:
    if "/" not in text:
        return False
    found = _range_or_none(text)
    try:
        return found is not None and ip_address(host) in found
    except ValueError:
        return False
