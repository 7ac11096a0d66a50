"""The metadata quorum's log in a directory, as Kafka keeps it."""

import json

import pytest

from tests.manual_clock import ManualClock
from wirekafka.codec.batch import batches
from wirekafka.codec.record import decode_records
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error
from wirekafka.log.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from wirekafka.log.files import RealDisk
from wirekafka.log.log_directory import LogDirectory
from wirekafka.metadata.bootstrap import bootstrap_records
from wirekafka.metadata.controller import Controller
from wirekafka.metadata.features import INITIAL, bootstrap_features
from wirekafka.metadata.framing import MetadataCodec
from wirekafka.metadata.image import MetadataImage
from wirekafka.metadata.membership import Identity, Membership
from wirekafka.metadata.records import AbortTransactionRecord, BeginTransactionRecord, TopicRecord
from wirekafka.metadata.registration import Endpoint
from wirekafka.metadata.topics import CreateTopics, NewTopic
from wirekafka.replication import snapshot
from wirekafka.replication.quorum import QuorumLog, Voter, WrongQuorum
from wirekafka.replication.quorum_state import BadQuorumState
from wirekafka.replication.runtime import Runtime
from wirekafka.replication.snapshot import BadSnapshot, SnapshotId

DIRECTORY_ID = b"d" * 16
CONTROLLER = Endpoint("CONTROLLER", "127.0.0.1", 9093)
BROKER = Endpoint("PLAINTEXT", "127.0.0.1", 9092)
EMPTY_BOOTSTRAP = 411
"""Bytes of Kafka's own bootstrap.checkpoint."""


class Node:
    """One start of a node's metadata on a directory."""

    def __init__(self, path, endpoints=(CONTROLLER[:3],)):
        self.disk, self.clock = RealDisk(), ManualClock()
        self.directory = LogDirectory(self.disk, str(path))
        self.log = self.directory.open_metadata_log(TopicConfig(), self.clock.now_ms())
        voter = Voter(1, DIRECTORY_ID, endpoints)
        self.quorum = QuorumLog(self.log, self.disk, self.clock, voter)
        self.controller = Runtime(
            lambda: Controller(BrokerConfig.of, lambda: b"t" * 16), self.quorum,
            MetadataCodec(), self.clock, lost=Error.NOT_CONTROLLER)
        identity = Identity(node_id=1, incarnation_id=b"i" * 16, directory_ids=[DIRECTORY_ID])
        self.membership = Membership(self.controller, self.quorum, identity)

    def start(self):
        self.controller.load()
        step(self.membership.join([CONTROLLER], [BROKER]))
        return self

    def submit(self, command):
        return step(self.controller.submit(command))

    def stop(self):
        step(self.membership.leave())
        self.crash()

    def crash(self):
        self.quorum.close()
        self.directory.release()

    @property
    def image(self):
        return self.controller.machine.image


def step(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it suspended")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def metadata(path):
    return path / "__cluster_metadata-0"


def log_batches(metadata):
    data = (metadata / "00000000000000000000.log").read_bytes()
    return [(header, data[at:at + header.size_bytes]) for at, header in batches(data)]


def control_values(metadata):
    return [(snapshot.control_type(record.key), record.value)
            for header, batch in log_batches(metadata) if header.is_control
            for record in decode_records(batch)]


def test_each_start_leads_in_a_new_epoch_with_a_leader_change(path, metadata):
    for epoch in (1, 2, 3):
        node = Node(path).start()
        assert node.quorum.epoch == epoch
        node.stop()
    values = control_values(metadata)
    assert [kind for kind, _ in values] == [2, 2, 2]
    # As Kafka's own first record: version, leader, one voter, one granting voter.
    assert values[0][1] == bytes.fromhex("0000000000010200000001000200000001") + b"\0\0"
    epochs = [header.leader_epoch for header, _ in log_batches(metadata)]
    assert sorted(epochs) == epochs and set(epochs) == {1, 2, 3}


def test_batches_look_as_kafkas_do(path, metadata):
    Node(path).start().stop()
    offset = 0
    for header, _ in log_batches(metadata):
        assert header.base_offset == offset
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
        assert header.attributes in (0, 0x20)
        offset = header.end_offset


def test_quorum_state_is_written_as_kafka_writes_it(path, metadata):
    Node(path).start().stop()
    assert (metadata / "quorum-state").read_text() == (
        '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}')


def test_topics_survive_a_stop_and_a_crash(path):
    node = Node(path).start()
    node.submit(CreateTopics([NewTopic(name="t", num_partitions=2)]))
    node.stop()
    node = Node(path).start()
    partition = node.image.topics["t"].partitions[1]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 2, [1])
    node.crash()
    node = Node(path).start()
    assert node.image.topics["t"].partitions[1].leader_epoch == 3
    node.stop()


