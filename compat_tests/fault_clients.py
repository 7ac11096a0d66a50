"""Three Python Kafka clients behind one interface, to record how each reacts to a fault."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiokafka
import aiokafka.admin
import aiokafka.errors
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.admin
import kafka.errors

from tests.eventually import eventually
from tests.testing.clients import TIMEOUT_S, confluent_consumer, confluent_producer
from wirekafka import Broker

PATIENCE_S = 100
"""Timeout of producers, which may wait for Apache Kafka to start on a busy machine."""

Outcome = str | None
"""The error that a client raised, as the client names it; None for success."""
Fault = Callable[[], AbstractContextManager[Any]]
"""Activates a fault while the context is open."""


@dataclass
class Plan:
    """The broker and topic of a client; `name` is its client id, group and transactional id."""

    broker: Broker
    name: str
    topic: str
    options: dict[str, Any] = field(default_factory=dict)
    """Options of each record, as kafka-python names them."""
    session_ms: int = 30_000


class Client(Protocol):
    """The interface that every client library implements."""

    def send(self, plan: Plan, values: Iterable[bytes], idempotent: bool) -> list[Outcome]:
        """Produce with acks=all, and wait for each record's acknowledgement."""

    def join(self, plan: Plan, count: int, during: Fault) -> list[Any]:
        """Read from the beginning in a group, with the fault active before the client joins."""

    def go_on(self, plan: Plan, during: Fault, until: Callable[[], bool]) -> list[Any]:
        """Read one record in a group and commit, poll with the fault active until the
        condition holds, then produce and read one more record."""

    def commit(self, plan: Plan, during: Fault) -> Outcome:
        """Read a record in a group, and commit while the fault is active."""

    def transact(self, plan: Plan, before: Fault, during: Fault) -> list[Outcome]:
        """Start a transactional producer (before) and write and commit (during) a transaction
        with a group's offset. Returns the outcome of each step, up to the first failure."""

    def create(self, plan: Plan) -> Outcome:
        """Create the plan's topic as an administrator."""


class Confluent:
    """confluent-kafka."""

    def send(self, plan: Plan, values: Iterable[bytes], idempotent: bool) -> list[Outcome]:
        producer = confluent_producer(
            plan.broker,
            **{
                "client.id": plan.name,
                "enable.idempotence": idempotent,
                "message.timeout.ms": PATIENCE_S * 1000,
                **_QUIET,
            },
        )
        options = {
            "timestamp" if name == "timestamp_ms" else name: value
            for name, value in plan.options.items()
        }
        return [_delivered(producer, plan.topic, value, **options) for value in values]

    def join(self, plan: Plan, count: int, during: Fault) -> list[Any]:
        with during(), closing(self._consumer(plan)) as consumer:
            return [_confluent_value(_polled(consumer)) for _ in range(count)]

    def go_on(self, plan: Plan, during: Fault, until: Callable[[], bool]) -> list[Any]:
        with closing(self._consumer(plan)) as consumer:
            values = [_confluent_value(_polled(consumer))]
            consumer.commit(asynchronous=False)
            with during():
                for _ in _rounds(until):
                    message = consumer.poll(0.02)
                    if message is not None:
                        values.append(_confluent_value(message))
            plan.broker.produce(plan.topic, ["more"])
            return [*values, _confluent_value(_polled(consumer))]

    def commit(self, plan: Plan, during: Fault) -> Outcome:
        with closing(self._consumer(plan)) as consumer:
            message = _polled(consumer)
            with during():
                try:
                    consumer.commit(message, asynchronous=False)
                except confluent_kafka.KafkaException as error:
                    return _confluent_name(error.args[0])
                return None

    def transact(self, plan: Plan, before: Fault, during: Fault) -> list[Outcome]:
        producer = confluent_producer(
            plan.broker,
            **{
                "client.id": plan.name,
                "transactional.id": plan.name,
                "transaction.timeout.ms": 60_000,
                **_QUIET,
            },
        )
        group = confluent_kafka.TopicPartition(plan.topic, 0, 1)
        with closing(self._consumer(plan)) as consumer:
            _polled(consumer)
            with before():
                outcomes = _steps([lambda: producer.init_transactions(TIMEOUT_S)], _confluent_error)
            if outcomes[-1] is not None:
                return outcomes
            producer.begin_transaction()
            with during():
                return outcomes + _steps(
                    [
                        lambda: _raise_for(_delivered(producer, plan.topic, b"in it")),
                        lambda: producer.send_offsets_to_transaction(
                            [group], consumer.consumer_group_metadata(), TIMEOUT_S
                        ),
                        lambda: producer.commit_transaction(TIMEOUT_S),
                    ],
                    _confluent_error,
                )

    def create(self, plan: Plan) -> Outcome:
        admin = confluent_kafka.admin.AdminClient(
            {
                "bootstrap.servers": plan.broker.bootstrap_servers,
                "client.id": plan.name,
                "log_level": 0,
                "retry.backoff.ms": 5,
            }
        )
        new = confluent_kafka.admin.NewTopic(plan.topic, 1, 1)
        try:
            admin.create_topics([new], request_timeout=10)[plan.topic].result(TIMEOUT_S)
        except confluent_kafka.KafkaException as error:
            return _confluent_name(error.args[0])
        return None

    def _consumer(self, plan: Plan) -> confluent_kafka.Consumer:
        consumer = confluent_consumer(
            plan.broker,
            plan.name,
            **{"client.id": plan.name, "session.timeout.ms": plan.session_ms},
        )
        consumer.subscribe([plan.topic])
        return consumer


