"""ShareFetch: sessions, what is acquired, and how often."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Make, Need
from wirekafka.conformance.cases.consumer_groups.consumer_play import member_id
from wirekafka.conformance.cases.share_groups.share_play import (
    ACCEPT,
    GAP,
    LAST,
    REJECT,
    RELEASE,
    RENEW,
    SHORT_MS,
    SharePlay,
    share_acknowledge,
    share_fetch,
)
from wirekafka.conformance.stage import UNKNOWN_ID, Stage, batch
from wirekafka.protocol.share_fetch import ShareFetchRequest

BOOK = Book(
    ShareFetchRequest,
    "share groups",
    ConformanceLevel.GROUPS,
    "KIP-932",
    needs=frozenset({Need.SHARE_STATES}),
)


def _of_shared(stage: Stage, **fields: Any) -> ShareFetchRequest:
    """A fetch of the shared topic by a group that does not exist."""
    values = {"group_id": stage.name("g"), "max_wait_ms": SHORT_MS, **fields}
    return share_fetch({(stage.ids[stage.topic], 0): []}, **values)


_REFUSED: dict[str, dict[str, Any]] = {
    "no group id": {"group_id": None},
    "an empty group id": {"group_id": ""},
    "no member id": {"member_id": None},
    "an empty member id": {"member_id": ""},
    "a member id of 37 characters": {"member_id": "m" * 37},
    "an epoch without a session": {"share_session_epoch": 1},
    "a last epoch without a session": {"share_session_epoch": LAST},
    "an epoch of minus 2": {"share_session_epoch": -2},
    "the highest epoch": {"share_session_epoch": 2**31 - 1},
}


def _with(**changes: Any) -> Make:
    return lambda stage: _of_shared(stage, **changes)


for _what, _fields in _REFUSED.items():
    BOOK.ask(_what, _with(**_fields))


@BOOK.play("acknowledgements in the first request")
def _first(stage: Stage) -> None:
    """A session cannot begin with acknowledgements."""
    play = SharePlay(stage)
    play.produce(3)
    play.nothing("anna", (0, 0, ACCEPT))
    play.fetch()


@BOOK.play("a last request that fetches")
def _last(stage: Stage) -> None:
    """The last request of a session may acknowledge and fetches nothing."""
    play = SharePlay(stage)
    play.produce(3)
    play.fetch()
    play.nothing("anna", (0, 2, ACCEPT), share_session_epoch=LAST, is_renew_ack=False)
    play.nothing("anna", share_session_epoch=LAST)


@BOOK.play("records of one batch")
def _batch(stage: Stage) -> None:
    """All of them, once; the second fetch of the session has none."""
    play = SharePlay(stage)
    play.produce(3)
    play.fetch()
    play.nothing()


@BOOK.play("records of three batches", versions="2")
def _batches(stage: Stage) -> None:
    """One after the other, acquired as runs of batches."""
    play = SharePlay(stage)
    for count in (2, 3, 1):
        play.produce(count)
    play.fetch()


_LIMITS: dict[str, dict[str, Any]] = {
    "at most one record": {"max_records": 1},
    "at most three records": {"max_records": 3},
    "batches of one": {"batch_size": 1},
    "batches of two": {"batch_size": 2},
    "one byte": {"max_bytes": 1},
    "no records": {"max_records": 0},
    "fewer than no records": {"max_records": -1},
    "batches of none": {"batch_size": 0},
}
_MODES = {"": 0, ", not a record more": 1}

for _limit, _fields in _LIMITS.items():
    for _name, _mode in _MODES.items():

        @BOOK.play(f"{_limit}{_name}", versions="2", source="KIP-1206")
        def _limited(stage: Stage, fields: dict[str, Any] = _fields, mode: int = _mode) -> None:
            """Two batches of five records; what two fetches with the limit acquire."""
            play = SharePlay(stage)
            play.produce(5)
            play.produce(5)
            for _ in range(2):
                play.nothing(share_acquire_mode=mode, max_wait_ms=1000, **fields)


@BOOK.play("two members", versions="2")
def _two(stage: Stage) -> None:
    """Each acquires what the other has not."""
    play = SharePlay(stage)
    play.produce(2)
    play.fetch("anna")
    play.nothing("bert")
    play.produce(3)
    play.fetch("bert")
    play.nothing("anna")


@BOOK.play("a released record", versions="1-2")
def _released(stage: Stage) -> None:
    """It is delivered once more, to another member, with a higher count."""
    play = SharePlay(stage)
    play.produce(3)
    play.fetch("anna")
    play.acknowledge("anna", (0, 2, [1, 2, 1]))
    play.fetch("bert")


@BOOK.play("a record released too often", versions="2")
def _too_often(stage: Stage) -> None:
    """With a limit of two deliveries it is archived after the second."""
    play = SharePlay(stage, share_delivery_count_limit="2")
    play.produce(1)
    play.fetch()
    play.fetch("anna", (0, 0, RELEASE))
    play.nothing("anna", (0, 0, RELEASE))
    play.produce(1)
    play.fetch()


@BOOK.play("a limit of five deliveries", versions="2")
def _five(stage: Stage) -> None:
    """The count grows by one with each release."""
    play = SharePlay(stage)
    play.produce(1)
    play.fetch()
    for _ in range(4):
        play.fetch("anna", (0, 0, RELEASE))
    play.nothing("anna", (0, 0, RELEASE))


@BOOK.play("a rejected record", versions="2")
def _rejected(stage: Stage) -> None:
    """It is not delivered again, nor is a gap."""
    play = SharePlay(stage)
    play.produce(3)
    play.fetch()
    play.nothing("anna", (0, 0, REJECT), (1, 1, GAP), (2, 2, ACCEPT))
    play.nothing("bert")


_ACKS: dict[str, list[tuple[int, int, list[int]]]] = {
    "all accepted": [(0, 4, ACCEPT)],
    "a type for each": [(0, 4, [1, 3, 3, 1, 3])],
    "a part": [(1, 2, ACCEPT)],
    "two ranges": [(0, 1, ACCEPT), (3, 4, REJECT)],
    "overlapping ranges": [(0, 2, ACCEPT), (2, 4, ACCEPT)],
    "ranges out of order": [(3, 4, ACCEPT), (0, 1, ACCEPT)],
    "the last before the first": [(3, 1, ACCEPT)],
    "too few types": [(0, 4, [1, 2])],
    "too many types": [(0, 1, [1, 2, 3])],
    "no types": [(0, 4, [])],
    "an unknown type": [(0, 4, [5])],
    "a negative type": [(0, 4, [-1])],
    "offsets beyond the end": [(0, 9, ACCEPT)],
    "only offsets beyond the end": [(7, 9, ACCEPT)],
    "a negative offset": [(-1, 2, ACCEPT)],
    "a gap": [(0, 4, GAP)],
    "renewed": [(0, 4, RENEW)],
}

for _what, _acks in _ACKS.items():

    @BOOK.play(f"acknowledged in a fetch: {_what}")
    def _piggybacked(stage: Stage, acks: list[Any] = _acks) -> None:
        """Five records are acquired, then acknowledged; another member gets what is left."""
        play = SharePlay(stage)
        play.produce(5)
        play.fetch()
        play.nothing("anna", *acks, partition=0)
        play.nothing("bert")


@BOOK.play("a renewal that fetches", versions="2", source="KIP-1222")
def _renewal(stage: Stage) -> None:
    """With is_renew_ack no records may be asked for: bytes, records and waiting are 0."""
    play = SharePlay(stage)
    play.produce(2)
    play.fetch()
    none = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    play.nothing("anna", (0, 1, RENEW), is_renew_ack=True)
    play.nothing("anna", (0, 1, RENEW), is_renew_ack=True, **none)
    play.nothing("anna", (0, 1, ACCEPT), is_renew_ack=True, **none)


_EPOCHS = {"an epoch too high": 5, "an epoch too low": 1, "an epoch of 0 again": 0}

for _what, _epoch in _EPOCHS.items():

    @BOOK.play(f"{_what} in a session")
    def _session_epoch(stage: Stage, epoch: int = _epoch) -> None:
        """The next epoch would be 3; after an error the session goes on as before."""
        play = SharePlay(stage)
        play.produce(1)
        play.fetch()
        play.nothing()
        play.nothing()
        play.nothing(share_session_epoch=epoch)
        play.nothing(share_session_epoch=3)


@BOOK.play("a session that is closed", versions="2")
def _closed(stage: Stage) -> None:
    """What it had acquired goes to another member at once."""
    play = SharePlay(stage)
    play.produce(2)
    play.fetch("anna")
    play.acknowledge("anna", share_session_epoch=LAST)
    play.fetch("bert")
    play.nothing("anna", share_session_epoch=2)


@BOOK.play("a connection that is closed", versions="2")
def _dropped(stage: Stage) -> None:
    """The records of its member are released, and its session is gone."""
    play = SharePlay(stage)
    play.produce(2)
    play.fetch("anna")
    stage.close("anna")
    play.fetch("bert")
    play.nothing("anna")


@BOOK.play("an unknown topic and an unknown partition", versions="1-2")
def _unknown(stage: Stage) -> None:
    """An error for each of them, and records of the third."""
    play = SharePlay(stage)
    play.produce(1)
    asked: dict[Any, Any] = {(UNKNOWN_ID, 0): [], (play.topic_id, 7): [], (play.topic_id, 0): []}
    stage.ask(share_fetch(asked, group_id=play.group_id))


@BOOK.play("a partition that the session forgets", versions="2")
def _forgotten(stage: Stage) -> None:
    """It is no longer fetched, until it is added again."""
    play = SharePlay(stage)
    part = ShareFetchRequest.ForgottenTopic(topic_id=play.topic_id, partitions=[0])
    play.nothing()
    play.produce(2)
    request = share_fetch({}, group_id=play.group_id, share_session_epoch=1, max_wait_ms=SHORT_MS)
    request.forgotten_topics_data = [part]
    stage.ask(request, by="anna")
    request.share_session_epoch, request.forgotten_topics_data = 2, []
    stage.ask(request, by="anna")
    play.fetch(share_session_epoch=3)


@BOOK.play("a long poll", versions="2")
def _poll(stage: Stage) -> None:
    """The answer comes when there are records."""
    play = SharePlay(stage)
    play.nothing()
    asked = share_fetch({}, group_id=play.group_id, share_session_epoch=1)
    question = stage.send(asked, by="anna")
    play.produce(2)
    question.answer()


_RESETS = ("latest", "by_duration:PT1H")

for _reset in _RESETS:

    @BOOK.play(f"a group that begins at {_reset}", versions="2", source="KIP-932")
    def _reset_of(stage: Stage, reset: str = _reset) -> None:
        """Two records before its first member and one after: by share.auto.offset.reset."""
        play = SharePlay(stage, share_auto_offset_reset=reset)
        name = stage.create("u")
        stage.produce(name, batch(2))
        epoch = 0

        def is_assigned() -> bool:
            nonlocal epoch
            answer = stage.do(play.heartbeat("anna", epoch, name), 1)
            epoch = answer.member_epoch
            return answer.assignment is not None and bool(answer.assignment.topic_partitions)

        stage.until(is_assigned, "an assignment")
        play.topic = name
        # The first session has the broker find the start.
        for number, wait_ms in enumerate((1500, 500)):
            asked: dict[Any, Any] = {(play.topic_id, 0): []}
            first = share_fetch(
                asked,
                group_id=play.group_id,
                member_id=member_id("bert"),
                share_session_epoch=number,
                max_wait_ms=wait_ms,
            )
            stage.do(first, 1, by="bert")
        last = share_acknowledge(
            {}, group_id=play.group_id, member_id=member_id("bert"), share_session_epoch=LAST
        )
        stage.do(last, 1, by="bert")
        stage.produce(name, batch(2))
        play.nothing(max_wait_ms=3000)
        play.nothing(max_wait_ms=500)


@BOOK.play("a start offset that is altered", versions="2")
def _altered(stage: Stage) -> None:
    """Records before it are not delivered."""
    play = SharePlay(stage)
    for _ in range(3):
        play.produce(2)
    play.alter({0: 3})
    play.fetch()


@BOOK.play("two partitions", versions="2")
def _partitions(stage: Stage) -> None:
    """Each is acquired for itself."""
    play = SharePlay(stage, partitions=2)
    play.produce(2, 0)
    play.produce(3, 1)
    play.fetch(partition=0)
    play.fetch(partition=1)
    play.nothing("bert", partition=1)
