"""The frame of the cases about permissions: a user with few ACLs sends a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wirekafka.codec.message import Request
from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.security.users import acl, add_user
from wirekafka.conformance.stage import Stage
from wirekafka.security.acl import CLUSTER_NAME, Operation, Permission, ResourceType

FOLDER = "permissions"
USER = "user"
"""The connection of the user whose permissions are tried."""
NOTHING, ALL = "no permissions", "all permissions"
_BUT = "all permissions but "
_KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.CLUSTER,
    "transaction": ResourceType.TRANSACTIONAL_ID,
}

MakePermitted = Callable[[Stage], Request]
"""Makes the request of the user."""


def granted_group(stage: Stage) -> str:
    """The group on which the user has its permissions."""
    return stage.neighbours(2, "g")[0]


def other_group(stage: Stage) -> str:
    """A group of the same coordinator on which the user has none."""
    found = stage.neighbours(2, "g")[1]
    # On several nodes its number depends on which groups have the same coordinator.
    stage.call(found, "P-other")
    return found


def granted_transaction(stage: Stage) -> str:
    """The transactional id on which the user has its permissions."""
    return stage.name("x")


@dataclass(frozen=True)
class PermittedRequest:
    """A request of one API, and the permissions with which users send it.

    On the shared topic, one group and one transactional id the user has the permissions, on the
    compacted topic and others none.
    """

    title: str
    """What is asked, where the API has several such requests; or empty."""
    kind: type[Request]
    make: MakePermitted
    grants: str
    """Single permissions with commas between them, such as "topic READ"; "-topic READ" stands for
    all others. Without any, and with all, users ask as well."""
    first: int | None = None
    """The first version that can make the request."""
    prepare: Callable[[Stage], object] | None = None
    """What the super user does before."""
    finish: Callable[[Stage], object] | None = None
    """What the super user does afterwards."""
    at: Callable[[Stage], int] | None = None
    """The broker that is asked, if it is none that the stage knows."""
    show: Callable[[Stage, Any], object] | None = None
    """What is compared of an answer that depends on what others do; by default all."""

    def versions(self, grant: str) -> str:
        """Without permissions all versions, otherwise the latest, with all the first as well."""
        first, last = self.kind.versions
        first = max(first, self.first or 0)
        if grant == NOTHING:
            return f"{first}-{last}"
        latest = f"{max(first, last - 1)}-{last}"
        return f"{first},{latest}" if grant == ALL and last > first + 1 else latest

    def case_title(self, grant: str) -> str:
        """The title of the case of one permission."""
        return f"{self.title}, with {grant}" if self.title else f"with {grant}"

    def tried(self) -> Sequence[str]:
        """The permissions of the users that ask."""
        single = [each.strip() for each in self.grants.split(",") if each.strip()]
        named = [_BUT + each[1:] if each.startswith("-") else each for each in single]
        return (NOTHING, *named, ALL)

    def play(self, stage: Stage, grant: str) -> None:
        """Create the user with its permissions, and ask in its name."""
        name = stage.name(USER)
        add_user(stage, USER, acls=_acls(stage, f"User:{name}", grant))
        if self.prepare is not None:
            self.prepare(stage)
        at = None if self.at is None else self.at(stage)
        request = self.make(stage)
        if self.show is None:
            stage.ask(request, by=USER, at=at)
        else:
            stage.note("what is shown", self.show(stage, stage.do(request, by=USER, at=at)))
        if self.finish is not None:
            self.finish(stage)


def books_of(requests: Sequence[PermittedRequest]) -> tuple[Book, ...]:
    """A book for each API among the requests."""
    books: dict[type[Request], Book] = {}
    for each in requests:
        if each.kind not in books:
            books[each.kind] = Book(
                each.kind,
                "permissions",
                ConformanceLevel.SECURITY,
                "KIP-11",
                frozenset({Need.AUTHORIZER, Need.SCRAM}),
                FOLDER,
            )
        for grant in each.tried():
            _add(books[each.kind], each, grant)
    return tuple(books.values())


def _add(book: Book, asked: PermittedRequest, grant: str) -> None:
    @book.play(asked.case_title(grant), versions=asked.versions(grant))
    def _play(stage: Stage) -> None:
        asked.play(stage, grant)


def _acls(stage: Stage, principal: str, grant: str) -> list[Any]:
    if grant == NOTHING:
        return []
    if grant == ALL or grant.startswith(_BUT):
        acls = [
            acl(principal, kind, _resource(stage, kind), Operation.ALL) for kind in _KINDS.values()
        ]
        if grant == ALL:
            return acls
        return [*acls, _acl(stage, principal, grant.removeprefix(_BUT), Permission.DENY)]
    return [_acl(stage, principal, grant, Permission.ALLOW)]


def _acl(stage: Stage, principal: str, grant: str, permission: Permission) -> Any:
    word, operation = grant.split()
    kind = _KINDS[word]
    resource = _resource(stage, kind)
    return acl(principal, kind, resource, Operation[operation], permission=permission)


def _resource(stage: Stage, kind: ResourceType) -> str:
    if kind is ResourceType.TOPIC:
        return stage.topic
    if kind is ResourceType.GROUP:
        return granted_group(stage)
    if kind is ResourceType.TRANSACTIONAL_ID:
        return granted_transaction(stage)
    return CLUSTER_NAME
