"""TxnOffsetCommit: offsets that groups have when the transaction is committed, and only then."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.transactions.producer import ScriptedProducer
from wirekafka.conformance.cases.transactions.views import committed
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest

BOOK = Book(TxnOffsetCommitRequest, "transactions", ConformanceLevel.TRANSACTIONS, "KIP-98")

_ENDS = {"a commit": True, "an abort": False}
_MEMBERS = "KIP-447"


def _begun(stage: Stage, text: str = "x", group: str = "g") -> ScriptedProducer:
    """A producer whose transaction has the group, if its level wants it to be added."""
    producer = ScriptedProducer(stage, text, level=2 if stage.version >= 5 else 1)
    if producer.level == 1:
        stage.do(producer.add_offsets_request(stage.name(group)), 3)
    return producer


def _note_offsets(stage: Stage, what: str, *partitions: int) -> None:
    group = stage.name("g")
    for how, is_stable in (("", False), (" as stable", True)):
        found = committed(stage, group, stage.topic, *partitions, is_stable=is_stable)
        stage.note(f"{what}{how}", found)


def _unknown(stage: Stage, id: str, group: str, topic: str) -> TxnOffsetCommitRequest:
    kind = TxnOffsetCommitRequest.Topic
    part = kind.Partition(partition_index=0, committed_offset=1)
    listed = [kind(name=topic, topic_id=stage.id_of(topic), partitions=[part])]
    return TxnOffsetCommitRequest(
        transactional_id=id, group_id=group, producer_id=77, producer_epoch=0, topics=listed
    )


BOOK.ask("an unknown transactional id", lambda s: _unknown(s, s.name("x"), s.name("g"), s.topic))
BOOK.ask(
    "an unknown transactional id and no group", lambda s: _unknown(s, s.name("x"), "", s.topic)
)
BOOK.ask(
    "an unknown transactional id and a missing topic",
    lambda s: _unknown(s, s.name("x"), s.name("g"), s.missing),
)


@BOOK.play("an empty transactional id", is_alone=True)
def _empty_id(stage: Stage) -> None:
    """Alone, as brokers ask coordinators once for all requests that name one transaction."""
    stage.ask(_unknown(stage, "", stage.name("g"), stage.topic))


for _what, _is_committed in _ENDS.items():

    @BOOK.play(f"an offset until {_what}", versions="0-6")
    def _until_end(stage: Stage, is_committed: bool = _is_committed) -> None:
        """Who wants stable offsets must wait; the others see the offset before."""
        producer = _begun(stage)
        _note_offsets(stage, "before")
        stage.ask(producer.offsets_request(stage.name("g"), {stage.topic: {0: 2}}))
        _note_offsets(stage, "meanwhile")
        producer.end(committed=is_committed)
        _note_offsets(stage, "afterwards")

    @BOOK.play(f"an offset that was committed before, until {_what}", versions="4,5")
    def _over(stage: Stage, is_committed: bool = _is_committed) -> None:
        group = stage.name("g")
        producer = _begun(stage)
        stage.ask(producer.offsets_request(group, {stage.topic: {0: 1}}))
        producer.end()
        producer.commit_offsets(group, {stage.topic: {0: 3}})
        _note_offsets(stage, "meanwhile")
        producer.end(committed=is_committed)
        _note_offsets(stage, "afterwards")

    @BOOK.play(f"an offset twice in a transaction until {_what}", versions="4,5")
    def _twice(stage: Stage, is_committed: bool = _is_committed) -> None:
        """The last of a transaction's offsets counts, even if it is smaller."""
        producer = _begun(stage)
        for offset in (3, 1):
            stage.ask(producer.offsets_request(stage.name("g"), {stage.topic: {0: offset}}))
        producer.end(committed=is_committed)
        _note_offsets(stage, "afterwards")

    @BOOK.play(f"offsets of two transactions until {_what} of the first", versions="4,5")
    def _of_two(stage: Stage, is_committed: bool = _is_committed) -> None:
        """The offset is stable when both transactions have ended."""
        group = stage.name("g")
        first, second = _begun(stage), _begun(stage, "y")
        stage.ask(first.offsets_request(group, {stage.topic: {0: 1}}))
        stage.ask(second.offsets_request(group, {stage.topic: {0: 2}}))
        first.end(committed=is_committed)
        _note_offsets(stage, "after the first")
        second.end()
        _note_offsets(stage, "after both")

    @BOOK.play(f"offsets of two groups until {_what}", versions="4,5")
    def _groups(stage: Stage, is_committed: bool = _is_committed) -> None:
        producer = _begun(stage)
        stage.ask(producer.offsets_request(stage.name("g"), {stage.topic: {0: 1}}))
        producer.commit_offsets(stage.name("h"), {stage.topic: {1: 2}})
        producer.end(committed=is_committed)
        for group in ("g", "h"):
            stage.note("offsets", committed(stage, stage.name(group), stage.topic, 0, 1))


