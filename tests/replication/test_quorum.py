"""The metadata quorum's log in a directory, in Kafka's format."""

import asyncio
import errno
import json
from itertools import count

import pytest

from tests.in_process import now
from tests.manual_clock import ManualClock
from wirekafka.apis.shared import registry
from wirekafka.apis.shared.local_channel import LocalChannel
from wirekafka.codec.batch import batches, read_header
from wirekafka.codec.record import decode_records
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.reference import value_of
from wirekafka.config.topic_config import TopicConfig
from wirekafka.controller import ControllerParts, ControllerRole
from wirekafka.errors import Error, KafkaError
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.log.disk_errors import SyncFailed
from wirekafka.log.files import RealDisk
from wirekafka.metadata.bootstrap import bootstrap_records
from wirekafka.metadata.broker.membership import Membership
from wirekafka.metadata.broker.publish import Publisher
from wirekafka.metadata.controller.channel import Registration
from wirekafka.metadata.controller.command import Decision
from wirekafka.metadata.controller.configs import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    ResourceChanges,
)
from wirekafka.metadata.controller.features import INITIAL, bootstrap_features
from wirekafka.metadata.controller.registration import Endpoint
from wirekafka.metadata.controller.topics import CreateTopics, NewTopic
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.metadata.image.image import BROKER as BROKER_CONFIG
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.protocol.records.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from wirekafka.protocol.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    TopicRecord,
)
from wirekafka.replication.raft import snapshot_file
from wirekafka.replication.raft.election import Elected, Election
from wirekafka.replication.raft.metadata_log import MetadataRetention, WrongQuorum, sync_inline
from wirekafka.replication.raft.quorum_log import QuorumLog
from wirekafka.replication.raft.quorum_state import BadQuorumState
from wirekafka.replication.raft.snapshot_file import BadSnapshot, SnapshotId
from wirekafka.replication.raft.voter_set import Voter, VoterSet
from wirekafka.runtime.promise import Promise

DIRECTORY_ID = b"d" * 16
CONTROLLER = Endpoint("CONTROLLER", "127.0.0.1", 9093)
BROKER = Endpoint("PLAINTEXT", "127.0.0.1", 9092)
EMPTY_BOOTSTRAP = 411
"""The bytes that Kafka 4.4.0's StorageTool writes when it formats a metadata log."""


incarnations = count(1)


class Idle:
    """A broker without partitions."""

    def configure_broker(self, cluster, broker):
        """Nothing depends on it."""

    def place_partition(self, topic, partition):
        """It has no log."""

    drop_partition = configure_topic = place_partition

    def image_changed(self, committed, removed):
        """Do nothing: no coordinator follows topics here."""

    def topics_deleted(self, topics):
        """Do nothing: there are no groups."""


class Node:
    """One start of a node's metadata on a directory."""

    def __init__(
        self,
        path,
        endpoints=(CONTROLLER[:3],),
        sync=sync_inline,
        settings=None,
        run_apart=sync_inline,
    ):
        self.failures = []
        failed = self.failures.append
        incarnation_id = next(incarnations).to_bytes(16)
        registry.load()
        self.disk, self.clock = RealDisk(), ManualClock()
        self.directory = LogDirectory(self.disk, str(path))
        self.log = self.directory.open_metadata_log(TopicConfig(), self.clock.now_ms())
        self.metadata = Publisher(1, Idle(), self.clock, failed)
        voter = Voter(1, DIRECTORY_ID, endpoints)
        self.role = ControllerRole(
            ControllerParts(
                config=BrokerConfig.of(settings or {}),
                clock=self.clock,
                disk=self.disk,
                new_id=lambda: b"t" * 16,
                cluster_id="c",
                log=self.log,
                voter=voter,
                voters=VoterSet((voter,)),
                endpoints=[CONTROLLER],
                published=self.metadata,
                incarnation_id=incarnation_id,
                bootstrap=bootstrap_features(),
                sync=sync,
                failed=failed,
                run_apart=run_apart,
            )
        )
        self.feed, self.quorum = self.role.feed, self.role.quorum
        self.membership = Membership(
            LocalChannel(self.role, self.feed),
            self.metadata,
            self.clock,
            Registration.with_own_features(
                broker_id=1,
                cluster_id="c",
                incarnation_id=incarnation_id,
                endpoints=(),
                rack=None,
                log_dirs=[DIRECTORY_ID],
            ),
            BrokerConfig.of,
        )

    def start(self):
        self.role.load()
        self.role.raft.start(self.clock.now_ms())
        now(self.role.claimed())
        now(self.membership.join([BROKER]))
        return self

    def submit(self, command):
        return now(self.role.submit(command))

    def stop(self):
        now(self.membership.leave(Promise))
        self.crash()

    def crash(self):
        self.quorum.close()
        self.directory.release()

    @property
    def image(self):
        return self.role.image


