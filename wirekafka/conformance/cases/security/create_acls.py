"""CreateAcls: which ACLs there may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.security.acls import OTHER_HOST, anna, some_acls
from wirekafka.conformance.cases.security.users import acl_filter, add_acls, await_acls
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.create_acls import CreateAclsRequest
from wirekafka.security.acl import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType

BOOK = Book(CreateAclsRequest, "security", ConformanceLevel.SECURITY, "KIP-140")
_AUTHORIZER = frozenset({Need.AUTHORIZER})


def _acl(stage: Stage, **changed: Any) -> CreateAclsRequest.AclCreation:
    known = {
        "resource_type": ResourceType.TOPIC,
        "resource_pattern_type": PatternType.LITERAL,
        "resource_name": stage.name("t"),
        "principal": anna(stage),
        "host": OTHER_HOST,
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }
    return CreateAclsRequest.AclCreation(**{**known, **changed})


_CLUSTER = {"resource_type": ResourceType.CLUSTER, "resource_name": CLUSTER_NAME}
_CHANGES: dict[str, Callable[[Stage], dict[str, Any]]] = {
    "an ACL that allows": lambda _: {},
    "an ACL that denies": lambda _: {"permission_type": Permission.DENY},
    "an ACL for all hosts": lambda _: {"host": "*"},
    "an ACL for a prefix": lambda _: {"resource_pattern_type": PatternType.PREFIXED},
    "an ACL for all topics": lambda _: {"resource_name": "*"},
    "an ACL for all operations": lambda _: {"operation": Operation.ALL},
    "an ACL for everybody": lambda _: {"principal": "User:*"},
    "an ACL for a group of users": lambda s: {"principal": f"Group:{s.name('anna')}"},
    "type UNKNOWN": lambda _: {"resource_type": 0},
    "type ANY": lambda _: {"resource_type": 1},
    "a future type": lambda _: {"resource_type": 99},
    "pattern UNKNOWN": lambda _: {"resource_pattern_type": 0},
    "pattern ANY": lambda _: {"resource_pattern_type": PatternType.ANY},
    "pattern MATCH": lambda _: {"resource_pattern_type": PatternType.MATCH},
    "a future pattern": lambda _: {"resource_pattern_type": 99},
    "operation UNKNOWN": lambda _: {"operation": 0},
    "operation ANY": lambda _: {"operation": Operation.ANY},
    "a future operation": lambda _: {"operation": 99},
    "permission UNKNOWN": lambda _: {"permission_type": 0},
    "permission ANY": lambda _: {"permission_type": Permission.ANY},
    "a future permission": lambda _: {"permission_type": 99},
    "no name": lambda _: {"resource_name": ""},
    "no host": lambda _: {"host": ""},
    "a host that is no address": lambda _: {"host": "kafka.example.org"},
    "a network for a host": lambda _: {"host": "192.0.2.0/24"},
    "a network of a wrong size for a host": lambda _: {"host": "192.0.2.0/33"},
    **{
        f"the network {text} for a host": lambda _, text=text: {"host": text}  # type: ignore[misc]
        for text in (
            *("192.0.256.0/24", "192.0.2.0/-1", "192.0.2.0/024", "192.0.2/24", "192.0.2.0/"),
            *("2001:db8::/32", "2001:db8::/129", "2001:db8::/x", "/24", "example.org/24"),
        )
    },
    "no principal": lambda _: {"principal": ""},
    "a principal without a type": lambda s: {"principal": s.name("anna")},
    "a principal without a name": lambda _: {"principal": "User:"},
    "a principal of an empty type": lambda s: {"principal": f":{s.name('anna')}"},
    "a principal with a colon": lambda s: {"principal": f"User:{s.name('anna')}:x"},
    "the cluster": lambda _: {**_CLUSTER, "operation": Operation.CREATE},
    "the cluster by another name": lambda s: {
        "resource_type": ResourceType.CLUSTER,
        "resource_name": s.name("cluster"),
        "operation": Operation.CREATE,
    },
    "a prefix of the cluster": lambda _: {
        **_CLUSTER,
        "resource_pattern_type": PatternType.PREFIXED,
        "operation": Operation.CREATE,
    },
    "READ on the cluster": lambda _: {**_CLUSTER},
    "CLUSTER_ACTION on a topic": lambda _: {"operation": Operation.CLUSTER_ACTION},
    "IDEMPOTENT_WRITE on a topic": lambda _: {"operation": Operation.IDEMPOTENT_WRITE},
    "WRITE on a group": lambda _: {
        "resource_type": ResourceType.GROUP,
        "operation": Operation.WRITE,
    },
    "READ on a transactional id": lambda _: {"resource_type": ResourceType.TRANSACTIONAL_ID},
    "DESCRIBE on a token": lambda _: {
        "resource_type": ResourceType.DELEGATION_TOKEN,
        "operation": Operation.DESCRIBE,
    },
    "CREATE_TOKENS on a user": lambda s: {
        "resource_type": ResourceType.USER,
        "resource_name": f"User:{s.name('u')}",
        "operation": Operation.CREATE_TOKENS,
    },
    "READ on a user": lambda s: {
        "resource_type": ResourceType.USER,
        "resource_name": f"User:{s.name('u')}",
    },
    "TWO_PHASE_COMMIT on a transactional id": lambda _: {
        "resource_type": ResourceType.TRANSACTIONAL_ID,
        "operation": Operation.TWO_PHASE_COMMIT,
    },
    "a name that no topic may have": lambda s: {"resource_name": f"{s.name()} /?"},
    "a very long name": lambda s: {"resource_name": s.name("x" * 300)},
}

for _what, _change in _CHANGES.items():

    @BOOK.play(_what, source="KIP-290", needs=_AUTHORIZER)
    def _create(stage: Stage, change: Callable[[Stage], dict[str, Any]] = _change) -> None:
        stage.ask(CreateAclsRequest(creations=[_acl(stage, **change(stage))]))


@BOOK.play("an ACL twice in a request", versions="1,3", needs=_AUTHORIZER)
def _twice(stage: Stage) -> None:
    """It is there once."""
    stage.ask(CreateAclsRequest(creations=[_acl(stage), _acl(stage)]))
    await_acls(stage, anna(stage), 1)
    stage.ask(acl_filter(principal=anna(stage)), 3)


@BOOK.play("an ACL that is there", versions="1,3", needs=_AUTHORIZER)
def _again(stage: Stage) -> None:
    """It is no error to create it again, and it is there once."""
    add_acls(stage, [_acl(stage)])
    stage.ask(CreateAclsRequest(creations=[_acl(stage)]))
    stage.ask(acl_filter(principal=anna(stage)), 3)


@BOOK.play("an ACL that is wrong beside one that is right", needs=_AUTHORIZER)
def _beside(stage: Stage) -> None:
    """The other is not created either, where the whole request is refused."""
    stage.ask(CreateAclsRequest(creations=[_acl(stage, operation=Operation.ANY), _acl(stage)]))
    # A later change is known when the earlier ones are.
    add_acls(stage, [_acl(stage, principal=f"User:{stage.name('later')}")])
    stage.ask(acl_filter(principal=anna(stage)), 3)


@BOOK.play("many ACLs", versions="1,3", needs=_AUTHORIZER)
def _many(stage: Stage) -> None:
    stage.ask(CreateAclsRequest(creations=some_acls(stage)))
    await_acls(stage, anna(stage), len(some_acls(stage)))


@BOOK.play("no ACLs", needs=_AUTHORIZER)
def _none(stage: Stage) -> None:
    stage.ask(CreateAclsRequest(creations=[]))


@BOOK.play("without an authorizer", needs={Need.NO_AUTHORIZER})
def _disabled(stage: Stage) -> None:
    stage.ask(CreateAclsRequest(creations=[_acl(stage)]))
    stage.ask(CreateAclsRequest(creations=[_acl(stage, operation=0), _acl(stage)]))
    stage.ask(CreateAclsRequest(creations=[]))
