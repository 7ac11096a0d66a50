"""Dead-letter topics of share groups (KIP-1191): contents, timing and failed writes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.apis.share_member import ShareMember, acquired
from tests.in_process import InProcessBroker, batch, now
from tests.manual_clock import ManualClock
from tests.memory_share_states import MemoryShareStates
from wirekafka.codec.batch import batches
from wirekafka.codec.record import Record, decode_records
from wirekafka.coordinator.routing import NoLinks
from wirekafka.coordinator.share_state.states import (
    ShareKey,
    StateBatch,
    StateInitialization,
    StateRead,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.configs import AlterConfigs, ConfigChange, ResourceChanges
from wirekafka.metadata.image.image import BROKER, GROUP
from wirekafka.protocol.produce import ProduceResponse
from wirekafka.replication.partition.schema_checks import SchemaChecks, SchemaUse
from wirekafka.replication.raft.metadata_log import sync_inline
from wirekafka.schemas.framing import with_id

ACCEPT, RELEASE, REJECT = [1], [2], [3]
AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED = 0, 2, 3, 4
TOPIC_NAME = "errors.deadletterqueue.topic.name"
ALLOWED = {"errors_deadletterqueue_group_enable": "true"}
REJECTED, EXHAUSTED = (
    b"Offset rejected by client.",
    b"Offset delivery count exceeded the threshold.",
)


class Sharing(InProcessBroker):
    """A broker with a topic of four partitions, and the state of group "g" for the last of them."""

    def __init__(self, directory: Path, clock: ManualClock, **settings: str):
        super().__init__(directory, clock, **settings)
        self.states = MemoryShareStates()
        self.broker.share_states = self.states
        self.key = self.create("orders", partitions=4), 3
        self.share = ShareKey("g", *self.key)
        now(self.states.initialize([StateInitialization(self.share, 1, 0)]))
        self.member = ShareMember(self)

    def configure(self, kind: int, resource: str, **values: str) -> None:
        changes = [ConfigChange(name.replace("_", "."), 0, each) for name, each in values.items()]
        [error] = now(
            self.broker.controller.submit(AlterConfigs([ResourceChanges(kind, resource, changes)]))
        )
        assert error is None, error

    def keep_dead_letters(self, topic: str = "dlq.orders", **values: str) -> None:
        self.configure(GROUP, "g", **{TOPIC_NAME: topic}, **values)

    def produce(self, *values: bytes, **options: Any) -> None:
        self.partition("orders", 3).leading().append_from_client(
            batch(*values, **options), 1, self.clock.now_ms()
        )

    def fetch(self) -> list[tuple[int, int, int]]:
        partitions = {self.key: []} if self.member.epoch == 0 else {}
        return acquired(self.member.fetch(partitions))

    def acknowledge(self, first: int, last: int, types: list[int]) -> None:
        response = self.member.acknowledge({self.key: [(first, last, types)]})
        assert response.responses[0].partitions[0].error_code == Error.NONE

    def dead_letters(self, topic: str = "dlq.orders", index: int = 0) -> list[Record]:
        [*buffers] = self.partition(topic, index).read_batches()
        return [
            record
            for data in buffers
            for at, header in batches(data)
            for record in decode_records(memoryview(data)[at:], header)
        ]

    def stored(self) -> tuple[StateBatch, ...]:
        [state] = now(self.states.read([StateRead(self.share, 0)]))
        assert not isinstance(state, KafkaError)
        return tuple(state.batches)

    def written_states(self) -> list[tuple[int, int, int]]:
        """First offset, last offset and state of everything stored so far, in order."""
        return [
            (run.first_offset, run.last_offset, run.delivery_state)
            for call in self.states.calls
            for run in getattr(call, "batches", ())
        ]


@pytest.fixture
def sharing(tmp_path: Path, manual_clock: ManualClock) -> Sharing:
    return Sharing(tmp_path / "data", manual_clock)


def test_a_rejected_record_is_written_to_the_topic_with_its_origin_and_then_archived(
    sharing: Sharing,
) -> None:
    sharing.create("dlq.orders", partitions=2, **ALLOWED)
    sharing.keep_dead_letters()
    sharing.produce(b"a", b"b", b"c")
    assert sharing.fetch() == [(0, 2, 1)]
    sharing.acknowledge(0, 2, [1, 3, 1])
    [letter] = sharing.dead_letters(index=1)  # 3 modulo 2.
    assert (letter.key, letter.value) == (None, None)
    assert letter.timestamp == sharing.clock.now_ms()
    assert letter.headers == (
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"3"),
        ("__dlq.errors.offset", b"1"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", REJECTED),
    )
    assert sharing.written_states() == [
        (0, 0, ACKNOWLEDGED),
        (1, 1, ARCHIVING),
        (2, 2, ACKNOWLEDGED),
        (1, 1, ARCHIVED),
    ]
    sharing.produce(b"d")
    assert sharing.fetch() == [(3, 3, 1)]


def test_records_are_written_with_key_and_value_if_the_group_has_them_copied(
    sharing: Sharing,
) -> None:
    sharing.create("dlq.orders", **ALLOWED)
    sharing.keep_dead_letters(errors_deadletterqueue_copy_record_enable="true")
    sharing.produce(b"a", b"b")
    sharing.produce(b"c", key=None, compression=1)
    sharing.fetch()
    sharing.acknowledge(1, 2, REJECT)
    letters = sharing.dead_letters()
    assert [(each.key, each.value) for each in letters] == [(b"k", b"b"), (None, b"c")]
    assert {name for each in letters for name, _ in each.headers} == {
        f"__dlq.errors.{name}"
        for name in ("topic", "partition", "offset", "group", "delivery.count", "message")
    }


def test_deleted_records_are_written_with_headers_only(sharing: Sharing) -> None:
    sharing.create("dlq.orders", **ALLOWED)
    sharing.keep_dead_letters(errors_deadletterqueue_copy_record_enable="true")
    sharing.produce(b"a", b"b")
    sharing.fetch()
    sharing.partition("orders", 3).delete_records(2)
    sharing.acknowledge(0, 1, REJECT)
    assert [each.value for each in sharing.dead_letters()] == [None, None]


def test_released_and_expired_records_are_written_after_their_last_delivery(
    sharing: Sharing,
) -> None:
    sharing.create("dlq.orders", **ALLOWED)
    sharing.keep_dead_letters(share_delivery_count_limit="2")
    sharing.produce(b"a", b"b")
    for deliveries in (1, 2):
        assert sum(last + 1 - first for first, last, _ in sharing.fetch()) == 2
        assert not sharing.dead_letters()
        sharing.acknowledge(0, 0, RELEASE)
        assert len(sharing.dead_letters()) == deliveries - 1
        sharing.clock.advance(30_000)
    letters = [dict(each.headers) for each in sharing.dead_letters()]
    assert [each["__dlq.errors.offset"] for each in letters] == [b"0", b"1"]
    assert {each["__dlq.errors.delivery.count"] for each in letters} == {b"2"}
    assert {each["__dlq.errors.message"] for each in letters} == {EXHAUSTED}
    assert sharing.written_states()[-1] == (1, 1, ARCHIVED)
    assert sharing.fetch() == []


def test_a_missing_topic_is_created_if_auto_creation_is_enabled(
    tmp_path: Path, manual_clock: ManualClock
) -> None:
    sharing = Sharing(
        tmp_path / "data",
        manual_clock,
        errors_deadletterqueue_auto_create_topics_enable="true",
        num_partitions="3",
    )
    sharing.keep_dead_letters("dlq.new")
    sharing.produce(b"a", b"b", b"c")
    sharing.fetch()
    sharing.acknowledge(0, 2, [3, 1, 3])
    assert len(sharing.dead_letters("dlq.new")) == 2
    assert len(sharing.broker.image.topics["dlq.new"].partitions) == 3
    assert sharing.broker.image.config(2, "dlq.new") == {
        "errors.deadletterqueue.group.enable": "true",
        "message.timestamp.type": "CreateTime",
    }


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("dlq.missing", "does not exist and auto create is disabled"),
        ("dlq.refused", "DLQ is not enabled on configured DLQ topic"),
        ("letters", "does not comply with the DLQ topic prefix"),
    ],
)
def test_records_are_archived_without_a_usable_topic(
    sharing: Sharing, caplog: pytest.LogCaptureFixture, topic: str, reason: str
) -> None:
    sharing.create("dlq.refused")
    sharing.create("letters", **ALLOWED)
    sharing.keep_dead_letters(topic)
    sharing.produce(b"a", b"b")
    sharing.fetch()
    sharing.acknowledge(0, 1, REJECT)
    assert reason in caplog.text
    assert sharing.stored() == (StateBatch(0, 1, ARCHIVED, 1),)
    assert "dlq.missing" not in sharing.broker.image.topics


@pytest.mark.parametrize(("copies", "written"), [("false", 1), ("true", 0)])
def test_a_topic_that_validates_schemas_accepts_letters_as_records_of_any_producer(
    sharing: Sharing, copies: str, written: int
) -> None:
    """A letter without its original's value has nothing to validate."""
    seen: list[SchemaUse] = []

    def look_up(use: SchemaUse) -> str:
        seen.append(use)
        return "not registered for dlq.orders-value"

    checks = SchemaChecks(look_up, sync_inline, sharing.clock)
    sharing.broker.schema_refusal = checks.refusal
    sharing.create("dlq.orders", **ALLOWED, confluent_value_schema_validation="true")
    sharing.keep_dead_letters(errors_deadletterqueue_copy_record_enable=copies)
    sharing.produce(with_id(7, b"a"))
    sharing.fetch()
    sharing.acknowledge(0, 0, REJECT)
    assert len(sharing.dead_letters()) == written
    assert [use.topic for use in seen] == ["dlq.orders"] * (copies == "true")