@BOOK.play("a partition beside the pending", versions="4,5")
def _beside(stage: Stage) -> None:
    """Only the partitions of the transaction are unstable."""
    producer = _begun(stage)
    stage.ask(producer.offsets_request(stage.name("g"), {stage.topic: {0: 1}}))
    _note_offsets(stage, "meanwhile", 0, 1)
    producer.leave()


@BOOK.play("two partitions", versions="0,3-6")
def _two_partitions(stage: Stage) -> None:
    producer = _begun(stage)
    stage.ask(producer.offsets_request(stage.name("g"), {stage.topic: {0: 1, 1: 2}}))
    producer.end()
    _note_offsets(stage, "afterwards", 0, 1)


@BOOK.play("two topics", versions="0,3-6")
def _two_topics(stage: Stage) -> None:
    offsets = {stage.topic: {0: 1}, stage.compacted: {0: 5}}
    producer = _begun(stage)
    stage.ask(producer.offsets_request(stage.name("g"), offsets))
    producer.end()
    _note_offsets(stage, "afterwards")
    stage.note("the other topic", committed(stage, stage.name("g"), stage.compacted))


@BOOK.play("a topic and a missing topic", versions="0-6")
def _and_missing(stage: Stage) -> None:
    """The other topic's offset is committed."""
    producer = _begun(stage)
    offsets = {stage.topic: {0: 1}, stage.missing: {0: 1}}
    stage.ask(producer.offsets_request(stage.name("g"), offsets))
    producer.end()
    _note_offsets(stage, "afterwards")


_OFFSETS: dict[str, dict[int, int]] = {
    "an offset of 0": {0: 0},
    "an offset beyond the end": {0: 2**40},
    "the greatest offset": {0: 2**63 - 1},
    "an offset of minus 1": {0: -1},
    "an offset of minus 2": {0: -2},
    "a missing partition": {7: 1},
    "a partition and a missing partition": {0: 1, 7: 1},
    "a negative partition": {-1: 1},
    "no partitions": {},
}
for _what, _parts in _OFFSETS.items():

    @BOOK.play(_what, versions="0,3-6")
    def _offsets(stage: Stage, parts: dict[int, int] = _parts) -> None:
        producer = _begun(stage)
        stage.ask(producer.offsets_request(stage.name("g"), {stage.topic: parts}))
        producer.leave()
        producer.settle()


@BOOK.play("no topics", versions="0-6")
def _no_topics(stage: Stage) -> None:
    producer = _begun(stage)
    stage.ask(producer.offsets_request(stage.name("g"), {}))
    stage.note("the state", producer.state())
    producer.leave()


@BOOK.play("a missing topic", versions="0-6")
def _missing(stage: Stage) -> None:
    producer = _begun(stage)
    stage.ask(producer.offsets_request(stage.name("g"), {stage.missing: {0: 1}}))
    producer.leave()


@BOOK.play("an empty group", versions="0-6")
def _no_group(stage: Stage) -> None:
    producer = _begun(stage)
    stage.ask(producer.offsets_request("", {stage.topic: {0: 1}}))
    producer.leave()


