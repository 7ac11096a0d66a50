"""Commits of Spark's sink `wirekafka` as its processes do them, in the order of failures."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from compat_tests.conftest import RunningBroker
from tests.eventually import eventually
from wirekafka.client.client import Client
from wirekafka.client.delivery import Place
from wirekafka.client.sink_marker import Marker, find_marker
from wirekafka.client.transactions import ProducerFenced, TransactionalProducer
from wirekafka.reader.wire_log import WireLog
from wirekafka.spark import batch_commit
from wirekafka.spark.batch_commit import abort, begin, commit, run_of_marker, write_all
from wirekafka.spark.commit_rule import CommitRefused, QueryFenced
from wirekafka.spark.record_groups import RecordGroup, RecordGroups, TopicPartitionCounts
from wirekafka.spark.sink_options import SinkOptions
from wirekafka.spark.sink_tasks import TaskRecords
from wirekafka.testing import Broker


@dataclass
class Run:
    """A run of a query, which calls the sink in the order in which Spark does."""

    options: SinkOptions
    query: str = "query"
    name: str = field(default_factory=lambda: str(uuid.uuid4()))
    driver: str | None = None
    """Another driver than the process of the tests."""
    _run_before: list[str | None] = field(default_factory=list)

    def begin(self, *values: str) -> list[TaskRecords]:
        """Begin a batch: a task for each value."""
        begun = begin(self.options)
        if self.driver is not None:
            begun = replace(begun, driver=self.driver)
        return [
            TaskRecords(groups_of(self.options, [value]), begun, self.query, self.name)
            for value in values
        ] or [TaskRecords([], begun, self.query, self.name)]

    def commit(self, number: int, tasks: list[TaskRecords]) -> None:
        """Commit a batch; ahead of the first, Spark makes the data source of all commits."""
        if not self._run_before:
            self._run_before.append(run_of_marker(self.options))
        commit(self.options, tasks, number, run_before=self._run_before[0])

    def write(self, number: int, *values: str) -> None:
        """Begin and commit a batch."""
        self.commit(number, self.begin(*values))


def groups_of(options: SinkOptions, values: Iterable[str]) -> list[RecordGroup]:
    rows = pa.record_batch([pa.array(list(values))], names=["value"])
    with Client(options.bootstrap) as client:
        groups = RecordGroups(options, TopicPartitionCounts(client).of, first_without_key=0)
        return [group for each in groups.rounds([rows]) for group in each]


@pytest.fixture(params=["wirekafka", "apache-kafka"])
def options(request: pytest.FixtureRequest, unique: str) -> SinkOptions:
    """A new topic and transactional id."""
    name = "apache_kafka" if request.param == "apache-kafka" else "broker"
    broker: RunningBroker = request.getfixturevalue(name)
    return SinkOptions(broker.bootstrap, topic=unique, transactional_id=unique)


def committed(options: SinkOptions) -> list[str]:
    """The values that readers with read_committed see in the topic's only partition."""
    assert options.topic is not None
    if options.transactional_id is not None:
        with Client(options.bootstrap) as client:
            # Brokers respond to the commit before they have ended the transaction everywhere.
            TransactionalProducer(client, options.transactional_id).settled()
    with WireLog(options.bootstrap) as log:
        start, end = log.offsets(options.topic, 0)
        rows = [
            row
            for split in log.splits(options.topic, 0, start, end)
            for batch in log.read(split, columns=["value"])
            for row in batch.to_pylist()
        ]
    return [row["value"].decode() for row in rows]


def marker_of(options: SinkOptions) -> Marker:
    with Client(options.bootstrap) as client:
        assert options.transactional_id is not None
        marker = find_marker(TransactionalProducer(client, options.transactional_id)).marker
    assert marker is not None
    return marker


@pytest.fixture
def left_open(options: SinkOptions) -> Iterator[TransactionalProducer]:
    """A producer of the transactional id whose process died in a transaction."""
    assert options.topic is not None and options.transactional_id is not None
    with Client(options.bootstrap) as client:
        client.topic(options.topic, create=True)
        producer = TransactionalProducer(client, options.transactional_id)
        producer.init()
        place: Place = (options.topic, 0)
        [group] = groups_of(options, ["left open"])
        producer.send_batches({place: group.batches})
        yield producer


def test_batches_are_visible_in_order_with_their_marker(options: SinkOptions) -> None:
    run = Run(options)
    run.write(0, "a", "b", "c")
    run.write(1)
    run.write(2, "d")
    assert committed(options) == ["a", "b", "c", "d"]
    marker = marker_of(options)
    assert (marker.query, marker.run, marker.batch) == (run.query, run.name, 2)
    assert (marker.records, marker.total_records) == (1, 4)


def test_replayed_batch_is_written_once(options: SinkOptions) -> None:
    Run(options).write(0, "a", "b")
    again = Run(options)
    again.write(0, "a", "b")
    assert committed(options) == ["a", "b"]
    assert (marker_of(options).records, marker_of(options).total_records) == (2, 2)
    again.write(1, "c")
    assert committed(options) == ["a", "b", "c"]
    assert marker_of(options).run == again.name


def test_new_run_fences_the_run_before(options: SinkOptions) -> None:
    old, new = Run(options), Run(options)
    old.write(0, "a")
    late = old.begin("late")
    new.write(1, "b")
    with pytest.raises(QueryFenced, match="another run has begun to write"):
        old.commit(1, late)
    with pytest.raises(QueryFenced, match=new.name):
        old.write(1, "later")
    new.write(2, "c")
    assert committed(options) == ["a", "b", "c"]