def dynamic_node(path):
    """A node that has not started, whose log has a quorum of this node alone."""
    node = Node(path)
    node.quorum.epoch = 1
    node.quorum.lead()
    voters = VotersRecord(
        voters=[VotersRecord.Voter(voter_id=1, voter_directory_id=DIRECTORY_ID, endpoints=[])]
    )
    node.quorum.append(
        snapshot_file.control_batch(
            [
                (5, bytes(KRaftVersionRecord(kraft_version=1).encode(0))),
                (6, bytes(voters.encode(0))),
            ],
            node.clock.now_ms(),
        )
    )
    return node


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def metadata(path):
    return path / "__cluster_metadata-0"


def log_batches(metadata):
    data = (metadata / "00000000000000000000.log").read_bytes()
    return [(header, data[at : at + header.size_bytes]) for at, header in batches(data)]


def control_values(metadata):
    return [
        (snapshot_file.control_type(record.key), record.value)
        for header, batch in log_batches(metadata)
        if header.is_control
        for record in decode_records(batch)
    ]


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


def test_batches_have_the_format_of_kafkas(path, metadata):
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
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )


def test_topics_survive_a_stop_and_a_crash(path):
    node = Node(path).start()
    node.submit(CreateTopics([NewTopic(name="t", num_partitions=2)]))
    node.stop()
    node = Node(path).start()
    partition = node.image.topics["t"].partitions[1]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 2, [1])
    node.crash()
    node = Node(path).start()
    partition = node.image.topics["t"].partitions[1]
    # As in Kafka, it leaves the ISR at its registration, and is elected when it is unfenced.
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 4, [1])
    node.stop()


def test_the_epoch_in_quorum_state_never_goes_back(path, metadata):
    Node(path).start().stop()
    state = json.loads((metadata / "quorum-state").read_text())
    (metadata / "quorum-state").write_text(json.dumps({**state, "leaderEpoch": 40}))
    node = Node(path).start()
    assert node.quorum.epoch == 41
    node.stop()


def test_a_lost_quorum_state_is_rebuilt_from_the_log(path, metadata):
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
    node.quorum.append(
        codec.encode(
            [BeginTransactionRecord(name="x"), TopicRecord(name="half", topic_id=b"h" * 16)],
            0,
            None,
        )
    )
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
    return list(snapshot_file.encode(records, MetadataCodec(), snapshot_file.Frame(now_ms=5)))


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
    data = b"".join(
        snapshot_of([*bootstrap_features(), TopicRecord(name="kept", topic_id=b"k" * 16)])
    )
    (metadata / SnapshotId(end, 1).file_name).write_bytes(data)
    (metadata / SnapshotId(end - 1, 1).file_name).write_bytes(b"not looked at")
    now(node.role.submit(CreateTopics([NewTopic(name="new")])))
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
    node.quorum.lead()
    voters = VotersRecord(
        voters=[
            VotersRecord.Voter(
                voter_id=1,
                voter_directory_id=DIRECTORY_ID,
                endpoints=[
                    VotersRecord.Voter.Endpoint(name="CONTROLLER", host="127.0.0.1", port=1)
                ],
                kraft_version_feature=VotersRecord.Voter.KRaftVersionFeature(
                    min_supported_version=0, max_supported_version=1
                ),
            )
        ]
    )
    node.quorum.append(
        snapshot_file.control_batch(
            [
                (5, bytes(KRaftVersionRecord(kraft_version=1).encode(0))),
                (6, bytes(voters.encode(0))),
            ],
            node.clock.now_ms(),
        )
    )
    node.crash()
    node = Node(path).start()
    assert node.quorum.is_dynamic
    state = json.loads((metadata / "quorum-state").read_text())
    assert state == {
        "leaderId": 1,
        "leaderEpoch": 2,
        "votedId": -1,
        "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA",
        "data_version": 1,
    }
    values = control_values(metadata)
    assert [kind for kind, _ in values] == [5, 6, 2, 5, 6]
    # Kafka 4.4 writes and reads only version 0 for every kind of quorum.
    assert LeaderChangeMessage.decode(values[2][1], 0).voters[0].voter_id == 1
    # The controller's port has changed.
    assert VotersRecord.decode(values[4][1], 0).voters[0].endpoints[0].port == 9093
    node.stop()


