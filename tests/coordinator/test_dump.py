"""Records of internal topics as dump-log decodes them."""

from __future__ import annotations

import json
from struct import pack
from typing import Any

from wirekafka.codec.message import Message
from wirekafka.codec.record import Record
from wirekafka.coordinator.record_decoders import (
    decode_metadata,
    decode_offsets,
    decode_share_states,
    decode_transactions,
    decoder_for,
)
from wirekafka.coordinator.share_state.records import (
    ShareRecord,
    ShareRecordCodec,
    ShareSnapshot,
    ShareUpdate,
)
from wirekafka.coordinator.share_state.states import ShareKey, StateBatch
from wirekafka.metadata.image.framing import encode_frame
from wirekafka.protocol.records.groups_and_transactions import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
)
from wirekafka.protocol.records.metadata import TopicRecord


def keyed(kind: int, key: Message, value: Message | None, version: int = 0) -> Record:
    return Record(
        key=pack(">h", kind) + key.encode(0),
        value=None if value is None else pack(">h", version) + value.encode(version),
    )


def test_the_decoder_is_chosen_by_the_directory() -> None:
    assert decoder_for("/data/__consumer_offsets-7/0.log") is decode_offsets
    assert decoder_for("/data/__transaction_state-0/0.log") is decode_transactions
    assert decoder_for("/data/__share_group_state-3/0.log") is decode_share_states
    assert decoder_for("/data/__cluster_metadata-0/0.log") is decode_metadata
    assert decoder_for("/data/bootstrap.checkpoint") is decode_metadata
    assert decoder_for("/data/flights-0/0.log") is None
    assert decoder_for("0.log") is None


def test_committed_offsets_are_decoded_with_their_topic_id() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    value = OffsetCommitValue(offset=9, metadata="m", commit_timestamp=5, topic_id=bytes(16))
    decoded = _json(decode_offsets(keyed(1, key, value, 4)))
    assert decoded["type"] == "OffsetCommit" and decoded["version"] == 4
    assert decoded["key"] == {"group": "g", "topic": "t", "partition": 3}
    assert decoded["value"]["offset"] == 9
    assert decoded["value"]["topic_id"] == "AAAAAAAAAAAAAAAAAAAAAA"
    assert _json(decode_offsets(keyed(1, key, None)))["value"] is None


def test_members_of_a_consumer_group_are_decoded() -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"])
    part = ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[0, 1])
    assignment = ConsumerProtocolAssignment(assigned_partitions=[part])
    member = GroupMetadataValue.MemberMetadata(
        member_id="m", client_id="c", client_host="/1.2.3.4", session_timeout=1,
        subscription=pack(">h", 9) + subscription.encode(3),
        assignment=pack(">h", 0) + assignment.encode(0),
    )  # fmt: skip
    value = GroupMetadataValue(protocol_type="consumer", generation=2, members=[member])
    decoded = _json(decode_offsets(keyed(2, GroupMetadataKey(group="g"), value, 3)))
    (shown,) = decoded["value"]["members"]
    assert shown["subscription"]["topics"] == ["t"]
    assert shown["assignment"]["assigned_partitions"] == [{"topic": "t", "partitions": [0, 1]}]


def test_member_bytes_of_other_protocols_stay_bytes() -> None:
    member = GroupMetadataValue.MemberMetadata(
        member_id="m", client_id="c", client_host="h", session_timeout=1,
        subscription=b"\xff", assignment=b"",
    )  # fmt: skip
    value = GroupMetadataValue(protocol_type="connect", generation=2, members=[member])
    decoded = _json(decode_offsets(keyed(2, GroupMetadataKey(group="g"), value, 3)))
    assert decoded["value"]["members"][0]["subscription"] == {"base64": "/w=="}


def test_transactions_are_decoded() -> None:
    key = TransactionLogKey(transactional_id="id")
    part = TransactionLogValue.PartitionsSchema(topic="t", partition_ids=[1])
    value = TransactionLogValue(
        producer_id=4, producer_epoch=1, transaction_timeout_ms=7, transaction_status=1,
        transaction_partitions=[part], transaction_last_update_timestamp_ms=1,
        transaction_start_timestamp_ms=1,
    )  # fmt: skip
    decoded = _json(decode_transactions(keyed(0, key, value, 1)))
    assert decoded["key"] == {"transactional_id": "id"}
    assert decoded["value"]["transaction_partitions"] == [{"topic": "t", "partition_ids": [1]}]


def test_metadata_records_are_decoded_with_their_type() -> None:
    frame = encode_frame(TopicRecord(name="t", topic_id=bytes(15) + b"\1"), 30, True)
    assert _json(decode_metadata(Record(value=frame))) == {
        "type": "TopicRecord",
        "value": {"name": "t", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"},
    }


def test_undecodable_records_are_shown_as_bytes() -> None:
    assert decode_offsets(Record(key=pack(">h", 99) + b"x", value=b"y")) is None
    assert decode_offsets(Record(key=None, value=b"y")) is None
    assert decode_metadata(Record()) is None
    assert "unknown metadata" in _json(decode_metadata(Record(value=b"\1\x63\0")))["error"]
    torn = Record(key=pack(">h", 1) + b"\0\x09ab", value=b"\0\0")
    assert _json(decode_offsets(torn))["error"]
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    newer = keyed(1, key, None)._replace(value=pack(">h", 99))
    assert "unknown version 99" in _json(decode_offsets(newer))["error"]


def _json(entry: dict[str, Any] | None) -> dict[str, Any]:
    assert entry is not None
    found: dict[str, Any] = json.loads(json.dumps(entry))
    return found


def test_states_of_share_partitions_are_decoded() -> None:
    share_key = ShareKey("g", bytes(16), 3)
    batch = StateBatch(7, 9, 2, 1)
    values = (ShareSnapshot(1, 2, 3, 4, 5, 6, 7, (batch,)), ShareUpdate(1, 3, 4, 5, (batch,)), None)
    shown = []
    for value in values:
        key, packed = ShareRecordCodec().pack(ShareRecord(share_key, value))
        shown.append(_json(decode_share_states(Record(key=key, value=packed))))
    assert [each["type"] for each in shown] == ["ShareSnapshot", "ShareUpdate", "ShareSnapshot"]
    assert all(
        each["key"] == {"group_id": "g", "topic_id": "AAAAAAAAAAAAAAAAAAAAAA", "partition": 3}
        for each in shown
    )
    assert shown[0]["value"]["create_timestamp"] == 6
    assert shown[1]["value"]["state_batches"] == [
        {"first_offset": 7, "last_offset": 9, "delivery_state": 2, "delivery_count": 1}
    ]
    assert shown[2]["value"] is None