def test_the_prefix_of_topic_names_can_be_changed(sharing: Sharing) -> None:
    sharing.configure(BROKER, "", **{"errors.deadletterqueue.topic.name.prefix": ""})
    sharing.create("letters", **ALLOWED)
    sharing.keep_dead_letters("letters")
    sharing.produce(b"a")
    sharing.fetch()
    sharing.acknowledge(0, 0, REJECT)
    assert len(sharing.dead_letters("letters")) == 1


def test_a_new_leader_writes_what_the_old_one_may_not_have_written(sharing: Sharing) -> None:
    sharing.create("dlq.orders", **ALLOWED)
    sharing.keep_dead_letters()
    sharing.produce(b"a", b"b", b"c")
    state = sharing.states.states[sharing.share]
    state.deliveries = {0: (ARCHIVING, 1), 1: (ARCHIVING, 5)}
    assert sharing.fetch() == [(2, 2, 1)]
    letters = [dict(each.headers) for each in sharing.dead_letters()]
    assert [each["__dlq.errors.message"] for each in letters] == [REJECTED, EXHAUSTED]
    assert sharing.written_states() == [(0, 0, ARCHIVED), (1, 1, ARCHIVED)]


def test_nothing_is_written_for_a_rejection_that_could_not_be_stored(sharing: Sharing) -> None:
    sharing.create("dlq.orders", **ALLOWED)
    sharing.keep_dead_letters()
    sharing.produce(b"a")
    sharing.fetch()
    sharing.states.failures.append(KafkaError(Error.COORDINATOR_NOT_AVAILABLE))
    sharing.member.acknowledge({sharing.key: [(0, 0, REJECT)]})
    assert sharing.dead_letters() == []
    sharing.acknowledge(0, 0, ACCEPT)
    assert sharing.stored() == (StateBatch(0, 0, ACKNOWLEDGED, 1),)


