"""dump decodes every kind of file; corrupt files end with an error."""

from __future__ import annotations

import json
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from wirekafka.codec.batch import read_header
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.log.aborted_index import ENTRY
from wirekafka.log.dump import UnknownFile, dump, readable
from wirekafka.log.files import RealDisk
from wirekafka.log.producers import ProducerStates
from wirekafka.protocol.records.control import (
    LeaderChangeMessage,
    Marker,
    SnapshotHeaderRecord,
    encode_marker,
)

RECORDS = [
    Record(timestamp=10, key=b"a", value="grün".encode(), headers=(("h", b"\xff"),)),
    Record(timestamp=11, value=b"\0\1"),
]


def entries_of(tmp_path: Path, name: str, data: bytes) -> list[dict[str, Any]]:
    path = tmp_path / name
    path.write_bytes(data)
    found = list(dump(RealDisk(), str(path)))
    json.dumps(found)
    assert all(readable(entry) for entry in found)
    return found


def test_a_log_is_decoded_to_batches_and_records(tmp_path: Path) -> None:
    first = encode_batch(RECORDS, options=BatchOptions(base_offset=5, compression=Codec.ZSTD))
    second = encode_batch(RECORDS, options=BatchOptions(base_offset=7, log_append_time_ms=99))
    batches = entries_of(tmp_path, f"{5:020d}.log", first + second)
    assert [batch["position"] for batch in batches] == [0, len(first)]
    assert batches[0] | {"records": 0, "crc": 0, "size_bytes": 0} == {
        "position": 0, "size_bytes": 0, "base_offset": 5, "last_offset": 6, "count": 2,
        "leader_epoch": -1, "compression": "zstd", "timestamp_type": "CreateTime",
        "base_timestamp": 10, "max_timestamp": 11, "producer_id": -1, "producer_epoch": -1,
        "base_sequence": -1, "last_sequence": -1, "is_transactional": False,
        "is_control": False, "delete_horizon_ms": None, "is_valid": True, "crc": 0, "records": 0,
    }  # fmt: skip
    assert batches[0]["records"] == [
        {"offset": 5, "timestamp": 10, "headers": [["h", {"base64": "/w=="}]], "key": "a",
         "value": "grün"},
        {"offset": 6, "timestamp": 11, "key": None, "value": {"base64": "AAE="}},
    ]  # fmt: skip
    assert batches[1]["timestamp_type"] == "LogAppendTime"
    assert [record["timestamp"] for record in batches[1]["records"]] == [99, 99]


def test_control_records_are_decoded_by_name(tmp_path: Path) -> None:
    voter = LeaderChangeMessage.Voter(voter_id=1)
    change = LeaderChangeMessage(leader_id=1, voters=[voter], granting_voters=[voter])
    header = SnapshotHeaderRecord(last_contained_log_timestamp=7)
    control = encode_batch(
        [
            Record(key=b"\0\0\0\2", value=bytes(change.encode(0))),
            Record(key=b"\0\0\0\3", value=bytes(header.encode(0))),
            Record(key=b"\0\0\0\x63"),
        ],
        options=BatchOptions(is_control=True),
    )
    data = encode_marker(9, 2, Marker(False, 4, 3)) + control
    marker, quorum = entries_of(tmp_path, "0.checkpoint", data)
    assert marker["records"][0] | {"timestamp": 0} == {
        "offset": 0, "timestamp": 0, "control": "ABORT", "coordinator_epoch": 4}  # fmt: skip
    assert [record["control"] for record in quorum["records"]] == [
        "LEADER_CHANGE", "SNAPSHOT_HEADER", 99]  # fmt: skip
    assert quorum["records"][0]["value"]["voters"][0]["voter_id"] == 1
    assert quorum["records"][1]["value"]["last_contained_log_timestamp"] == 7


