"""A broker's copy of the metadata log: appends, commits, truncation and snapshots."""

import json

import pytest

from tests.manual_clock import ManualClock
from wirekafka.codec.batch import with_prefix
from wirekafka.codec.record import Record, encode_batch
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import KafkaError
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.log.files import RealDisk
from wirekafka.metadata.image.framing import MetadataCodec, UnknownMetadata
from wirekafka.protocol.records.metadata import TopicRecord
from wirekafka.replication.raft import snapshot_file
from wirekafka.replication.raft.metadata_log import WrongQuorum
from wirekafka.replication.raft.quorum_log import (
    DivergedMetadata,
    FetchedLog,
    LogPosition,
    QuorumLog,
)
from wirekafka.replication.raft.quorum_state import QuorumState
from wirekafka.replication.raft.snapshot_file import BadSnapshot, SnapshotId

VOTERS = (3000, 3001)


class Start:
    """One start of an observer on a directory, and the batches that it delivered."""

    def __init__(self, path):
        self.delivered = []
        self.failures = []
        self.directory = LogDirectory(RealDisk(), str(path))
        clock = ManualClock()
        config = BrokerConfig.of().metadata_topic_config
        log = self.directory.open_metadata_log(config, clock.now_ms())
        self.observer = QuorumLog(log, RealDisk(), clock, MetadataCodec())
        self.feed = self.observer.observe(self._note, self.failures.append)
        self.observer.load()

    def _note(self, committed):
        if committed.is_snapshot:
            self.delivered.append("snapshot")
        self.delivered += [
            record.name for record in committed.records if isinstance(record, TopicRecord)
        ]

    def enter(self, epoch):
        """Store a later epoch, with its leader, as a node does that learned of it."""
        self.observer.epoch = epoch
        state = QuorumState(leader_id=3001, leader_epoch=epoch, voters=VOTERS)
        stored = []
        self.observer.write_state(state, stored.append)
        assert stored == [None]

    def fetch(self, records=b"", high_watermark=0, diverging=None):
        return self.observer.take(
            FetchedLog(
                asked=self.observer.position,
                high_watermark=high_watermark,
                records=records,
                diverging=diverging,
            )
        )

    def install(self, id, data):
        ended = []
        self.observer.install(id, data, ended.append)
        if ended[0] is not None:
            raise ended[0]

    def stop(self):
        self.directory.release()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def start(path):
    started = []

    def begin():
        if started:
            started[-1].stop()
        started.append(Start(path))
        return started[-1]

    yield begin
    started[-1].stop()


def topics(offset, *names, epoch=1):
    """A batch of topic records at an offset, as the leader of an epoch wrote it."""
    records = [TopicRecord(name=name, topic_id=name.encode().ljust(16)) for name in names]
    return b"".join(with_prefix(MetadataCodec().encode(records, 5, None), offset, epoch))


def snapshot(*names, epoch=1):
    records = [TopicRecord(name=name, topic_id=name.encode().ljust(16)) for name in names]
    frame = snapshot_file.Frame(now_ms=5, epoch=epoch)
    return b"".join(snapshot_file.encode(records, MetadataCodec(), frame))


def test_batches_are_delivered_once_the_leader_has_committed_them(start):
    broker = start()
    broker.enter(1)
    assert broker.observer.position == LogPosition(1, 0, 0, 0)
    assert broker.fetch(topics(0, "a", "b"), high_watermark=0)
    assert broker.observer.position == LogPosition(1, 2, 1, 0)
    assert broker.delivered == []
    assert broker.fetch(topics(2, "c"), high_watermark=2)
    assert broker.delivered == ["a", "b"]
    assert broker.fetch(high_watermark=3)
    assert broker.delivered == ["a", "b", "c"]
    assert broker.feed.position == 3


def test_a_response_to_an_earlier_position_is_ignored(start):
    broker = start()
    broker.enter(1)
    asked = broker.observer.position
    batch = topics(0, "a")
    assert broker.observer.take(FetchedLog(asked=asked, high_watermark=1, records=batch))
    assert not broker.observer.take(FetchedLog(asked=asked, high_watermark=1, records=batch))
    asked = broker.observer.position
    broker.enter(2)
    late = FetchedLog(asked=asked, high_watermark=2, records=topics(1, "b"))
    assert not broker.observer.take(late), "of a leader that was replaced"
    assert broker.delivered == ["a"]