def test_the_epoch_in_quorum_state_never_goes_back(path, metadata):
    Node(path).start().stop()
    state = json.loads((metadata / "quorum-state").read_text())
    (metadata / "quorum-state").write_text(json.dumps({**state, "leaderEpoch": 40}))
    node = Node(path).start()
    assert node.quorum.epoch == 41
    node.stop()


def test_a_lost_quorum_state_is_made_anew_from_the_log(path, metadata):
    Node(path).start().stop()
    (metadata / "quorum-state").unlink()
    node = Node(path).start()
    assert node.quorum.epoch == 2
    node.stop()


def test_a_broken_quorum_state_is_refused(path, metadata):
    Node(path).start().stop()
    (metadata / "quorum-state").write_text('{"leaderId":1')
    with pytest.raises(BadQuorumState):
        Node(path).start()


def test_a_directory_of_several_controllers_is_refused_by_name(path, metadata):
    Node(path).start().stop()
    state = json.loads((metadata / "quorum-state").read_text())
    voters = [{"voterId": id} for id in (1, 2, 3)]
    (metadata / "quorum-state").write_text(json.dumps({**state, "currentVoters": voters}))
    with pytest.raises(WrongQuorum, match=r"controllers \[1, 2, 3\]"):
        Node(path).start()


def test_an_idle_quorum_writes_nothing(path):
    node = Node(path).start()
    before = node.quorum.end_offset
    node.clock.advance(10_000)
    assert node.quorum.end_offset == before
    node.stop()


def test_a_transaction_whose_controller_died_in_it_is_aborted(path):
    node = Node(path).start()
    codec = MetadataCodec()
    node.quorum.append(codec.encode(
        [BeginTransactionRecord(name="x"), TopicRecord(name="half", topic_id=b"h" * 16)], 0, None))
    node.crash()
    node = Node(path).start()
    assert not node.image.in_transaction and "half" not in node.image.topics
    records = [record for batch in node.quorum.read_batches() for record in decode(batch)]
    assert any(isinstance(record, AbortTransactionRecord) for record in records)
    node.stop()


def decode(batch):
    header = next(batches(batch))[1]
    return [] if header.is_control else MetadataCodec().decode(batch)


def snapshot_of(records):
    return list(snapshot.encode(records, MetadataCodec(), snapshot.Frame(now_ms=5)))


def fold(quorum):
    image = MetadataImage()
    for batch in quorum.read_batches():
        for record in decode(batch):
            image.replay(record)
    return image


def test_reading_starts_from_the_highest_snapshot(path, metadata):
    node = Node(path).start()
    node.submit(CreateTopics([NewTopic(name="old")]))
    end = node.quorum.end_offset
    data = b"".join(snapshot_of(
        [*bootstrap_features(), TopicRecord(name="kept", topic_id=b"k" * 16)]))
    (metadata / SnapshotId(end, 1).file_name).write_bytes(data)
    (metadata / SnapshotId(end - 1, 1).file_name).write_bytes(b"not looked at")
    step(node.controller.submit(CreateTopics([NewTopic(name="new")])))
    image = fold(node.quorum)
    assert list(image.topics) == ["kept", "new"]
    node.crash()


def test_a_snapshot_without_a_footer_is_refused(path, metadata):
    node = Node(path).start()
    data = b"".join(snapshot_of(bootstrap_features())[:-1])
    (metadata / SnapshotId(node.quorum.end_offset, 1).file_name).write_bytes(data)
    with pytest.raises(BadSnapshot, match="no footer"):
        fold(node.quorum)
    node.crash()


def test_a_dynamic_quorum_of_one_keeps_its_voters_in_the_log(path, metadata):
    node = Node(path)
    node.quorum.epoch = 1
    voters = VotersRecord(voters=[VotersRecord.Voter(
        voter_id=1, voter_directory_id=DIRECTORY_ID,
        endpoints=[VotersRecord.Voter.Endpoint(name="CONTROLLER", host="127.0.0.1", port=1)],
        kraft_version_feature=VotersRecord.Voter.KRaftVersionFeature(
            min_supported_version=0, max_supported_version=1))])
    node.quorum.append(snapshot.control_batch(
        [(5, bytes(KRaftVersionRecord(kraft_version=1).encode(0))),
         (6, bytes(voters.encode(0)))], node.clock.now_ms()))
    node.crash()
    node = Node(path).start()
    assert node.quorum.is_dynamic
    state = json.loads((metadata / "quorum-state").read_text())
    assert state == {"leaderId": 1, "leaderEpoch": 2, "votedId": -1,
                     "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA", "data_version": 1}
    values = control_values(metadata)
    assert [kind for kind, _ in values] == [5, 6, 2, 6]
    # Kafka 4.3 writes and reads version 0 alone, whatever the quorum.
    assert LeaderChangeMessage.decode(values[2][1], 0).voters[0].voter_id == 1
    # The controller's port has changed since.
    assert VotersRecord.decode(values[3][1], 0).voters[0].endpoints[0].port == 9093
    node.stop()