def test_a_static_quorum_that_becomes_dynamic_stays_dynamic(path, metadata):
    node = Node(path).start()
    assert node.quorum.kraft_version == 0
    node.role.raft.keep_voters(node.clock.now_ms())
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
    node = dynamic_node(path)
    node.crash()
    Node(path, endpoints=()).start().stop()
    assert [kind for kind, _ in control_values(metadata)] == [5, 6, 2]


def test_the_bootstrap_snapshot_is_written_once_and_applied(path, metadata):
    metadata.mkdir(parents=True)
    bootstrap = metadata / "00000000000000000000-0000000000.checkpoint"
    disk = RealDisk()
    written = bootstrap_records(disk, str(path), 1_795_260_717_399)
    assert {record.name: record.feature_level for record in written} == INITIAL
    assert len(bootstrap.read_bytes()) == EMPTY_BOOTSTRAP
    fewer = bootstrap_features()[:1]
    bootstrap.write_bytes(b"".join(snapshot_of(fewer)))
    assert bootstrap_records(disk, str(path), 0) == fewer


def test_the_bootstrap_file_of_older_kafkas_is_applied(path):
    path.mkdir()
    older = [FeatureLevelRecord(name="metadata.version", feature_level=20)]
    (path / "bootstrap.checkpoint").write_bytes(b"".join(snapshot_of(older)))
    assert bootstrap_records(RealDisk(), str(path), 0) == older


def test_the_bootstrap_snapshot_does_not_count_as_a_cluster(path, metadata):
    metadata.mkdir(parents=True)
    bootstrap_records(RealDisk(), str(path), 0)
    node = Node(path)
    assert not fold(node.quorum).features
    node.start()
    assert node.image.features == INITIAL
    node.stop()


def test_a_snapshot_replaces_all_records_before_it(path, metadata):
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


def snapshots_in(metadata):
    return sorted(file.name for file in metadata.glob("*.checkpoint"))


def four_snapshots(node):
    """Write a snapshot after each of four topics, a second apart, and return their ids."""
    ids = []
    for turn in range(4):
        node.clock.advance(1000)
        node.submit(CreateTopics([NewTopic(name=f"t{turn}")]))
        node.log.roll(node.clock.now_ms())
        ids.append(node.quorum.write_snapshot(node.image.snapshot(), MetadataCodec()))
    return ids


def test_two_snapshots_are_kept_however_large_and_segments_covered_by_both_are_deleted(
    path, metadata
):
    node = Node(path, settings={"metadata.max.retention.bytes": "0"}).start()
    ids = four_snapshots(node)
    assert snapshots_in(metadata) == [id.file_name for id in ids[-2:]]
    assert node.quorum.start_offset == ids[-2].end_offset
    assert [*fold(node.quorum).topics] == ["t0", "t1", "t2", "t3"]
    node.stop()
    again = Node(path).start()
    assert [*again.image.topics] == ["t0", "t1", "t2", "t3"]
    again.stop()


def test_snapshots_and_log_are_kept_within_the_limits_of_their_retention(path, metadata):
    """By default 100 MB and seven days, as in Kafka."""
    node = Node(path).start()
    ids = four_snapshots(node)
    node.quorum.clean(node.clock.now_ms())
    assert snapshots_in(metadata) == [id.file_name for id in ids]
    assert node.quorum.start_offset == 0
    node.stop()


