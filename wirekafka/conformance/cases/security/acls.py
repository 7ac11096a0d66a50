"""What the cases about ACLs share: the ACLs of a case, and filters that select only these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wirekafka.conformance.cases.security.users import acl
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.delete_acls import DeleteAclsRequest
from wirekafka.security.acl import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType

ANY = 1
OTHER_HOST = "192.0.2.1"
"""An address of no client (RFC 5737)."""


def anna(stage: Stage) -> str:
    """The principal of the case's ACLs, who need not exist."""
    return f"User:{stage.name('anna')}"


def some_acls(stage: Stage) -> list[Any]:
    """ACLs of every kind, all of the same principal."""
    who, topic = anna(stage), ResourceType.TOPIC
    return [
        acl(who, topic, stage.name("t"), Operation.READ, host=OTHER_HOST),
        acl(who, topic, stage.name("t"), Operation.WRITE, permission=Permission.DENY),
        acl(who, topic, stage.name("t2"), Operation.ALL, host=OTHER_HOST),
        acl(who, topic, stage.name(), Operation.DESCRIBE, pattern=PatternType.PREFIXED),
        acl(who, topic, "*", Operation.DELETE, host=OTHER_HOST),
        acl(who, ResourceType.GROUP, stage.name("t"), Operation.READ, host=OTHER_HOST),
        acl(who, ResourceType.CLUSTER, CLUSTER_NAME, Operation.CREATE, host=OTHER_HOST),
        acl(who, ResourceType.TRANSACTIONAL_ID, stage.name("x"), Operation.WRITE),
        acl(who, ResourceType.DELEGATION_TOKEN, stage.name("d"), Operation.DESCRIBE),
        acl(who, ResourceType.USER, f"User:{stage.name('u')}", Operation.CREATE_TOKENS),
    ]


FILTERS: dict[str, Callable[[Stage], dict[str, Any]]] = {
    "of a principal": lambda _: {},
    "of a principal and a type": lambda s: {"kind": ResourceType.TOPIC},
    "of the cluster": lambda s: {"kind": ResourceType.CLUSTER},
    "of a name": lambda s: {"name": s.name("t")},
    "of a name and a type": lambda s: {"name": s.name("t"), "kind": ResourceType.TOPIC},
    "of a literal name": lambda s: {"name": s.name("t"), "pattern": PatternType.LITERAL},
    "of a name with literal patterns": lambda s: {"pattern": PatternType.LITERAL},
    "of a prefixed name": lambda s: {"name": s.name(), "pattern": PatternType.PREFIXED},
    "of a name that is no prefix": lambda s: {"name": s.name("t"), "pattern": PatternType.PREFIXED},
    "of all prefixes": lambda s: {"pattern": PatternType.PREFIXED},
    "of what matches a name": lambda s: {"name": s.name("t"), "pattern": PatternType.MATCH},
    "of what matches a topic": lambda s: {
        "name": s.name("t"),
        "pattern": PatternType.MATCH,
        "kind": ResourceType.TOPIC,
    },
    "of what matches any name": lambda s: {"pattern": PatternType.MATCH},
    "of the wildcard": lambda s: {"name": "*", "kind": ResourceType.TOPIC},
    "of what matches the wildcard": lambda s: {"name": "*", "pattern": PatternType.MATCH},
    "of an operation": lambda s: {"operation": Operation.READ},
    "of operation ALL": lambda s: {"operation": Operation.ALL},
    "of a permission": lambda s: {"permission": Permission.DENY},
    "of a host": lambda s: {"host": OTHER_HOST},
    "of all hosts": lambda s: {"host": "*"},
    "of a host without ACLs": lambda s: {"host": "192.0.2.2"},
    "of nobody": lambda s: {"principal": f"User:{s.name('nobody')}"},
    "of everybody": lambda s: {"principal": "User:*", "name": s.name("t")},
    "of any principal": lambda s: {"principal": None, "name": s.name("t")},
    "of a principal of another type": lambda s: {"principal": anna(s).replace("User", "Group")},
    "of a principal without a type": lambda s: {"principal": s.name("anna")},
    "of an empty principal": lambda s: {"principal": "", "name": s.name("t")},
    "of an empty name": lambda s: {"name": ""},
    "of an empty host": lambda s: {"host": ""},
    "of type UNKNOWN": lambda s: {"kind": 0},
    "of pattern UNKNOWN": lambda s: {"pattern": 0},
    "of operation UNKNOWN": lambda s: {"operation": 0},
    "of permission UNKNOWN": lambda s: {"permission": 0},
    "of a future type": lambda s: {"kind": 99},
    "of a future pattern": lambda s: {"pattern": 99},
    "of a future operation": lambda s: {"operation": 99},
    "of a future permission": lambda s: {"permission": 99},
    "of a negative type": lambda s: {"kind": -1},
}
"""The fields of filters by what they are about; each selects ACLs of the case only, as long as
`principal` is the case's own by default."""


def deletion_filter(
    *,
    kind: int = ANY,
    name: str | None = None,
    pattern: int = ANY,
    principal: str | None = None,
    host: str | None = None,
    operation: int = ANY,
    permission: int = ANY,
) -> DeleteAclsRequest.Filter:
    """A filter of DeleteAcls; what is not given matches all."""
    return DeleteAclsRequest.Filter(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=principal,
        host_filter=host,
        operation=operation,
        permission_type=permission,
    )
