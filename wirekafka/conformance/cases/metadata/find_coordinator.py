"""FindCoordinator: one key or several, of groups, transactions and share partitions."""

from __future__ import annotations

from collections.abc import Callable

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.stage import GROUP, SHARE, TRANSACTION, Stage
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest

BOOK = Book(
    FindCoordinatorRequest, "metadata", ConformanceLevel.CORE, "FindCoordinatorRequest.json"
)
_MANY = 200
_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
_TYPES = {"type 3": 3, "type minus 1": -1, "type 127": 127}


def find(*keys: str, kind: int = GROUP) -> FindCoordinatorRequest:
    """A request for the coordinators of keys; versions before 4 have only the first."""
    return FindCoordinatorRequest(
        key=keys[0] if keys else "", key_type=kind, coordinator_keys=list(keys)
    )


_ALL: dict[str, Callable[[Stage], FindCoordinatorRequest]] = {
    "a group": lambda s: find(s.name("g")),
    "a transaction": lambda s: find(s.name("x"), kind=TRANSACTION),
    "a group of no name": lambda _: find(""),
    "a transaction of no name": lambda _: find("", kind=TRANSACTION),
    "a group of other letters": lambda s: find(s.name("ünïcode ☃")),
    "a group with a long name": lambda s: find(s.name("g") + "x" * 5000),
    "a group of spaces": lambda _: find("   "),
}

for _title, _make in _ALL.items():
    BOOK.ask(_title, _make)
for _title, _kind in _TYPES.items():
    BOOK.ask(
        f"a key of {_title}",
        lambda s, kind=_kind: find(s.name("k"), kind=kind),  # type: ignore[misc]
        versions="1+",
    )
_BATCHES: dict[str, Callable[[Stage], FindCoordinatorRequest]] = {
    "no keys": lambda _: find(),
    "two groups": lambda s: find(s.name("g"), s.name("h")),
    "a group twice": lambda s: find(s.name("g"), s.name("g")),
    "a group and no name": lambda s: find(s.name("g"), ""),
    "two transactions": lambda s: find(s.name("x"), s.name("y"), kind=TRANSACTION),
    "two keys of type 3": lambda s: find(s.name("g"), s.name("h"), kind=3),
}

for _title, _make in _BATCHES.items():
    BOOK.ask(_title, _make, versions="4+", source="KIP-699")
_SHARE_KEYS = {
    "without colons": "group",
    "of a group and an id": f"g:{_ID}",
    "without a group": f":{_ID}:0",
    "with a bad id": "g:none:0",
    "with the id of no letters": "g::0",
    "with a bad partition": f"g:{_ID}:x",
    "without a partition": f"g:{_ID}:",
    "of no letters": "",
}

for _title, _key in _SHARE_KEYS.items():
    BOOK.ask(
        f"a share key {_title}",
        lambda _, key=_key: find(key, kind=SHARE),  # type: ignore[misc]
        versions="6+",
        source="KIP-932",
        level=ConformanceLevel.GROUPS,
    )
BOOK.ask(
    "a share key too early",
    lambda _: find(f"g:{_ID}:0", kind=SHARE),
    versions="1-5",
    source="KIP-932",
    level=ConformanceLevel.GROUPS,
)


@BOOK.play("many groups", versions="4,6", source="KIP-699")
def _many(stage: Stage) -> None:
    """Each of many keys has an answer, in the order of the request."""
    keys = [stage.name(f"g-{number}") for number in range(_MANY)]
    found = stage.do(find(*keys)).coordinators
    stage.note("are in order", [each.key for each in found] == keys)
    stage.note("errors", sorted({each.error_code for each in found}))
    stage.note("are brokers", {each.node_id for each in found} <= set(stage.target.nodes))


@BOOK.play("every broker's answer", versions="0,3-4,6")
def _everywhere(stage: Stage) -> None:
    """All brokers name the same coordinator, at the address that Metadata gives."""
    request = find(stage.name("g"))
    answers = [stage.do(request, at=node) for node in stage.target.nodes]
    found = [each.coordinators[0] if stage.version >= 4 else each for each in answers]
    stage.note("coordinators", len({each.node_id for each in found}))
    addresses = {(each.node_id, each.host, each.port) for each in found}
    known = {(id, each.host, each.port) for id, each in stage.target.nodes.items()}
    stage.note("are where Metadata says", addresses <= known)


@BOOK.play("a group again", versions="0,3-4,6")
def _again(stage: Stage) -> None:
    """The coordinator of a key stays."""
    request = find(stage.name("g"))
    first, second = stage.do(request), stage.do(request)
    stage.note("are the same", first == second)
