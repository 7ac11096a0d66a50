"""DeleteShareGroupOffsets: what is deleted, and what is refused."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.consumer_groups.consumer_play import ConsumerPlay
from wirekafka.conformance.cases.share_groups.share_offsets import deleting, describing
from wirekafka.conformance.cases.share_groups.share_play import SharePlay
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.delete_share_group_offsets import DeleteShareGroupOffsetsRequest

BOOK = Book(
    DeleteShareGroupOffsetsRequest,
    "share groups",
    ConformanceLevel.GROUPS,
    "KIP-932",
    needs=frozenset({Need.SHARE_STATES}),
)

BOOK.ask("an empty group id", lambda s: deleting("", s.topic))
BOOK.ask("a missing group", lambda s: deleting(s.name("g"), s.topic))
BOOK.ask("a missing group and no topics", lambda s: deleting(s.name("g")))


@BOOK.play("an empty group")
def _empty(stage: Stage) -> None:
    """A topic without offsets, a missing topic, and a topic with offsets."""
    play = SharePlay(stage)
    stage.ask(deleting(play.group_id, stage.topic, stage.missing))
    stage.ask(deleting(play.group_id))
    stage.ask(deleting(play.group_id, play.topic))
    stage.ask(describing(play.group_id, None), 0)
    stage.ask(deleting(play.group_id, play.topic))


@BOOK.play("a group with a member")
def _member(stage: Stage) -> None:
    """Refused while there is a member, and done when it has left."""
    play = SharePlay(stage)
    stage.do(play.heartbeat("anna", 0, play.topic), 1)
    stage.ask(deleting(play.group_id, play.topic))
    stage.do(play.heartbeat("anna", -1), 1)
    stage.ask(deleting(play.group_id, play.topic))


@BOOK.play("a consumer group")
def _consumers(stage: Stage) -> None:
    """A group of another kind."""
    group = ConsumerPlay(stage)
    group.join("anna", stage.topic)
    stage.ask(deleting(group.group_id, stage.topic))


@BOOK.play("a deleted group")
def _deleted(stage: Stage) -> None:
    """DeleteGroups deletes the offsets as well."""
    play = SharePlay(stage)
    stage.ask(DeleteGroupsRequest(groups_names=[play.group_id]), 2)
    stage.ask(deleting(play.group_id, play.topic))
    stage.ask(describing(play.group_id, None), 0)