_METADATA: dict[str, str | None] = {
    "metadata": "what the consumer says",
    "null metadata": None,
    "the longest metadata": "x" * 4096,
    "metadata too long": "x" * 4097,
}
for _what, _metadata in _METADATA.items():

    @BOOK.play(_what, versions="0,4-5")
    def _with_metadata(stage: Stage, metadata: str | None = _metadata) -> None:
        producer = _begun(stage)
        stage.ask(
            producer.offsets_request(stage.name("g"), {stage.topic: {0: 1}}, metadata=metadata)
        )
        producer.end()
        _note_offsets(stage, "afterwards")


@BOOK.play("a leader epoch", versions="2,4-5", source="KIP-320")
def _leader_epoch(stage: Stage) -> None:
    producer = _begun(stage)
    stage.ask(producer.offsets_request(stage.name("g"), {stage.topic: {0: 1}}, leader_epoch=5))
    producer.end()
    _note_offsets(stage, "afterwards")


# Producers

_IDENTITIES: dict[str, dict[str, int]] = {
    "an older epoch": {"lag": 1},
    "a newer epoch": {"lag": -1},
    "another producer id": {"producer_id": 2**40},
    "no producer id": {"producer_id": -1},
}
for _what, _identity in _IDENTITIES.items():

    @BOOK.play(_what, versions="0-6")
    def _commit_as(stage: Stage, identity: dict[str, Any] = _identity) -> None:
        """Nothing is pending afterwards."""
        producer = ScriptedProducer(stage, level=2 if stage.version >= 5 else 1)
        producer.start()
        if producer.level == 1:
            stage.do(producer.add_offsets_request(stage.name("g")), 3)
        request = producer.offsets_request(stage.name("g"), {stage.topic: {0: 1}}, **identity)
        stage.ask(request)
        _note_offsets(stage, "afterwards")
        producer.leave()

    @BOOK.play(f"further offsets with {_what}", versions="0,2-5")
    def _further_as(stage: Stage, identity: dict[str, Any] = _identity) -> None:
        """In a transaction that has offsets of the group already."""
        producer = ScriptedProducer(stage, level=2 if stage.version >= 5 else 1)
        producer.start()
        producer.commit_offsets(stage.name("g"), {stage.topic: {0: 1}})
        request = producer.offsets_request(stage.name("g"), {stage.topic: {0: 2}}, **identity)
        stage.ask(request)
        producer.end()
        _note_offsets(stage, "afterwards")


@BOOK.play("a group that was not added", versions="0-6", source="KIP-890", is_alone=True)
def _not_added(stage: Stage) -> None:
    """Before version 5 a client must add the group, afterwards the coordinator does it.

    Alone: Apache Kafka asks for several requests at once as the first of them wants it.
    """
    producer = ScriptedProducer(stage, level=1)
    stage.ask(producer.offsets_request(stage.name("g"), {stage.topic: {0: 1}}))
    stage.note("the state", producer.state())
    producer.leave()
    producer.settle()
    _note_offsets(stage, "afterwards")


@BOOK.play("after another producer has begun", versions="0-6")
def _fenced(stage: Stage) -> None:
    producer = _begun(stage)
    request = producer.offsets_request(stage.name("g"), {stage.topic: {0: 1}})
    stage.ask(request)
    stage.do(producer.init_request(), 4)
    producer.settle()
    stage.ask(request)
    _note_offsets(stage, "afterwards")


for _what, _is_committed in _ENDS.items():

    @BOOK.play(
        f"after {_what} with the epoch before", versions="0,3-6", source="KIP-890", is_alone=True
    )
    def _late(stage: Stage, is_committed: bool = _is_committed) -> None:
        """A late request does not begin a transaction that nobody ends."""
        producer = _begun(stage)
        request = producer.offsets_request(stage.name("g"), {stage.topic: {0: 1}})
        stage.ask(request)
        producer.end(committed=is_committed)
        stage.ask(request)
        stage.note("the state", producer.state())
        _note_offsets(stage, "afterwards")
