"""The commit of a stream's batch: its records and its marker in one transaction."""

from __future__ import annotations

import logging
import os
import platform
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from wirekafka.client.client import Client, CliError
from wirekafka.client.delivery import Place
from wirekafka.client.sink_marker import PARTITION, FoundMarker, Marker, find_marker, group_of
from wirekafka.client.transactions import OffsetAndMetadata, ProducerFenced, TransactionalProducer
from wirekafka.spark.commit_rule import BatchToCommit, Step, is_written, step_of
from wirekafka.spark.sink_client import retried, sink_client, topic_of
from wirekafka.spark.sink_options import SinkOptions
from wirekafka.spark.sink_tasks import Begin, TaskRecords, by_partition

_LATEST = -1
_log = logging.getLogger(__name__)


def check_topic(options: SinkOptions) -> None:
    """Look at the topic of the option, which brokers may create. Raises CliError."""
    if options.topic is not None:
        with sink_client(options) as client:
            topic_of(client, options.topic)


def begin(options: SinkOptions) -> Begin:
    """Look at the marker ahead of a batch's tasks; end what a dead driver has left open.

    Raises CliError, for options that brokers refuse, too.
    """
    driver = f"{platform.node()}/{os.getppid()}"
    with sink_client(options) as client:
        if options.topic is not None:
            topic_of(client, options.topic)
        producer = _producer(client, options)
        marker = find_marker(producer).marker
        is_of_another = marker is None or (
            marker.driver != driver and marker.checkpoint == options.checkpoint
        )
        # Readers would wait for the transaction's timeout, or for the commit of this batch.
        if is_of_another and _has_open(producer):
            retried(client, producer.init)
            marker = find_marker(producer).marker
    return Begin(marker.run if marker else None, driver)


def run_of_marker(options: SinkOptions) -> str | None:
    """The run that has written the last batch; None if there is no marker."""
    with sink_client(options) as client:
        marker = find_marker(_producer(client, options)).marker
    return marker.run if marker else None


def commit(
    options: SinkOptions, tasks: Sequence[TaskRecords], number: int, *, run_before: str | None
) -> None:
    """Write a batch unless it is in Kafka. Raises CommitRefused, CliError."""
    if not tasks or tasks[0].begun is None:
        return  # Without tasks Spark names neither query nor run, and there are no records.
    begun = tasks[0].begun
    batch = BatchToCommit(tasks[0].query, tasks[0].run, number, begun.run, run_before)
    with sink_client(options) as client:
        producer = _producer(client, options)
        found = _ready(client, producer, batch, options)
        if is_written(batch, found.marker, replaces_marker=options.replaces_marker):
            _log.info("batch %d of query %s is in Kafka already", number, batch.query)
            tasks = ()
        batches = by_partition(tasks)
        topics = {*found.offsets, *_topics_of_marker(options, batches)}
        if not topics:
            return
        with aborted_by_errors(producer):
            ends = producer.send_batches(batches)
            offsets = {**found.offsets, **_ends(client, topics, ends)}
            records = sum(each.count for each in tasks)
            marker = _new_marker(options, batch, producer, found.marker, records, begun.driver)
            text = marker.to_json()
            producer.send_offsets(
                group_of(producer.transactional_id),
                {
                    (each, PARTITION): OffsetAndMetadata(offsets.get(each, 0), text)
                    for each in topics
                },
            )
            producer.commit()
        producer.renew()


def write_all(options: SinkOptions, tasks: Sequence[TaskRecords]) -> None:
    """Write the records of a batch query in one transaction. Raises CliError."""
    batches = by_partition(tasks)
    if not batches:
        return
    name = options.transactional_id or f"wirekafka-write-{uuid.uuid4()}"
    with sink_client(options) as client:
        producer = TransactionalProducer(client, name, timeout_ms=options.transaction_timeout_ms)
        retried(client, producer.init)
        with aborted_by_errors(producer):
            producer.send_batches(batches)
            producer.commit()


@contextmanager
def aborted_by_errors(producer: TransactionalProducer) -> Iterator[None]:
    """A transaction that any failure aborts at once, if brokers still answer."""
    try:
        yield
    except ProducerFenced:
        raise
    except CliError:
        with suppress(CliError):
            producer.abort()
        raise


def abort(options: SinkOptions, tasks: Iterable[TaskRecords]) -> None:
    """Abort the transaction that the commit of a run's batch has left open, if it has."""
    run = next((each.run for each in tasks), None)
    with sink_client(options) as client:
        producer = _producer(client, options)
        marker = find_marker(producer).marker
        if marker is not None and marker.run == run and _has_open(producer):
            producer.resume_run(initial=marker.producer, last=marker.producer)


def _ready(
    client: Client, producer: TransactionalProducer, batch: BatchToCommit, options: SinkOptions
) -> FoundMarker:
    """Make the producer ready for the batch, and fence earlier runs if this run is new."""
    found = find_marker(producer)
    if step_of(batch, found.marker, producer.transactional_id) is Step.GO_ON:
        assert found.marker is not None
        last = found.marker.producer
        retried(client, client.any)
        producer.resume_run(initial=last, last=last)
        return found
    # A batch that is refused must not fence a query that is running.
    is_written(batch, found.marker, replaces_marker=options.replaces_marker)
    retried(client, producer.init)
    found = find_marker(producer)
    step_of(batch, found.marker, producer.transactional_id)
    return found


def _has_open(producer: TransactionalProducer) -> bool:
    described = producer.describe()
    return described is not None and described.is_open


def _producer(client: Client, options: SinkOptions) -> TransactionalProducer:
    assert options.transactional_id is not None
    return TransactionalProducer(
        client, options.transactional_id, timeout_ms=options.transaction_timeout_ms
    )


def _new_marker(
    options: SinkOptions,
    batch: BatchToCommit,
    producer: TransactionalProducer,
    last: Marker | None,
    records: int,
    driver: str,
) -> Marker:
    if last is not None and last.query != batch.query:
        last = None
    is_repeated = last is not None and last.batch == batch.number
    return Marker(
        query=batch.query,
        run=batch.run,
        batch=batch.number,
        records=last.records if last is not None and is_repeated else records,
        total_records=records + (last.total_records if last else 0),
        producer_id=producer.identity.producer_id,
        producer_epoch=producer.identity.producer_epoch,
        at_ms=time.time_ns() // 1_000_000,
        driver=driver,
        checkpoint=options.checkpoint,
    )


def _ends(client: Client, topics: Iterable[str], sent: Mapping[Place, int]) -> dict[str, int]:
    """The ends of the marker's partitions, as far as they are known: groups show no lag then."""
    found: dict[Place, int] = {}
    missing = [(topic, PARTITION) for topic in topics if (topic, PARTITION) not in sent]
    with suppress(CliError):
        found = client.known_offsets(missing, _LATEST) if missing else {}
    # The end of the transaction is a record, too.
    found |= {place: end + 1 for place, end in sent.items() if place[1] == PARTITION}
    return {topic: offset for (topic, _), offset in found.items()}


def _topics_of_marker(options: SinkOptions, batches: Iterable[Place]) -> frozenset[str]:
    """The topic of the option, or else the first of the records' topics."""
    if options.topic is not None:
        return frozenset({options.topic})
    return frozenset(sorted({topic for topic, _ in batches})[:1])
