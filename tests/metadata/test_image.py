"""The image folds records, and its snapshot folds to the same image."""

import pytest

from tests.metadata.cluster import Cluster
from wirekafka.metadata.image.framing import UnknownMetadata, decode_frame, encode_frame
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.metadata.image.security import acl_of
from wirekafka.protocol.records import metadata as r

KAFKA_FEATURE_RECORD = bytes.fromhex("010c00116d657461646174612e76657273696f6e001e00")
KAFKA_BEGIN_RECORD = bytes.fromhex("01170001001212426f6f747374726170207265636f726473")


def fold(records):
    image = MetadataImage()
    for record in records:
        image.replay(record)
    return image


def test_records_are_framed_as_kafka_frames_them():
    feature = r.FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert encode_frame(feature, 30, True) == KAFKA_FEATURE_RECORD
    assert decode_frame(KAFKA_FEATURE_RECORD) == feature
    begin = r.BeginTransactionRecord(name="Bootstrap records")
    assert encode_frame(begin, 30, True) == KAFKA_BEGIN_RECORD
    assert decode_frame(KAFKA_BEGIN_RECORD) == begin


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\1",
        b"\1\x0c",
        bytes.fromhex("016300"),
        b"\2" + KAFKA_FEATURE_RECORD[1:],
        KAFKA_FEATURE_RECORD + b"\0",
        KAFKA_FEATURE_RECORD[:-1],
        b"\x01\x0c\x01\0",
        b"\xff" * 9,
    ],
)
def test_an_unknown_record_is_an_error(frame):
    with pytest.raises(UnknownMetadata):
        decode_frame(frame)


@pytest.mark.parametrize(
    ("level", "with_elr", "version"),
    [(30, True, 2), (30, False, 1), (17, False, 1), (16, False, 0), (7, False, 0)],
)
def test_no_record_is_written_above_the_metadata_version(level, with_elr, version):
    frame = encode_frame(r.PartitionRecord(partition_id=0, topic_id=b"t" * 16), level, with_elr)
    assert frame[:3] == bytes([1, 3, version])


@pytest.mark.parametrize(
    ("record", "version"),
    [
        (r.BrokerRegistrationChangeRecord(broker_id=1, fenced=-1), 0),
        (r.BrokerRegistrationChangeRecord(broker_id=1, in_controlled_shutdown=1), 1),
        (r.BrokerRegistrationChangeRecord(broker_id=1, log_dirs=[b"d" * 16]), 2),
        (r.BrokerRegistrationChangeRecord(broker_id=1, cordoned_log_dirs=[]), 3),
    ],
)
def test_registration_changes_take_the_lowest_version_that_holds_them(record, version):
    assert encode_frame(record, 30, True)[2] == version


def test_a_snapshot_folds_to_the_same_image():
    cluster = Cluster(1, 2)
    cluster.create("a", num_partitions=12, configs={"retention.ms": "1"})
    cluster.create("b", replication_factor=2)
    snapshot = list(cluster.image.snapshot())
    again = fold(snapshot)
    assert list(again.snapshot()) == snapshot
    assert fold(cluster.records()).topics == again.topics


def test_a_change_bumps_the_leader_epoch_only_with_a_leader():
    cluster = Cluster()
    topic_id = cluster.create("t").id
    cluster.image.replay(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1]))
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 1)
    cluster.image.replay(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=1))
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.leader_epoch, partition.partition_epoch) == (1, 2)


def test_a_frozen_image_stays_as_it_is():
    cluster = Cluster(1, 2)
    topic_id = cluster.create("t", num_partitions=2, configs={"retention.ms": "1"}).id
    cluster.create("gone")
    image = cluster.image
    frozen, before = image.frozen(), [repr(record) for record in image.snapshot()]
    for record in (
        r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1], leader=1),
        r.PartitionRecord(partition_id=2, topic_id=topic_id, replicas=[1], isr=[1], leader=1),
        r.RemoveTopicRecord(topic_id=image.topics["gone"].id),
        r.TopicRecord(name="new", topic_id=b"n" * 16),
        r.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="2"),
        r.FenceBrokerRecord(id=2, epoch=image.brokers[2].epoch),
        r.ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=9000),
        r.AccessControlEntryRecord(id=b"a" * 16),
        r.ClearElrRecord(topic_name="t"),
    ):
        image.replay(record)
    assert [repr(record) for record in frozen.snapshot()] == before
    assert [repr(record) for record in image.snapshot()] != before


def test_a_copied_image_changes_independently_and_has_its_acls_indexed():
    acl = r.AccessControlEntryRecord(
        id=b"a" * 16,
        resource_type=2,
        resource_name="t",
        pattern_type=3,
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=3,
    )
    image = MetadataImage()
    image.replay(acl)
    copied = image.copied()
    assert acl_of(acl) in copied.security.acl_index
    copied.replay(r.RemoveAccessControlEntryRecord(id=acl.id))
    assert acl_of(acl) not in copied.security.acl_index
    assert acl_of(acl) in image.security.acl_index
    assert not list(copied.snapshot())


def test_a_metadata_transaction_is_applied_when_it_ends():
    image = fold([r.BeginTransactionRecord(name="x"), r.TopicRecord(name="t", topic_id=b"t" * 16)])
    assert not image.topics and image.in_transaction
    image.replay(r.EndTransactionRecord())
    assert list(image.topics) == ["t"] and not image.in_transaction


def test_an_aborted_metadata_transaction_is_not_applied():
    image = fold(
        [
            r.BeginTransactionRecord(name="x"),
            r.TopicRecord(name="t", topic_id=b"t" * 16),
            r.AbortTransactionRecord(reason="y"),
        ]
    )
    assert not image.topics


def test_records_of_unsupported_features_survive_a_snapshot():
    kept = [
        r.ClientQuotaRecord(
            entity=[r.ClientQuotaRecord.EntityData(entity_type="user", entity_name=None)],
            key="producer_byte_rate",
            value=1.0,
        ),
        r.AccessControlEntryRecord(
            id=b"a" * 16,
            resource_type=2,
            resource_name="t",
            pattern_type=3,
            principal="User:x",
            host="*",
            operation=3,
            permission_type=3,
        ),
        r.UserScramCredentialRecord(
            name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        ),
        r.DelegationTokenRecord(owner="User:x", requester="User:x", renewers=[], token_id="t"),
    ]
    assert list(fold(kept).snapshot()) == kept
    removed = [
        r.ClientQuotaRecord(entity=kept[0].entity, key="producer_byte_rate", remove=True),
        r.RemoveAccessControlEntryRecord(id=b"a" * 16),
        r.RemoveUserScramCredentialRecord(name="u", mechanism=1),
        r.RemoveDelegationTokenRecord(token_id="t"),
    ]
    assert list(fold(kept + removed).snapshot()) == []
