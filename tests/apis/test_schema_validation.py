"""Produce to topics whose records must name registered schemas."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.apis.test_produce import batch, produce, produce_request, stored
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.config.options.schema_validation import BY_RECORD, BY_TOPIC
from wirekafka.errors import Error
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.replication.partition.schema_checks import (
    PATIENCE_MS,
    ByMessage,
    SchemaChecks,
    SchemaUse,
    UnreachableRegistry,
)
from wirekafka.replication.raft.metadata_log import sync_inline
from wirekafka.schemas.framing import with_id

OF_VALUES = {"confluent_value_schema_validation": "true"}
NO_SCHEMA = (
    "The value has no schema id, neither in its first bytes nor in a header, but the topic accepts "
    "values with registered schemas only"
)
SEVEN = with_id(7, b"payload")
Run = tuple[Callable[[], None], Callable[[BaseException | None], None]]


@dataclass
class Registry:
    """The answers of a registry, and the look-ups that asked for them."""

    registered: set[int | UUID] = field(default_factory=set)
    is_reachable: bool = True
    seen: list[SchemaUse] = field(default_factory=list)

    def look_up(self, use: SchemaUse) -> str | None:
        self.seen.append(use)
        if not self.is_reachable:
            raise UnreachableRegistry("connection refused")
        return None if use.reference in self.registered else f"no schema {use.reference}"


@pytest.fixture
def registry() -> Registry:
    return Registry(registered={7, 8})


@pytest.fixture
def kafka(tmp_path: Path, registry: Registry) -> Iterator[InProcessBroker]:
    running = InProcessBroker(tmp_path, ManualClock())
    checks = SchemaChecks(registry.look_up, sync_inline, running.clock)
    running.broker.schema_refusal = checks.refusal
    running.create("t", **OF_VALUES)
    yield running
    running.stop()


def refused(answer: Any) -> list[tuple[int, str]]:
    """The records of a refused batch: index and message."""
    assert answer.error_code == Error.INVALID_RECORD and answer.base_offset == -1
    return [(each.batch_index, each.batch_index_error_message) for each in answer.record_errors]


def test_a_value_with_a_registered_schema_is_stored_as_sent(kafka, registry):
    assert produce(kafka, batch(SEVEN)).error_code == 0
    assert stored(kafka) == [(0, SEVEN)]
    assert registry.seen == [SchemaUse(7, "t", False, BY_TOPIC)]


def test_a_batch_with_one_unregistered_schema_is_refused_as_a_whole(kafka):
    answer = produce(kafka, batch(SEVEN, with_id(9, b"x"), SEVEN, b"bare"))
    assert refused(answer) == [(1, "no schema 9"), (3, NO_SCHEMA)]
    assert answer.error_message == (
        "One or more records have been rejected due to 2 record errors in total, and only showing "
        "the first three errors at most: [RecordError(batchIndex=1, message='no schema 9'), "
        f"RecordError(batchIndex=3, message='{NO_SCHEMA}')]"
    )
    assert stored(kafka) == []


@pytest.mark.parametrize(
    "value", [b"", b"plain", b"\0\0\0\7", b"\1" + bytes(15), b"\2" + bytes(16)]
)
def test_a_value_without_a_schema_id_is_refused_without_a_look_up(kafka, registry, value):
    assert refused(produce(kafka, batch(value))) == [(0, NO_SCHEMA)]
    assert registry.seen == []


def test_each_protobuf_message_is_looked_up_where_it_has_a_subject(
    kafka: InProcessBroker, registry: Registry
) -> None:
    """Other formats are looked up once for each schema, whatever their payloads begin with."""

    def look_up(use: SchemaUse) -> str | ByMessage | None:
        registry.seen.append(use)
        if use.message is None:
            return ByMessage() if use.reference == 7 else None
        return None if use.message in ((0,), (1, 2)) else f"no message {use.message}"

    kafka.broker.schema_refusal = SchemaChecks(look_up, sync_inline, kafka.clock).refusal
    names = {"confluent_value_subject_name_strategy": BY_RECORD}
    kafka.create("named", **OF_VALUES, **names)
    good = [with_id(7, b"\0a"), with_id(7, b"\4\2\4b"), with_id(7, b"\0c")]
    avro = [with_id(8, bytes([at])) for at in range(9)]
    assert produce(kafka, batch(*good, *avro), "named").error_code == 0
    assert [(each.reference, each.message) for each in registry.seen] == [
        (7, None),
        (7, (0,)),
        (7, (1, 2)),
        (8, None),
    ]
    bad = [with_id(7, payload) for payload in (b"\0a", b"\2\6", b"\x7f")]
    assert refused(produce(kafka, batch(*bad), "named")) == [
        (1, "no message (3,)"),
        (2, "no message ()"),
    ]


def test_a_null_value_needs_no_schema(kafka, registry):
    records = encode_batch([Record(0, 1_700_000_000_000, b"k", None, ())])
    assert produce(kafka, records).error_code == 0
    assert registry.seen == []


def test_keys_are_checked_by_their_own_option(kafka, registry):
    kafka.create("keys", confluent_key_schema_validation="true")
    [with_key, without_key] = (batch(b"any", key=key) for key in (with_id(8, b"k"), None))
    assert produce(kafka, with_key, "keys").error_code == 0
    assert produce(kafka, without_key, "keys").error_code == 0
    assert refused(produce(kafka, batch(b"any", key=b"k"), "keys"))[0][1].startswith("The key has")
    assert [use.part for use in registry.seen] == ["key"]


def test_a_schema_may_be_named_by_a_header(kafka, registry):
    guid = UUID(int=5)
    registry.registered.add(guid)
    header = ("__value_schema_id", b"\1" + guid.bytes)
    records = encode_batch([Record(0, 1_700_000_000_000, None, b"payload", (header,))])
    assert produce(kafka, records).error_code == 0
    assert [use.reference for use in registry.seen] == [guid]


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_compressed_records_are_checked(kafka, codec):
    assert produce(kafka, batch(SEVEN, compression=codec)).error_code == 0
    assert refused(produce(kafka, batch(SEVEN, b"bare", compression=codec))) == [(1, NO_SCHEMA)]


def test_records_that_inflate_beyond_any_bound_are_refused(kafka):
    records = [Record(0, 1_700_000_000_000, None, bytes(33 << 20), ())]
    bomb = encode_batch(records, options=BatchOptions(compression=Codec.ZSTD))
    assert produce(kafka, bomb).error_code == Error.INVALID_RECORD


def test_repeated_requests_are_checked_too(kafka, registry):
    for _ in range(4):
        assert produce(kafka, batch(SEVEN)).error_code == 0
    assert refused(produce(kafka, batch(b"bare"))) == [(0, NO_SCHEMA)]
    assert produce(kafka, batch(SEVEN)).base_offset == 4
    assert len(registry.seen) == 1, "a known schema is not looked up again"


def test_the_check_begins_with_the_option_although_requests_repeat(kafka, registry):
    kafka.create("later")
    for _ in range(3):
        assert produce(kafka, batch(b"bare"), "later").error_code == 0
    log = kafka.partition("later").log
    log.config = log.config.changed(confluent_value_schema_validation=True)
    assert refused(produce(kafka, batch(b"bare"), "later")) == [(0, NO_SCHEMA)]


def test_records_are_accepted_soon_after_their_schema_is_registered(kafka, registry):
    nine = batch(with_id(9, b"x"))
    assert refused(produce(kafka, nine)) == [(0, "no schema 9")]
    registry.registered.add(9)
    assert refused(produce(kafka, nine)) == [(0, "no schema 9")], "kept for a second"
    kafka.clock.advance(1_000)
    assert produce(kafka, nine).error_code == 0


def test_a_schema_that_is_deleted_is_refused_later(kafka, registry):
    assert produce(kafka, batch(SEVEN)).error_code == 0
    registry.registered.clear()
    kafka.clock.advance(60_000)
    assert produce(kafka, batch(SEVEN)).error_code == 0, "accepted while the registry is asked"
    assert refused(produce(kafka, batch(SEVEN))) == [(0, "no schema 7")]


def test_without_a_registry_only_known_schemas_are_accepted(kafka, registry):
    assert produce(kafka, batch(SEVEN)).error_code == 0
    registry.is_reachable = False
    kafka.clock.advance(60_000)
    assert produce(kafka, batch(SEVEN)).error_code == 0
    answer = produce(kafka, batch(with_id(8, b"")))
    assert answer.error_code == Error.REQUEST_TIMED_OUT
    assert answer.error_message == "The schemas of the records are unknown: connection refused"
    registry.is_reachable = True
    assert produce(kafka, batch(with_id(8, b""))).base_offset == 2


def test_a_broker_without_a_registry_refuses_all_records_of_such_topics(tmp_path):
    kafka = InProcessBroker(tmp_path, ManualClock())
    kafka.create("t", **OF_VALUES)
    answer = produce(kafka, batch(SEVEN))
    assert answer.error_code == Error.INVALID_CONFIG
    assert answer.error_message == (
        "Topic t validates schemas, but the broker has no confluent.schema.registry.url"
    )
    kafka.stop()


class Held:
    """Look-ups that do not end before the test lets them."""

    def __init__(self, kafka: InProcessBroker, registry: Registry):
        self.runs: list[Run] = []
        self.checks = SchemaChecks(
            registry.look_up, lambda *run: self.runs.append(run), kafka.clock
        )
        kafka.broker.schema_refusal = self.checks.refusal

    def end(self) -> None:
        runs, self.runs = self.runs, []
        for run, done in runs:
            sync_inline(run, done)


def test_batches_of_one_schema_wait_for_one_look_up_and_others_for_none(kafka, registry):
    kafka.create("other")
    held = Held(kafka, registry)

    async def run() -> list[Any]:
        waiting = [kafka.begin(produce_request(batch(SEVEN)), 9) for _ in range(3)]
        assert len(held.runs) == 1
        assert produce(kafka, batch(b"bare"), "other").error_code == 0
        held.end()
        return [(await each.settled()).response for each in waiting]

    responses = asyncio.run(run())
    assert [each.responses[0].partition_responses[0].error_code for each in responses] == [0, 0, 0]
    assert len(stored(kafka)) == 3 and len(registry.seen) == 1


def test_a_batch_waits_for_the_registry_for_some_seconds_only(kafka, registry):
    held = Held(kafka, registry)

    async def run() -> Any:
        waiting = kafka.begin(produce_request(batch(SEVEN)), 9)
        kafka.clock.advance(PATIENCE_MS - 1)
        assert not (await waiting.settled()).is_done
        kafka.clock.advance(1)
        return (await waiting.settled()).response

    answer = asyncio.run(run()).responses[0].partition_responses[0]
    assert answer.error_code == Error.REQUEST_TIMED_OUT
    held.end()
    assert stored(kafka) == []


def test_a_stopping_broker_lets_no_batch_wait(kafka, registry):
    held = Held(kafka, registry)

    async def run() -> Any:
        waiting = kafka.begin(produce_request(batch(SEVEN)), 9)
        held.checks.stop()
        return (await waiting.settled()).response

    answer = asyncio.run(run()).responses[0].partition_responses[0]
    assert answer.error_code == Error.REQUEST_TIMED_OUT
    assert produce(kafka, batch(SEVEN)).error_code == Error.REQUEST_TIMED_OUT


def test_other_partitions_of_a_request_are_appended(kafka):
    kafka.create("other")
    request: ProduceRequest = produce_request(batch(b"bare"))
    request.topic_data += produce_request(batch(b"bare"), "other").topic_data
    responses = kafka.call(request, 9).responses
    codes = [topic.partition_responses[0].error_code for topic in responses]
    assert codes == [Error.INVALID_RECORD, 0]


def test_no_more_than_some_unregistered_schemas_are_looked_up_for_one_batch(kafka, registry):
    answer = produce(kafka, batch(*(with_id(id, b"") for id in range(100, 200))))
    assert len(refused(answer)) == len(registry.seen) == 10
