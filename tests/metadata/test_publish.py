"""The changes that a publisher applies to its broker as metadata commits."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.metadata.cluster import Cluster, RecordingHost
from wirekafka.broker import Broker
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.broker.membership import Membership
from wirekafka.metadata.broker.publish import Publisher
from wirekafka.metadata.controller.configs import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    ResourceChanges,
)
from wirekafka.metadata.controller.registration import Endpoint
from wirekafka.metadata.controller.topics import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Growth,
    NewTopic,
    TopicReference,
)
from wirekafka.metadata.image.image import TOPIC
from wirekafka.protocol.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from wirekafka.runtime.observation import Committed


@pytest.fixture
def cluster():
    return Cluster(1, 2)


def test_a_new_topic_places_the_partitions_of_this_broker(cluster):
    cluster.create("t", assignments=[(0, [1]), (1, [2]), (2, [1])])
    cluster.create("both", assignments=[(0, [2, 1])])
    placed = [done[1:3] for done in cluster.host.done if done[0] == "place"]
    assert placed == [("t", 0), ("t", 2), ("both", 0)]


def test_a_new_topic_is_placed_before_its_configs_are_applied(cluster):
    cluster.create("t", assignments=[(0, [1])], configs={"retention.ms": "7"})
    assert cluster.host.done == [("place", "t", 0, 0), ("configure", "t", {"retention.ms": "7"})]


def test_added_partitions_are_the_only_ones_placed(cluster):
    cluster.create("t", assignments=[(0, [1])])
    cluster.host.done.clear()
    cluster.submit(CreatePartitions([Growth("t", 2, [[1]])]))
    assert cluster.host.done == [("place", "t", 1, 0)]


def test_a_deleted_topic_is_dropped_and_reported(cluster):
    cluster.create("t", assignments=[(0, [1])])
    cluster.host.done.clear()
    cluster.submit(DeleteTopics([TopicReference("t")]))
    assert cluster.host.done == [("drop", "t", 0), ("deleted", ["t"])]


def test_no_change_is_applied_before_it_is_committed(cluster):
    cluster.log.commits_at_once = False
    ticket = cluster.controller.post(CreateTopics([NewTopic(name="t", assignments=[(0, [1])])]))
    assert not cluster.host.done and not ticket.done and "t" not in cluster.image.topics
    cluster.log.commit(cluster.log.end_offset)
    cluster.clock.advance(0)
    assert cluster.host.done == [("place", "t", 0, 0)] and ticket.done


def test_dynamic_configs_of_this_broker_and_of_all_are_applied(cluster):
    cluster.register(2)
    cluster.host.done.clear()
    for name in ("1", "2", ""):
        resource = ResourceChanges(
            4, name, [ConfigChange("log.retention.ms", ConfigOperation.SET, "7")]
        )
        assert cluster.submit(AlterConfigs([resource])) == [None]
    min_isr = {"min.insync.replicas": "1"}
    assert cluster.host.done == [
        ("configure broker", min_isr, {"log.retention.ms": "7"}),
        ("configure broker", {**min_isr, "log.retention.ms": "7"}, {"log.retention.ms": "7"}),
    ]


def test_a_start_looks_at_each_partition_once_however_long_its_history():
    cluster = Cluster()
    cluster.create("t", num_partitions=2)
    for _ in range(5):
        cluster.register(1)
    cluster.create("gone")
    cluster.submit(DeleteTopics([TopicReference("gone")]))
    host = RecordingHost()
    publisher = Publisher(1, host, cluster.clock, cluster.failures.append)
    assert list(publisher.take(Committed(cluster.records(), cluster.log.end_offset))) == []
    assert not host.done
    asyncio.run(publisher.start())
    assert host.done == [
        ("configure broker", {"min.insync.replicas": "1"}, {}),
        ("place", "t", 0, 10),
        ("place", "t", 1, 10),
    ]


def test_a_partition_that_cannot_be_placed_is_retried_while_the_others_are_placed(cluster, caplog):
    place = cluster.host.place_partition
    is_full = True

    def fail(topic, partition):
        if partition.index == 0 and is_full:
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, "disk full")
        place(topic, partition)

    cluster.host.place_partition = fail
    cluster.create("t", assignments=[(0, [1]), (1, [1])])
    assert cluster.host.done == [("place", "t", 1, 0)]
    assert "t" in cluster.image.topics
    cluster.clock.advance(20_000)
    assert caplog.text.count("metadata to t-0 failed; it is retried: KAFKA_STORAGE_ERROR") == 1
    is_full = False
    cluster.clock.advance(5_000)
    assert cluster.host.done[1:] == [("place", "t", 0, 0)]
    cluster.clock.advance(20_000)
    assert len(cluster.host.done) == 2 and not cluster.failures


def test_a_partition_that_could_not_be_dropped_is_dropped_later(cluster):
    drop = cluster.host.drop_partition

    def fail(topic, partition):
        raise OSError("busy")

    cluster.create("t", assignments=[(0, [1])])
    cluster.host.done.clear()
    cluster.host.drop_partition = fail
    cluster.submit(DeleteTopics([TopicReference("t")]))
    assert cluster.host.done == [("deleted", ["t"])]
    cluster.host.drop_partition = drop
    cluster.clock.advance(5_000)
    assert cluster.host.done == [("deleted", ["t"]), ("drop", "t", 0)]


def test_an_unexpected_error_is_retried_and_then_ends_the_broker(cluster):
    def fail(topic, partition):
        raise RuntimeError("a bug")

    cluster.host.place_partition = fail
    cluster.create("t", assignments=[(0, [1])])
    assert "t" in cluster.image.topics and not cluster.failures
    reached = cluster.feed.position
    cluster.clock.advance(60_000)
    assert [str(failure) for failure in cluster.failures] == ["a bug"]
    assert cluster.feed.position == reached
    cluster.create("later", assignments=[(0, [1])])
    assert "later" not in cluster.image.topics


def test_a_batch_that_is_published_again_is_not_folded_again(cluster):
    place = cluster.host.place_partition
    is_broken = True

    def fail(topic, partition):
        if is_broken:
            raise RuntimeError("a bug, for now")
        place(topic, partition)

    cluster.host.place_partition = fail
    cluster.create("t", assignments=[(0, [1])])
    cluster.beat(1, wants_shut_down=True)
    is_broken = False
    cluster.clock.advance(60_000)
    assert cluster.image.topics["t"].partitions[0].leader_epoch == 1
    assert cluster.host.done == [("place", "t", 0, 0), ("place", "t", 0, 1)]


def test_records_that_cannot_be_folded_end_the_broker(cluster):
    cluster.feed.add(Committed([PartitionRecord(topic_id=b"?" * 16)], 99))
    cluster.feed.deliver()
    cluster.clock.advance(60_000)
    assert [type(failure) for failure in cluster.failures] == [KeyError]
    assert cluster.publisher.end_offset < 99


def test_thousands_of_partitions_are_followed_in_steps(cluster):
    """Each partition takes a millisecond here: other work runs between the steps."""
    turns = []

    def work(*partition):
        cluster.clock.sleep(1)

    cluster.host.place_partition = cluster.host.drop_partition = work
    for ask in (
        lambda: cluster.create("t", assignments=[(index, [1]) for index in range(5000)]),
        lambda: cluster.submit(DeleteTopics([TopicReference("t")])),
    ):
        turns = [cluster.clock.now_ms()]
        ask()
        turns.append(cluster.clock.now_ms())
        while cluster.feed.position < cluster.log.end_offset:
            cluster.clock.advance(0)
            turns.append(cluster.clock.now_ms())
        assert turns[-1] - turns[0] == 5000
        assert max(after - before for before, after in pairwise(turns)) <= 2


def test_a_committed_command_gets_its_reply_even_if_the_observer_fails(cluster):
    def fail(committed):
        raise RuntimeError("a bug")

    cluster.controller.observe(fail)
    assert cluster.create("t").num_partitions == 1
    assert "t" in cluster.controller.machine.image.topics


def topic_records(name, id, *assigned):
    yield TopicRecord(name=name, topic_id=id)
    for index, replicas in enumerate(assigned):
        yield PartitionRecord(
            topic_id=id,
            partition_id=index,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
        )


def publisher_of(*batches):
    """A started publisher that was given these batches, and its host."""
    host = RecordingHost()
    publisher = Publisher(1, host, ManualClock(), pytest.fail)
    asyncio.run(publisher.start())
    for offset, records in enumerate(batches, 1):
        deliver(publisher, Committed(list(records), offset))
    host.done.clear()
    return publisher, host


def deliver(publisher, committed):
    for _ in publisher.take(committed):
        pass


def test_records_of_a_transaction_are_followed_at_its_end_in_whatever_batches_they_came():
    publisher, host = publisher_of(topic_records("old", b"o" * 16, [1]))
    created = [*topic_records("new", b"n" * 16, [1], [1])]
    config = ConfigRecord(resource_type=2, resource_name="new", name="retention.ms", value="7")
    deliver(publisher, Committed([BeginTransactionRecord(name="x"), *created[:2]], 5))
    deliver(publisher, Committed([*created[2:], config], 7))
    deliver(publisher, Committed([RemoveTopicRecord(topic_id=b"o" * 16)], 8))
    assert host.done == [] and list(publisher.image.topics) == ["old"]
    deliver(publisher, Committed([EndTransactionRecord()], 9))
    assert host.done == [
        ("drop", "old", 0),
        ("deleted", ["old"]),
        ("place", "new", 0, 0),
        ("place", "new", 1, 0),
        ("configure", "new", {"retention.ms": "7"}),
    ]


def test_an_aborted_transaction_changes_nothing():
    publisher, host = publisher_of()
    deliver(publisher, Committed([BeginTransactionRecord(name="x")], 5))
    deliver(publisher, Committed(list(topic_records("t", b"t" * 16, [1])), 7))
    deliver(publisher, Committed([AbortTransactionRecord(reason="x")], 8))
    assert host.done == [] and not publisher.image.topics


def test_a_snapshot_replaces_the_image_and_only_missing_partitions_are_dropped():
    publisher, host = publisher_of(
        topic_records("kept", b"k" * 16, [1]),
        topic_records("gone", b"g" * 16, [1]),
        topic_records("away", b"a" * 16, [1]),
        [ConfigRecord(resource_type=2, resource_name="kept", name="retention.ms", value="7")],
    )
    image, generation = publisher.image, publisher.image.generation
    records = [
        *topic_records("kept", b"k" * 16, [1]),
        *topic_records("away", b"a" * 16, [2]),
        *topic_records("new", b"n" * 16, [1]),
    ]
    deliver(publisher, Committed(records, 20, is_snapshot=True))
    assert publisher.image is image and image.generation > generation
    assert list(image.topics) == ["kept", "away", "new"] and publisher.end_offset == 20
    assert host.done == [
        ("drop", "gone", 0),
        ("deleted", ["gone"]),
        ("configure broker", {}, {}),
        ("place", "kept", 0, 0),
        ("drop", "away", 0),
        ("place", "new", 0, 0),
        ("configure", "kept", {}),
        ("configure", "away", {}),
        ("configure", "new", {}),
    ]


def test_a_topic_that_is_configured_while_its_broker_joins_is_placed_with_that_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = InProcessBroker(tmp_path, ManualClock())
    first.create("t")
    first.stop()
    join = Membership.join

    async def change_and_join(membership: Membership, endpoints: Sequence[Endpoint]) -> None:
        change = ConfigChange("max.message.bytes", ConfigOperation.SET, "100")
        await started[0].controller.submit(AlterConfigs([ResourceChanges(TOPIC, "t", [change])]))
        await join(membership, endpoints)

    started: list[Broker] = []
    load = Broker._load_logs
    monkeypatch.setattr(Broker, "_load_logs", lambda self: (started.append(self), load(self)))
    monkeypatch.setattr(Membership, "join", change_and_join)
    again = InProcessBroker(tmp_path, ManualClock())
    assert again.partition("t").log.config.max_message_bytes == 100
    again.stop()
