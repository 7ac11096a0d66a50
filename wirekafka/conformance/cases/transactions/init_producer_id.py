"""InitProducerId: producer ids, epochs, recovery, and the fencing of earlier producers."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.transactions.producer import ScriptedProducer
from wirekafka.conformance.cases.transactions.views import log, positions, producers
from wirekafka.conformance.stage import Stage
from wirekafka.errors import Error
from wirekafka.protocol.init_producer_id import InitProducerIdRequest

BOOK = Book(InitProducerIdRequest, "transactions", ConformanceLevel.TRANSACTIONS, "KIP-98")

_RECOVERY = "KIP-360"
_LONGEST_MS = 900_000
"""The default of transaction.max.timeout.ms."""


def init(
    name: str | None, timeout_ms: int = 60_000, producer_id: int = -1, epoch: int = -1
) -> InitProducerIdRequest:
    """The request of a producer that begins, or of one that recovers."""
    return InitProducerIdRequest(
        transactional_id=name,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


BOOK.ask("an idempotent producer", lambda _: init(None))
BOOK.ask("an empty name", lambda _: init(""))
BOOK.ask("a transactional producer", lambda s: init(s.name("x")))
BOOK.ask("a long name", lambda s: init(s.name("x" * 1000)))

_TIMEOUTS: dict[str, int] = {
    "a timeout of 0": 0,
    "a timeout of 1 ms": 1,
    "a negative timeout": -1,
    "the least timeout there is": -(2**31),
    "the longest timeout": _LONGEST_MS,
    "a timeout beyond the longest": _LONGEST_MS + 1,
    "the greatest timeout there is": 2**31 - 1,
}
for _what, _timeout in _TIMEOUTS.items():
    BOOK.ask(_what, lambda s, ms=_timeout: init(s.name("x"), ms))
    BOOK.ask(f"{_what} without a name", lambda _, ms=_timeout: init(None, ms))

_IDENTITIES: dict[str, tuple[int, int]] = {
    "an id and an epoch": (123, 4),
    "an id without an epoch": (123, -1),
    "an epoch without an id": (-1, 4),
    "an id and epoch of 0": (0, 0),
    "an id below minus 1": (-2, 0),
    "an epoch below minus 1": (123, -2),
    "the last epoch": (123, 2**15 - 1),
    "the greatest id": (2**63 - 1, 0),
}
for _what, (_id, _epoch) in _IDENTITIES.items():
    BOOK.ask(
        f"{_what} without a name",
        lambda _, id=_id, epoch=_epoch: init(None, 60_000, id, epoch),
        versions="3+",
        source=_RECOVERY,
    )
    BOOK.ask(
        f"{_what} for a new name",
        lambda s, id=_id, epoch=_epoch: init(s.name("x"), 60_000, id, epoch),
        versions="3+",
        source=_RECOVERY,
    )


@BOOK.play("three times")
def _three_times(stage: Stage) -> None:
    """Each producer of one transactional id has the same producer id and a newer epoch."""
    for _ in range(3):
        stage.ask(init(stage.name("x")))


@BOOK.play("two idempotent producers", versions="0,5")
def _two_idempotent(stage: Stage) -> None:
    for _ in range(2):
        stage.ask(init(None))


@BOOK.play("two transactional ids", versions="0,5")
def _two_ids(stage: Stage) -> None:
    for name in ("x", "y"):
        stage.ask(init(stage.name(name)))


@BOOK.play("a refused timeout of a known name", versions="0,5")
def _refused_timeout(stage: Stage) -> None:
    """The epoch does not change when the timeout is refused."""
    for timeout_ms in (60_000, 0, _LONGEST_MS + 1, 60_000):
        stage.ask(init(stage.name("x"), timeout_ms))


@BOOK.play("another timeout of a known name", versions="0,5")
def _other_timeout(stage: Stage) -> None:
    producer = ScriptedProducer(stage, level=1)
    stage.ask(producer.init_request(timeout_ms=5000))
    stage.note("the transaction", producer.described())


_KNOWN: dict[str, tuple[int, int]] = {
    # How much is added to the producer id and to the epoch, which is 2.
    "its id and epoch": (0, 0),
    "another id": (1_000_000, 0),
    "a smaller id": (-1, 0),
    "the epoch before": (0, -1),
    "the first epoch": (0, -2),
    "the next epoch": (0, 1),
    "a far newer epoch": (0, 1000),
    "the last epoch of all": (0, 2**15 - 3),
    "the last epoch but one": (0, 2**15 - 4),
    "another id and the last epoch": (1_000_000, 2**15 - 3),
}
for _what, _changes in _KNOWN.items():

    @BOOK.play(f"a known name recovers with {_what}", versions="3-5", source=_RECOVERY)
    def _known(stage: Stage, changes: tuple[int, int] = _changes) -> None:
        """After three producers, of which none recovered; what happens then to the newest."""
        producer = ScriptedProducer(stage, level=1)
        producer.start()
        producer.start()
        id, epoch = producer.producer_id + changes[0], producer.epoch + changes[1]
        stage.ask(producer.init_request(producer_id=id, epoch=epoch))
        stage.note("the transaction", producer.described())


@BOOK.play("a recovery is repeated", versions="3-5", source=_RECOVERY)
def _repeated(stage: Stage) -> None:
    """Whoever lost the answer has it again, until the next epoch."""
    producer = ScriptedProducer(stage, level=1)
    id, first = producer.producer_id, producer.epoch
    for epoch in (first, first, first + 1, first + 1, first, first + 2):
        stage.ask(producer.init_request(producer_id=id, epoch=epoch))


@BOOK.play("a recovery after another producer", versions="3,5", source=_RECOVERY)
def _overtaken(stage: Stage) -> None:
    """A producer that has been replaced may not recover; the newer one still may."""
    producer = ScriptedProducer(stage, level=1)
    stage.ask(producer.init_request())
    for epoch in (producer.epoch, producer.epoch + 1):
        stage.ask(producer.init_request(producer_id=producer.producer_id, epoch=epoch))


@BOOK.play("another producer after a recovery", versions="3,5", source=_RECOVERY)
def _after_recovery(stage: Stage) -> None:
    producer = ScriptedProducer(stage, level=1)
    id, epoch = producer.producer_id, producer.epoch
    stage.ask(producer.init_request(producer_id=id, epoch=epoch))
    stage.ask(producer.init_request())
    for each in (epoch, epoch + 1, epoch + 2):
        stage.ask(producer.init_request(producer_id=id, epoch=each))


@BOOK.play("at the same time by two", versions="1,5")
def _together(stage: Stage) -> None:
    """Two producers that begin at once: in the end both have an epoch of their own."""
    request = init(stage.name("x"))
    first = stage.do(request)
    epochs = set()
    for by in ("a", "b"):
        answer = stage.until(
            lambda by=by: _unless_busy(stage.do(request, by=by)), "a producer's epoch"
        )
        epochs.add(answer.producer_epoch - first.producer_epoch)
        stage.note(f"error of {by}", Error.of(answer.error_code).name)
    stage.note("epochs", sorted(epochs))


def _unless_busy(answer: Any) -> Any:
    return answer if answer.error_code != Error.CONCURRENT_TRANSACTIONS else None


def _after_abort(stage: Stage, producer: ScriptedProducer, request: InitProducerIdRequest) -> None:
    """Begin anew while a transaction is open: what is answered, also when it is aborted."""
    stage.ask(request)
    producer.settle()
    stage.ask(request)
    stage.note("the transaction", producer.described())


for _level in (1, 2):

    @BOOK.play(f"with an open transaction of level {_level}", versions="1,4-5")
    def _open(stage: Stage, level: int = _level) -> None:
        """The transaction of the earlier producer is aborted first."""
        topic = stage.create()
        producer = ScriptedProducer(stage, level=level)
        producer.send(topic, count=2)
        _after_abort(stage, producer, producer.init_request())
        stage.note("the log", log(stage, topic))
        stage.note("its positions", positions(stage, topic))
        stage.note("its producers", producers(stage, topic))

    @BOOK.play(
        f"a recovery with an open transaction of level {_level}", versions="3-5", source=_RECOVERY
    )
    def _recovers_open(stage: Stage, level: int = _level) -> None:
        topic = stage.create()
        producer = ScriptedProducer(stage, level=level)
        producer.send(topic, count=2)
        id, epoch = producer.producer_id, producer.epoch
        _after_abort(stage, producer, producer.init_request(producer_id=id, epoch=epoch))
        stage.note("the log", log(stage, topic))
        stage.note("its positions", positions(stage, topic))

    for _what, _more in {"an older epoch": (0, -1), "another id": (1_000_000, 0)}.items():

        @BOOK.play(
            f"a recovery by {_what} with an open transaction of level {_level}",
            versions="3,5",
            source=_RECOVERY,
        )
        def _refused_open(stage: Stage, level: int = _level, more: tuple[int, int] = _more) -> None:
            """What becomes of the open transaction, and of its producer."""
            topic = stage.create()
            producer = ScriptedProducer(stage, level=level)
            producer.start()
            producer.send(topic)
            id, epoch = producer.producer_id + more[0], producer.epoch + more[1]
            stage.ask(producer.init_request(producer_id=id, epoch=epoch))
            producer.settle()
            stage.note("the transaction", producer.described())
            stage.ask(producer.end_request(), producer.end_version)
            producer.settle()
            stage.note("the log", log(stage, topic))

    @BOOK.play(f"after a commit of level {_level}", versions="1,5")
    def _after_commit(stage: Stage, level: int = _level) -> None:
        topic = stage.create()
        producer = ScriptedProducer(stage, level=level)
        producer.send(topic)
        producer.end()
        stage.ask(producer.init_request())
        stage.note("the transaction", producer.described())

    @BOOK.play(f"after an abort of level {_level}", versions="1,5")
    def _after_an_abort(stage: Stage, level: int = _level) -> None:
        topic = stage.create()
        producer = ScriptedProducer(stage, level=level)
        producer.send(topic)
        producer.end(committed=False)
        stage.ask(producer.init_request())
        stage.note("the transaction", producer.described())

    @BOOK.play(f"a recovery after a commit of level {_level}", versions="3,5", source=_RECOVERY)
    def _recovers_after(stage: Stage, level: int = _level) -> None:
        """With the epoch after the transaction, and again with the epoch in the transaction."""
        topic = stage.create()
        producer = ScriptedProducer(stage, level=level)
        before = producer.epoch
        producer.send(topic)
        producer.end()
        for epoch in (producer.epoch, before):
            stage.ask(producer.init_request(producer_id=producer.producer_id, epoch=epoch))
