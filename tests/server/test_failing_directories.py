"""Log directories that fail while a broker runs: the others go on, and clients are sent away."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import InProcessBroker, batch, now
from tests.manual_clock import ManualClock
from tests.server.failing_disk import FailingDisk
from wirekafka.errors import Error, KafkaError
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.log.files import Disk
from wirekafka.log.log import Log
from wirekafka.metadata.controller.elections import ElectionType, ElectLeaders
from wirekafka.metadata.controller.topics import DeleteTopics, TopicReference
from wirekafka.metadata.image.image import PartitionImage
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.server.background.housekeeping import Housekeeping
from wirekafka.server.background.syncing import Syncing

_TopicData = ProduceRequest.TopicProduceData
PARTITIONS = range(6)


class Stage:
    """A broker with the directories a, which has the metadata log, b and c."""

    def __init__(self, path: Path, clock: ManualClock):
        self.path, self.clock = path, clock
        self.disk = FailingDisk()
        self.start()
        self.kafka.create("t", len(PARTITIONS))
        clock.advance(1)

    def start(self) -> None:
        paths = ",".join(f"{self.path}/{name}" for name in "abc")
        self.kafka = InProcessBroker(Path(paths), self.clock, disk=self.disk)
        self.clock.advance(1)

    def fail(self, name: str) -> None:
        self.disk.failed.add(f"{self.path}/{name}")

    def where(self, name: str) -> list[int]:
        """The partitions in a directory."""
        found = sorted((self.path / name).glob("t-*"))
        return [int(each.name.partition("-")[2]) for each in found]

    def image(self, index: int) -> PartitionImage:
        return self.kafka.broker.image.topics["t"].partitions[index]

    def produce(self, index: int) -> Error:
        data = _TopicData.PartitionProduceData(index=index, records=batch(b"v"))
        topic = _TopicData(name="t", partition_data=[data])
        response = self.kafka.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)
        return Error(response.responses[0].partition_responses[0].error_code)

    def fetch(self, index: int) -> Error:
        topic = FetchRequest.Topic
        partition = topic.Partition(partition=index, partition_max_bytes=1000)
        request = FetchRequest(max_bytes=1000, topics=[topic(topic="t", partitions=[partition])])
        response = self.kafka.call(request, 11)
        return Error(response.responses[0].partitions[0].error_code)


@pytest.fixture
def stage(tmp_path: Path, manual_clock: ManualClock) -> Iterator[Stage]:
    made = Stage(tmp_path, manual_clock)
    yield made
    made.kafka.stop()


def test_partitions_of_a_failed_directory_are_refused_and_others_served(stage: Stage) -> None:
    assert [stage.produce(index) for index in PARTITIONS] == [Error.NONE] * 6
    stage.fail("b")
    first, second = stage.where("b")
    assert stage.produce(first) is Error.KAFKA_STORAGE_ERROR
    stage.clock.advance(1)
    for index in (first, second):
        assert stage.produce(index) is Error.KAFKA_STORAGE_ERROR
        assert stage.fetch(index) is Error.KAFKA_STORAGE_ERROR
    for index in stage.where("a") + stage.where("c"):
        assert stage.produce(index) is Error.NONE
        assert stage.fetch(index) is Error.NONE
    assert stage.kafka.node.failure is None


def test_controller_knows_of_the_directory_and_elects_no_leader_there(stage: Stage) -> None:
    before = stage.kafka.broker.image.brokers[1].registration.log_dirs
    stage.fail("b")
    failed = stage.where("b")
    stage.produce(failed[0])
    stage.clock.advance(1)
    identity = stage.kafka.broker.directories[1].identity
    assert identity is not None
    online = stage.kafka.broker.image.brokers[1].registration.log_dirs
    assert online == [id for id in before if id != identity.directory_id]
    assert [index for index in PARTITIONS if stage.image(index).leader == -1] == failed
    elect = ElectLeaders(ElectionType.UNCLEAN, [("t", index) for index in failed])
    reply = now(stage.kafka.broker.controller.submit(elect))
    assert [error.error for _, _, error in reply] == [Error.ELIGIBLE_LEADERS_NOT_AVAILABLE] * 2
    topic = MetadataRequest.Topic(name="t")
    response = stage.kafka.call(MetadataRequest(topics=[topic]), 9)
    for each in response.topics[0].partitions:
        is_failed = each.partition_index in failed
        assert each.error_code == (Error.LEADER_NOT_AVAILABLE if is_failed else Error.NONE)
        assert each.offline_replicas == ([1] if is_failed else [])


def test_failed_directory_is_described_as_such_and_gets_no_partitions(stage: Stage) -> None:
    stage.fail("b")
    stage.produce(stage.where("b")[0])
    stage.clock.advance(1)
    described = stage.kafka.call(DescribeLogDirsRequest(topics=None), 4)
    errors = {Path(each.log_dir).name: each.error_code for each in described.results}
    assert errors == {"a": 0, "b": Error.KAFKA_STORAGE_ERROR, "c": 0}
    stage.kafka.create("later", 4)
    assert len(list(stage.path.glob("[ac]/later-*"))) == 4


def test_partitions_are_back_after_a_restart_on_a_whole_disk(stage: Stage) -> None:
    index = stage.where("b")[0]
    assert stage.produce(index) is Error.NONE
    stage.fail("b")
    stage.produce(index)
    stage.clock.advance(1)
    stage.kafka.stop()
    stage.disk.failed.clear()
    stage.start()
    assert stage.kafka.partition("t", index).log.end_offset == 1
    assert stage.produce(index) is Error.NONE


@pytest.mark.parametrize("is_readable", [True, False], ids=["not writable", "not readable"])
def test_broker_starts_without_a_directory_that_has_failed(stage: Stage, is_readable: bool) -> None:
    failed, others = stage.where("b"), stage.where("a") + stage.where("c")
    for index in PARTITIONS:
        assert stage.produce(index) is Error.NONE
    before = stage.kafka.broker.image.brokers[1].registration.log_dirs
    lost = stage.kafka.broker.directories[1].identity
    assert lost is not None
    stage.kafka.stop()
    stage.fail("b")
    if not is_readable:
        (stage.path / "b").rename(stage.path / "aside")
        (stage.path / "b").write_text("a file")
    stage.start()
    registered = stage.kafka.broker.image.brokers[1].registration.log_dirs
    assert registered == [id for id in before if id != lost.directory_id]
    for index in failed:
        assert stage.image(index).leader == -1
        assert stage.produce(index) is Error.NOT_LEADER_OR_FOLLOWER
    assert [stage.produce(index) for index in others] == [Error.NONE] * 4
    assert not list(stage.path.glob(f"[ac]/t-{failed[0]}")), "its log is in the failed directory"
    stage.kafka.create("later", 4)
    assert len(list(stage.path.glob("[ac]/later-*"))) == 4
    stage.clock.advance(1)
    stage.kafka.stop()
    stage.disk.failed.clear()
    if not is_readable:
        (stage.path / "b").unlink()
        (stage.path / "aside").rename(stage.path / "b")
    stage.start()
    for index in PARTITIONS:
        assert stage.kafka.partition("t", index).log.end_offset == (1 if index in failed else 2)
        assert stage.produce(index) is Error.NONE


def test_crashed_broker_that_returns_without_a_directory_does_not_lead_there(stage: Stage) -> None:
    stage.kafka.node.abort()
    stage.fail("b")
    stage.start()
    assert [index for index in PARTITIONS if stage.image(index).leader == -1] == stage.where("b")
    assert [stage.produce(index) for index in stage.where("a")] == [Error.NONE] * 2


@pytest.mark.parametrize("text", ["version=7\n", "version=1\ncluster.id=c\n"])
def test_directory_without_a_readable_identity_has_failed(stage: Stage, text: str) -> None:
    stage.kafka.stop()
    properties = stage.path / "b" / "meta.properties"
    whole = properties.read_text()
    properties.write_text(text)
    stage.start()
    assert [each.failure is not None for each in stage.kafka.broker.directories] == [
        False,
        True,
        False,
    ]
    assert properties.read_text() == text
    stage.kafka.stop()
    properties.write_text(whole)
    stage.start()


def test_broker_does_not_start_without_the_directory_of_its_metadata_log(stage: Stage) -> None:
    stage.kafka.stop()
    stage.fail("a")
    with pytest.raises(
        UnusableDirectory,
        match=r"Encountered I/O error in metadata log directory .*/a\. Cannot continue",
    ):
        stage.start()
    stage.disk.failed.clear()
    stage.start()


def test_directory_that_fails_while_its_logs_are_opened_is_reported(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = stage.where("b")
    stage.kafka.stop()
    lost = f"{stage.path}/b/t-{failed[0]}"
    open_log = Log.open

    def opened(disk: Disk, directory: str, *rest: Any) -> Log:
        if directory == lost:
            raise OSError(errno.EIO, "the medium fails")
        return open_log(disk, directory, *rest)

    monkeypatch.setattr(Log, "open", opened)
    stage.start()
    monkeypatch.undo()
    assert len(stage.kafka.broker.image.brokers[1].registration.log_dirs) == 2
    assert [stage.image(index).leader for index in failed] == [-1, -1]


def test_topic_is_created_again_after_its_directory_failed(stage: Stage) -> None:
    stage.fail("b")
    index = stage.where("b")[0]
    stage.produce(index)
    stage.clock.advance(1)
    now(stage.kafka.broker.controller.submit(DeleteTopics([TopicReference(name="t")])))
    stage.clock.advance(1)
    stage.kafka.create("t", len(PARTITIONS))
    stage.clock.advance(1)
    assert [stage.produce(index) for index in PARTITIONS] == [Error.NONE] * 6


def _append(stage: Stage, kafka: InProcessBroker) -> None:
    stage.produce(stage.where("b")[0])


def _checkpoint(stage: Stage, kafka: InProcessBroker) -> None:
    stage.produce(stage.where("c")[0])
    Housekeeping(kafka.broker, [])._checkpoint()


def _space(stage: Stage, kafka: InProcessBroker) -> None:
    Housekeeping(kafka.broker, [])._check_space()


def _sync(stage: Stage, kafka: InProcessBroker) -> None:
    with pytest.raises(OSError, match="Input/output"):
        kafka.broker.directories[1].flush()


@pytest.mark.parametrize("use", [_append, _checkpoint, _space, _sync])
def test_failure_is_noticed(stage: Stage, use: Callable[[Stage, Any], None]) -> None:
    stage.fail("b")
    use(stage, stage.kafka)
    stage.clock.advance(1)
    assert [each.failure is not None for each in stage.kafka.broker.directories] == [
        False,
        True,
        False,
    ]


def test_node_stops_when_the_directory_of_the_metadata_log_fails(stage: Stage) -> None:
    stage.fail("a")
    assert stage.produce(stage.where("a")[0]) is Error.KAFKA_STORAGE_ERROR
    stage.clock.advance(1)
    assert "metadata log" in str(stage.kafka.node.failure)


def test_node_stops_when_the_metadata_log_cannot_be_synced(stage: Stage) -> None:
    stage.fail("a")
    with pytest.raises(KafkaError) as caught:
        stage.kafka.create("more")
    assert caught.value.error is Error.KAFKA_STORAGE_ERROR
    stage.clock.advance(1)
    assert "metadata log" in str(stage.kafka.node.failure)


def test_missing_file_of_one_log_does_not_fail_the_directory(stage: Stage) -> None:
    directory = stage.kafka.broker.directories[1]
    directory.note(FileNotFoundError(errno.ENOENT, "no such segment"))
    assert directory.failure is None
    directory.note(OSError(errno.ENOSPC, "no space"))
    assert directory.failure is None
    (stage.path / "b").rename(stage.path / "aside")
    directory.note(FileNotFoundError(errno.ENOENT, "no such segment"))
    assert directory.failure is not None


@pytest.mark.parametrize("is_deleted", [True, False])
def test_failed_sync_of_a_deleted_partition_does_not_fail_the_directory(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, is_deleted: bool
) -> None:
    partition = stage.kafka.partition("t", stage.where("b")[0])
    begin_flush = Log.begin_flush

    def deleted_meanwhile(log: Log) -> Any:
        if log is not partition.log:
            return begin_flush(log)
        if is_deleted:
            now(stage.kafka.broker.controller.submit(DeleteTopics([TopicReference(name="t")])))
            stage.clock.advance(1)
        return FailingFlush()

    monkeypatch.setattr(Log, "begin_flush", deleted_meanwhile)
    assert not asyncio.run(Syncing(stage.kafka.broker).sync(partition))
    monkeypatch.undo()
    assert (stage.kafka.broker.directories[1].failure is None) == is_deleted


class FailingFlush:
    """A sync whose medium fails."""

    is_complete = False

    def run(self) -> None:
        raise OSError(errno.EIO, "the medium fails")