def test_the_oldest_snapshots_and_segments_go_until_the_rest_is_small_enough(path, metadata):
    node = Node(path).start()
    ids = four_snapshots(node)
    written_bytes = sum((metadata / id.file_name).stat().st_size for id in ids)
    first_bytes = node.log.segments[0].size_bytes
    for limit_bytes, first in (
        (node.log.size_bytes + written_bytes, 0),
        # Without the segment that the first snapshot covers it is small enough.
        (node.log.size_bytes + written_bytes - first_bytes, 0),
        (node.log.size_bytes + written_bytes - first_bytes - 1, 1),
    ):
        retention = MetadataRetention(limit_bytes, -1)
        log = QuorumLog(node.log, node.disk, node.clock, MetadataCodec(), retention=retention)
        log.clean(node.clock.now_ms())
        assert snapshots_in(metadata) == [id.file_name for id in ids[first:]]
    assert node.quorum.start_offset == ids[1].end_offset
    node.stop()


def test_snapshots_whose_newest_record_is_too_old_are_deleted(path, metadata):
    settings = {"metadata.max.retention.ms": "5000", "metadata.max.retention.bytes": "-1"}
    node = Node(path, settings=settings).start()
    ids = four_snapshots(node)
    written_ms = node.clock.now_ms()
    for passed_ms, first in ((2000, 0), (2001, 1), (3001, 2), (60_000, 2)):
        node.quorum.clean(written_ms + passed_ms)
        assert snapshots_in(metadata) == [id.file_name for id in ids[first:]], passed_ms
    assert node.quorum.start_offset == ids[2].end_offset
    node.stop()


def test_snapshots_older_than_a_log_that_began_again_are_deleted(path, metadata):
    """Such a log begins after a snapshot that the leader has sent."""
    node = Node(path).start()
    ids = four_snapshots(node)
    node.log.truncate_fully_at(ids[-1].end_offset, node.clock.now_ms())
    retention = MetadataRetention(0, -1)
    log = QuorumLog(node.log, node.disk, node.clock, MetadataCodec(), retention=retention)
    log.clean(node.clock.now_ms())
    assert snapshots_in(metadata) == [id.file_name for id in ids[-2:]]
    assert node.log.start_offset == ids[-1].end_offset
    node.stop()


def test_a_limit_below_zero_is_none(path, metadata):
    settings = {"metadata.max.retention.ms": "-1", "metadata.max.retention.bytes": "-1"}
    node = Node(path, settings=settings).start()
    ids = four_snapshots(node)
    node.quorum.clean(node.clock.now_ms() + (1 << 40))
    assert snapshots_in(metadata) == [id.file_name for id in ids]
    node.stop()


def test_the_log_is_kept_beside_the_first_snapshot(path, metadata):
    """The records that it replaces stay in the log, in case its file is unreadable."""
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
    node = dynamic_node(path)
    node.start()
    node.quorum.write_snapshot(node.image.snapshot(), MetadataCodec())
    node.stop()
    again = Node(path).start()
    assert again.quorum.is_dynamic
    again.stop()


class Medium:
    """A disk whose syncs end when the test says so."""

    def __init__(self):
        self.begun = []

    def __call__(self, run, done):
        self.begun.append((run, done))

    def end(self, error=None):
        run, done = self.begun.pop(0)
        if error is None:
            run()
        done(error)


def started(path):
    """A node that has joined, whose further syncs wait for the test."""
    medium = Medium()
    node = Node(path, sync=lambda run, done: sync(run, done))
    sync = sync_inline
    node.start()
    sync = medium
    return node, medium


def ask(node, name):
    """Request a topic; the reply comes when it is created."""
    return node.role.post(CreateTopics([NewTopic(name=name)]))


def test_no_reply_is_sent_and_no_record_is_followed_before_the_sync(path):
    node, medium = started(path)
    before = node.quorum.committed_offset
    ticket = ask(node, "t")
    assert not ticket.done and node.quorum.committed_offset == before < node.quorum.end_offset
    assert "t" in node.image.topics and "t" not in node.metadata.image.topics
    medium.end()
    assert ticket.done and node.quorum.committed_offset == node.quorum.end_offset
    node.clock.advance(0)
    assert "t" in node.metadata.image.topics
    assert node.feed.position == node.metadata.end_offset == node.quorum.end_offset
    node.crash()


