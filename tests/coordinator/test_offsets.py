"""Committed offsets: expiry, deletion, transactions, metadata and retention."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.coordinator.machine_backend import MachineBackend
from wirekafka.codec.batch import read_header
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.coordinator.groups.classic.records import GroupRecord
from wirekafka.coordinator.groups.commands import (
    AssignorChoice,
    CommitOffsets,
    CommittedOffset,
    CommitTransactionOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroup,
    FetchAllOffsets,
    FetchedOffset,
    FetchOffsets,
    ForgetPartitions,
    Join,
    Joined,
    Leave,
    Leaver,
    ListGroups,
    OffsetToCommit,
    Sync,
)
from wirekafka.coordinator.groups.offset_record import OffsetRecord
from wirekafka.coordinator.groups.record_table import GroupRecordCodec
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.records.groups_and_transactions import (
    ConsumerProtocolSubscription,
    GroupMetadataKey,
    GroupMetadataValue,
)
from wirekafka.runtime.machine import Producer
from wirekafka.runtime.record_codec import UnreadableRecord

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
KAFKA_RECORDS = Path(__file__).parent / "kafka_records.txt"


def commit(backend: MachineBackend, *offsets: OffsetToCommit, **fields: object) -> list[Error]:
    fields = {"group_id": "g", "generation_id": -1, "member_id": ""} | fields
    errors: list[Error] = backend.ask(CommitOffsets(offsets=offsets, **fields))
    return errors


def fetch(backend: MachineBackend, *places: tuple[str, int], **fields: object) -> list[int]:
    return [each.offset for each in backend.ask(FetchOffsets("g", places, **fields))]


def join_alone(backend: MachineBackend, topics: list[str], group_id: str = "g") -> Joined:
    metadata = b"\0\0" + bytes(ConsumerProtocolSubscription(topics=topics).encode(0))
    ticket = backend.runtime.post(
        Join(
            group_id=group_id,
            protocol_type="consumer",
            protocols=(AssignorChoice("range", metadata),),
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=60_000,
            fresh_id="1",
            client_id="c",
        )
    )
    backend.pass_time(10)
    joined: Joined = ticket.result()
    backend.ask(
        Sync(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments={},
        )
    )
    return joined


def group_ids(backend: MachineBackend) -> list[str]:
    return [group.group_id for group in backend.ask(ListGroups())]


def refusal(backend: MachineBackend, command: object) -> Error:
    with pytest.raises(KafkaError) as caught:
        backend.ask(command)
    return caught.value.error


def test_56_offset_metadata_round_trips_up_to_its_limit() -> None:
    backend = MachineBackend()
    assert commit(
        backend,
        OffsetToCommit("t", 0, 5, 3, "x" * 4096),
        OffsetToCommit("t", 1, 6, metadata="x" * 4097),
        OffsetToCommit("t", 2, 7, metadata="😀" * 2049),
    ) == [Error.NONE, Error.OFFSET_METADATA_TOO_LARGE, Error.OFFSET_METADATA_TOO_LARGE]
    found = backend.ask(FetchAllOffsets("g"))
    assert found == [FetchedOffset("t", 0, 5, 3, "x" * 4096)]


def test_44_offsets_expire_only_while_the_group_is_empty() -> None:
    backend = MachineBackend(offsets_retention_ms=7 * DAY_MS, max_session_timeout_ms=10**12)
    joined = join_alone(backend, ["t"])
    commit(
        backend,
        OffsetToCommit("t", 0, 5),
        member_id=joined.member_id,
        generation_id=joined.generation_id,
    )
    for _ in range(100):
        # The session is kept by commits of another partition.
        backend.pass_time(DAY_MS // 60)
        commit(
            backend,
            OffsetToCommit("t", 1, 6),
            member_id=joined.member_id,
            generation_id=joined.generation_id,
        )
    backend.ask(Leave("g", [Leaver(joined.member_id)]))
    backend.pass_time(7 * DAY_MS - HOUR_MS)
    assert fetch(backend, ("t", 0)) == [5]
    backend.pass_time(HOUR_MS + 600_000)
    assert fetch(backend, ("t", 0), ("t", 1)) == [-1, -1]
    assert group_ids(backend) == []


def test_offsets_of_a_group_that_assigns_itself_expire_after_their_commit() -> None:
    backend = MachineBackend(offsets_retention_ms=7 * DAY_MS)
    commit(backend, OffsetToCommit("t", 0, 5))
    backend.pass_time(4 * DAY_MS)
    commit(backend, OffsetToCommit("t", 1, 6))
    backend.pass_time(3 * DAY_MS + 600_000)
    assert fetch(backend, ("t", 0), ("t", 1)) == [-1, 6]
    backend.pass_time(4 * DAY_MS)
    assert fetch(backend, ("t", 1)) == [-1]
    assert group_ids(backend) == []


def test_offsets_of_topics_no_longer_subscribed_to_expire_in_a_stable_group() -> None:
    backend = MachineBackend(offsets_retention_ms=600_000)
    commit(backend, OffsetToCommit("t", 0, 5), OffsetToCommit("old", 0, 6))
    joined = join_alone(backend, ["t"])
    for _ in range(3):
        backend.pass_time(600_000)
        commit(backend, member_id=joined.member_id, generation_id=joined.generation_id)
    assert fetch(backend, ("t", 0), ("old", 0)) == [5, -1]


def test_a_commit_with_its_own_retention_expires_after_it() -> None:
    backend = MachineBackend(offsets_retention_ms=600_000)
    commit(backend, OffsetToCommit("t", 0, 5), retention_ms=HOUR_MS)
    backend.pass_time(HOUR_MS - 600_000)
    assert fetch(backend, ("t", 0)) == [5]
    backend.pass_time(1_200_000)
    assert fetch(backend, ("t", 0)) == [-1]


def test_an_empty_group_without_offsets_is_removed_at_the_next_check() -> None:
    backend = MachineBackend(offsets_retention_check_interval_ms=1000)
    joined = join_alone(backend, ["t"])
    backend.pass_time(2000)
    assert group_ids(backend) == ["g"]
    backend.ask(Leave("g", [Leaver(joined.member_id)]))
    backend.pass_time(2000)
    assert group_ids(backend) == []
    assert backend.last_record() is None
    backend.restart()
    assert group_ids(backend) == []


def test_offsets_of_deleted_partitions_are_deleted_and_the_group_stays() -> None:
    backend = MachineBackend()
    commit(backend, OffsetToCommit("t", 0, 5), OffsetToCommit("u", 0, 6))
    backend.ask(ForgetPartitions({"t": frozenset({0, 1})}, ["g"]))
    assert fetch(backend, ("t", 0), ("u", 0)) == [-1, 6]
    backend.ask(ForgetPartitions({"u": frozenset({0})}, ["g"]))
    assert group_ids(backend) == ["g"]


def test_all_offsets_are_reported_and_deleted_in_the_order_of_apache_kafka() -> None:
    backend = MachineBackend()
    names = ["orders", "prices", "counts", "t", "u"]
    commit(backend, *(OffsetToCommit(name, index, 5) for name in names for index in range(12)))
    places = [(each.topic, each.partition) for each in backend.ask(FetchAllOffsets("g"))]
    ordered = ["counts", "u", "prices", "t", "orders"]
    indexes = [0, 5, 10, 2, 7, 4, 9, 1, 6, 11, 3, 8]
    assert places == [(name, index) for name in ordered for index in indexes]
    backend.ask(DeleteGroups(["g"]))
    deleted = GroupRecordCodec().decode(backend.log.batches[-1])
    offsets = [record for record in deleted if isinstance(record, OffsetRecord)]
    assert [(each.topic, each.partition) for each in offsets] == places


@pytest.mark.parametrize(
    ("committed", "deleted", "listed"),
    [
        (range(12), (0, 1, 2, 4, 6, 7, 9, 11), [5, 10, 3, 8]),
        ((3, 5, 8, 10), (), [10, 5, 8, 3]),
        (range(5), (), [2, 0, 4, 1, 3]),
        ((*range(5), 0), (), [0, 2, 4, 1, 3]),
        ((*range(10), 0), (), [0, 5, 2, 7, 4, 9, 1, 6, 3, 8]),
    ],
    ids=[
        "of few that are left",
        "of as many",
        "of new ones",
        "of one again",
        "of ten and one again",
    ],
)
def test_the_order_depends_on_how_large_apache_kafkas_table_has_become(
    committed: list[int], deleted: list[int], listed: list[int]
) -> None:
    """A commit to a partition that has an offset already makes it grow too; as Kafka lists them."""
    backend = MachineBackend()
    for partition in committed:
        commit(backend, OffsetToCommit("t", partition, 5))
    backend.ask(DeleteOffsets("g", [("t", partition) for partition in deleted]))
    assert [each.partition for each in backend.ask(FetchAllOffsets("g"))] == listed


def test_offsets_expire_in_the_order_of_apache_kafka() -> None:
    backend = MachineBackend(offsets_retention_ms=DAY_MS)
    commit(backend, *(OffsetToCommit("t", index, 5) for index in range(12)))
    places = [(each.topic, each.partition) for each in backend.ask(FetchAllOffsets("g"))]
    backend.pass_time(2 * DAY_MS)
    expired = [
        record
        for batch in backend.log.batches[1:]
        for record in GroupRecordCodec().decode(batch)
        if isinstance(record, OffsetRecord)
    ]
    assert [(each.topic, each.partition) for each in expired] == places != sorted(places)


def test_a_great_many_offsets_expire_in_several_batches() -> None:
    backend = MachineBackend(offsets_retention_ms=DAY_MS)
    for group_id in ("g", "h", "i"):
        commit(backend, *(OffsetToCommit("t", index, 5) for index in range(900)), group_id=group_id)
    batches = len(backend.log.batches)
    backend.pass_time(DAY_MS + 601_000)
    assert group_ids(backend) == []
    counts = [read_header(batch).count for batch in backend.log.batches[batches:]]
    assert sum(counts) == 3 * 900 + 3
    assert max(counts) <= 1001


def test_a_group_with_members_is_not_deleted() -> None:
    backend = MachineBackend()
    commit(backend, OffsetToCommit("t", 0, 5))
    joined = join_alone(backend, ["t"])
    assert backend.ask(DeleteGroups(["g", "h"])) == [
        Error.NON_EMPTY_GROUP,
        Error.GROUP_ID_NOT_FOUND,
    ]
    backend.ask(Leave("g", [Leaver(joined.member_id)]))
    assert backend.ask(DeleteGroups(["g"])) == [Error.NONE]
    assert refusal(backend, DescribeGroup("g")) is Error.GROUP_ID_NOT_FOUND
    backend.restart()
    assert fetch(backend, ("t", 0)) == [-1]


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    backend = MachineBackend()
    assert refusal(backend, DeleteOffsets("g", [("t", 0)])) is Error.GROUP_ID_NOT_FOUND
    commit(backend, OffsetToCommit("t", 0, 5), OffsetToCommit("old", 0, 6))
    join_alone(backend, ["t"])
    assert backend.ask(DeleteOffsets("g", [("t", 0), ("old", 0), ("never", 0)])) == [
        Error.GROUP_SUBSCRIBED_TO_TOPIC,
        Error.NONE,
        Error.NONE,
    ]
    assert fetch(backend, ("t", 0), ("old", 0)) == [5, -1]


def test_offsets_of_a_group_of_another_protocol_are_not_deleted_while_it_has_members() -> None:
    backend = MachineBackend()
    backend.runtime.post(
        Join(
            group_id="g",
            protocol_type="connect",
            protocols=(AssignorChoice("p", b""),),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            fresh_id="1",
        )
    )
    assert refusal(backend, DeleteOffsets("g", [("t", 0)])) is Error.NON_EMPTY_GROUP


class TestTransactions:
    """KIP-447: offsets that take effect once their producer's transaction commits."""

    producer = Producer(7, 0)

    def backend(self) -> MachineBackend:
        backend = MachineBackend()
        commit(backend, OffsetToCommit("t", 0, 5))
        assert backend.ask(self.pending(OffsetToCommit("t", 0, 9))) == [Error.NONE]
        return backend

    def pending(self, *offsets: OffsetToCommit, **fields: object) -> CommitTransactionOffsets:
        fields = {"group_id": "g", "generation_id": -1, "member_id": ""} | fields
        return CommitTransactionOffsets(offsets=offsets, producer_id=7, producer_epoch=0, **fields)

    def end(self, backend: MachineBackend, committed: bool) -> None:
        backend.runtime.replay_end_marker(self.producer, committed)

    def test_45_require_stable_with_pending_offsets_is_unstable(self) -> None:
        backend = self.backend()
        assert fetch(backend, ("t", 0)) == [5]
        (found,) = backend.ask(FetchOffsets("g", [("t", 0)], require_stable=True))
        assert (found.error, found.offset) == (Error.UNSTABLE_OFFSET_COMMIT, -1)
        (found,) = backend.ask(FetchAllOffsets("g", require_stable=True))
        assert found.error is Error.UNSTABLE_OFFSET_COMMIT
        self.end(backend, True)
        (found,) = backend.ask(FetchOffsets("g", [("t", 0)], require_stable=True))
        assert (found.error, found.offset) == (Error.NONE, 9)

    def test_an_abort_drops_them(self) -> None:
        backend = self.backend()
        self.end(backend, False)
        assert fetch(backend, ("t", 0), require_stable=True) == [5]

    def test_a_later_plain_commit_is_not_undone_by_the_transaction(self) -> None:
        backend = self.backend()
        commit(backend, OffsetToCommit("t", 0, 11))
        self.end(backend, True)
        assert fetch(backend, ("t", 0)) == [11]

    def test_deleting_the_partition_drops_them(self) -> None:
        backend = self.backend()
        backend.ask(ForgetPartitions({"t": frozenset({0})}, ["g"]))
        self.end(backend, True)
        assert fetch(backend, ("t", 0), require_stable=True) == [-1]

    def test_deleting_the_group_drops_them(self) -> None:
        backend = self.backend()
        assert backend.ask(DeleteGroups(["g"])) == [Error.NONE]
        self.end(backend, True)
        assert fetch(backend, ("t", 0)) == [-1]

    def test_offsets_in_open_transactions_do_not_expire(self) -> None:
        backend = self.backend()
        backend.pass_time(30 * DAY_MS)
        assert fetch(backend, ("t", 0)) == [5]
        assert group_ids(backend) == ["g"]

    def test_two_transactions_with_offsets_end_independently(self) -> None:
        backend = self.backend()
        backend.ask(replace(self.pending(OffsetToCommit("t", 0, 20)), producer_id=8))
        self.end(backend, False)
        assert fetch(backend, ("t", 0)) == [5]
        (found,) = backend.ask(FetchOffsets("g", [("t", 0)], require_stable=True))
        assert found.error is Error.UNSTABLE_OFFSET_COMMIT
        backend.runtime.replay_end_marker(Producer(8, 0), True)
        assert fetch(backend, ("t", 0), require_stable=True) == [20]

    @pytest.mark.parametrize("first", [7, 8])
    def test_of_two_transactions_the_last_written_offset_wins(self, first: int) -> None:
        backend = self.backend()
        backend.ask(replace(self.pending(OffsetToCommit("t", 0, 20)), producer_id=8))
        backend.runtime.replay_end_marker(Producer(first, 0), True)
        backend.runtime.replay_end_marker(Producer(15 - first, 0), True)
        assert fetch(backend, ("t", 0), require_stable=True) == [20]

    def test_they_are_pending_again_after_a_restart(self) -> None:
        backend = self.backend()
        backend.restart()
        assert fetch(backend, ("t", 0)) == [5]
        (found,) = backend.ask(FetchOffsets("g", [("t", 0)], require_stable=True))
        assert found.error is Error.UNSTABLE_OFFSET_COMMIT
        self.end(backend, True)
        assert fetch(backend, ("t", 0)) == [9]

    def test_members_are_checked_when_the_producer_names_one(self) -> None:
        backend = self.backend()
        joined = join_alone(backend, ["t"])
        offset = OffsetToCommit("t", 1, 1)
        assert backend.ask(self.pending(offset)) == [Error.NONE]
        assert refusal(backend, self.pending(offset, generation_id=1, member_id="x")) is (
            Error.UNKNOWN_MEMBER_ID
        )
        assert (
            refusal(backend, self.pending(offset, generation_id=9, member_id=joined.member_id))
            is Error.ILLEGAL_GENERATION
        )
        assert backend.ask(self.pending(offset, generation_id=1, member_id=joined.member_id)) == [
            Error.NONE
        ]

    def test_an_unknown_group_accepts_them_only_without_a_generation(self) -> None:
        backend = MachineBackend()
        offset = OffsetToCommit("t", 0, 1)
        assert refusal(backend, self.pending(offset, generation_id=1)) is (Error.GROUP_ID_NOT_FOUND)
        assert refusal(backend, self.pending(offset, group_id="")) is Error.INVALID_GROUP_ID
        assert backend.ask(self.pending(offset)) == [Error.NONE]
        assert group_ids(backend) == ["g"]


