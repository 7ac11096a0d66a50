"""The fast twins of slow paths, and what each saves: `python -m benchmarks.twins`.

A fast twin does what another piece of code does, with less work, where the request, the batch or
the response has a usual shape. The rule for each of them, which `tests/test_twins.py` checks: its
docstring says "Fast twin of" and names the slow one, a generated test compares both, and it has
a row here. One that saves less than 2 % of its request is not worth its lines. Figures are µs of
CPU time, the best of several turns that alternate.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks import heartbeat_cost
from benchmarks.driver import batch_of, produce_frame
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.replication.replicas import FakeBrokers
from wirekafka.apis.shared.call import Call
from wirekafka.client.partitioner import partition_of
from wirekafka.codec.batch import HEADER_BYTES, read_header
from wirekafka.codec.frame import decode_response, encode_request
from wirekafka.codec.record import Record, decode_body, encode_batch
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.log import fetched_batches
from wirekafka.log.log import Log
from wirekafka.metrics.measures import Measures
from wirekafka.protocol.fetch import FetchResponse
from wirekafka.replication.fetching import follower_fetch
from wirekafka.replication.fetching.fetcher_session import PartitionFetch, Plan
from wirekafka.replication.partition.replica import Leadership
from wirekafka.schemas.avro.schema import parse
from wirekafka.server.connections.pipeline import Pipeline
from wirekafka.server.connections.replies import Replies
from wirekafka.tables.fields import decode_fields
from wirekafka.tables.key_partitions import partitions_of
from wirekafka.tables.record_batches import encoded_batches
from wirekafka.tables.typed.avro_lanes import decode_lanes
from wirekafka.tables.typed.avro_payload import decode_payload
from wirekafka.tables.typed.avro_types import root_record

_TURNS, _CALLS = 200, 50
_TOPIC = "twins"
_SERVER, _PEERS = "wirekafka.server.connections", "wirekafka.replication.fetching.follower_fetch"


class Pair(NamedTuple):
    """The same work by both paths; each call does it once."""

    fast: Callable[[], object]
    slow: Callable[[], object]


class Twin(NamedTuple):
    """One fast path."""

    fast: str
    slow: str
    compared_by: str
    """The generated test: a file, and the name of its function."""
    saves: str
    """The requests that it is for."""
    pair: Callable[[InProcessBroker], Iterator[Pair]]


def _produce_pair(broker: InProcessBroker) -> Iterator[Pair]:
    frame = memoryview(bytearray(produce_frame(_TOPIC, batch_of(1, 200), 1)))
    call, pipeline = Call(broker.broker), Pipeline()
    yield Pair(
        lambda: pipeline.serve(frame, 4, len(frame), call, Replies()),
        lambda: pipeline._serve_decoded(frame, 4, len(frame), call, Replies()),
    )


def _waiting_pair(broker: InProcessBroker) -> Iterator[Pair]:
    frame = memoryview(bytearray(produce_frame(_TOPIC, batch_of(1, 200), -1)))
    partition = broker.partition(_TOPIC)
    partition.brokers = FakeBrokers(1, 2)
    isr = (1, 2)
    partition.lead(
        Leadership(leader_id=1, leader_epoch=5, partition_epoch=5, isr=isr, replicas=isr)
    )

    def replicated(serve: Callable[..., object], call: Call) -> None:
        replies = Replies()
        parked = serve(frame, 4, len(frame), call, replies)
        partition.leading().follower_fetched(2, partition.end_offset, 0, 10, broker.clock.now_ms())
        assert parked.resume(call, replies)  # type: ignore[attr-defined]

    call, pipeline = Call(broker.broker), Pipeline()
    yield Pair(
        lambda: replicated(pipeline.serve, call), lambda: replicated(pipeline._serve_decoded, call)
    )


def _plan(epoch: int) -> Plan:
    return Plan(7, epoch, {(bytes(16), 0): PartitionFetch(5, 100 + epoch, 4, 0)}, [])


def _request_pair(_: InProcessBroker) -> Iterator[Pair]:
    terms = follower_fetch.Terms(2, 10, BrokerConfig.of({}))
    template, plan = follower_fetch.FetchTemplate(7, terms, "follower", 17), _plan(3)
    yield Pair(
        lambda: template.fill(1, plan),
        lambda: encode_request(1, "follower", follower_fetch.fetch_request(plan, terms), 17),
    )


def _response_pair(_: InProcessBroker) -> Iterator[Pair]:
    topic = FetchResponse.FetchableTopicResponse
    data = topic.PartitionData(records=batch_of(1, 200), high_watermark=9)
    response = FetchResponse(responses=[topic(topic_id=bytes(16), partitions=[data])])
    frame = memoryview(bytes(4) + b"\0" + response.encode(17))
    yield Pair(
        lambda: follower_fetch.decode_usual(frame),
        lambda: follower_fetch.leader_response(decode_response(FetchResponse, 17, frame)[1]),
    )


def _append_pair(broker: InProcessBroker) -> Iterator[Pair]:
    leader, records = broker.partition(_TOPIC).leading(), memoryview(batch_of(1, 200))
    now_ms = broker.clock.now_ms()
    yield Pair(
        lambda: leader.append_valid(records, 1, now_ms),
        lambda: leader.append_from_client(records, 1, now_ms),
    )


def _received_pair(broker: InProcessBroker) -> Iterator[Pair]:
    log: Log = broker.partition(_TOPIC, 1).log
    batch, now_ms = bytearray(batch_of(1, 200)), broker.clock.now_ms()
    batch[12:16] = bytes(4)  # The leader epoch.
    usual = fetched_batches.append_usual

    def append() -> None:
        batch[:8] = log.end_offset.to_bytes(8, "big")
        log.append_as_follower(batch, now_ms)

    def append_other() -> None:
        fetched_batches.append_usual = lambda *_: False
        append()
        fetched_batches.append_usual = usual

    yield Pair(append, append_other)


def _heartbeat_pair(broker: InProcessBroker) -> Iterator[Pair]:
    beats = asyncio.run(heartbeat_cost.beats_of_stable_members(broker, groups=1))
    [(request, version)] = beats["consumer"]
    groups = broker.broker.groups
    renew = groups.renew

    def submitted() -> None:
        groups.renew = lambda command: None  # type: ignore[method-assign,assignment]
        broker.call(request, version, "benchmark")
        groups.renew = renew  # type: ignore[method-assign]

    yield Pair(lambda: broker.call(request, version, "benchmark"), submitted)


def _fields_pair(_: InProcessBroker) -> Iterator[Pair]:
    batch = batch_of(200, 200)
    header, body = read_header(batch), batch[HEADER_BYTES:]
    begin, end, count = np.array([0]), np.array([len(body)]), np.array([header.count])
    yield Pair(lambda: decode_fields(body, begin, end, count), lambda: decode_body(body, header))


def _avro_pair(_: InProcessBroker) -> Iterator[Pair]:
    fields = [{"name": f"field_{index}", "type": "long"} for index in range(7)]
    fields += [{"name": f"text_{index}", "type": ["null", "string"]} for index in range(3)]
    schema = parse(json.dumps({"type": "record", "name": "Event", "fields": fields}))
    value = {each["name"]: index for index, each in enumerate(fields[:7])}
    payloads = [schema.encoded({**value, "text_0": "a", "text_1": None, "text_2": "b"})] * 200
    record = root_record(schema.root)
    fast, slow = decode_lanes(record), decode_payload(record)
    yield Pair(lambda: fast(payloads), lambda: [slow(each) for each in payloads])


def _encoding_pair(_: InProcessBroker) -> Iterator[Pair]:
    values = [bytes(200)] * 2_000
    keys = [b"key-%d" % index for index in range(len(values))]
    records = [Record(-1, index, keys[index], values[index]) for index in range(len(values))]
    columns = pa.array(keys), pa.array(values), np.arange(len(values))
    yield Pair(
        lambda: list(encoded_batches(*columns, most_bytes=1 << 20)), lambda: encode_batch(records)
    )


def _partitions_pair(_: InProcessBroker) -> Iterator[Pair]:
    keys = [b"key-%d" % index for index in range(2_000)]
    column = pa.array(keys)
    yield Pair(lambda: partitions_of(column, 12), lambda: [partition_of(key, 12) for key in keys])


TWINS: Sequence[Twin] = (
    Twin(
        f"{_SERVER}.produce_cache.ProduceCache.serve",
        f"{_SERVER}.pipeline.Pipeline._serve_decoded",
        "tests/server/test_produce_cache_histories.py::"
        "test_responses_logs_and_counters_are_those_of_the_handler",
        "Produce of one record of 200 bytes",
        _produce_pair,
    ),
    Twin(
        f"{_SERVER}.parked_produce.ParkedProduce",
        "wirekafka.apis.produce._produce_replicated",
        "tests/server/test_produce_cache_histories.py::"
        "test_responses_logs_and_counters_are_those_of_the_handler",
        "the same with acks=all and a follower, the cache's saving included",
        _waiting_pair,
    ),
    Twin(
        f"{_PEERS}.FetchTemplate",
        f"{_PEERS}.fetch_request",
        "tests/replication/test_follower_fetch.py::test_requests_are_those_of_the_codec",
        "a follower's Fetch request of one partition",
        _request_pair,
    ),
    Twin(
        f"{_PEERS}.decode_usual",
        f"{_PEERS}.leader_response",
        "tests/replication/test_follower_fetch.py::test_responses_are_decoded_as_by_the_codec",
        "its response with one batch",
        _response_pair,
    ),
    Twin(
        "wirekafka.replication.partition.leader.Leader.append_valid",
        "wirekafka.replication.partition.leader.Leader.append_from_client",
        "tests/server/test_produce_cache_histories.py::"
        "test_responses_logs_and_counters_are_those_of_the_handler",
        "an append of one record",
        _append_pair,
    ),
    Twin(
        "wirekafka.log.fetched_batches.append_usual",
        "wirekafka.log.fetched_batches.checked",
        "tests/log/test_log.py::test_random_batches_are_received_as_usual_ones_and_as_others_alike",
        "an append of a follower's batch",
        _received_pair,
    ),
    Twin(
        "wirekafka.runtime.runtime.Runtime.renew",
        "wirekafka.runtime.runtime.Runtime.submit",
        "tests/coordinator/test_renewals.py::test_random_heartbeats_are_answered_as_by_commands",
        "a stable consumer's heartbeat, connection included",
        _heartbeat_pair,
    ),
    Twin(
        "wirekafka.tables.fields.decode_fields",
        "wirekafka.codec.record.decode_body",
        "tests/tables/test_rows.py::test_generated_logs_have_the_rows_of_the_slow_decoder",
        "200 records of 200 bytes, read as Arrow",
        _fields_pair,
    ),
    Twin(
        "wirekafka.tables.typed.avro_lanes.decode_lanes",
        "wirekafka.tables.typed.avro_payload.decode_payload",
        "tests/tables/typed/test_avro_lanes.py::"
        "test_generated_payloads_have_the_rows_and_failures_of_the_slow_decoder",
        "200 Avro records of 10 fields, as columns",
        _avro_pair,
    ),
    Twin(
        "wirekafka.tables.record_batches.encoded_batches",
        "wirekafka.codec.record.encode_batch",
        "tests/tables/test_record_batches.py::"
        "test_generated_columns_have_the_batches_of_the_slow_encoder",
        "a batch of 2,000 records of 200 bytes, encoded from Arrow",
        _encoding_pair,
    ),
    Twin(
        "wirekafka.tables.key_partitions.partitions_of",
        "wirekafka.client.partitioner.partition_of",
        "tests/tables/test_key_partitions.py::test_generated_keys_have_the_partitions_of_the_hash",
        "the partitions of 2,000 keys of an Arrow column",
        _partitions_pair,
    ),
)


def cost(pair: Pair, turns: int = _TURNS) -> tuple[float, float]:
    """CPU time of one call of each, in µs."""
    best = [float("inf"), float("inf")]
    for _ in range(turns):
        for index, path in enumerate(pair):
            began_ns = time.process_time_ns()
            for _ in range(_CALLS):
                path()
            best[index] = min(best[index], (time.process_time_ns() - began_ns) / 1000 / _CALLS)
    return best[0], best[1]


@contextmanager
def broker_for_twins() -> Iterator[InProcessBroker]:
    """A broker with the topic of the measured requests."""
    with tempfile.TemporaryDirectory() as directory:
        clock = ManualClock(time.time_ns() // 1_000_000)
        settings = {"offsets_topic_num_partitions": "1"}
        broker = InProcessBroker(Path(directory), clock, measures=Measures(), **settings)
        broker.create(_TOPIC, 2)
        yield broker


async def _waiting(twin: Twin, turns: int) -> tuple[float, float]:
    """On an event loop, which requests that wait need."""
    with broker_for_twins() as broker:
        [pair] = twin.pair(broker)
        costs = cost(pair, turns)
        await broker.node.stop()
    return costs


def costs_of(twin: Twin, turns: int = _TURNS) -> tuple[float, float]:
    """CPU time of the fast and of the slow path, in µs."""
    if twin.pair is _heartbeat_pair:  # It runs a loop of its own.
        with broker_for_twins() as broker:
            [pair] = twin.pair(broker)
            costs = cost(pair, turns)
            asyncio.run(broker.node.stop())
        return costs
    return asyncio.run(_waiting(twin, turns))


def main() -> None:
    for twin in TWINS:
        fast_us, slow_us = costs_of(twin)
        print(f"{fast_us:6.2f} instead of {slow_us:6.2f} µs: {twin.saves}")
        print(f"    {twin.fast} for {twin.slow}")


if __name__ == "__main__":
    main()
