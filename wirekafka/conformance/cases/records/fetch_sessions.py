"""Fetch: sessions, in which a request names only what has changed (KIP-227)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wirekafka.conformance.case import Play
from wirekafka.conformance.cases.records.fetch import BOOK as _BOOK
from wirekafka.conformance.cases.records.logs import BATCH_BYTES, trim
from wirekafka.conformance.cases.records.requests import FetchPart, Forgotten, fetch_all, part
from wirekafka.conformance.stage import UNKNOWN_ID, Stage, batch
from wirekafka.protocol.fetch import FetchRequest

_VERSIONS = "7,12-13"
_NEW, _LAST = 0, -1
"""The epochs of a request that opens a session, and of a request that closes one."""


class _Session:
    """A session about partitions of one topic, which it creates."""

    def __init__(self, stage: Stage, partitions: int = 2) -> None:
        self.stage = stage
        self.topic = stage.create(partitions=partitions)
        self.id, self.epoch = 0, _NEW

    def ask(self, *parts: FetchPart, forgotten: list[int] | None = None, **options: Any) -> Any:
        """The next request of the session, its answer compared; goes on to the next epoch."""
        answer = self.stage.ask(self.request(*parts, forgotten=forgotten, **options))
        if self.epoch == _NEW:
            self.id = answer.session_id
        self.epoch += 1
        return answer

    def request(
        self, *parts: FetchPart, forgotten: list[int] | None = None, **options: Any
    ) -> FetchRequest:
        """A request of the session, whose fields `options` override."""
        gone: list[Forgotten] = [(self.topic, forgotten)] if forgotten else []
        return fetch_all(
            self.stage,
            [(self.topic, list(parts))] if parts else [],
            forgotten=gone,
            **{"session_id": self.id, "session_epoch": self.epoch, **options},
        )


def _play(title: str, versions: str = _VERSIONS) -> Callable[[Play], Play]:
    return _BOOK.play(title, versions=versions, source="KIP-227")


@_play("a session is opened")
def _opened(stage: Stage) -> None:
    """A full request with epoch 0 is answered with the id of a session, and all partitions."""
    session = _Session(stage)
    answer = session.ask(part(0), part(1))
    stage.note("has an id", answer.session_id > 0)


@_play("a session without changes")
def _unchanged(stage: Stage) -> None:
    """A request of a session without news is answered without partitions."""
    session = _Session(stage)
    stage.produce(session.topic, batch())
    session.ask(part(0, 3), part(1))
    session.ask()
    session.ask()


@_play("a session after an append")
def _appended(stage: Stage) -> None:
    """Only the partition with records is in the answer, as often as it is not read further."""
    session = _Session(stage)
    session.ask(part(0), part(1))
    stage.produce(session.topic, batch(), 1)
    session.ask()
    session.ask()
    session.ask(part(1, 3))
    session.ask()


@_play("a partition added to a session")
def _added(stage: Stage) -> None:
    """A partition that is new to the session is returned even when it is empty."""
    session = _Session(stage)
    session.ask(part(0))
    session.ask(part(1))
    stage.produce(session.topic, batch(), 1)
    session.ask()


@_play("a topic added to a session")
def _topic_added(stage: Stage) -> None:
    """A request of a session adds another topic's partition."""
    session = _Session(stage)
    session.ask(part(0))
    other = stage.create("other")
    stage.produce(other, batch())
    request = fetch_all(
        stage, [(other, [part(0)])], session_id=session.id, session_epoch=session.epoch
    )
    stage.ask(request)


@_play("a partition forgotten by a session")
def _forgotten(stage: Stage) -> None:
    """Records of a forgotten partition are no longer returned."""
    session = _Session(stage)
    session.ask(part(0), part(1))
    session.ask(forgotten=[1])
    stage.produce(session.topic, batch(), 1)
    session.ask()
    stage.produce(session.topic, batch(), 0)
    session.ask()


@_play("a partition forgotten and added again at once")
def _forgotten_and_added(stage: Stage) -> None:
    """One request has a partition in both lists."""
    session = _Session(stage)
    stage.produce(session.topic, batch())
    session.ask(part(0, 3), part(1))
    session.ask(part(0, 0), forgotten=[0])
    session.ask()


@_play("a partition forgotten that was not there")
def _never_there(stage: Stage) -> None:
    """Forgetting what the session does not have changes nothing."""
    session = _Session(stage)
    session.ask(part(0))
    session.ask(forgotten=[1, 9])
    stage.produce(session.topic, batch(), 0)
    session.ask()


@_play("all partitions forgotten")
def _all_forgotten(stage: Stage) -> None:
    """A session that has nothing more to fetch is still answered."""
    session = _Session(stage)
    session.ask(part(0))
    session.ask(forgotten=[0])
    session.ask()