class TestRecords:
    """Records are byte for byte those of a 4.3.1 broker."""

    codec = GroupRecordCodec()

    def test_kafkas_records_are_decoded_and_encoded_to_the_same_bytes(self) -> None:
        written = [
            line.split()
            for line in KAFKA_RECORDS.read_text().splitlines()
            if not line.startswith("#")
        ]
        assert len(written) > 10
        for key_text, value_text in written:
            key = bytes.fromhex(key_text)
            value = None if value_text == "-" else bytes.fromhex(value_text)
            record = self.codec.unpack(key, value)
            assert record is not None
            assert self.codec.pack(record) == (key, value)

    def test_a_batch_has_kafkas_odd_base_sequence(self) -> None:
        batch = self.codec.encode([GroupRecord("g", None)], 1, None)
        header = read_header(batch)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, 0)
        assert (header.attributes, header.count) == (0, 1)

    def test_a_commit_with_a_retention_is_written_in_version_1(self) -> None:
        _, value = self.codec.pack(
            OffsetRecord(
                "g", "t", 0, CommittedOffset(5, -1, "m", 1795263309590, 1795263409590, b"x" * 16)
            )
        )
        assert value is not None
        assert value[:2] == b"\0\1"
        assert len(value) == 2 + 8 + 2 + 1 + 8 + 8

    @pytest.mark.parametrize("version", range(5))
    def test_every_version_of_a_group_is_read(self, version: int) -> None:
        member = GroupMetadataValue.MemberMetadata(
            member_id="m",
            client_id="c",
            client_host="/h",
            session_timeout=10,
            rebalance_timeout=20,
            subscription=b"s",
            assignment=b"a",
        )
        value = GroupMetadataValue(
            protocol_type="consumer", generation=3, protocol="range", leader="m", members=[member]
        )
        key = b"\0\2" + bytes(GroupMetadataKey(group="g").encode(0))
        record = self.codec.unpack(key, version.to_bytes(2, "big") + bytes(value.encode(version)))
        assert isinstance(record, GroupRecord) and record.value is not None
        backend = MachineBackend()
        backend.shard.groups.clear()
        backend.shard.replay(record)
        loaded = backend.shard.groups["g"].members["m"]
        assert loaded.rebalance_timeout_ms == (20 if version else 10)

    @pytest.mark.parametrize(
        ("key", "complaint"),
        [
            (b"\0\x63\0\1g", "offset 7, with key version 99, is not known"),
            (b"\0\x63", "offset 7, with key version 99, is not known"),
            (b"\0", "offset 7, with key version missing, is not known"),
            (b"\0\2\0\x10g", "offset 7, with key version 2, is not known"),
            (None, "offset 7 has no key"),
        ],
    )
    @pytest.mark.parametrize("value", [None, b"\0\0"])
    def test_an_unknown_record_type_stops_the_loading(
        self, key: bytes | None, value: bytes | None, complaint: str
    ) -> None:
        batch = encode_batch([Record(0, 0, key, value)], options=BatchOptions(base_offset=7))
        with pytest.raises(UnreadableRecord, match=complaint):
            list(self.codec.decode(batch))


