"""StreamsGroupTopologyDescriptionUpdate: what is refused where no plugin stores descriptions."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.consumer_groups.consumer_play import member_id
from wirekafka.conformance.cases.streams_groups.streams_play import StreamsPlay, topology
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)

BOOK = Book(
    StreamsGroupTopologyDescriptionUpdateRequest,
    "streams groups",
    ConformanceLevel.GROUPS,
    "KIP-1331",
)


def _update(group_id: str, member: str = "m") -> StreamsGroupTopologyDescriptionUpdateRequest:
    return StreamsGroupTopologyDescriptionUpdateRequest(group_id=group_id, member_id=member)


BOOK.ask("a missing group", lambda s: _update(s.name("g")))
BOOK.ask("an empty group id", lambda _: _update(""))
BOOK.ask("an empty member id", lambda s: _update(s.name("g"), ""))


@BOOK.play("of a member")
def _member(stage: Stage) -> None:
    """A member of the group, and a stranger."""
    play = StreamsPlay(stage)
    play.join("anna", topology(stage.missing))
    stage.ask(_update(play.group_id, member_id("anna")))
    stage.ask(_update(play.group_id, "stranger"))
