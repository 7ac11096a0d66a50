"""AlterShareGroupOffsets: what is set, and what is refused."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.consumer_groups.consumer_play import ConsumerPlay
from wirekafka.conformance.cases.share_groups.share_offsets import altering, describing
from wirekafka.conformance.cases.share_groups.share_play import SharePlay
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.alter_share_group_offsets import AlterShareGroupOffsetsRequest

BOOK = Book(
    AlterShareGroupOffsetsRequest,
    "share groups",
    ConformanceLevel.GROUPS,
    "KIP-932",
    needs=frozenset({Need.SHARE_STATES}),
)

BOOK.ask("an empty group id", lambda s: altering("", {s.topic: {0: 1}}))
BOOK.ask("no topics", lambda s: altering(s.name("g"), {}))
BOOK.ask("a missing topic", lambda s: altering(s.name("g"), {s.missing: {0: 1}}))
BOOK.ask("a missing partition", lambda s: altering(s.name("g"), {s.topic: {9: 1}}))
BOOK.ask("no partitions", lambda s: altering(s.name("g"), {s.topic: {}}))
BOOK.ask(
    "one topic of two that exists",
    lambda s: altering(s.name("g"), {s.topic: {0: 1, 1: 2}, s.missing: {0: 1}}),
)
BOOK.ask("an offset beyond the end", lambda s: altering(s.name("g"), {s.topic: {0: 100}}))
BOOK.ask("a negative offset", lambda s: altering(s.name("g"), {s.topic: {0: -1}}))
BOOK.ask("an offset of minus 5", lambda s: altering(s.name("g"), {s.topic: {0: -5}}))


@BOOK.play("an empty group")
def _empty(stage: Stage) -> None:
    """Set, shown, set again to less."""
    play = SharePlay(stage)
    play.produce(5)
    for offset in (3, 1, 0):
        stage.ask(play.altering({0: offset}))
        stage.ask(play.offsets(), 0)


@BOOK.play("a group with a member")
def _member(stage: Stage) -> None:
    """Refused while there is a member, and done when it has left."""
    play = SharePlay(stage)
    epoch = stage.do(play.heartbeat("anna", 0, play.topic), 1).member_epoch
    stage.ask(play.altering({0: 1}))
    stage.ask(play.heartbeat("anna", epoch), 1)
    stage.do(play.heartbeat("anna", -1), 1)
    stage.ask(play.altering({0: 1}))


@BOOK.play("a consumer group")
def _consumers(stage: Stage) -> None:
    """A group of another kind, with a member and without."""
    group = ConsumerPlay(stage)
    group.join("anna", stage.topic)
    stage.ask(altering(group.group_id, {stage.topic: {0: 1}}))
    group.leave("anna")
    stage.ask(altering(group.group_id, {stage.topic: {0: 1}}))


@BOOK.play("a group that did not exist")
def _new(stage: Stage) -> None:
    """It exists from then on, empty."""
    name = stage.name("g")
    stage.ask(altering(name, {stage.topic: {0: 1, 1: 0}}))
    stage.ask(describing(name, None), 0)