def test_an_undecodable_subscription_makes_the_topics_unknown() -> None:
    backend = MachineBackend()
    commit(backend, OffsetToCommit("t", 0, 5))
    backend.runtime.post(
        Join(
            group_id="g",
            protocol_type="consumer",
            protocols=(AssignorChoice("range", b"?"),),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            fresh_id="1",
        )
    )
    backend.pass_time(10)
    # Keep the offset, because some member may use it.
    assert backend.ask(DeleteOffsets("g", [("t", 0)])) == [Error.GROUP_SUBSCRIBED_TO_TOPIC]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_topics_are_known_without_the_fields_that_the_version_of_a_subscription_adds(
    version: int,
) -> None:
    backend = MachineBackend()
    commit(backend, OffsetToCommit("t", 0, 5), OffsetToCommit("old", 0, 6))
    backend.runtime.post(
        Join(
            group_id="g",
            protocol_type="consumer",
            # The version, one topic, "t", and no user data.
            protocols=(
                AssignorChoice("range", bytes([0, version, 0, 0, 0, 1, 0, 1]) + b"t" + b"\xff" * 4),
            ),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            fresh_id="1",
        )
    )
    backend.pass_time(10)
    assert backend.ask(DeleteOffsets("g", [("t", 0), ("old", 0)])) == [
        Error.GROUP_SUBSCRIBED_TO_TOPIC,
        Error.NONE,
    ]
