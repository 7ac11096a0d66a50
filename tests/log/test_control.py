"""Control batches, byte for byte as Kafka writes them."""

from __future__ import annotations

import pytest

from wirekafka.codec.batch import is_intact, read_header
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_batch
from wirekafka.errors import KafkaError
from wirekafka.protocol.records.control import (
    ControlType,
    LeaderChangeMessage,
    Marker,
    control_type,
    decode_control_value,
    decode_marker,
    encode_marker,
)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_is_one_transactional_control_record(is_commit: bool) -> None:
    marker = Marker(is_commit, 7, 1_000)
    batch = encode_marker(99, 3, marker)
    header = read_header(batch)
    assert is_intact(batch) and header.attributes == 0x30 and header.count == 1
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (99, 3, -1)
    (record,) = decode_records(batch)
    assert record.key == bytes.fromhex("00000001" if is_commit else "00000000")
    assert record.value == bytes.fromhex("000000000007")
    assert decode_marker(batch, header) == marker


def test_a_marker_batch_emptied_by_compaction_has_no_marker() -> None:
    header = read_header(encode_marker(99, 3, Marker(True, 7, 1_000)))._replace(count=0)
    assert decode_marker(b"", header) is None


@pytest.mark.parametrize(
    "record",
    [Record(), Record(key=b"\0\0\0\2", value=bytes(6)), Record(key=b"\0\0\0\1", value=b"\0\0")],
)
def test_batches_that_are_no_markers_are_refused(record: Record) -> None:
    batch = encode_batch([record], options=BatchOptions(is_control=True))
    with pytest.raises(KafkaError):
        decode_marker(batch, read_header(batch))


def test_a_leader_change_has_the_bytes_of_kafkas_first_metadata_record() -> None:
    voter = LeaderChangeMessage.Voter(voter_id=1)
    message = LeaderChangeMessage(leader_id=1, voters=[voter], granting_voters=[voter])
    value = bytes.fromhex("00000000000102000000010002000000010000")
    assert bytes(message.encode(0)) == value
    record = Record(key=bytes.fromhex("00000002"), value=value)
    assert decode_control_value(record) == message
    assert control_type(record) == ControlType.LEADER_CHANGE


def test_unknown_control_types_and_markers_have_no_quorum_value() -> None:
    assert decode_control_value(Record(key=b"\0\0\0\x63", value=b"\0\0")) is None
    assert decode_control_value(Record(key=b"\0\0\0\1", value=bytes(6))) is None
    assert control_type(Record(key=b"")) == -1