@_play("another position in a session")
def _moved(stage: Stage) -> None:
    """A partition that is named again is read from its new position."""
    session = _Session(stage)
    stage.produce(session.topic, batch())
    stage.produce(session.topic, batch())
    session.ask(part(0, 6), part(1))
    session.ask(part(0, 3))
    session.ask(part(0, 6))
    session.ask()


@_play("an epoch of a session skipped")
def _skipped(stage: Stage) -> None:
    """A later epoch than the next is refused, and the next one is still valid."""
    session = _Session(stage)
    session.ask(part(0))
    stage.ask(session.request(session_epoch=9))
    stage.produce(session.topic, batch())
    session.ask()


@_play("an epoch of a session repeated")
def _repeated(stage: Stage) -> None:
    """The epoch of the last request is refused."""
    session = _Session(stage)
    session.ask(part(0))
    session.ask()
    stage.ask(session.request(session_epoch=1))
    stage.ask(session.request(session_epoch=2))


@_play("a session that was closed")
def _closed(stage: Stage) -> None:
    """A request with epoch -1 and the session's id is its last: all is returned, without an id."""
    session = _Session(stage)
    stage.produce(session.topic, batch())
    session.ask(part(0), part(1))
    stage.ask(session.request(part(0, 3), session_epoch=_LAST))
    stage.ask(session.request(session_epoch=1))


@_play("a session opened in place of another")
def _replaced(stage: Stage) -> None:
    """A full request with the id of a session and epoch 0 ends it and opens the next."""
    session = _Session(stage)
    session.ask(part(0), part(1))
    answer = stage.ask(session.request(part(1), session_epoch=_NEW))
    stage.note("is another", answer.session_id not in (0, session.id))
    stage.ask(session.request(session_epoch=1))
    stage.ask(session.request(session_epoch=1, session_id=answer.session_id))


@_play("a session on another connection")
def _elsewhere(stage: Stage) -> None:
    """Sessions belong to no connection."""
    session = _Session(stage)
    session.ask(part(0))
    stage.produce(session.topic, batch())
    stage.ask(session.request(), by="b")


@_play("a session of no partitions")
def _empty(stage: Stage) -> None:
    """A full request that names nothing opens no session."""
    answer = stage.ask(fetch_all(stage, [], session_epoch=_NEW))
    stage.note("has an id", answer.session_id > 0)


@_play("a session with a missing topic", "7,12")
def _missing(stage: Stage) -> None:
    """An error is repeated until the topic is there."""
    answer = stage.ask(fetch_all(stage, [(stage.name("x"), [part()])], session_epoch=_NEW))
    session = {"session_id": answer.session_id}
    stage.ask(fetch_all(stage, [], session_epoch=1, **session))
    stage.produce(stage.create("x"), batch())
    stage.ask(fetch_all(stage, [], session_epoch=2, **session))


@_play("a session with an unknown id of a topic", "13")
def _unknown_topic(stage: Stage) -> None:
    """The unknown id is reported in each answer, the other topic only with news."""
    name = stage.create()
    topics = [(stage.missing, [part()]), (name, [part()])]
    answer = stage.ask(fetch_all(stage, topics, session_epoch=_NEW))
    for epoch in (1, 2):
        stage.ask(fetch_all(stage, [], session_epoch=epoch, session_id=answer.session_id))


@_play("a position out of range in a session")
def _out_of_range(stage: Stage) -> None:
    """An error of a partition is in each answer until the position is valid."""
    session = _Session(stage)
    session.ask(part(0, 7), part(1))
    session.ask()
    session.ask()
    session.ask(part(0, 0))
    session.ask()


@_play("a missing partition in a session")
def _missing_partition(stage: Stage) -> None:
    """A partition that a topic does not have is reported in each answer."""
    session = _Session(stage)
    session.ask(part(0), part(5))
    session.ask()
    session.ask(forgotten=[5])
    session.ask()


@_play("records deleted during a session")
def _deleted(stage: Stage) -> None:
    """A log start that moves is news, even for a reader at the end."""
    session = _Session(stage)
    stage.produce(session.topic, batch())
    session.ask(part(0, 3), part(1))
    trim(stage, session.topic, 2)
    session.ask()
    session.ask()


@_play("a high watermark that moves during a session")
def _high_watermark(stage: Stage) -> None:
    """Another high watermark is news where there is no room for records."""
    session = _Session(stage)
    session.ask(part(0), part(1))
    stage.produce(session.topic, batch(), 0)
    stage.produce(session.topic, batch(), 1)
    session.ask(max_bytes=1)
    session.ask(max_bytes=1)
    session.ask(max_bytes=1)


@_play("partitions of a session take turns")
def _turns(stage: Stage) -> None:
    """With room for one batch, each partition in turn is the first to be read."""
    session = _Session(stage, 3)
    for partition in range(3):
        for _ in range(2):
            stage.produce(session.topic, batch(), partition)
    answer = session.ask(part(0), part(1), part(2), max_bytes=BATCH_BYTES, max_wait_ms=0)
    order = [_with_records(answer)]
    for _ in range(4):
        answer = session.ask(max_bytes=BATCH_BYTES)
        order.append(_with_records(answer))
    stage.note("order", ", ".join(order))


