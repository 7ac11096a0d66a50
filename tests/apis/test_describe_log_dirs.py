"""DescribeLogDirs reports the sizes of logs and of their file systems."""

import pytest

from tests.metadata.cluster import Cluster
from wirekafka.apis.describe_log_dirs import describe_log_dirs
from wirekafka.codec.record import Record, encode_batch
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error
from wirekafka.log.append import Append
from wirekafka.log.directories.log_directory import LogDirectory, NewLog
from wirekafka.log.files import RealDisk
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsRequest


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster()
    cluster.disk = RealDisk()
    directory = LogDirectory(cluster.disk, str(tmp_path))
    for topic, partition in (("a", 0), ("a", 1), ("b", 0)):
        directory.create(
            NewLog(topic=topic, topic_id=b"t" * 16, partition=partition, config=TopicConfig()), 0
        )
    batch = encode_batch([Record(0, 1_700_000_000_000, b"k", b"v", ())])
    directory.logs["a", 1].append_as_leader(batch, Append(leader_epoch=0, now_ms=1_700_000_000_000))
    cluster.directories, cluster.size = [directory], len(batch)
    yield cluster
    directory.release()


def ask(cluster, version, topics):
    wanted = (
        None
        if topics is None
        else [
            DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=list(partitions))
            for topic, *partitions in topics
        ]
    )
    response = cluster.call(describe_log_dirs, DescribeLogDirsRequest(topics=wanted), version)
    [result] = response.results
    sizes = {
        (topic.name, p.partition_index): p.partition_size
        for topic in result.topics
        for p in topic.partitions
    }
    return result, sizes


@pytest.mark.parametrize("version", range(1, 6))
def test_null_is_every_partition(cluster, version):
    result, sizes = ask(cluster, version, None)
    assert sizes == {("a", 0): 0, ("a", 1): cluster.size, ("b", 0): 0}
    assert result.log_dir == cluster.directories[0].path
    assert (result.total_bytes > result.usable_bytes > 0) == (version >= 4)


def test_only_requested_and_existing_partitions_are_reported(cluster):
    assert ask(cluster, 4, [("a", 1, 9), ("no", 0)])[1] == {("a", 1): cluster.size}
    assert ask(cluster, 4, [])[1] == {}


def test_a_cordoned_directory_is_reported_as_such(cluster):
    cluster.config = cluster.config.with_dynamic({}, {"cordoned.log.dirs": "*"})
    assert ask(cluster, 5, [])[0].is_cordoned
    assert not ask(cluster, 4, [])[0].is_cordoned


def test_no_directory_is_cordoned_below_metadata_version_4_3(cluster):
    cluster.config = cluster.config.with_dynamic({}, {"cordoned.log.dirs": "*"})
    cluster.image.features["metadata.version"] = 29
    assert not ask(cluster, 5, [])[0].is_cordoned


def test_a_failing_directory_has_its_own_error(cluster):
    cluster.directories[0].path = "/nowhere/at/all"
    assert ask(cluster, 4, None)[0].error_code == Error.KAFKA_STORAGE_ERROR


def test_directories_are_reported_with_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cluster = Cluster()
    cluster.disk = RealDisk()
    (tmp_path / "data").mkdir()
    cluster.directories = [LogDirectory(cluster.disk, "./data")]
    try:
        assert ask(cluster, 4, None)[0].log_dir == str(tmp_path / "data")
    finally:
        cluster.directories[0].release()