def _reject(sharing: Sharing, last: int) -> None:
    """Reject the records from 0 to `last`, and wait until their dead letters are written."""

    async def reject() -> None:
        sharing.acknowledge(0, last, REJECT)
        while sharing.stored() != (StateBatch(0, last, ARCHIVED, 1),):
            sharing.clock.advance(1)
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(reject(), 10))


def test_dead_letters_are_split_by_the_topics_max_message_bytes(sharing: Sharing) -> None:
    sharing.create("dlq.orders", max_message_bytes="500", **ALLOWED)
    sharing.keep_dead_letters()
    sharing.produce(*(b"%d" % index for index in range(7)))
    sharing.fetch()
    _reject(sharing, last=6)
    offsets = [dict(each.headers)["__dlq.errors.offset"] for each in sharing.dead_letters()]
    assert offsets == [b"%d" % index for index in range(7)]
    assert sharing.partition("dlq.orders").log.end_offset == 7


def test_originals_beyond_the_topics_max_message_bytes_are_not_copied(sharing: Sharing) -> None:
    sharing.create("dlq.orders", max_message_bytes="2000", **ALLOWED)
    sharing.keep_dead_letters(errors_deadletterqueue_copy_record_enable="true")
    sharing.produce(b"a" * 1_500, b"b" * 1_500, compression=1)  # Together, they inflate beyond it.
    sharing.produce(b"c" * 1_500, compression=1)
    sharing.produce(b"d" * 2_000, b"e")
    sharing.fetch()
    _reject(sharing, last=4)
    values = [each.value for each in sharing.dead_letters()]
    assert values == [None, None, b"c" * 1_500, None, b"e"]