class LargeChange:
    """A command whose records are larger than any batch of Kafka's may be."""

    def decide(self, state, now_ms):
        renewers = [f"User:{'r' * 1000}"] * 9000
        return Decision([DelegationTokenRecord(token_id="large", renewers=renewers)], None)


def test_a_change_of_more_than_8_mib_is_refused_and_changes_nothing(path):
    node = Node(path).start()
    end_offset = node.quorum.end_offset
    with pytest.raises(KafkaError) as refused:
        node.submit(LargeChange())
    assert refused.value.error is Error.UNKNOWN_SERVER_ERROR
    assert node.quorum.end_offset == end_offset
    assert not node.image.security.tokens
    node.submit(CreateTopics([NewTopic(name="t")]))
    assert "t" in node.image.topics
    node.stop()


def test_appends_during_a_sync_share_the_next_one(path):
    node, medium = started(path)
    first, *others = [ask(node, name) for name in "abc"]
    assert len(medium.begun) == 1
    medium.end()
    assert first.done and not any(ticket.done for ticket in others)
    assert len(medium.begun) == 1
    medium.end()
    assert all(ticket.done for ticket in others) and not medium.begun
    node.crash()


def test_a_failed_sync_is_the_last_and_fails_all_waiting_replies(path, caplog):
    node, medium = started(path)

    async def scenario():
        asked = [
            asyncio.ensure_future(node.role.submit(CreateTopics([NewTopic(name=name)])))
            for name in "ab"
        ]
        await asyncio.sleep(0)
        medium.end(OSError("gone"))
        return await asyncio.gather(
            *asked, node.role.submit(CreateTopics([NewTopic(name="c")])), return_exceptions=True
        )

    before = node.quorum.committed_offset
    replies = asyncio.run(scenario())
    assert [reply.error for reply in replies] == [Error.KAFKA_STORAGE_ERROR] * 3
    assert not medium.begun and node.quorum.committed_offset == before
    assert "The controller accepts no more changes: gone" in caplog.text
    assert not node.metadata.image.topics
    node.crash()


def test_a_controller_that_resigns_within_an_append_reports_no_success(path):
    node, medium = started(path)

    def resign():
        node.quorum.cease()
        node.role._resign()

    async def scenario():
        node.quorum.on_append = resign
        asked = asyncio.ensure_future(node.role.submit(CreateTopics([NewTopic(name="t")])))
        await asyncio.sleep(0)
        # Other records than those of this controller may be committed in their place.
        medium.end()
        node.quorum.commit(node.quorum.end_offset)
        return await asyncio.wait_for(asyncio.gather(asked, return_exceptions=True), 10)

    [reply] = asyncio.run(scenario())
    assert getattr(reply, "error", None) is Error.NOT_CONTROLLER
    node.crash()


def test_a_stop_waits_for_the_running_sync(path):
    node, medium = started(path)
    ask(node, "t")
    stopping = node.role.stop()

    async def scenario():
        task = asyncio.ensure_future(stopping)
        await asyncio.sleep(0)
        assert not task.done()
        medium.end()
        await task

    asyncio.run(scenario())
    node.crash()


def test_a_snapshot_written_in_the_background_has_the_state_of_its_start(path, metadata):
    node, medium = started(path)
    ask(node, "before")
    medium.end()
    node.clock.advance(0)
    image, end_offset, ended = node.metadata.image, node.metadata.end_offset, []
    before = list(image.frozen().snapshot())
    grown = node.quorum.bytes_since_snapshot
    node.quorum.begin_snapshot(image.frozen().snapshot(), MetadataCodec(), end_offset, ended.append)
    ask(node, "meanwhile")
    assert not list(metadata.glob(f"{end_offset:020d}-*.checkpoint"))
    medium.end()
    medium.end()
    node.clock.advance(0)
    assert ended == [None] and "meanwhile" in image.topics
    assert 0 < node.quorum.bytes_since_snapshot < grown
    (file,) = metadata.glob(f"{end_offset:020d}-*.checkpoint")
    codec = MetadataCodec()
    written = [
        record
        for batch in snapshot_file.decode(file.read_bytes())
        if not read_header(batch).is_control
        for record in codec.decode(batch)
    ]
    assert written == before
    node.crash()