class KafkaPython:
    """kafka-python."""

    def send(self, plan: Plan, values: Iterable[bytes], idempotent: bool) -> list[Outcome]:
        producer = kafka.KafkaProducer(
            bootstrap_servers=plan.broker.bootstrap_servers,
            client_id=plan.name,
            acks="all",
            retries=20,
            retry_backoff_ms=10,
            reconnect_backoff_ms=10,
            linger_ms=0,
            enable_idempotence=idempotent,
        )
        try:
            return [
                _outcome(
                    lambda value=value: producer.send(plan.topic, value, **plan.options).get(
                        PATIENCE_S
                    ),
                    kafka.errors.KafkaError,
                )
                for value in values
            ]
        finally:
            producer.close(2)

    def join(self, plan: Plan, count: int, during: Fault) -> list[Any]:
        with during():
            consumer = self._consumer(plan)
            values: list[Any] = []
            with _ending(consumer, values):
                while len(values) < count:
                    values += self._polled(consumer)
            return values

    def go_on(self, plan: Plan, during: Fault, until: Callable[[], bool]) -> list[Any]:
        consumer = self._consumer(plan)
        values: list[Any] = []
        with _ending(consumer, values):
            values += self._polled(consumer)
            consumer.commit()
            with during():
                for _ in _rounds(until):
                    for records in consumer.poll(20).values():
                        values += [record.value for record in records]
            plan.broker.produce(plan.topic, ["more"])
            values += self._polled(consumer)
        return values

    def commit(self, plan: Plan, during: Fault) -> Outcome:
        consumer = self._consumer(plan)
        try:
            self._polled(consumer)
            self._settle(consumer)
            with during():
                return _outcome(lambda: consumer.commit(timeout_ms=10_000), kafka.errors.KafkaError)
        finally:
            consumer.close(autocommit=False)

    def transact(self, plan: Plan, before: Fault, during: Fault) -> list[Outcome]:
        producer = kafka.KafkaProducer(
            bootstrap_servers=plan.broker.bootstrap_servers,
            client_id=plan.name,
            transactional_id=plan.name,
            retry_backoff_ms=10,
            max_block_ms=15_000,
        )
        consumer = self._consumer(plan)
        partition = kafka.TopicPartition(plan.topic, 0)
        offsets = {partition: kafka.structs.OffsetAndMetadata(1, "", -1)}
        try:
            self._polled(consumer)
            self._settle(consumer)
            with before():
                outcomes = _steps([producer.init_transactions], _python_error)
            if outcomes[-1] is not None:
                return outcomes
            producer.begin_transaction()
            with during():
                return outcomes + _steps(
                    [
                        lambda: producer.send(plan.topic, b"in it").get(TIMEOUT_S),
                        lambda: producer.send_offsets_to_transaction(
                            offsets, consumer.group_metadata()
                        ),
                        producer.commit_transaction,
                    ],
                    _python_error,
                )
        finally:
            producer.close(1)
            consumer.close(autocommit=False)

    def create(self, plan: Plan) -> Outcome:
        admin = kafka.KafkaAdminClient(
            bootstrap_servers=plan.broker.bootstrap_servers,
            client_id=plan.name,
            retry_backoff_ms=10,
        )
        try:
            return _outcome(
                lambda: admin.create_topics(
                    [kafka.admin.NewTopic(plan.topic, 1, 1)], timeout_ms=10_000
                ),
                kafka.errors.KafkaError,
            )
        finally:
            admin.close()

    def _consumer(self, plan: Plan) -> Any:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=plan.broker.bootstrap_servers,
            client_id=plan.name,
            group_id=plan.name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            retry_backoff_ms=10,
            heartbeat_interval_ms=100,
            max_poll_records=1,
            reconnect_backoff_ms=10,
            session_timeout_ms=plan.session_ms,
        )
        # It may join before it knows the partitions, and then ignore its assignment.
        consumer.partitions_for_topic(plan.topic)
        consumer.subscribe([plan.topic])
        return consumer

    def _polled(self, consumer: Any) -> list[bytes]:
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            for records in consumer.poll(200).values():
                return [record.value for record in records]
        raise AssertionError("nothing came")

    def _settle(self, consumer: Any) -> None:
        """If its metadata arrives late, it joins again, and commits nothing until it has a
        position again."""

        def is_settled() -> bool:
            consumer.poll(20)
            if consumer._coordinator.need_rejoin():
                return False
            return bool(consumer._subscription.all_consumed_offsets())

        eventually(is_settled)