def test_a_stored_epoch_is_known_after_a_restart(start, path):
    start().enter(7)
    text = json.loads((path / "__cluster_metadata-0" / "quorum-state").read_text())
    assert (text["leaderId"], text["leaderEpoch"]) == (3001, 7)
    assert text["currentVoters"] == [{"voterId": 3000}, {"voterId": 3001}]
    assert start().observer.position.leader_epoch == 7


def test_uncommitted_records_are_truncated_where_the_logs_diverge(start):
    broker = start()
    broker.enter(1)
    broker.fetch(topics(0, "a"), high_watermark=1)
    broker.fetch(topics(1, "lost"), high_watermark=1)
    broker.enter(2)
    # The new leader's epoch 1 ended at offset 1; its high watermark is not applied yet.
    assert broker.fetch(high_watermark=2, diverging=(1, 1))
    assert broker.observer.position == LogPosition(2, 1, 1, 1)
    assert broker.fetch(topics(1, "b", epoch=2), high_watermark=2)
    assert broker.delivered == ["a", "b"]


def test_committed_metadata_is_never_truncated(start):
    broker = start()
    broker.enter(1)
    broker.fetch(topics(0, "a", "b"), high_watermark=2)
    with pytest.raises(DivergedMetadata, match="below 2 was committed"):
        broker.fetch(diverging=(1, 1))
    assert broker.observer.end_offset == 2


def test_a_corrupt_batch_is_fetched_again(start):
    broker = start()
    broker.enter(1)
    batch = bytearray(topics(0, "a"))
    batch[-1] ^= 1
    with pytest.raises(KafkaError, match="corrupt"):
        broker.fetch(bytes(batch), high_watermark=1)
    assert broker.fetch(topics(0, "a"), high_watermark=1)
    assert broker.delivered == ["a"]


def test_a_record_that_is_not_understood_is_an_error(start):
    broker = start()
    broker.enter(1)
    unknown = encode_batch([Record(0, 5, None, b"\x01\x63\x00\x00", ())])
    batch = b"".join(with_prefix(unknown, 0, 1))
    with pytest.raises(UnknownMetadata, match="type 99"):
        broker.fetch(batch, high_watermark=1)


def test_after_a_restart_the_log_is_delivered_once_the_leader_confirms_it(start):
    broker = start()
    broker.enter(1)
    broker.fetch(topics(0, "a", "b"), high_watermark=2)
    broker = start()
    assert broker.delivered == []
    assert broker.observer.position == LogPosition(1, 2, 1, 0)
    broker.fetch(high_watermark=2)
    assert broker.delivered == ["a", "b"]


def test_a_start_begins_with_its_own_snapshot(start):
    broker = start()
    broker.enter(1)
    broker.fetch(topics(0, "a", "b"), high_watermark=2)
    grown = broker.observer.bytes_since_snapshot
    assert grown == len(topics(0, "a", "b"))
    names = [TopicRecord(name=name, topic_id=name.encode().ljust(16)) for name in "ab"]
    assert broker.observer.write_snapshot(names, MetadataCodec()) == SnapshotId(2, 1)
    assert broker.observer.bytes_since_snapshot == 0
    broker.fetch(topics(2, "c"), high_watermark=3)
    broker = start()
    assert broker.delivered == ["snapshot", "a", "b"]
    assert broker.observer.position == LogPosition(1, 3, 1, 2)
    broker.fetch(high_watermark=3)
    assert broker.delivered == ["snapshot", "a", "b", "c"]