def test_a_stop_waits_for_the_running_snapshot(path):
    node, medium = started(path)
    image, ended = node.metadata.image, []
    node.quorum.begin_snapshot(
        image.frozen().snapshot(), MetadataCodec(), node.metadata.end_offset, ended.append
    )

    async def stop():
        settling = asyncio.ensure_future(node.quorum.settled())
        await asyncio.sleep(0)
        assert not settling.done() and not ended
        medium.end(OSError("no space"))
        await settling

    asyncio.run(stop())
    assert [str(error) for error in ended] == ["no space"]
    assert node.quorum.failure is None
    node.crash()


def test_snapshot_files_are_listed_once_until_one_is_written(path, metadata, monkeypatch):
    """Each metadata Fetch looks for the newest one."""
    node = Node(path).start()
    listed = []
    list_directory = node.quorum._disk.list_directory
    monkeypatch.setattr(
        node.quorum._disk,
        "list_directory",
        lambda path: (listed.append(path), list_directory(path))[1],
    )
    node.submit(CreateTopics([NewTopic(name="t")]))
    id = node.quorum.write_snapshot(node.image.snapshot(), MetadataCodec())
    assert [node.quorum.newest_snapshot() for _ in range(3)] == [id] * 3
    node.submit(CreateTopics([NewTopic(name="u")]))
    newer = node.quorum.write_snapshot(node.image.snapshot(), MetadataCodec())
    del listed[:]
    assert [node.quorum.newest_snapshot() for _ in range(3)] == [newer] * 3
    assert len(listed) <= 1
    node.stop()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR])
def test_a_sync_that_was_not_tried_is_repeated(path, caplog, code):
    node, medium = started(path)
    ticket = ask(node, "t")
    for _ in range(2):
        medium.end(OSError(code, "nothing left", str(path)))
        assert not ticket.done and not medium.begun
        node.clock.advance(500)
    medium.end()
    assert ticket.done and node.quorum.failure is None
    assert caplog.text.count("it is retried") == 1


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_failed_sync_fails_the_directory_whatever_its_errno(path, code):
    node, medium = started(path)
    ask(node, "t")
    medium.end(SyncFailed(code, "nothing left", str(path)))
    assert node.quorum.failure is not None and node.directory.failure is not None
    assert node.failures, "the node stops"


def test_a_vote_is_stored_once_descriptors_are_free(path):
    node, medium = started(path)
    stored = []
    election = Election(node.quorum)
    election.load()
    election.set(Elected(epoch=node.quorum.epoch + 1))
    election.when_durable(stored.append)
    medium.end(OSError(errno.EMFILE, "Too many open files", str(path)))
    assert stored == [] and not election.is_durable and not medium.begun
    node.clock.advance(500)
    medium.end()
    assert stored == [None] and election.is_durable


def test_values_of_config_providers_are_read_apart_and_an_older_change_never_replaces_a_newer(
    path, tmp_path
):
    (tmp_path / "secrets").write_text("key=first\n")
    option, waiting = "listener.name.tls.ssl.key.password", []
    settings = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    node = Node(
        path, settings=settings, run_apart=lambda run, done: waiting.append((run, done))
    ).start()

    def change(value):
        changes = ResourceChanges(
            BROKER_CONFIG, "1", [ConfigChange(option, ConfigOperation.SET, value)]
        )
        assert node.submit(AlterConfigs([changes])) == [None]

    def password():
        text = node.role.config.sources.text(option)
        return text and value_of(text)

    reference = f"${{file:{tmp_path}/secrets:key}}"
    change(reference)
    assert password() is None, "nothing is read before the change is stored"
    sync_inline(*waiting.pop())
    assert password() == "first"
    change(reference)
    change("second")
    assert password() == "second", "a value without references is used at once"
    sync_inline(*waiting.pop())
    assert password() == "second"
    node.stop()
