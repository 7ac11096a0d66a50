"""Real clients in threads, which do random operations and record them in the history."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.histories.history import History, OffsetCommit, Operation, Place, Read, Send, Verdict

TOPICS = {"one": 3, "two": 2}
PLACES: list[Place] = [(name, index) for name, size in TOPICS.items() for index in range(size)]
PATIENCE_S = 60
_ABORTS = 0.1
_CLIENT_CRASHES = 0.01
_BURST = 100
_QUIET = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._MAX_POLL_EXCEEDED,
    KafkaError._RESOLVE,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
"""Errors that a consumer may get while a broker is down."""


class Stage:
    """The state that the clients share. `surprises` are errors that no client should get."""

    def __init__(self, bootstrap: str, seed: int, transaction_timeout_ms: int = 30_000):
        self.bootstrap = bootstrap
        self.seed = seed
        self.transaction_timeout_ms = transaction_timeout_ms
        self.history = History()
        self.surprises: list[str] = []
        self.is_over = threading.Event()
        self._values = iter(range(1, 1 << 62))

    def new_value(self) -> int:
        return next(self._values)

    def random(self, name: str) -> Random:
        """The random generator of one client."""
        return Random(f"{self.seed} {name}")

    def config(self, **settings: Any) -> dict[str, Any]:
        """Settings of librdkafka: the defaults, but with quick reconnects."""
        names = {key.replace("_", "."): value for key, value in settings.items()}
        return {
            "bootstrap.servers": self.bootstrap,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 300,
            "log_level": 0,
            **names,
        }


def produce_plainly(stage: Stage, name: str) -> None:
    """Idempotent writes in bursts, many of them in flight."""
    random, history = stage.random(name), stage.history
    producer = Producer(stage.config(enable_idempotence=True, linger_ms=1))
    while not stage.is_over.is_set():
        for _ in range(_BURST):
            send = Send(random.choice(PLACES), stage.new_value())
            _produce(producer, send, _acknowledges(history, history.begin(name, send), send))
        producer.flush(PATIENCE_S)
        time.sleep(random.uniform(0, 0.25))
    if producer.flush(PATIENCE_S):
        stage.surprises.append(f"{name}: {len(producer)} writes never got a response")


def _acknowledges(history: History, operation: Operation, send: Send) -> Any:
    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            send.offset = message.offset()
        history.end(operation, Verdict.DONE if error is None else Verdict.UNKNOWN)

    return delivered


def _notes_offset(send: Send) -> Any:
    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            send.offset = message.offset()

    return delivered


def _produce(producer: Producer, send: Send, delivered: Any) -> None:
    topic, index = send.place
    producer.produce(topic, value=str(send.value), partition=index, on_delivery=delivered)
    producer.poll(0)


class Transactions:
    """A transactional producer of librdkafka, with a consumer polled within transactions."""

    def __init__(self, stage: Stage, name: str):
        self._stage = stage
        self._name = name
        self._random = stage.random(name)
        self._starts = 0

    def run(self) -> None:
        """Run transactions until the stage is over; the last one is ended."""
        self._start()
        while not self._stage.is_over.is_set():
            operation = self._stage.history.begin(
                f"{self._name}.{self._starts}", is_transaction=True
            )
            try:
                self._transaction(operation)
            except KafkaException as error:
                self._give_up(operation, error.args[0])
        self._consumer.close()

    def _restart(self) -> None:
        """Start again as after a crash; requests of the last producer may still arrive, too late.

        librdkafka (2.16.0) may end this process by a failed assertion if a producer is destroyed
        before all partitions were added to its transaction.
        """
        left = self._producer
        self._start()
        with suppress(KafkaException):  # It is fenced, and adds no partitions.
            left.flush(PATIENCE_S)

    def _start(self) -> None:
        stage = self._stage
        self._starts += 1
        self._producer = Producer(
            stage.config(
                transactional_id=self._name,
                transaction_timeout_ms=stage.transaction_timeout_ms,
                linger_ms=0,
            )
        )
        _insist(self._producer.init_transactions)
        self._consumer = _assigned(stage, committed=True)

    def _transaction(self, operation: Operation) -> None:
        random = self._random
        self._producer.begin_transaction()
        for _ in range(random.randint(1, 4)):
            random.choice([self._write, self._write, self._write, self._read])(operation)
        if random.random() < _CLIENT_CRASHES:
            self._stage.history.end(operation, Verdict.UNDONE)
            self._restart()
        elif random.random() < _ABORTS:
            self._abort()
            self._stage.history.end(operation, Verdict.UNDONE)
        else:
            operation.decided = self._stage.history.tick()
            _insist(self._producer.commit_transaction)
            self._stage.history.end(operation, Verdict.DONE)

    def _give_up(self, operation: Operation, error: KafkaError) -> None:
        """Abort, or start again if that fails too."""
        history = self._stage.history
        try:
            if not error.txn_requires_abort():
                raise KafkaException(error)
            self._abort()
            history.end(operation, Verdict.UNDONE)
        except KafkaException as fatal:
            if fatal.args[0].code() == KafkaError._STATE:
                self._stage.surprises.append(f"{self._name}: {fatal}")
            is_open = operation.decided is not None
            history.end(operation, Verdict.UNKNOWN if is_open else Verdict.UNDONE)
            self._restart()

    def _abort(self) -> None:
        # If the response to AddPartitionsToTxn comes after that to EndTxn, as after a kill
        # of the broker between them, librdkafka ends this process by a failed assertion.
        self._producer.flush(PATIENCE_S)
        _insist(self._producer.abort_transaction)

    def _write(self, operation: Operation) -> None:
        for _ in range(self._random.randint(1, 3)):
            send = Send(self._random.choice(PLACES), self._stage.new_value())
            operation.steps.append(send)
            _produce(self._producer, send, _notes_offset(send))

    def _read(self, operation: Operation) -> None:
        read = _poll(self._stage, self._consumer, 0.01, committed=True)
        operation.steps.append(read)


def consume_assigned(stage: Stage, name: str, *, committed: bool) -> None:
    """Read all records from the start on, with assigned partitions."""
    consumer = _assigned(stage, committed=committed)
    while not stage.is_over.is_set():
        read = _poll(stage, consumer, 0.2, committed=committed)
        if read.records:
            stage.history.read(name, read)
    consumer.close()


def consume_subscribed(stage: Stage, name: str) -> None:
    """Read as a member of a group, committing sometimes, leaving and joining again."""
    random = stage.random(name)
    while not stage.is_over.is_set():
        _membership(stage, name, random, time.monotonic() + random.uniform(10, 30))


def _membership(stage: Stage, name: str, random: Random, until_s: float) -> None:
    fresh = [True]
    consumer = Consumer(
        stage.config(
            group_id="workers",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,
            isolation_level="read_committed",
        )
    )
    consumer.subscribe(list(TOPICS), on_assign=lambda *_: fresh.__setitem__(0, True))
    while not stage.is_over.is_set() and time.monotonic() < until_s:
        read = _poll(stage, consumer, 0.2, committed=True)
        if not read.records:
            continue
        read.is_fresh, fresh[0] = fresh[0], False
        stage.history.read(name, read)
        if random.random() < 0.3:
            _commit_positions(stage, name, consumer, read)
    consumer.close()


def _commit_positions(stage: Stage, name: str, consumer: Consumer, read: Read) -> None:
    ends = {place: offset + 1 for place, offset, _ in read.records}
    operation = stage.history.begin(
        name, *(OffsetCommit("workers", place, offset) for place, offset in ends.items())
    )
    try:
        committed = consumer.commit(
            offsets=[TopicPartition(*place, offset) for place, offset in ends.items()],
            asynchronous=False,
        )
    except KafkaException:
        stage.history.end(operation, Verdict.UNKNOWN)
    else:
        is_done = all(each.error is None for each in committed or ())
        stage.history.end(operation, Verdict.DONE if is_done else Verdict.UNKNOWN)


def _assigned(stage: Stage, *, committed: bool) -> Consumer:
    consumer = Consumer(
        stage.config(
            group_id="assigned",
            enable_auto_commit=False,
            auto_offset_reset="error",
            isolation_level="read_committed" if committed else "read_uncommitted",
        )
    )
    consumer.assign([TopicPartition(*place, 0) for place in PLACES])
    return consumer


def _poll(stage: Stage, consumer: Consumer, wait_s: float, *, committed: bool) -> Read:
    read = Read(committed, [])
    for message in consumer.consume(500, wait_s):
        error = message.error()
        if error is None:
            read.records.append(
                ((message.topic(), message.partition()), message.offset(), int(message.value()))
            )
        elif error.code() not in _QUIET and not error.retriable():
            stage.surprises.append(f"a consumer got the error {error}")
    read.ended = stage.history.tick()
    return read


def _insist(call: Any) -> None:
    """Call until it succeeds. Raises KafkaException for errors that are not retriable."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            call(10)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > until_s:
                raise
            time.sleep(0.05)
