"""What ACLs permit: users look at a topic, and at what they may do with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.security.acls import OTHER_HOST, deletion_filter
from wirekafka.conformance.cases.security.users import acl, add_acls, add_user, await_acls
from wirekafka.conformance.stage import PreparationFailed, Stage
from wirekafka.errors import Error
from wirekafka.protocol.create_acls import CreateAclsRequest
from wirekafka.protocol.delete_acls import DeleteAclsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.security.acl import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_NAME,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    READ,
    TOPIC,
    WRITE,
    Operation,
    PatternType,
    Permission,
)

BOOK = Book(
    MetadataRequest,
    "security",
    ConformanceLevel.SECURITY,
    "KIP-11",
    frozenset({Need.AUTHORIZER, Need.SCRAM}),
    "authorizer",
)
_USER = "user"
_ALL = Operation.ALL
_DENY: dict[str, Any] = {"permission": Permission.DENY}
_PREFIXED: dict[str, Any] = {"pattern": PatternType.PREFIXED}


class _Acls:
    """Makes ACLs of the case's user on the shared topic."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.user = f"User:{stage.name(_USER)}"
        self.topic, self.prefix = stage.topic, stage.topic[:-3]

    def on(self, operation: Operation, name: str = "", who: str = "", **more: Any) -> Any:
        """An ACL, by default on the topic and of the user."""
        return acl(who or self.user, TOPIC, name or self.topic, operation, **more)

    def on_prefix(self, operation: Operation, **more: Any) -> Any:
        """An ACL on all topics that begin as the topic does."""
        return acl(self.user, TOPIC, self.prefix, operation, **_PREFIXED, **more)


_WORLDS: dict[str, Callable[[_Acls], Iterable[Any]]] = {
    "no ACLs": lambda _: [],
    "READ": lambda a: [a.on(READ)],
    "WRITE": lambda a: [a.on(WRITE)],
    "DESCRIBE": lambda a: [a.on(DESCRIBE)],
    "ALTER": lambda a: [a.on(ALTER)],
    "DELETE": lambda a: [a.on(DELETE)],
    "CREATE": lambda a: [a.on(CREATE)],
    "DESCRIBE_CONFIGS": lambda a: [a.on(DESCRIBE_CONFIGS)],
    "ALTER_CONFIGS": lambda a: [a.on(ALTER_CONFIGS), a.on(DESCRIBE)],
    "ALL": lambda a: [a.on(_ALL)],
    "READ of a prefix": lambda a: [a.on_prefix(READ)],
    "READ of the topic as a prefix": lambda a: [a.on(READ, **_PREFIXED)],
    "READ of a longer prefix": lambda a: [a.on(READ, f"{a.topic}x", **_PREFIXED)],
    "READ of a prefix that is taken literally": lambda a: [a.on(READ, a.prefix)],
    "READ of all topics": lambda a: [a.on(READ, "*")],
    "READ of the asterisk as a prefix": lambda a: [a.on(READ, "*", **_PREFIXED)],
    "READ of a group of that name": lambda a: [acl(a.user, GROUP, a.topic, READ)],
    "CREATE on the cluster": lambda a: [acl(a.user, CLUSTER, CLUSTER_NAME, CREATE)],
    "READ for another host": lambda a: [a.on(READ, host=OTHER_HOST)],
    "READ for another network": lambda a: [a.on(READ, host="192.0.2.0/24")],
    "READ for another user": lambda a: [a.on(READ, who=f"{a.user}x")],
    "READ for the user in capitals": lambda a: [a.on(READ, who=f"User:{a.user[5:].upper()}")],
    "READ for a group of users": lambda a: [a.on(READ, who=f"Group:{a.user[5:]}")],
    "READ for a type in small letters": lambda a: [a.on(READ, who=f"user:{a.user[5:]}")],
    "READ and WRITE": lambda a: [a.on(READ), a.on(WRITE)],
    "ALL but READ": lambda a: [a.on(_ALL), a.on(READ, **_DENY)],
    "ALL but DESCRIBE": lambda a: [a.on(_ALL), a.on(DESCRIBE, **_DENY)],
    "READ but not DESCRIBE": lambda a: [a.on(READ), a.on(DESCRIBE, **_DENY)],
    "DESCRIBE but not READ": lambda a: [a.on(DESCRIBE), a.on(READ, **_DENY)],
    "READ but not ALL": lambda a: [a.on(READ), a.on(_ALL, **_DENY)],
    "a denial of ALL": lambda a: [a.on(_ALL, **_DENY)],
    "ALL but READ of a prefix": lambda a: [a.on(_ALL), a.on_prefix(READ, **_DENY)],
    "ALL of a prefix but READ": lambda a: [a.on_prefix(_ALL), a.on(READ, **_DENY)],
    "ALL but READ of all topics": lambda a: [a.on(_ALL), a.on(READ, "*", **_DENY)],
    "ALL but READ of another topic": lambda a: [a.on(_ALL), a.on(READ, f"{a.topic}x", **_DENY)],
    "ALL but for another host": lambda a: [a.on(_ALL), a.on(READ, host=OTHER_HOST, **_DENY)],
    "ALL but for another user": lambda a: [a.on(_ALL), a.on(READ, who=f"{a.user}x", **_DENY)],
    "READ, allowed and denied": lambda a: [a.on(READ), a.on(READ, **_DENY)],
    "ALTER_CONFIGS but not DESCRIBE_CONFIGS": lambda a: [
        a.on(DESCRIBE),
        a.on(ALTER_CONFIGS),
        a.on(DESCRIBE_CONFIGS, **_DENY),
    ],
}


