"""Clients of kafka-python, which share no code with librdkafka."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.structs import OffsetAndMetadata

from tests.histories.history import OffsetCommit, Operation, Read, Send, Verdict
from tests.histories.real_clients import PATIENCE_S, PLACES, Stage

_ABORTS = 0.1
_SETTINGS: dict[str, Any] = {"reconnect_backoff_ms": 50, "reconnect_backoff_max_ms": 300}


def consume_with_python(stage: Stage, name: str) -> None:
    """Read all committed records from the start on, with assigned partitions."""
    consumer = KafkaConsumer(
        bootstrap_servers=stage.bootstrap,
        group_id=None,
        auto_offset_reset="none",
        enable_auto_commit=False,
        isolation_level="read_committed",
        **_SETTINGS,
    )
    consumer.assign([TopicPartition(*place) for place in PLACES])
    for place in PLACES:
        consumer.seek(TopicPartition(*place), 0)
    while not stage.is_over.is_set():
        read = Read(True, [])
        for where, records in consumer.poll(200, 500).items():
            read.records += [
                ((where.topic, where.partition), record.offset, int(record.value))
                for record in records
            ]
        if read.records:
            stage.history.read(name, read)
    consumer.close()


def transact_with_python(stage: Stage, name: str) -> None:
    """Run transactions of a few writes; after every error with a new producer."""
    lives = 0
    while not stage.is_over.is_set():
        lives += 1
        producer = KafkaProducer(
            bootstrap_servers=stage.bootstrap,
            transactional_id=name,
            transaction_timeout_ms=stage.transaction_timeout_ms,
            acks="all",
            **_SETTINGS,
        )
        try:
            _in_time(producer.init_transactions)
            while not stage.is_over.is_set():
                operation = stage.history.begin(f"{name}.{lives}", is_transaction=True)
                if not _transaction(stage, producer, operation):
                    break
        except (kafka_errors.KafkaError, TimeoutError):
            time.sleep(0.2)
        finally:
            try:
                producer.close(timeout=1)
            except kafka_errors.KafkaError:  # It could not send all records in time.
                producer._sender.force_close()


def _commit_offset(stage: Stage, producer: Any, operation: Operation) -> None:
    """Only with kafka-python: librdkafka's call may wait for ever after a restart of the broker."""
    group, place = "copies", PLACES[0]
    offset = stage.new_value()
    operation.steps.append(OffsetCommit(group, place, offset))
    offsets = {TopicPartition(*place): OffsetAndMetadata(offset, "", -1)}
    _in_time(lambda: producer.send_offsets_to_transaction(offsets, group))


def _in_time(step: Callable[[], None]) -> None:
    """Run a step of a transaction; raises TimeoutError if it does not end.

    kafka-python waits for ever when the response to a batch arrives while its retry is queued: it
    selects the batch again and again, and never sends it.
    """
    ended: Future[None] = Future()

    def wait() -> None:
        try:
            step()
        except BaseException as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)

    threading.Thread(target=wait, daemon=True).start()
    ended.result(PATIENCE_S / 3)


def _transaction(stage: Stage, producer: Any, operation: Operation) -> bool:
    """Whether it succeeded, so that the producer can be used again."""
    random = stage.random(f"{operation.process} {operation.began}")
    history = stage.history
    try:
        producer.begin_transaction()
        futures = []
        for _ in range(random.randint(1, 4)):
            send = Send(random.choice(PLACES), stage.new_value())
            operation.steps.append(send)
            topic, index = send.place
            futures.append(
                (send, producer.send(topic, value=str(send.value).encode(), partition=index))
            )
        if random.random() < 0.4:
            _commit_offset(stage, producer, operation)
        for send, future in futures:
            send.offset = future.get(PATIENCE_S).offset
        if random.random() < _ABORTS:
            _in_time(producer.abort_transaction)
            history.end(operation, Verdict.UNDONE)
        else:
            operation.decided = history.tick()
            _in_time(producer.commit_transaction)
            history.end(operation, Verdict.DONE)
    except (kafka_errors.KafkaError, AssertionError, TimeoutError):
        history.end(operation, Verdict.UNDONE if operation.decided is None else Verdict.UNKNOWN)
        return False
    return True