class Aiokafka:
    """aiokafka."""

    def send(self, plan: Plan, values: Iterable[bytes], idempotent: bool) -> list[Outcome]:
        async def run() -> list[Outcome]:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=plan.broker.bootstrap_servers,
                client_id=plan.name,
                acks="all",
                retry_backoff_ms=10,
                enable_idempotence=idempotent,
                request_timeout_ms=PATIENCE_S * 1000,
            )
            try:
                await producer.start()
                return [
                    await _awaited(producer.send_and_wait(plan.topic, value, **plan.options))
                    for value in values
                ]
            except aiokafka.errors.KafkaError as error:
                return [_name(error)]
            finally:
                await producer.stop()

        return asyncio.run(run())

    def join(self, plan: Plan, count: int, during: Fault) -> list[Any]:
        async def run() -> list[Any]:
            values: list[Any] = []
            with during():
                consumer = self._consumer(plan)
                try:
                    await consumer.start()
                    while len(values) < count:
                        values.append(await _one(consumer))
                except aiokafka.errors.KafkaError as error:
                    values.append(_name(error))
                finally:
                    await consumer.stop()
            return values

        return asyncio.run(run())

    def go_on(self, plan: Plan, during: Fault, until: Callable[[], bool]) -> list[Any]:
        async def run() -> list[Any]:
            values: list[Any] = []
            async with self._consumer(plan) as consumer:
                try:
                    values.append(await _one(consumer))
                    await consumer.commit()
                    with during():
                        for _ in _rounds(until):
                            for records in (await consumer.getmany(timeout_ms=20)).values():
                                values += [record.value for record in records]
                    plan.broker.produce(plan.topic, ["more"])
                    values.append(await _one(consumer))
                except aiokafka.errors.KafkaError as error:
                    values.append(_name(error))
            return values

        return asyncio.run(run())

    def commit(self, plan: Plan, during: Fault) -> Outcome:
        async def run() -> Outcome:
            async with self._consumer(plan) as consumer:
                await _one(consumer)
                with during():
                    return await _awaited(consumer.commit())

        return asyncio.run(run())

    def transact(self, plan: Plan, before: Fault, during: Fault) -> list[Outcome]:
        async def run() -> list[Outcome]:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=plan.broker.bootstrap_servers,
                client_id=plan.name,
                transactional_id=plan.name,
                retry_backoff_ms=10,
            )
            offsets = {aiokafka.TopicPartition(plan.topic, 0): 1}
            try:
                with before():
                    outcomes = [await _awaited(producer.start())]
                if outcomes[-1] is None:
                    await producer.begin_transaction()
                    with during():
                        for step in (
                            lambda: producer.send_and_wait(plan.topic, b"in it"),
                            lambda: producer.send_offsets_to_transaction(offsets, plan.name),
                            lambda: producer.commit_transaction(),
                        ):
                            outcomes.append(await _awaited(step()))
                            if outcomes[-1] is not None:
                                break
                return outcomes
            finally:
                with suppress(aiokafka.errors.KafkaError, asyncio.TimeoutError):
                    await asyncio.wait_for(producer.stop(), 5)

        return asyncio.run(run())

    def create(self, plan: Plan) -> Outcome:
        async def run() -> Outcome:
            admin = aiokafka.admin.AIOKafkaAdminClient(
                bootstrap_servers=plan.broker.bootstrap_servers, client_id=plan.name
            )
            await admin.start()
            try:
                answer = await admin.create_topics(
                    [aiokafka.admin.NewTopic(plan.topic, 1, 1)], timeout_ms=10_000
                )
                codes = [each[1] for each in answer.topic_errors if each[1]]
                return str(codes[0]) if codes else None
            except aiokafka.errors.KafkaError as error:
                return _name(error)
            finally:
                await admin.close()

        return asyncio.run(run())

    def _consumer(self, plan: Plan) -> Any:
        return aiokafka.AIOKafkaConsumer(
            plan.topic,
            bootstrap_servers=plan.broker.bootstrap_servers,
            client_id=plan.name,
            group_id=plan.name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            retry_backoff_ms=10,
            heartbeat_interval_ms=100,
            max_poll_records=1,
            session_timeout_ms=plan.session_ms,
        )


