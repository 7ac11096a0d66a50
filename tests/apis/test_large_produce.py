"""Batches that inflate to much are checked apart, while other requests are served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apis.test_produce import batch, produce, produce_request, stored
from tests.in_process import InProcessBroker, now
from tests.manual_clock import ManualClock
from wirekafka.codec.batch import HEADER_BYTES, checksum
from wirekafka.codec.compression import PIECE_BYTES, Codec, compress
from wirekafka.codec.record import BatchOptions, Record, batch_of, encode_batch, record_bytes
from wirekafka.errors import Error
from wirekafka.log import validate
from wirekafka.metadata.controller.topics import DeleteTopics, TopicReference

_ZSTD = BatchOptions(compression=Codec.ZSTD)
_RECORD = Record(0, 0, None, bytes(8 << 20), ())
_LARGE = encode_batch([_RECORD], options=_ZSTD)
_BOMB = batch_of(bytearray(8 << 20), 1, 0, _ZSTD)


class Apart:
    """Holds what would run in a thread until the test lets it run."""

    def __init__(self) -> None:
        self.held: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []

    def __call__(
        self, run: Callable[[], None], done: Callable[[BaseException | None], None]
    ) -> None:
        self.held.append((run, done))

    def run(self) -> None:
        [(run, done)] = self.held
        self.held.clear()
        try:
            run()
        except Exception as error:
            done(error)
        else:
            done(None)


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[InProcessBroker]:
    running = InProcessBroker(tmp_path, ManualClock())
    running.create("t")
    running.create("other")
    yield running
    running.stop()


def produced(
    kafka: InProcessBroker, records: bytes, meanwhile: Callable[[], None] = lambda: None
) -> Any:
    """Produce a batch that is checked apart; the response of its partition."""
    apart = kafka.broker.check_apart = Apart()

    async def run() -> Any:
        waiting = kafka.begin(produce_request(records), 9)
        assert waiting.response is None and len(apart.held) == 1
        meanwhile()
        apart.run()
        return (await waiting.settled()).response

    return asyncio.run(run()).responses[0].partition_responses[0]


def test_other_requests_are_served_while_a_large_batch_is_checked(kafka: InProcessBroker) -> None:
    def meanwhile() -> None:
        assert produce(kafka, batch(b"a"), "other").error_code == 0
        assert produce(kafka, batch(b"first")).base_offset == 0

    answer = produced(kafka, _LARGE, meanwhile)
    assert (answer.error_code, answer.base_offset) == (0, 1)
    assert stored(kafka) == [(0, b"first"), (1, bytes(8 << 20))]


def test_a_slow_file_of_a_config_provider_delays_no_batch(kafka: InProcessBroker) -> None:
    kafka.broker.run_apart = Apart()
    assert produce(kafka, _LARGE).error_code == 0


def test_a_bomb_is_refused_after_the_check(kafka: InProcessBroker) -> None:
    assert produced(kafka, _BOMB).error_code == Error.INVALID_RECORD
    assert stored(kafka) == []


def test_a_topic_that_is_deleted_during_the_check_is_unknown(kafka: InProcessBroker) -> None:
    def delete() -> None:
        now(kafka.broker.controller.submit(DeleteTopics([TopicReference("t", None)])))

    answer = produced(kafka, _LARGE, delete)
    assert answer.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION


def test_a_batch_whose_sender_has_left_is_not_checked(
    kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bombs could otherwise wait for the thread in any number."""
    checked: list[int] = []
    monkeypatch.setattr("wirekafka.apis.produce.check_ahead", lambda *_: checked.append(1))
    apart = kafka.broker.check_apart = Apart()

    async def run() -> None:
        leaving = kafka.begin(produce_request(_BOMB), 9)
        assert not leaving.is_done and len(apart.held) == 1
        leaving.abandon()
        apart.run()
        await leaving.settled()

    asyncio.run(run())
    assert checked == [] and stored(kafka) == []


def test_a_repeated_request_whose_batch_is_large_is_checked_apart_too(
    kafka: InProcessBroker,
) -> None:
    for _ in range(3):
        assert produce(kafka, batch(b"a")).error_code == 0
    assert produced(kafka, _LARGE).base_offset == 3


@pytest.fixture
def inflated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The limits with which batches were inflated at once, here on the event loop."""
    limits: list[int] = []

    def watched(view: Any, header: Any, *, limit_bytes: int) -> bytes:
        limits.append(limit_bytes)
        return record_bytes(view, header, limit_bytes=limit_bytes)

    monkeypatch.setattr(validate, "record_bytes", watched)
    return limits


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_nothing_is_inflated_at_once_of_a_batch_that_announces_much(
    kafka: InProcessBroker, inflated: list[int], codec: Codec
) -> None:
    records = encode_batch([_RECORD], options=BatchOptions(compression=codec))
    answer = produced(kafka, records, lambda: inflated.append(-1))
    assert answer.error_code == 0 and inflated[0] == -1


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4])
def test_a_batch_that_announces_nothing_is_inflated_in_part_and_only_once(
    kafka: InProcessBroker, inflated: list[int], codec: Codec
) -> None:
    for _ in range(3):
        assert produce(kafka, batch(b"a")).error_code == 0
    records = encode_batch([_RECORD], options=BatchOptions(compression=codec))
    answer = produced(kafka, records, lambda: inflated.append(-1))
    assert answer.error_code == 0 and inflated[1] == -1


def test_a_batch_that_announces_too_little_is_stored_as_it_is(
    kafka: InProcessBroker, inflated: list[int]
) -> None:
    plain = encode_batch([_RECORD])[HEADER_BYTES:]
    body = b"".join(compress(Codec.GZIP, part) for part in (plain[:-10], plain[-10:]))
    records = with_body(encode_batch([_RECORD], options=BatchOptions(compression=Codec.GZIP)), body)
    answer = produced(kafka, records, lambda: inflated.append(-1))
    assert answer.error_code == 0 and inflated[:2] == [PIECE_BYTES, -1]
    assert stored(kafka) == [(0, _RECORD.value)]


def with_body(batch: bytes, body: bytes) -> bytes:
    """The batch with other compressed records."""
    out = bytearray(batch[:HEADER_BYTES] + body)
    out[8:12] = (len(out) - 12).to_bytes(4, "big")
    out[17:21] = checksum(out).to_bytes(4, "big")
    return bytes(out)


def test_without_a_thread_the_check_is_done_at_once(kafka: InProcessBroker) -> None:
    assert produce(kafka, _LARGE).error_code == 0
    assert produce(kafka, _BOMB).error_code == Error.INVALID_RECORD
    assert len(stored(kafka)) == 1
