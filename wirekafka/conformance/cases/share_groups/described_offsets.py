"""DescribeShareGroupOffsets: start offsets of groups, and their lag."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.consumer_groups.consumer_play import ConsumerPlay
from wirekafka.conformance.cases.share_groups.share_offsets import describing
from wirekafka.conformance.cases.share_groups.share_play import ACCEPT, SharePlay
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.describe_share_group_offsets import DescribeShareGroupOffsetsRequest

BOOK = Book(
    DescribeShareGroupOffsetsRequest,
    "share groups",
    ConformanceLevel.GROUPS,
    "KIP-932",
    needs=frozenset({Need.SHARE_STATES}),
)

BOOK.ask("no groups", lambda _: DescribeShareGroupOffsetsRequest(groups=[]))
BOOK.ask("a missing group", lambda s: describing(s.name("g"), {s.topic: [0]}))
BOOK.ask("all of a missing group", lambda s: describing(s.name("g"), None))
BOOK.ask("nothing of a missing group", lambda s: describing(s.name("g"), {}))


@BOOK.play("an empty group")
def _empty(stage: Stage) -> None:
    """All its partitions, some, none, and a topic that does not exist."""
    play = SharePlay(stage, partitions=2)
    stage.ask(describing(play.group_id, None))
    stage.ask(describing(play.group_id, {}))
    stage.ask(describing(play.group_id, {play.topic: [1]}))
    stage.ask(describing(play.group_id, {play.topic: [1, 0]}))
    stage.ask(describing(play.group_id, {stage.missing: [0]}))


@BOOK.play("the lag", source="KIP-1226")
def _lag(stage: Stage) -> None:
    """After records were appended, acquired and accepted."""
    play = SharePlay(stage)
    stage.ask(play.offsets())
    play.produce(5)
    play.fetch()
    stage.ask(play.offsets())
    play.acknowledge("anna", (0, 1, ACCEPT))
    stage.ask(play.offsets())
    play.acknowledge("anna", (2, 4, ACCEPT))
    stage.ask(play.offsets())


@BOOK.play("a consumer group")
def _consumers(stage: Stage) -> None:
    """A group of another kind, in two ways."""
    group = ConsumerPlay(stage)
    group.join("anna", stage.topic)
    stage.ask(describing(group.group_id, None))
    stage.ask(describing(group.group_id, {stage.topic: [0]}))
