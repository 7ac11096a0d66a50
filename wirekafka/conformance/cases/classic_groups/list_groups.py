"""ListGroups: which groups are listed, with their states and types."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Make
from wirekafka.conformance.cases.classic_groups.classic import (
    JOIN,
    PlayedGroup,
    deleted,
    neighbours,
)
from wirekafka.conformance.stage import GROUP, Stage
from wirekafka.errors import Error
from wirekafka.protocol.list_groups import ListGroupsRequest

BOOK = Book(ListGroupsRequest, "classic groups", ConformanceLevel.ADMIN, "ListGroupsRequest.json")
_STATES, _TYPES = "KIP-518", "KIP-848"


def _listing(states: list[str], types: list[str] | None = None) -> ListGroupsRequest:
    return ListGroupsRequest(states_filter=states, types_filter=types or [])


_ASKS: dict[str, tuple[str, Make]] = {
    "an unknown state": ("4+", lambda _: _listing(["NoSuchState"])),
    "a state without a name": ("4+", lambda _: _listing([""])),
    "the state of a dead group": ("4+", lambda _: _listing(["Dead"])),
    "an unknown type": ("5+", lambda _: _listing([], ["nosuchtype"])),
    "a type without a name": ("5+", lambda _: _listing([], [""])),
    "a state that no classic group has": ("5+", lambda _: _listing(["Assigning"], ["classic"])),
    "an unknown state of a known type": ("5+", lambda _: _listing(["NoSuchState"], ["classic"])),
}
for _title, (_versions, _make) in _ASKS.items():
    BOOK.ask(_title, _make, versions=_versions)


def _shown(stage: Stage, what: str, node: int, *filters: Any) -> None:
    """Compare the groups of this case that are listed with filters."""
    answer = stage.do(_listing(*(filters or ([],))), stage.version, at=node)
    stage.note(f"{what}: error", Error.of(answer.error_code).name)
    prefix = stage.name() + "-"
    mine = [each for each in answer.groups if each.group_id.startswith(prefix)]
    stage.note(what, mine)


def _troupe(stage: Stage) -> int:
    """Groups in all states on one coordinator; returns its node."""
    simple, left, completing, stable, preparing = neighbours(
        stage, "simple", "left", "completing", "stable", "preparing"
    )
    simple.commit(stage.topic)
    left.loses(left.settle("a")[0])
    completing.gather("b")
    stable.settle(stable.member("c", kind="connect", protocols=["eager"]))
    (member,) = preparing.settle("d")
    preparing.member("e").starts(JOIN, is_compared=False)
    member.must_rejoin()
    return stage.coordinator(GROUP, simple.name)


@BOOK.play("groups in all states", versions="0-5")
def _all_states(stage: Stage) -> None:
    """The type of the protocol, from version 4 the state, from version 5 the type."""
    _shown(stage, "all", _troupe(stage))


_FILTERS: dict[str, list[str]] = {
    "stable groups": ["Stable"],
    "empty groups": ["Empty"],
    "groups in a rebalance": ["PreparingRebalance", "CompletingRebalance"],
    "states in other letters": ["sTABLE", "EMPTY"],
    "a state twice": ["Stable", "Stable"],
    "known and unknown states": ["NoSuchState", "Stable"],
}


@BOOK.play("states", versions="4-5", source=_STATES)
def _states(stage: Stage) -> None:
    """Only groups in one of the states are listed."""
    node = _troupe(stage)
    for what, states in _FILTERS.items():
        _shown(stage, what, node, states)


_TYPE_FILTERS: dict[str, list[str]] = {
    "classic groups": ["classic"],
    "classic groups in capital letters": ["CLASSIC"],
    "consumer groups": ["consumer"],
    "groups of two types": ["consumer", "classic"],
    "share groups": ["share"],
    "known and unknown types": ["classic", "nosuchtype"],
}


@BOOK.play("types", versions="5", source=_TYPES)
def _types(stage: Stage) -> None:
    """Only groups of one of the types are listed."""
    node = _troupe(stage)
    for what, types in _TYPE_FILTERS.items():
        _shown(stage, what, node, [], types)
    _shown(stage, "stable classic groups", node, ["Stable"], ["classic"])
    _shown(stage, "stable consumer groups", node, ["Stable"], ["consumer"])


@BOOK.play("a deleted group", versions="0,5")
def _deleted(stage: Stage) -> None:
    group = PlayedGroup(stage, "g")
    group.commit(stage.topic)
    node = stage.coordinator(GROUP, group.name)
    _shown(stage, "before", node)
    stage.do(deleted(group.name), 1)
    _shown(stage, "after", node)