_QUIET = {"logger": logging.getLogger("quiet")}
logging.getLogger("quiet").disabled = True

CLIENTS: dict[str, Client] = {
    "confluent-kafka": Confluent(),
    "kafka-python": KafkaPython(),
    "aiokafka": Aiokafka(),
}


@contextmanager
def _ending(consumer: kafka.KafkaConsumer, values: list[Any]) -> Iterator[None]:
    """Close a kafka-python consumer, with an error as the last item of what it read."""
    try:
        yield
    except kafka.errors.KafkaError as error:
        values.append(_name(error))
    finally:
        consumer.close(autocommit=False)


def _rounds(until: Callable[[], bool]) -> Iterator[None]:
    """Iterate until the condition holds. Raises AssertionError if it does not in time."""
    deadline = time.monotonic() + TIMEOUT_S
    while not until():
        assert time.monotonic() < deadline, "what the client was to do first, it never did"
        yield


def _delivered(
    producer: confluent_kafka.Producer, topic: str, value: bytes, **options: Any
) -> Outcome:
    reports: list[Any] = []
    try:
        producer.produce(
            topic, value, on_delivery=lambda error, _: reports.append(error), **options
        )
    except confluent_kafka.KafkaException as error:
        return _confluent_name(error.args[0])
    # Polling for delivery reports may also raise a fatal error, or a SystemError caused by it.
    with suppress(confluent_kafka.KafkaException, SystemError):
        producer.flush(PATIENCE_S)
    assert reports, "no delivery report"
    return _confluent_name(reports[0])


def _polled(consumer: confluent_kafka.Consumer) -> Any:
    message = consumer.poll(TIMEOUT_S)
    assert message is not None, "nothing came"
    return message


def _confluent_value(message: Any) -> Any:
    return message.value() if message.error() is None else _confluent_name(message.error())


def _confluent_name(error: Any) -> Outcome:
    if error is None:
        return None
    marks = [
        word
        for word, is_so in (
            ("fatal", error.fatal()),
            ("retriable", error.retriable()),
            ("requires abort", error.txn_requires_abort()),
        )
        if is_so
    ]
    return " ".join([error.name(), *marks])


class _NotDelivered(Exception):
    pass


def _raise_for(outcome: Outcome) -> None:
    if outcome is not None:
        raise _NotDelivered(outcome)


def _confluent_error(error: Exception) -> Outcome:
    if isinstance(error, _NotDelivered):
        return str(error)
    assert isinstance(error, confluent_kafka.KafkaException), error
    return _confluent_name(error.args[0])


def _python_error(error: Exception) -> Outcome:
    assert isinstance(error, kafka.errors.KafkaError), error
    return _name(error)


def _steps(
    steps: Sequence[Callable[[], Any]], named: Callable[[Exception], Outcome]
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for step in steps:
        try:
            step()
        except Exception as error:
            return [*outcomes, named(error)]
        outcomes.append(None)
    return outcomes


def _outcome(do: Callable[[], Any], kind: type[Exception]) -> Outcome:
    try:
        do()
    except kind as error:
        return _name(error)
    return None


async def _awaited(doing: Awaitable[Any]) -> Outcome:
    try:
        await asyncio.wait_for(doing, PATIENCE_S)
    except aiokafka.errors.KafkaError as error:
        return _name(error)
    except TimeoutError:
        return "TimeoutError"
    return None


async def _one(consumer: Any) -> bytes:
    record = await asyncio.wait_for(consumer.getone(), TIMEOUT_S)
    value: bytes = record.value
    return value


def _name(error: Exception) -> str:
    return type(error).__name__