def _look(stage: Stage) -> MetadataRequest:
    topic = MetadataRequest.Topic(name=stage.topic)
    return MetadataRequest(
        topics=[topic], allow_auto_topic_creation=False, include_topic_authorized_operations=True
    )


for _what, _world in _WORLDS.items():

    @BOOK.play(f"with {_what}", versions="9")
    def _try(stage: Stage, world: Callable[[_Acls], Iterable[Any]] = _world) -> None:
        add_user(stage, _USER, acls=world(_Acls(stage)))
        stage.ask(_look(stage), by=_USER)


def _until_seen(stage: Stage, error: Error) -> None:
    def is_so() -> bool:
        answer = stage.do(_look(stage), 9, by=_USER)
        return bool(answer.topics[0].error_code == error)

    stage.until(is_so, f"{error.name} for the topic")


@BOOK.play("an ACL that comes and goes", versions="9")
def _comes(stage: Stage) -> None:
    """Connections that are open get and lose permissions."""
    acls = _Acls(stage)
    add_user(stage, _USER)
    stage.ask(_look(stage), by=_USER)
    add_acls(stage, [acls.on(READ)])
    _until_seen(stage, Error.NONE)
    stage.ask(_look(stage), by=_USER)
    deleted = DeleteAclsRequest(filters=[deletion_filter(principal=acls.user)])
    if stage.do(deleted, 3).filter_results[0].error_code:
        raise PreparationFailed("DeleteAcls")
    await_acls(stage, acls.user, 0)
    _until_seen(stage, Error.TOPIC_AUTHORIZATION_FAILED)
    stage.ask(_look(stage), by=_USER)


@BOOK.play("a denial that comes later", versions="9")
def _denied(stage: Stage) -> None:
    """Connections that are open lose permissions."""
    acls = _Acls(stage)
    add_user(stage, _USER, acls=[acls.on(_ALL)])
    stage.ask(_look(stage), by=_USER)
    denial = acls.on(DESCRIBE, permission=Permission.DENY)
    stage.note("created", [each.error_code for each in _create(stage, denial).results])
    await_acls(stage, acls.user, 2)
    _until_seen(stage, Error.TOPIC_AUTHORIZATION_FAILED)
    stage.ask(_look(stage), by=_USER)


def _create(stage: Stage, *acls: Any) -> Any:
    return stage.do(CreateAclsRequest(creations=list(acls)), 3)