def test_run_that_was_delayed_in_its_first_batch_yields_to_a_newer_run(
    options: SinkOptions,
) -> None:
    Run(options).write(0, "a")
    slow, new = Run(options), Run(options)
    delayed = slow.begin("delayed")
    new.write(1, "b")
    with pytest.raises(QueryFenced, match="computed its first batch"):
        slow.commit(1, delayed)
    new.write(2, "c")
    assert committed(options) == ["a", "b", "c"]


def test_run_that_wrote_the_batch_meanwhile_is_replaced(options: SinkOptions) -> None:
    old, new = Run(options), Run(options)
    old.write(0, "a")
    batch = new.begin("b")
    old.write(1, "b")
    new.commit(1, batch)
    with pytest.raises(QueryFenced):
        old.write(2, "late")
    new.write(2, "c")
    assert committed(options) == ["a", "b", "c"]


def test_changed_checkpoint_is_refused_and_disturbs_nobody(options: SinkOptions) -> None:
    run = Run(options)
    run.write(0, "a")
    with pytest.raises(CommitRefused, match="belongs to another query or checkpoint"):
        Run(options, query="other").write(0, "x")
    run.write(1, "b")
    with pytest.raises(CommitRefused, match="checkpoint of query query is older"):
        Run(options).write(0, "x")
    run.write(2, "c")
    replacing = replace(options, replaces_marker=True)
    Run(replacing, query="other").write(0, "d")
    assert committed(options) == ["a", "b", "c", "d"]
    with pytest.raises(QueryFenced):
        run.write(3, "x")


def test_later_batch_without_a_marker_is_refused(options: SinkOptions) -> None:
    with pytest.raises(CommitRefused, match="no marker of the batches before"):
        Run(options).write(3, "x")
    Run(replace(options, replaces_marker=True)).write(3, "a")
    assert committed(options) == ["a"]


def test_transaction_of_a_dead_driver_is_aborted_before_the_next_batch_is_computed(
    options: SinkOptions, left_open: TransactionalProducer
) -> None:
    run = Run(options)
    batch = run.begin("a")
    described = left_open.describe()
    assert described is not None and not described.is_open
    with pytest.raises(ProducerFenced):
        left_open.commit()
    run.commit(0, batch)
    assert committed(options) == ["a"]


def test_batch_whose_run_loses_its_id_in_the_transaction_is_not_visible(
    options: SinkOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, new = Run(options), Run(options, driver="another")
    run.write(0, "a")
    ends = batch_commit._ends

    def fenced(*given: object) -> dict[str, int]:
        monkeypatch.setattr(batch_commit, "_ends", ends)
        new.write(1, "b")
        return {}

    monkeypatch.setattr(batch_commit, "_ends", fenced)
    with pytest.raises(ProducerFenced, match="another producer"):
        run.write(1, "b")
    assert committed(options) == ["a", "b"]
    assert marker_of(options).run == new.name


def test_what_a_dead_process_of_the_commit_left_open_is_aborted(
    options: SinkOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(options)
    run.write(0, "a")
    batch = run.begin("b")

    def die(*given: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(batch_commit, "_ends", die)
        with pytest.raises(SystemExit):
            run.commit(1, batch)
    abort(options, batch)
    assert committed(options) == ["a"]
    again = Run(options)
    again.write(1, "b")
    assert committed(options) == ["a", "b"]


def test_topics_of_the_column_share_a_marker(options: SinkOptions, unique: str) -> None:
    names = [f"{unique}-{number}" for number in range(2)]
    run = Run(replace(options, topic=None))
    run.commit(0, run.begin())
    for number, name in enumerate(names):
        tasks = run.begin()
        groups = groups_of(replace(options, topic=name), [name])
        run.commit(number, [replace(tasks[0], groups=groups)])
    run.commit(2, run.begin())
    assert marker_of(options).batch == 2
    for name in names:
        assert committed(replace(options, topic=name)) == [name]


def test_batch_query_writes_all_in_one_transaction(options: SinkOptions) -> None:
    tasks = [TaskRecords(groups_of(options, [value])) for value in "abc"]
    write_all(options, tasks)
    assert committed(options) == ["a", "b", "c"]


def test_transaction_that_exceeds_its_timeout_fails_the_batch(
    unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    every_ms = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}
    with Broker(**every_ms) as broker:
        options = SinkOptions(
            broker.bootstrap_servers,
            topic=unique,
            transactional_id=unique,
            transaction_timeout_ms=200,
        )
        run = Run(options)
        run.write(0, "a")
        ends = batch_commit._ends

        def slow(client: Client, *given: object) -> dict[str, int]:
            producer = TransactionalProducer(client, unique)

            def is_aborted() -> bool:
                described = producer.describe()
                return described is not None and not described.is_open

            eventually(is_aborted)
            return {}

        monkeypatch.setattr(batch_commit, "_ends", slow)
        with pytest.raises(ProducerFenced, match="exceeded its timeout of 200 ms"):
            run.write(1, "b")
        monkeypatch.setattr(batch_commit, "_ends", ends)
        assert committed(options) == ["a"]
        Run(options).write(1, "b")
        assert committed(options) == ["a", "b"]
