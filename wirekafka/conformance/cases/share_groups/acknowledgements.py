"""ShareAcknowledge: how records end, and what is refused."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Make, Need
from wirekafka.conformance.cases.share_groups.share_play import (
    ACCEPT,
    GAP,
    LAST,
    RELEASE,
    RENEW,
    SharePlay,
    share_acknowledge,
)
from wirekafka.conformance.stage import UNKNOWN_ID, Stage
from wirekafka.protocol.share_acknowledge import ShareAcknowledgeRequest

BOOK = Book(
    ShareAcknowledgeRequest,
    "share groups",
    ConformanceLevel.GROUPS,
    "KIP-932",
    needs=frozenset({Need.SHARE_STATES}),
)

_REFUSED: dict[str, dict[str, Any]] = {
    "no group id": {"group_id": None},
    "an empty group id": {"group_id": ""},
    "no member id": {"member_id": None},
    "an empty member id": {"member_id": ""},
    "an epoch of 0": {"share_session_epoch": 0},
    "an epoch without a session": {"share_session_epoch": 1},
    "a last epoch without a session": {"share_session_epoch": LAST},
    "an epoch of minus 2": {"share_session_epoch": -2},
}


def _with(**changes: Any) -> Make:
    def make(stage: Stage) -> ShareAcknowledgeRequest:
        asked = {(stage.ids[stage.topic], 0): [(0, 0, ACCEPT)]}
        return share_acknowledge(asked, **{"group_id": stage.name("g"), **changes})

    return make


for _what, _fields in _REFUSED.items():
    BOOK.ask(_what, _with(**_fields))

_ACKS: dict[str, list[tuple[int, int, list[int]]]] = {
    "all accepted": [(0, 4, ACCEPT)],
    "all released": [(0, 4, RELEASE)],
    "a type for each": [(0, 4, [1, 2, 3, 1, 2])],
    "a part": [(1, 2, ACCEPT)],
    "the first of a batch released": [(0, 0, RELEASE)],
    "two ranges": [(0, 1, ACCEPT), (3, 4, RELEASE)],
    "overlapping ranges": [(0, 2, ACCEPT), (2, 4, ACCEPT)],
    "the same range twice": [(0, 4, ACCEPT), (0, 4, ACCEPT)],
    "ranges out of order": [(3, 4, ACCEPT), (0, 1, ACCEPT)],
    "the last before the first": [(3, 1, ACCEPT)],
    "too few types": [(0, 4, [1, 2])],
    "too many types": [(0, 1, [1, 2, 3])],
    "no types": [(0, 4, [])],
    "an unknown type": [(0, 4, [5])],
    "a known and an unknown type": [(0, 1, [1, 9])],
    "a negative type": [(0, 4, [-1])],
    "offsets beyond the end": [(0, 9, ACCEPT)],
    "only offsets beyond the end": [(7, 9, ACCEPT)],
    "a negative offset": [(-1, 2, ACCEPT)],
    "a gap": [(0, 4, GAP)],
    "renewed": [(0, 4, RENEW)],
}

for _what, _acks in _ACKS.items():

    @BOOK.play(f"acknowledged: {_what}")
    def _acknowledged(stage: Stage, acks: list[Any] = _acks) -> None:
        """Five records are acquired, then acknowledged; another member gets what is left."""
        play = SharePlay(stage)
        play.produce(5)
        play.fetch()
        play.acknowledge("anna", *acks)
        play.nothing("bert")


@BOOK.play("acknowledged twice")
def _twice(stage: Stage) -> None:
    """What is accepted cannot be accepted or released again."""
    play = SharePlay(stage)
    play.produce(3)
    play.fetch()
    play.acknowledge("anna", (0, 0, ACCEPT))
    play.acknowledge("anna", (0, 0, ACCEPT))
    play.acknowledge("anna", (0, 2, RELEASE))
    play.acknowledge("anna", (1, 2, ACCEPT))


@BOOK.play("of another member", versions="2")
def _foreign(stage: Stage) -> None:
    """Only the member that acquired a record may acknowledge it."""
    play = SharePlay(stage)
    play.produce(2)
    play.fetch("anna")
    play.nothing("bert")
    play.acknowledge("bert", (0, 1, ACCEPT))
    play.acknowledge("anna", (0, 1, ACCEPT))


@BOOK.play("never acquired", versions="2")
def _never(stage: Stage) -> None:
    """Records that exist, but were not fetched."""
    play = SharePlay(stage)
    play.nothing()
    play.produce(2)
    play.acknowledge("anna", (0, 1, ACCEPT))


@BOOK.play("across two batches", versions="2")
def _across(stage: Stage) -> None:
    """One range over both, then each record's end by its type."""
    play = SharePlay(stage)
    play.produce(2)
    play.produce(2)
    play.fetch()
    play.acknowledge("anna", (1, 2, ACCEPT))
    play.acknowledge("anna", (0, 0, RELEASE), (3, 3, RELEASE))
    play.nothing("bert")