def test_a_snapshot_of_the_leader_replaces_everything(start, path):
    broker = start()
    broker.enter(4)
    broker.fetch(topics(0, "a"), high_watermark=1)
    broker.install(SnapshotId(9, 3), snapshot("x", "y", epoch=3))
    assert broker.delivered == ["a", "snapshot", "x", "y"]
    assert broker.observer.position == LogPosition(4, 9, 3, 9)
    assert broker.fetch(topics(9, "z", epoch=4), high_watermark=10)
    assert broker.delivered[-1] == "z" and broker.observer.start_offset == 9
    assert (path / "__cluster_metadata-0" / "00000000000000000009-0000000003.checkpoint").exists()
    broker = start()
    assert broker.delivered == ["snapshot", "x", "y"]
    assert broker.observer.position == LogPosition(4, 10, 4, 9)
    # An own snapshot afterwards keeps the log from the leader's on.
    broker.fetch(high_watermark=10)
    assert broker.observer.write_snapshot([], MetadataCodec()) == SnapshotId(10, 4)
    assert broker.observer.start_offset == 9


def test_a_broken_snapshot_changes_nothing(start, path):
    broker = start()
    broker.enter(4)
    broker.fetch(topics(0, "a"), high_watermark=1)
    data = bytearray(snapshot("x"))
    with pytest.raises(BadSnapshot):
        broker.install(SnapshotId(9, 3), bytes(data[:-5]))
    data[-90] ^= 1
    with pytest.raises(BadSnapshot):
        broker.install(SnapshotId(9, 3), bytes(data))
    assert broker.delivered == ["a"] and broker.observer.end_offset == 1
    assert start().observer.end_offset == 1


def test_a_snapshot_is_written_apart_and_ignored_if_the_log_has_come_further(start):
    broker = start()
    broker.enter(1)
    later, ended = [], []
    broker.observer._sync = lambda run, done: later.append((run, done))
    broker.observer.install(SnapshotId(2, 1), snapshot("a", "b"), ended.append)
    assert broker.observer.is_installing and broker.observer._is_busy
    assert broker.observer.newest_snapshot() is None and ended == [], "nothing is written yet"
    [(run, done)] = later
    broker.fetch(topics(0, "a", "b"), high_watermark=2)
    run()
    done(None)
    assert ended == [None] and not broker.observer.is_installing
    assert broker.delivered == ["a", "b"], "not once more"


def test_a_snapshot_that_cannot_be_written_changes_nothing(start):
    broker = start()
    broker.enter(1)
    ended = []
    broker.observer._sync = lambda run, done: done(OSError("full"))
    broker.observer.install(SnapshotId(9, 3), snapshot("x"), ended.append)
    assert [str(error) for error in ended] == ["full"]
    assert broker.observer.end_offset == 0 and broker.delivered == []


def test_a_part_of_a_snapshot_is_read(start):
    broker = start()
    broker.enter(4)
    data = snapshot("x", epoch=3)
    broker.install(SnapshotId(9, 3), data)
    assert broker.observer.read_snapshot(SnapshotId(9, 3), 10, 7) == (len(data), data[10:17])
    assert broker.observer.read_snapshot(SnapshotId(9, 3), len(data) - 2, 7)[1] == data[-2:]
    for id, position in ((SnapshotId(8, 3), 0), (SnapshotId(9, 3), len(data))):
        with pytest.raises(KafkaError):
            broker.observer.read_snapshot(id, position, 1)


def test_a_snapshot_that_comes_late_is_ignored(start):
    broker = start()
    broker.enter(1)
    broker.fetch(topics(0, "a", "b"), high_watermark=2)
    broker.install(SnapshotId(2, 1), snapshot("a", "b"))
    assert broker.delivered == ["a", "b"]


def test_a_crash_between_a_snapshot_and_the_new_log_is_repaired(start, path):
    broker = start()
    broker.enter(4)
    broker.fetch(topics(0, "a"), high_watermark=1)
    name = SnapshotId(9, 3).file_name
    (path / "__cluster_metadata-0" / name).write_bytes(snapshot("x", epoch=3))
    broker = start()
    assert broker.delivered == ["snapshot", "x"]
    assert broker.observer.position == LogPosition(4, 9, 3, 9)


def test_a_log_without_its_beginning_is_refused(start, path):
    broker = start()
    broker.enter(4)
    broker.install(SnapshotId(9, 3), snapshot("x", epoch=3))
    broker.fetch(topics(9, "y", epoch=4), high_watermark=10)
    (path / "__cluster_metadata-0" / SnapshotId(9, 3).file_name).unlink()
    with pytest.raises(WrongQuorum, match="begins at offset 9"):
        start()