def _with_records(answer: Any) -> str:
    """The partitions of an answer that have records."""
    return " ".join(
        str(each.partition_index)
        for topic in answer.responses
        for each in topic.partitions
        if each.records
    )


@_play("another size for a partition of a session")
def _resized(stage: Stage) -> None:
    """A partition that is named again has its new limit."""
    session = _Session(stage)
    stage.produce(session.topic, batch())
    stage.produce(session.topic, batch())
    session.ask(part(0, most=BATCH_BYTES))
    session.ask()
    session.ask(part(0, most=2 * BATCH_BYTES))
    session.ask()


@_play("an unknown session")
def _unknown(stage: Stage) -> None:
    """The id of no session is refused."""
    name = stage.topic
    stage.ask(fetch_all(stage, [(name, [part()])], session_id=2_000_000_001, session_epoch=1))


@_play("an unknown session closed")
def _unknown_closed(stage: Stage) -> None:
    """Epoch -1 with the id of no session reads all the same."""
    name = stage.topic
    stage.ask(fetch_all(stage, [(name, [part()])], session_id=2_000_000_001, session_epoch=_LAST))


@_play("an unknown session opened again")
def _unknown_again(stage: Stage) -> None:
    """Epoch 0 with the id of no session opens one."""
    topics = [(stage.topic, [part()])]
    answer = stage.ask(fetch_all(stage, topics, session_id=2_000_000_001, session_epoch=_NEW))
    stage.note("has an id", answer.session_id > 0)


@_play("an epoch without a session")
def _no_session(stage: Stage) -> None:
    """Only epochs 0 and -1 go without an id."""
    for epoch in (3, -2, 2**31 - 1):
        stage.ask(fetch_all(stage, [(stage.topic, [part()])], session_epoch=epoch))


@_play("no session at all")
def _sessionless(stage: Stage) -> None:
    """Epoch -1 without an id reads, and opens no session."""
    answer = stage.ask(fetch_all(stage, [(stage.topic, [part(), part(1)])], session_epoch=_LAST))
    stage.note("id", answer.session_id == 0)


@_play("an epoch below minus 1 in a session")
def _negative(stage: Stage) -> None:
    """A negative epoch that is not -1 is not the next."""
    session = _Session(stage)
    session.ask(part(0))
    stage.ask(session.request(session_epoch=-5))


@_play("a session that goes on with ids", "12")
def _names_then_ids(stage: Stage) -> None:
    """A session that was opened with names is not continued with ids (KIP-516)."""
    session = _Session(stage)
    session.ask(part(0))
    stage.ask(session.request(part(1)), 13)
    stage.ask(session.request(), 13)


@_play("a session that goes on with names", "13")
def _ids_then_names(stage: Stage) -> None:
    """A session that was opened with ids is not continued with names (KIP-516)."""
    session = _Session(stage)
    session.ask(part(0))
    stage.ask(session.request(part(1)), 12)


@_play("a topic deleted during a session")
def _topic_deleted(stage: Stage) -> None:
    """The partitions of a deleted topic are reported as unknown."""
    session = _Session(stage)
    session.ask(part(0))
    stage.delete(session.topic)
    stage.until(lambda: _is_unknown(stage, session.topic), "the end of the topic")
    session.ask()


def _is_unknown(stage: Stage, name: str) -> bool:
    answer = stage.do(fetch_all(stage, [(name, [part()])]), 12)
    return bool(answer.responses[0].partitions[0].error_code)


@_play("a session that waits")
def _waits(stage: Stage) -> None:
    """A request of a session without news waits for records."""
    session = _Session(stage)
    session.ask(part(0), part(1))
    waiting = stage.send(session.request(max_wait_ms=60_000), by="b")
    stage.produce(session.topic, batch(), 1)
    waiting.answer()


@_play("a zero id in a session", "13")
def _zero(stage: Stage) -> None:
    """The id zero is no topic's id."""
    name = stage.create()
    request = fetch_all(stage, [(name, [part()])], session_epoch=_NEW)
    request.topics[0].topic_id = bytes(16)
    answer = stage.ask(request)
    stage.ask(fetch_all(stage, [], session_epoch=1, session_id=answer.session_id))


@_play("an unknown id forgotten by a session", "13")
def _unknown_forgotten(stage: Stage) -> None:
    """Forgetting an unknown id ends its error."""
    name = stage.create()
    topics = [(stage.missing, [part()]), (name, [part()])]
    assert stage.id_of(stage.missing) == UNKNOWN_ID
    answer = stage.ask(fetch_all(stage, topics, session_epoch=_NEW))
    session = {"session_id": answer.session_id}
    stage.ask(fetch_all(stage, [], forgotten=[(stage.missing, [0])], session_epoch=1, **session))
    stage.ask(fetch_all(stage, [], session_epoch=2, **session))