@BOOK.play("with the last epoch", versions="1-2")
def _last(stage: Stage) -> None:
    """The session ends: what was not acknowledged is released."""
    play = SharePlay(stage)
    play.produce(3)
    play.fetch()
    play.acknowledge("anna", (0, 0, ACCEPT), share_session_epoch=LAST)
    play.acknowledge("anna", (1, 1, ACCEPT), share_session_epoch=2)
    play.fetch("bert")


@BOOK.play("with a wrong epoch", versions="1-2")
def _epochs(stage: Stage) -> None:
    """Too high, too low, and right again."""
    play = SharePlay(stage)
    play.produce(3)
    play.fetch()
    for epoch in (7, 0, 1, 1, 2):
        play.acknowledge("anna", (0, 0, ACCEPT), share_session_epoch=epoch)


@BOOK.play("a renewed lock", versions="2", source="KIP-1222")
def _renewed(stage: Stage) -> None:
    """Type 4 needs is_renew_ack; a renewed record is then accepted."""
    play = SharePlay(stage)
    play.produce(2)
    play.fetch()
    play.acknowledge("anna", (0, 1, RENEW), is_renew_ack=False)
    play.acknowledge("anna", (0, 1, RENEW), is_renew_ack=True)
    play.acknowledge("anna", (0, 1, [1, 4]), is_renew_ack=True)
    play.acknowledge("anna", (1, 1, ACCEPT), is_renew_ack=True)
    play.acknowledge("anna", (1, 1, RENEW), is_renew_ack=True)


@BOOK.play("a group that does not allow renewals", versions="2", source="KIP-1222")
def _no_renewals(stage: Stage) -> None:
    """With share.renew.acknowledge.enable=false."""
    play = SharePlay(stage, share_renew_acknowledge_enable="false")
    play.produce(2)
    play.fetch()
    play.acknowledge("anna", (0, 1, RENEW), is_renew_ack=True)
    play.acknowledge("anna", (0, 1, ACCEPT))


@BOOK.play("unknown topics and partitions", versions="1-2")
def _unknown(stage: Stage) -> None:
    """An error for each."""
    play = SharePlay(stage)
    play.produce(1)
    play.fetch()
    acks = [(0, 0, ACCEPT)]
    asked: dict[Any, Any] = {
        (UNKNOWN_ID, 0): acks,
        (play.topic_id, 7): acks,
        (play.topic_id, 0): acks,
    }
    request = share_acknowledge(asked, group_id=play.group_id, share_session_epoch=1)
    stage.ask(request, by="anna")


@BOOK.play("the start offset", versions="1-2")
def _start(stage: Stage) -> None:
    """It moves when the first records are accepted, not before."""
    play = SharePlay(stage)
    play.produce(4)
    play.fetch()
    stage.ask(play.offsets(), 0)
    play.acknowledge("anna", (2, 3, ACCEPT))
    stage.ask(play.offsets(), 0)
    play.acknowledge("anna", (0, 1, ACCEPT))
    stage.ask(play.offsets(), 0)
