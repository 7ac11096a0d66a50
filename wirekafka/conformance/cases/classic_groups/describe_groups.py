"""DescribeGroups: the state and the members of groups."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel, Make
from wirekafka.conformance.cases.classic_groups.classic import (
    JOIN,
    PlayedGroup,
    deleted,
    described,
    neighbours,
    subscription,
)
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.describe_groups import DescribeGroupsRequest

BOOK = Book(
    DescribeGroupsRequest, "classic groups", ConformanceLevel.ADMIN, "DescribeGroupsRequest.json"
)
_FEW = "0,3-6"
"""Without and with authorized operations, instance ids, and messages for unknown groups."""
_ENDS = "0,5-6"

_ASKS: dict[str, Make] = {
    "an unknown group": lambda s: described(s.name()),
    "no groups": lambda _: described(),
    "an unknown group twice": lambda s: described(s.name(), s.name()),
}
for _title, _make in _ASKS.items():
    BOOK.ask(_title, _make)

BOOK.ask(
    "operations on an unknown group",
    lambda s: described(s.name(), operations=True),
    versions="3+",
    source="KIP-430",
)


@BOOK.play("a group with offsets only", versions="0-6")
def _simple(stage: Stage) -> None:
    group = PlayedGroup(stage)
    group.commit(stage.topic)
    stage.ask(described(group.name))


@BOOK.play("operations on a group with offsets only", versions="3,6", source="KIP-430")
def _simple_operations(stage: Stage) -> None:
    group = PlayedGroup(stage)
    group.commit(stage.topic)
    stage.ask(described(group.name, operations=True))


@BOOK.play("a stable group", versions="0-6")
def _stable(stage: Stage) -> None:
    """The protocol, and each member's metadata and assignment."""
    group = PlayedGroup(stage)
    group.settle(
        group.member("a", metadata=subscription(user_data=b"metadata a")),
        group.member("b", metadata=subscription(user_data=b"b's")),
    )
    stage.ask(described(group.name))


@BOOK.play("operations on a stable group", versions="3,6", source="KIP-430")
def _operations(stage: Stage) -> None:
    group = PlayedGroup(stage)
    group.settle("a")
    stage.ask(described(group.name, operations=True))


@BOOK.play("the client of a member", versions="0,6")
def _client(stage: Stage) -> None:
    """The client id, and a host that begins with a slash."""
    group = PlayedGroup(stage)
    group.settle("a")
    (member,) = stage.do(described(group.name), stage.version).groups[0].members
    stage.note("the client id", member.client_id)
    stage.note("the host begins with a slash", member.client_host.startswith("/"))


@BOOK.play("before the assignment", versions=_FEW)
def _completing(stage: Stage) -> None:
    """The protocol is chosen, and no member has an assignment or shows its metadata."""
    group = PlayedGroup(stage)
    group.gather("a", "b")
    stage.ask(described(group.name))


@BOOK.play("a rebalance", versions=_FEW)
def _preparing(stage: Stage) -> None:
    """A new member, a member that has rejoined and a member that has not."""
    group = PlayedGroup(stage)
    first, _ = group.settle("a", "b")
    group.member("c").starts(JOIN, is_compared=False)
    first.must_rejoin()
    first.starts(JOIN, is_compared=False)
    stage.until(
        lambda: len(stage.do(described(group.name), 4, by="d").groups[0].members) == 3,
        "three members",
    )
    stage.ask(described(group.name), by="d")


@BOOK.play("a group that was left", versions=_FEW)
def _emptied(stage: Stage) -> None:
    """The type of the protocol stays, the protocol does not."""
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    group.loses(member)
    stage.ask(described(group.name))


@BOOK.play("a group that was left before its assignment", versions=_ENDS)
def _emptied_early(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.gather("a")
    group.loses(member)
    stage.ask(described(group.name))


@BOOK.play("a deleted group", versions=_FEW)
def _deleted(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    group.loses(member)
    stage.do(deleted(group.name), 1)
    stage.ask(described(group.name))


@BOOK.play("an id that was given only, beside a member", versions=_ENDS, source="KIP-394")
def _pending_beside(stage: Stage) -> None:
    """A pending member is not described."""
    group = PlayedGroup(stage)
    group.settle("a")
    group.member("b").gets_id()
    stage.ask(described(group.name))


@BOOK.play("static members", versions="0,3-6", source="KIP-345")
def _static(stage: Stage) -> None:
    """Versions before 4 do not show instance ids."""
    group = PlayedGroup(stage)
    group.settle(group.member("a", "one"), group.member("b"), group.member("c", "two"))
    stage.ask(described(group.name))


@BOOK.play("a static member that came back", versions="4-5", source="KIP-345")
def _came_back(stage: Stage) -> None:
    """The new id has the assignment of the old one."""
    group = PlayedGroup(stage)
    _, member = group.settle(group.member("a"), group.member("b", "me"))
    member.id = ""
    member.starts(JOIN, is_compared=False).answer()
    stage.ask(described(group.name))


@BOOK.play("another protocol type", versions=_ENDS)
def _connect(stage: Stage) -> None:
    """Groups that are no consumers are described as well."""
    group = PlayedGroup(stage)
    group.settle(
        group.member("a", kind="connect", protocols={"sessioned": b"\1\2", "eager": b"\3"})
    )
    stage.ask(described(group.name))


@BOOK.play("metadata of the chosen protocol", versions=_ENDS)
def _chosen(stage: Stage) -> None:
    group = PlayedGroup(stage)
    group.settle(
        group.member(
            "a",
            protocols={
                "range": subscription(user_data=b"a-range"),
                "sticky": subscription(user_data=b"a-sticky"),
            },
        ),
        group.member("b", protocols={"sticky": subscription(user_data=b"b-sticky")}),
    )
    stage.ask(described(group.name))


@BOOK.play("several groups", versions=_FEW)
def _several(stage: Stage) -> None:
    """Known and unknown groups of one coordinator, a stable group twice."""
    simple, stable, unknown = neighbours(stage, "simple", "stable", "unknown")
    simple.commit(stage.topic)
    stable.settle("a")
    stage.ask(described(stable.name, unknown.name, simple.name, stable.name))
