"""A node whose disk fills under a stopped consumer: warned ahead, kept unread, refused, resumed."""

from __future__ import annotations

import errno
import logging
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.in_process import InProcessBroker, batch, now
from tests.manual_clock import ManualClock
from tests.server.test_lag import commit
from tests.server.test_measured_pipeline import fetch_request, produce_request
from tests.server.test_monitoring import Monitored
from wirekafka.config.option import ConfigError
from wirekafka.errors import Error, KafkaError
from wirekafka.log.append import Append, Origin
from wirekafka.log.files import RealDisk
from wirekafka.log.log import Log
from wirekafka.metadata.controller.configs import AlterConfigs, ConfigChange, ResourceChanges
from wirekafka.metadata.image.image import TOPIC
from wirekafka.protocol.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.delete_records import DeleteRecordsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.records.control import Marker, encode_marker
from wirekafka.server.background.housekeeping import Housekeeping
from wirekafka.server.space import directory_space, group_positions
from wirekafka.server.space.collector import DiskBudgetCollector
from wirekafka.server.space.directory_space import DirectoryStatus
from wirekafka.server.space.disk_space import DiskSpace
from wirekafka.server.space.group_positions import GroupPositions

BUDGET = 100_000
DAY_MS = 86_400_000
SEGMENTS = {"internal_segment_bytes": "5000", "segment_ms": str(100 * DAY_MS)}
KEPT = {"wirekafka_retention_keep_unread": "true", **SEGMENTS}


class Node:
    """A node whose clock the tests advance, with the parts of housekeeping that delete."""

    def __init__(self, directory: Path | str, clock: ManualClock, **settings: str):
        settings = {"offsets_topic_num_partitions": "1", **settings}
        self.kafka = InProcessBroker(directory, clock, **settings)
        self.kafka.create("__consumer_offsets")
        self.housekeeping = Housekeeping(self.kafka.broker, list)

    def seconds(self, count: int) -> None:
        for _ in range(count):
            self.kafka.clock.advance(1_000)
            self.housekeeping._check_space()
            while self.housekeeping._keep_space() is not None:
                pass

    def retain(self) -> None:
        """What housekeeping does every five minutes."""
        while self.housekeeping._retain() is not None:
            pass

    def produce(self, topic: str, batches: int = 1, age_ms: int = 0) -> Error:
        """Append batches of one record and a kilobyte each, up to the first that is refused."""
        for _ in range(batches):
            records = batch(b"v" * 930, timestamp=self.kafka.clock.now_ms() - age_ms)
            response = self.kafka.call(produce_request(records, topic), 9)
            code = response.responses[0].partition_responses[0].error_code
            if code:
                return Error(code)
        return Error.NONE

    def fill(self, topic: str, batches: int = 200, pace_s: int = 1) -> int:
        """Append a batch at a time; returns how many were accepted."""
        for number in range(batches):
            if self.produce(topic):
                return number
            self.seconds(pace_s)
        return batches

    def start_offset(self, topic: str) -> int:
        return self.kafka.partition(topic).log.start_offset

    def fetched(self, topic: str, offset: int) -> Error:
        response = self.kafka.call(fetch_request(offset, topic), 12)
        return Error(response.responses[0].partitions[0].error_code)

    @property
    def space(self) -> DiskSpace:
        assert self.housekeeping.space is not None
        return self.housekeeping.space

    @property
    def status(self) -> DirectoryStatus:
        [status] = self.space.statuses()
        return status


@pytest.fixture
def settings() -> dict[str, str]:
    return {"wirekafka_disk_budget_bytes": str(BUDGET)}


@pytest.fixture
def node(tmp_path: Path, manual_clock: ManualClock, settings: dict[str, str]) -> Iterator[Node]:
    node = Node(tmp_path / "data", manual_clock, **settings)
    yield node
    node.kafka.stop()


keep_unread = pytest.mark.parametrize(
    "settings",
    [{"wirekafka_disk_budget_bytes": str(BUDGET), "wirekafka_disk_budget_policy": "keep-unread"}],
)
without_budget = pytest.mark.parametrize("settings", [{}])