def test_a_quorum_of_the_configuration_becomes_one_of_the_log_for_good(path, metadata):
    node = Node(path).start()
    assert node.quorum.kraft_version == 0
    node.quorum.keep_voters()
    assert node.quorum.is_dynamic
    values = control_values(metadata)
    assert [kind for kind, _ in values] == [2, 5, 6]
    [voter] = VotersRecord.decode(values[2][1], 0).voters
    assert (voter.voter_id, voter.voter_directory_id) == (1, DIRECTORY_ID)
    node.submit(CreateTopics([NewTopic(name="after")]))
    node.quorum.write_snapshot(node.image.snapshot(), MetadataCodec())
    node.stop()
    node = Node(path).start()
    assert node.quorum.kraft_version == 1
    assert list(node.image.topics) == ["after"]
    node.stop()


def test_voters_are_left_as_they_are_by_a_node_without_a_controller_listener(path, metadata):
    node = Node(path)
    node.quorum.epoch = 1
    voters = VotersRecord(voters=[VotersRecord.Voter(
        voter_id=1, voter_directory_id=DIRECTORY_ID, endpoints=[])])
    node.quorum.append(snapshot.control_batch(
        [(5, bytes(KRaftVersionRecord(kraft_version=1).encode(0))),
         (6, bytes(voters.encode(0)))], node.clock.now_ms()))
    node.crash()
    Node(path, endpoints=()).start().stop()
    assert [kind for kind, _ in control_values(metadata)] == [5, 6, 2]


def test_bootstrap_checkpoint_is_written_once_and_then_obeyed(path):
    path.mkdir()
    disk = RealDisk()
    written = bootstrap_records(disk, str(path), 1_795_260_717_399)
    assert {record.name: record.feature_level for record in written} == INITIAL
    assert len((path / "bootstrap.checkpoint").read_bytes()) == EMPTY_BOOTSTRAP
    fewer = bootstrap_features()[:1]
    (path / "bootstrap.checkpoint").write_bytes(b"".join(snapshot_of(fewer)))
    assert bootstrap_records(disk, str(path), 0) == fewer


def test_a_snapshot_stands_for_all_that_was_before_it(path, metadata):
    node = Node(path).start()
    node.submit(CreateTopics([NewTopic(name="t", num_partitions=3)]))
    assert node.quorum.bytes_since_snapshot > 0
    id = node.quorum.write_snapshot(node.image.snapshot(), MetadataCodec())
    assert (id.end_offset, id.epoch) == (node.quorum.end_offset, 1)
    assert node.quorum.bytes_since_snapshot == 0
    before = list(node.image.snapshot())
    node.crash()
    start = Node(path)
    assert list(fold(start.quorum).snapshot()) == before
    assert start.quorum.bytes_since_snapshot == 0
    start.crash()


def test_two_snapshots_are_kept_and_segments_go_that_both_cover(path, metadata):
    node = Node(path).start()
    ids = []
    for turn in range(4):
        node.submit(CreateTopics([NewTopic(name=f"t{turn}")]))
        node.log.roll(node.clock.now_ms())
        ids.append(node.quorum.write_snapshot(node.image.snapshot(), MetadataCodec()))
    names = sorted(file.name for file in metadata.glob("*.checkpoint"))
    assert names == [id.file_name for id in ids[-2:]]
    assert node.quorum.start_offset == ids[-2].end_offset
    assert [*fold(node.quorum).topics] == ["t0", "t1", "t2", "t3"]
    node.stop()
    again = Node(path).start()
    assert [*again.image.topics] == ["t0", "t1", "t2", "t3"]
    again.stop()


def test_the_first_snapshot_is_not_all_there_is(path, metadata):
    """What it stands for stays in the log, should its file turn out to be unreadable."""
    node = Node(path).start()
    node.submit(CreateTopics([NewTopic(name="t")]))
    node.log.roll(node.clock.now_ms())
    id = node.quorum.write_snapshot(node.image.snapshot(), MetadataCodec())
    assert node.quorum.start_offset == 0
    node.stop()
    (metadata / id.file_name).unlink()
    again = Node(path).start()
    assert [*again.image.topics] == ["t"]
    again.stop()


def test_a_dynamic_quorum_is_in_its_snapshots(path, metadata):
    node = Node(path)
    node.quorum.epoch = 1
    voters = VotersRecord(voters=[VotersRecord.Voter(
        voter_id=1, voter_directory_id=DIRECTORY_ID, endpoints=[])])
    node.quorum.append(snapshot.control_batch(
        [(5, bytes(KRaftVersionRecord(kraft_version=1).encode(0))),
         (6, bytes(voters.encode(0)))], node.clock.now_ms()))
    node.start()
    node.quorum.write_snapshot(node.image.snapshot(), MetadataCodec())
    node.stop()
    again = Node(path).start()
    assert again.quorum.is_dynamic
    again.stop()