def test_the_creation_of_the_topic_is_retried(
    tmp_path: Path, manual_clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def create(topics: Any) -> dict[str, KafkaError]:
        attempts.append(sharing.clock.now_ms())
        if len(attempts) == 3:
            sharing.create("dlq.new", **ALLOWED)
        return {"dlq.new": KafkaError(Error.TOPIC_ALREADY_EXISTS)}

    async def reject() -> None:
        sharing.acknowledge(0, 0, REJECT)
        while sharing.stored() != (StateBatch(0, 0, ARCHIVED, 1),):
            sharing.clock.advance(100)
            await asyncio.sleep(0)

    attempts: list[int] = []
    sharing = Sharing(
        tmp_path / "data", manual_clock, errors_deadletterqueue_auto_create_topics_enable="true"
    )
    monkeypatch.setattr(sharing.broker.controller_channel, "create_topics", create)
    sharing.keep_dead_letters("dlq.new")
    sharing.produce(b"a")
    sharing.fetch()
    asyncio.run(asyncio.wait_for(reject(), 10))
    assert len(attempts) == 3
    assert attempts[1] - attempts[0] >= 1_000 and attempts[2] - attempts[1] >= 2_000
    assert len(sharing.dead_letters("dlq.new")) == 1


def test_letters_are_sent_to_the_broker_that_leads_their_partition(sharing: Sharing) -> None:
    class Elsewhere(NoLinks):
        async def send(self, broker_id: int, client_id: str, request: Any) -> ProduceResponse:
            sent.append((broker_id, request))
            if len(sent) < 3:
                raise KafkaError(
                    Error.BROKER_NOT_AVAILABLE if len(sent) == 1 else Error.NOT_LEADER_OR_FOLLOWER
                )
            return ProduceResponse(responses=[])

    async def reject() -> None:
        sharing.acknowledge(0, 0, REJECT)
        while sharing.stored() != (StateBatch(0, 0, ARCHIVED, 1),):
            sharing.clock.advance(100)
            await asyncio.sleep(0)

    sent: list[tuple[int, Any]] = []
    topic_id = sharing.create("dlq.orders", partitions=2, **ALLOWED)
    sharing.keep_dead_letters()
    sharing.produce(b"a")
    sharing.fetch()
    routing = sharing.broker.routing
    routing.links = Elsewhere()
    routing.leader_of = lambda topic, index: 7 if topic == "dlq.orders" else routing.node_id
    asyncio.run(asyncio.wait_for(reject(), 10))
    assert not sharing.dead_letters(index=1)
    assert [broker_id for broker_id, _ in sent] == [7, 7, 7]
    [topic] = sent[-1][1].topic_data
    [letters] = topic.partition_data
    assert (topic.name, topic.topic_id, letters.index) == ("dlq.orders", topic_id, 1)
    [(_, header)] = batches(letters.records)
    [letter] = decode_records(memoryview(letters.records), header)
    assert dict(letter.headers)["__dlq.errors.offset"] == b"0"