def test_records_are_decoded_by_a_given_decoder(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(encode_batch(RECORDS))

    def decode(record: Record) -> dict[str, Any] | None:
        return {"meaning": 1} if record.key else None

    (batch,) = dump(RealDisk(), str(path), decode)
    assert batch["records"][0]["meaning"] == 1 and "key" not in batch["records"][0]
    assert batch["records"][1]["value"] == {"base64": "AAE="}


def test_a_torn_or_broken_log_ends_in_an_error(tmp_path: Path) -> None:
    batch = encode_batch(RECORDS)
    for cut in range(1, len(batch)):
        whole, error = entries_of(tmp_path, "0.log", batch + batch[:cut])
        assert whole["is_valid"] and error["position"] == len(batch) and error["error"]
    broken = bytearray(batch)
    broken[-1] ^= 1
    assert entries_of(tmp_path, "0.log", bytes(broken))[0]["is_valid"] is False
    uncounted = encode_batch(RECORDS)[:57] + pack(">i", 9) + batch[61:]
    assert "9 records declared" in entries_of(tmp_path, "0.log", uncounted)[0]["error"]


def test_indexes_end_where_the_padding_of_an_open_segment_begins(tmp_path: Path) -> None:
    index = pack(">iiii", 4, 100, 9, 5_000) + bytes(80)
    assert entries_of(tmp_path, f"{1_000:020d}.index", index) == [
        {"offset": 1_004, "position": 100}, {"offset": 1_009, "position": 5_000}]  # fmt: skip
    times = pack(">qi", 77, 4) + bytes(24)
    assert entries_of(tmp_path, f"{1_000:020d}.timeindex", times) == [
        {"timestamp": 77, "offset": 1_004}]  # fmt: skip
    assert "3 bytes after" in entries_of(tmp_path, f"{0:020d}.index", b"abc")[0]["error"]


def test_aborted_transactions_and_producers_are_decoded(tmp_path: Path) -> None:
    data = ENTRY.pack(0, 9, 1, 4, 5)
    assert entries_of(tmp_path, f"{0:020d}.txnindex", data) == [
        {"producer_id": 9, "first_offset": 1, "last_offset": 4, "last_stable_offset": 5}
    ]
    assert "error" in entries_of(tmp_path, f"{0:020d}.txnindex", data[:-1])[0]
    states = ProducerStates()
    options = BatchOptions(producer_id=3, producer_epoch=1, base_sequence=8, is_transactional=True)
    batch = encode_batch(RECORDS, options=options)
    states.replay(read_header(batch), batch)
    (producer,) = entries_of(tmp_path, f"{2:020d}.snapshot", states.encode_snapshot())
    assert producer == {
        "producer_id": 3, "producer_epoch": 1, "last_sequence": 9, "first_offset": 0,
        "last_offset": 1, "last_timestamp": 11, "coordinator_epoch": -1,
        "current_transaction_first_offset": 0,
    }  # fmt: skip
    assert "error" in entries_of(tmp_path, f"{2:020d}.snapshot", b"x")[0]


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("leader-epoch-checkpoint", b"0\n1\n3 17\n", [{"epoch": 3, "start_offset": 17}]),
        ("recovery-point-offset-checkpoint", b"0\n1\na-b 2 9\n",
         [{"topic": "a-b", "partition": 2, "offset": 9}]),
        ("cleaner-offset-checkpoint", b"", []),
        ("partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
         [{"version": "0", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}]),
        ("meta.properties", b"#\nnode.id=1\nversion=1\n", [{"node.id": "1", "version": "1"}]),
        ("quorum-state", b'{"leaderId":1,"data_version":0}',
         [{"leaderId": 1, "data_version": 0}]),
        (".kafka_cleanshutdown", b'{"version":0,"brokerEpoch":12}',
         [{"version": 0, "brokerEpoch": 12}]),
    ],
)  # fmt: skip
def test_small_files_are_decoded(
    name: str, data: bytes, expected: list[dict[str, Any]], tmp_path: Path
) -> None:
    assert entries_of(tmp_path, name, data) == expected


@pytest.mark.parametrize(
    "name", ["leader-epoch-checkpoint", "replication-offset-checkpoint", "quorum-state"]
)
def test_malformed_small_files_end_in_an_error(name: str, tmp_path: Path) -> None:
    assert "error" in entries_of(tmp_path, name, b"7\nx\n")[0]


def test_files_with_temporary_suffixes_are_decoded_by_their_type(tmp_path: Path) -> None:
    for suffix in (".deleted", ".cleaned", ".swap"):
        assert len(entries_of(tmp_path, f"{0:020d}.log{suffix}", encode_batch(RECORDS))) == 1


@pytest.mark.parametrize("name", ["notes.txt", "log", ".lock", "x.index.bak"])
def test_other_files_are_refused_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownFile):
        entries_of(tmp_path, name, b"")


def test_a_missing_file_raises_file_not_found(tmp_path: Path) -> None:
    for name in ("0.log", "0.index"):
        with pytest.raises(FileNotFoundError):
            list(dump(RealDisk(), str(tmp_path / name)))