def test_a_disk_that_fills_under_a_stopped_consumer_loses_nothing_unread(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    node.kafka.create("orders", **KEPT)
    node.produce("orders", 5)
    commit(node.kafka, "billing", 5, "orders")
    assert node.fill("orders", pace_s=2) < 100
    assert node.produce("orders") is Error.KAFKA_STORAGE_ERROR
    # The records that the group had read went; what it has not is there, and can be read.
    assert 0 < node.start_offset("orders") <= 5
    assert node.fetched("orders", 5) is Error.NONE
    assert node.status.used_bytes <= BUDGET and node.status.is_refusing
    assert node.status.lost_bytes == 0
    warned = caplog.text.index("is full in")
    assert warned < caplog.text.index("Appends are refused, reads are served")
    assert caplog.text.count("Appends are refused") == 1
    # Other groups' commits go on, and so does the group's own.
    commit(node.kafka, "billing", 40, "orders")
    node.seconds(2)
    assert node.produce("orders") is Error.NONE
    assert caplog.text.count("appends are accepted") == 1
    assert node.fetched("orders", 40) is Error.NONE
    assert node.start_offset("orders") <= 40
    assert node.status.refused_appends >= 1


def test_ordinary_topics_lose_read_records_first_and_unread_ones_with_a_warning(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    node.kafka.create("read", **SEGMENTS)
    node.kafka.create("clicks", **SEGMENTS)
    node.produce("read", 30)
    commit(node.kafka, "r", 30, "read")
    commit(node.kafka, "stopped", 0, "clicks")
    while node.start_offset("read") < 30:
        assert node.fill("clicks", 2) == 2
        assert node.start_offset("clicks") == 0 or node.start_offset("read") >= 25
    assert node.fill("clicks") == 200
    assert node.start_offset("clicks") > 0
    assert node.status.used_bytes <= BUDGET and node.status.lost_bytes > 0
    assert "bytes of read" in caplog.text
    assert "of clicks-0 for group stopped" in caplog.text


@keep_unread
def test_a_policy_keeps_the_unread_records_of_all_topics(node: Node) -> None:
    node.kafka.create("clicks", **SEGMENTS)
    commit(node.kafka, "stopped", 3, "clicks")
    assert node.fill("clicks") < 100
    assert node.start_offset("clicks") <= 3 and node.status.lost_bytes == 0
    assert node.produce("clicks") is Error.KAFKA_STORAGE_ERROR
    [deleted] = node.kafka.call(DeleteGroupsRequest(groups_names=["stopped"]), 2).results
    assert deleted.error_code == 0
    node.seconds(2)
    assert node.produce("clicks") is Error.NONE, "a deleted group holds nothing"


def test_deletions_by_clients_make_room(node: Node) -> None:
    node.kafka.create("orders", **KEPT)
    node.kafka.create("doomed", **KEPT)
    commit(node.kafka, "g", 0, "orders")
    commit(node.kafka, "g", 0, "doomed")
    node.produce("doomed", 40)
    node.fill("orders")
    kind = DeleteTopicsRequest
    node.kafka.call(kind(topic_names=["doomed"], timeout_ms=1000), 5)
    node.seconds(2)
    assert node.produce("orders") is Error.NONE
    node.fill("orders")
    assert node.produce("orders") is Error.KAFKA_STORAGE_ERROR
    named = DeleteRecordsRequest.Topic
    partition = named.Partition(partition_index=0, offset=30)
    request = DeleteRecordsRequest(
        timeout_ms=1000, topics=[named(name="orders", partitions=[partition])]
    )
    assert node.kafka.call(request, 2).topics[0].partitions[0].error_code == 0
    node.seconds(2)
    assert node.produce("orders") is Error.NONE


@keep_unread
@pytest.mark.parametrize("seed", range(5))
def test_no_history_of_writes_and_commits_loses_anything_unread(node: Node, seed: int) -> None:
    """Three topics, three groups that come, read, go back and are deleted, and two retentions."""
    dice = random.Random(seed)
    topics = ("a", "b", "c")
    for topic in topics:
        node.kafka.create(topic, retention_ms=str(DAY_MS), **(KEPT if topic < "c" else SEGMENTS))
    committed: dict[tuple[str, str], int] = {}
    most_bytes = moved = 0
    for _ in range(150):
        topic, group = dice.choice(topics), dice.choice("ghi")
        end_offset = node.kafka.partition(topic).log.end_offset
        match dice.randrange(12):
            case 0 | 1 | 2 | 3 | 4 | 5:
                node.produce(topic, 5, dice.choice([0, 0, 2 * DAY_MS]))
            case 6 | 7 | 8:
                offset = dice.randint(node.start_offset(topic), end_offset)
                commit(node.kafka, group, offset, topic)
                committed[group, topic] = offset
            case 9:
                node.kafka.call(DeleteGroupsRequest(groups_names=[group]), 2)
                committed = {key: at for key, at in committed.items() if key[0] != group}
        before = {topic: node.start_offset(topic) for topic in topics}
        node.seconds(1)
        if dice.random() < 0.2 and topic != "c":
            node.retain()
        for topic in topics:
            after = node.start_offset(topic)
            moved += after > before[topic]
            unread_from = [at for (_, where), at in committed.items() if where == topic]
            if topic != "c":  # Its own retention waits for nobody.
                assert after == before[topic] or after <= min(unread_from, default=after)
        most_bytes = max(most_bytes, node.status.used_bytes)
    assert moved > 10 and most_bytes < BUDGET * 1.1
    assert node.status.lost_bytes == 0


def test_each_directory_has_the_budget_for_itself(
    tmp_path: Path, manual_clock: ManualClock, settings: dict[str, str]
) -> None:
    node = Node(f"{tmp_path}/a,{tmp_path}/b", manual_clock, **settings)
    for topic in ("one", "two", "three"):
        node.kafka.create(topic, **KEPT)
        commit(node.kafka, "g", 0, topic)
    directory = node.kafka.broker.directory_of
    [other] = [each for each in ("two", "three") if directory(each, 0) != directory("one", 0)]
    assert node.fill("one") < 100
    assert node.produce("one") is Error.KAFKA_STORAGE_ERROR
    assert node.fill(other, 50) == 50
    assert [each.is_refusing for each in node.space.statuses()].count(True) == 1
    node.kafka.stop()


def test_nothing_is_deleted_while_a_snapshot_is_taken(node: Node) -> None:
    node.kafka.create("t", **SEGMENTS)
    node.kafka.broker.disk.holds += 1
    assert node.fill("t", 150) == 150
    assert node.start_offset("t") == 0
    node.kafka.broker.disk.holds -= 1
    node.seconds(1)
    assert node.start_offset("t") > 0 and node.status.used_bytes <= BUDGET


def test_a_directory_whose_disk_fails_is_out_of_service(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "the medium is gone")

    node.seconds(1)
    monkeypatch.setattr(RealDisk, "free_bytes", fail)
    assert node.housekeeping._keep_space() is None
    [directory] = node.kafka.broker.directories
    assert directory.failure is not None
    node.seconds(2)


def test_internal_compacted_and_unlimited_topics_lose_nothing(node: Node) -> None:
    node.kafka.create("compacted", cleanup_policy="compact", **SEGMENTS)
    node.kafka.create("forever", retention_ms="-1", **SEGMENTS)
    assert node.fill("compacted", 40) == 40
    assert node.fill("forever") < 60
    node.seconds(5)
    assert node.start_offset("compacted") == node.start_offset("forever") == 0
    assert node.start_offset("__consumer_offsets") == 0
    commit(node.kafka, "g", 0, "forever")  # Commits are accepted.


@without_budget
def test_retention_waits_for_groups_without_any_budget(node: Node) -> None:
    retention = {"retention_ms": str(DAY_MS)}
    node.kafka.create("kept", **KEPT, **retention)
    node.kafka.create("plain", **SEGMENTS, **retention)
    for topic in ("kept", "plain"):
        node.produce(topic, 50, age_ms=2 * DAY_MS)
        commit(node.kafka, "g", 20, topic)
    node.seconds(2)
    node.retain()
    assert node.start_offset("plain") == 50
    assert 10 < node.start_offset("kept") <= 20
    commit(node.kafka, "g", 50, "kept")
    node.retain()
    assert node.start_offset("kept") == 50


@without_budget
def test_retention_reads_the_offsets_of_groups_just_before_it_deletes(node: Node) -> None:
    node.kafka.create("kept", retention_ms=str(DAY_MS), **KEPT)
    node.produce("kept", 50, age_ms=2 * DAY_MS)
    node.seconds(1)
    assert node.kafka.partition("kept").log.unread_from > 50, "no group has read yet"
    commit(node.kafka, "new", 20, "kept")
    node.retain()
    assert 10 < node.start_offset("kept") <= 20


@without_budget
def test_without_budget_and_option_nothing_is_looked_at(node: Node) -> None:
    node.kafka.create("plain", **SEGMENTS)
    node.seconds(10)
    assert node.housekeeping.space is None
    changes = ResourceChanges(
        TOPIC, "plain", [ConfigChange("wirekafka.retention.keep.unread", 0, "true")]
    )
    now(node.kafka.broker.controller.submit(AlterConfigs([changes])))
    node.seconds(2)
    assert node.space.statuses() == []


def test_unknown_offsets_keep_everything(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.kafka.create("orders", **KEPT)
    node.produce("orders", 20)
    commit(node.kafka, "g", 25, "orders")
    # As while the coordinator loads its groups.
    monkeypatch.setattr(type(node.kafka.broker.groups), "machines", lambda self: [])
    node.fill("orders")
    assert node.start_offset("orders") == 0
    assert node.produce("orders") is Error.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    node.seconds(2)
    assert node.start_offset("orders") > 0
    assert node.produce("orders") is Error.NONE


def test_a_coordinator_that_is_loaded_meanwhile_makes_a_reading_worthless(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_positions, "_PER_STEP", 1)
    node.kafka.create("t")
    commit(node.kafka, "g", 0, "t")
    broker = node.kafka.broker
    positions = GroupPositions(broker)
    keys = frozenset({("t", 0)})
    reading = positions.read(keys)
    next(reading)
    broker.groups.lead(0, broker.partitions["__consumer_offsets", 0])
    list(reading)
    assert not positions.is_known
    list(positions.read(keys))
    assert positions.of(("t", 0)) == {"g": 0}


def test_a_budget_is_rather_exceeded_for_a_minute_than_kept_without_knowledge(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node.kafka.create("read", **SEGMENTS)
    node.kafka.create("clicks", **SEGMENTS)
    commit(node.kafka, "stopped", 0, "clicks")
    node.produce("clicks", 50)
    commit(node.kafka, "r", 50, "read")
    monkeypatch.setattr(type(node.kafka.broker.groups), "machines", lambda self: [])
    node.produce("read", 50)
    node.seconds(50)
    assert node.status.used_bytes > BUDGET
    assert (node.start_offset("clicks"), node.start_offset("read")) == (0, 0)
    monkeypatch.undo()
    node.seconds(1)
    assert node.status.used_bytes <= BUDGET
    assert node.start_offset("clicks") == 0 < node.start_offset("read")
    monkeypatch.setattr(type(node.kafka.broker.groups), "machines", lambda self: [])
    assert node.fill("read") == 200
    assert node.start_offset("clicks") > 0
    assert "of clicks-0 for groups that are not known" in caplog.text


def test_a_budget_waits_again_when_groups_were_last_looked_for_long_ago(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.kafka.create("doomed", **SEGMENTS)
    node.kafka.create("clicks", **SEGMENTS)
    commit(node.kafka, "stopped", 0, "clicks")
    monkeypatch.setattr(type(node.kafka.broker.groups), "machines", lambda self: [])
    node.produce("doomed", 94)
    node.seconds(70)
    node.kafka.call(DeleteTopicsRequest(topic_names=["doomed"], timeout_ms=1000), 5)
    node.seconds(100)
    assert node.produce("clicks", 110) is Error.NONE
    node.seconds(50)
    assert node.start_offset("clicks") == 0
    node.seconds(20)
    assert node.start_offset("clicks") > 0


def test_a_clock_that_is_set_back_prolongs_no_waiting(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.kafka.create("clicks", **SEGMENTS)
    monkeypatch.setattr(type(node.kafka.broker.groups), "machines", lambda self: [])
    node.produce("clicks", 120)
    node.seconds(10)
    node.kafka.clock.sleep(-3_600_000)
    node.seconds(70)
    assert node.status.used_bytes <= BUDGET


def test_the_next_day_is_planned_again_after_the_clock_was_set_back(node: Node) -> None:
    node.kafka.create("t", **SEGMENTS)
    commit(node.kafka, "g", 0, "t")
    node.fill("t", 91, pace_s=5)
    assert node.status.outlook.losses and node.status.freed_bytes == 0
    node.kafka.clock.sleep(-3_600_000)
    node.seconds(1)
    assert not node.status.outlook.losses, "no growth is known"
    node.fill("t", 3, pace_s=30)
    assert node.status.outlook.losses and node.status.freed_bytes == 0


def test_answers_from_the_future_do_not_count(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    positions = GroupPositions(node.kafka.broker)
    key = "t", 0
    answers = [{key: {"old": 9}}, {key: {"old": 9}}, {key: {"new": 3}}, {key: {"new": 3}}]

    async def read(*_: object) -> dict[tuple[str, int], dict[str, int]]:
        return answers.pop(0)

    monkeypatch.setattr(positions, "_coordinators_elsewhere", lambda: {2})
    monkeypatch.setattr(positions._others, "read", read)

    def later(ms: int) -> Mapping[str, int] | None:
        node.kafka.clock.sleep(ms)
        list(positions.read(frozenset({key})))
        list(positions.read(frozenset({key})))
        return positions.of(key)

    assert later(0) is None
    assert later(6_000) == {"old": 9}
    assert later(-3_600_000) is None, "nobody knows how old the answers are"
    assert later(6_000) == {"new": 3}


def test_a_partition_that_is_led_elsewhere_is_no_longer_refused(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.kafka.create("orders", **KEPT)
    commit(node.kafka, "g", 0, "orders")
    node.fill("orders")
    partition = node.kafka.partition("orders")
    assert partition.log.refusal
    monkeypatch.setattr(type(node.kafka.broker.groups), "machines", lambda self: [])
    monkeypatch.setattr(partition, "leader", None)
    node.seconds(1)
    assert partition.log.refusal is None, "or it could not follow"


def test_a_full_disk_and_an_exhausted_budget_end_one_after_the_other(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in ("orders", "other"):
        node.kafka.create(topic, **KEPT)
        commit(node.kafka, "g", 0, topic)
    node.kafka.create("__transaction_state")
    internal = node.kafka.partition("__transaction_state").log
    node.fill("orders")
    log = node.kafka.partition("orders").log
    over_budget = log.refusal
    with monkeypatch.context() as full:
        full.setattr(RealDisk, "free_bytes", lambda self, path: 1)
        node.seconds(2)
        assert log.refusal not in (None, over_budget) and internal.refusal == log.refusal
    node.seconds(2)
    assert (log.refusal, internal.refusal) == (over_budget, None)
    with monkeypatch.context() as full:
        full.setattr(RealDisk, "free_bytes", lambda self, path: 1)
        node.seconds(2)
        node.kafka.call(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 5)
        node.seconds(2)
        assert not node.status.is_refusing
        assert node.produce("other") is Error.KAFKA_STORAGE_ERROR
    node.seconds(2)
    assert node.produce("other") is Error.NONE


def test_a_burst_that_is_over_refuses_nothing_for_ever(node: Node) -> None:
    node.kafka.create("compacted", cleanup_policy="compact", **SEGMENTS)
    node.kafka.create("orders", **KEPT)
    commit(node.kafka, "g", 0, "orders")
    node.fill("compacted", 92)
    assert node.produce("orders", 3) is Error.NONE
    node.seconds(1)
    assert node.produce("orders") is Error.KAFKA_STORAGE_ERROR
    assert node.status.used_bytes < BUDGET * 98 // 100
    node.seconds(60)
    assert node.produce("orders") is Error.NONE


def test_transactions_end_while_appends_are_refused(node: Node) -> None:
    node.kafka.create("orders", **KEPT)
    commit(node.kafka, "g", 0, "orders")
    log = node.kafka.partition("orders").log
    records = batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.append_as_leader(records, Append(leader_epoch=0, now_ms=0, origin=Origin.COORDINATOR))
    node.fill("orders")
    assert log.first_unstable_offset == 0, "nobody can read beyond, so that nothing could go"
    leader = node.kafka.partition("orders").leading()
    leader.append_marker(encode_marker(7, 0, Marker(False, 0, 0)), 0)
    assert log.first_unstable_offset is None
    assert node.produce("orders") is Error.KAFKA_STORAGE_ERROR
    log.refusal = "the disk is full"
    with pytest.raises(KafkaError):
        leader.append_marker(encode_marker(8, 0, Marker(False, 0, 0)), 0)


@without_budget
def test_topics_of_clients_may_have_names_like_internal_ones(node: Node) -> None:
    node.kafka.create("__orders", retention_ms=str(DAY_MS), **KEPT)
    node.produce("__orders", 50, age_ms=2 * DAY_MS)
    commit(node.kafka, "g", 20, "__orders")
    node.seconds(2)
    node.retain()
    assert 10 < node.start_offset("__orders") <= 20


@without_budget
def test_a_negative_offset_holds_nothing(node: Node) -> None:
    node.kafka.create("kept", retention_ms=str(DAY_MS), **KEPT)
    node.produce("kept", 50, age_ms=2 * DAY_MS)
    commit(node.kafka, "g", -1, "kept")
    node.seconds(2)
    node.retain()
    assert node.start_offset("kept") == 50


def test_many_segments_of_a_partition_go_in_steps_while_it_is_led_here(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.kafka.create("t", **SEGMENTS)
    node.produce("t", 400)
    partition = node.kafka.partition("t")
    counts = [len(partition.log.segments)]
    while node.housekeeping._keep_space() is not None and len(set(counts)) < 4:
        counts.append(len(partition.log.segments))
    assert max(before - after for before, after in pairwise(counts)) == 5
    left = len(partition.log.segments)
    monkeypatch.setattr(partition, "leader", None)
    node.seconds(1)
    assert len(partition.log.segments) == left and partition.log.refusal is None
    monkeypatch.undo()
    node.seconds(1)
    assert node.status.used_bytes <= BUDGET


def test_a_look_deletes_a_part_where_there_is_much_to_delete(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_space, "_MOST_DELETED", 7)
    node.kafka.create("t", **SEGMENTS)
    node.produce("t", 400)
    before = len(node.kafka.partition("t").log.segments)
    node.seconds(1)
    assert len(node.kafka.partition("t").log.segments) == before - 7
    assert not node.status.is_refusing and node.produce("t") is Error.NONE
    node.seconds(15)
    assert node.status.used_bytes <= BUDGET


def test_a_log_that_cannot_be_shortened_is_reported_once(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> int:
        raise KafkaError(Error.KAFKA_STORAGE_ERROR, "no space is left")

    node.kafka.create("t", **SEGMENTS)
    commit(node.kafka, "g", 0, "t")
    node.produce("t", 120)
    monkeypatch.setattr(Log, "delete_spare_segments", fail)
    node.seconds(20)
    assert caplog.text.count("t-0 could not be shortened") == 1
    assert node.status.is_refusing and node.status.lost_bytes == 0
    monkeypatch.undo()
    node.seconds(2)
    assert node.produce("t") is Error.NONE


def test_a_share_group_holds_what_it_has_not_settled(
    tmp_path: Path, manual_clock: ManualClock, settings: dict[str, str]
) -> None:
    node = Node(
        tmp_path / "data",
        manual_clock,
        share_coordinator_state_topic_num_partitions="1",
        **settings,
    )
    node.kafka.create("__share_group_state")
    topic_id = node.kafka.create("orders", **KEPT)
    node.produce("orders", 20)
    named = AlterShareGroupOffsetsRequest.Topic
    partition = named.Partition(partition_index=0, start_offset=12)
    request = AlterShareGroupOffsetsRequest(
        group_id="s", topics=[named(topic_name="orders", partitions=[partition])]
    )
    assert node.kafka.call(request, 0).error_code == 0 and topic_id
    node.fill("orders")
    assert 5 < node.start_offset("orders") <= 12
    assert node.produce("orders") is Error.KAFKA_STORAGE_ERROR
    node.kafka.stop()


def test_the_rate_warns_once_for_a_day_and_once_for_an_hour(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.kafka.create("t", **SEGMENTS)
    commit(node.kafka, "g", 0, "t")
    for _ in range(30):
        node.produce("t")
        node.seconds(60)
    lines = [record.getMessage() for record in caplog.records if "is full in" in record.message]
    assert len(lines) == 1 and " h at its present growth" in lines[0]
    assert "unread among that" in lines[0] and "of t-0 for group g" in lines[0]
    assert node.start_offset("t") == 0
    for _ in range(50):
        node.produce("t", 2)
        node.seconds(30)
    lines = [record.getMessage() for record in caplog.records if "is full in" in record.message]
    assert len(lines) == 2 and " min at its present growth" in lines[1]


def test_metrics_have_the_budget_and_what_is_at_risk(node: Node) -> None:
    node.kafka.create("t", **SEGMENTS)
    commit(node.kafka, "g", 0, "t")
    for _ in range(20):
        node.produce("t", 2)
        node.seconds(60)
    collector = DiskBudgetCollector(lambda: node.space)
    list(collector.collect())
    text = "".join("".join(table.texts()) for table in collector.tables)
    assert f'wirekafka_disk_budget_bytes{{directory="{node.status.path}"}} {BUDGET}' in text
    assert 'wirekafka_disk_budget_unread_records_at_risk{group="g",topic="t"}' in text
    page = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text()
    exported = set(re.findall(r"^# TYPE (wirekafka_disk_budget_\w+)", text, re.MULTILINE))
    assert exported == set(re.findall(r"`(wirekafka_disk_budget_\w+)`", page))
    until = node.status.seconds_until_full
    assert until is not None and 600 < until < 3_600 * 2
    outlook = node.status.outlook
    assert outlook.freed_by_topic().keys() == {"t"} and outlook.losses[0].group == "g"


def test_a_served_budget_has_metrics(tmp_path: Path) -> None:
    monitored = Monitored(tmp_path / "data", "--set", "wirekafka.disk.budget.bytes=123456")
    with monitored.serving:
        found = eventually(lambda: monitored.metrics()["wirekafka_disk_budget_bytes"].samples)
        assert [each.value for each in found] == [123456]


def test_nothing_of_budgets_is_imported_without_any() -> None:
    imports = (
        "import sys, wirekafka.server.run, wirekafka.server.monitoring.service;"
        "print([each for each in sys.modules if 'space' in each or 'disk_budget' in each])"
    )
    done = subprocess.run([sys.executable, "-c", imports], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


def test_an_option_that_is_taken_back_holds_nothing_any_more(node: Node) -> None:
    node.kafka.create("kept", retention_ms=str(DAY_MS), **KEPT)
    node.produce("kept", 50, age_ms=2 * DAY_MS)
    commit(node.kafka, "g", 20, "kept")
    node.seconds(6)
    log = node.kafka.partition("kept").log
    assert log.unread_from == 20
    changes = ResourceChanges(
        TOPIC, "kept", [ConfigChange("wirekafka.retention.keep.unread", 0, "false")]
    )
    now(node.kafka.broker.controller.submit(AlterConfigs([changes])))
    node.seconds(6)
    assert log.unread_from == -1, "not known, should the option return"
    node.retain()
    assert node.start_offset("kept") == 50


def test_the_disk_counts_where_it_is_full_sooner_than_the_budget(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.seconds(1)
    free = (32 << 20) + 5_000
    monkeypatch.setattr(RealDisk, "free_bytes", lambda self, path: free)
    node.kafka.create("t", **SEGMENTS)
    for _ in range(5):
        node.produce("t")
        node.seconds(60)
    until = node.status.seconds_until_full
    assert until == pytest.approx(5_000 / node.status.bytes_per_s)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("wirekafka_disk_budget_bytes", "10 GB"),
        ("wirekafka_disk_budget_bytes", "0"),
        ("wirekafka_disk_budget_policy", "delete-all"),
    ],
)
def test_a_budget_that_is_none_prevents_the_start(
    name: str, text: str, tmp_path: Path, manual_clock: ManualClock
) -> None:
    settings: dict[str, Any] = {name: text}
    with pytest.raises(ConfigError, match=name.replace("_", ".")):
        InProcessBroker(tmp_path / "data", manual_clock, **settings)
