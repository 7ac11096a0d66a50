"""What a node counts while metrics are on: requests, errors, times, traffic by topic and client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import InProcessBroker, batch, now
from tests.manual_clock import ManualClock
from tests.raw_client import frame
from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.routes import Route
from wirekafka.errors import Error
from wirekafka.metadata.controller.topics import DeleteTopics, TopicReference
from wirekafka.metrics.histogram import quantiles
from wirekafka.metrics.measures import Measures
from wirekafka.metrics.requests import SAMPLED
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.server.connections import measured_pipeline
from wirekafka.server.connections.replies import Replies
from wirekafka.server.monitoring.topics import TrafficCollector

CACHED, DECODED, FETCH = 9, 8, 12


class Unchanged:
    """A hook that changes nothing."""

    def handle(self, route: Route, request: Any, call: Call) -> Any:
        return route.handle(request, call)


@pytest.fixture
def measures() -> Measures:
    return Measures()


@pytest.fixture
def kafka(
    tmp_path: Path, manual_clock: ManualClock, measures: Measures
) -> Iterator[InProcessBroker]:
    broker = InProcessBroker(tmp_path / "data", manual_clock, measures=measures)
    broker.create("t")
    yield broker
    broker.stop()


def produce_request(records: bytes, topic: str = "t", acks: int = 1) -> ProduceRequest:
    data = ProduceRequest.TopicProduceData
    partition = data.PartitionProduceData(index=0, records=records)
    topics = [data(name=topic, partition_data=[partition])]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


def fetch_request(offset: int, topic: str = "t", max_wait_ms: int = 0) -> FetchRequest:
    named = FetchRequest.Topic
    partition = named.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, topics=[named(topic=topic, partitions=[partition])]
    )


@pytest.mark.parametrize("version", [CACHED, DECODED])
def test_produced_batches_are_counted_whether_or_not_the_cache_serves_them(
    kafka: InProcessBroker, measures: Measures, version: int
) -> None:
    records = batch(b"one", b"two")
    for _ in range(3):
        assert (
            not kafka.call(produce_request(records), version)
            .responses[0]
            .partition_responses[0]
            .error_code
        )
    measures.requests.settle()
    counters = measures.traffic.of("t")
    assert (counters.produces, counters.messages_in) == (3, 6)
    assert counters.bytes_in == 3 * len(records)
    assert list(measures.requests.received()) == [("Produce", version, 3)]
    api = measures.requests.of("Produce")
    assert api.errors == {0: 3}
    assert api.finished == 3


@pytest.mark.parametrize("acks", [0, 1])
def test_what_the_cache_serves_is_counted_as_what_is_decoded(
    tmp_path: Path, manual_clock: ManualClock, acks: int
) -> None:
    found = []
    for hook in (None, Unchanged()):  # There is no cache with a hook.
        measures = Measures()
        kafka = InProcessBroker(
            tmp_path / str(hook is None), manual_clock, measures=measures, hook=hook
        )
        kafka.create("t")
        # Batches whose size takes one, two and three bytes.
        for number in range(24):
            value = b"x" * (number % 3 * 10 * number**2)
            kafka.begin(produce_request(batch(value, value), acks=acks), CACHED)
            if number % 7 == 0:
                measures.requests.settle()
        measures.requests.settle()
        [(_, client)] = measures.requests.clients.rows()
        api, traffic = measures.requests.of("Produce"), measures.traffic.of("t")
        found.append(
            (
                (client.requests, client.responses, client.bytes_in, client.bytes_out),
                (api.finished, api.errors, api.request_bytes, api.response_bytes),
                (traffic.produces, traffic.messages_in, traffic.bytes_in),
                list(measures.requests.received()),
            )
        )
        kafka.stop()
    assert found[0] == found[1]
    assert found[0][0][:2] == (24, 24 if acks else 0)
    assert found[0][1][:2] == (24, {0: 24})
    assert found[0][2][:2] == (24, 48)


@pytest.mark.parametrize("hook", [None, Unchanged()])
def test_clients_that_differ_only_in_their_software_are_counted_apart(
    tmp_path: Path, manual_clock: ManualClock, hook: Unchanged | None
) -> None:
    measures = Measures()
    kafka = InProcessBroker(tmp_path / "data", manual_clock, measures=measures, hook=hook)
    kafka.create("t")
    serve = kafka.node.listeners[0].serve
    payload = memoryview(frame(produce_request(batch(b"x")), CACHED, 1, "same"))
    calls = [Call(kafka.broker), Call(kafka.broker), Call(kafka.broker, listener="OTHER")]
    for _ in range(3):
        for call in calls:
            serve(payload, 0, len(payload), call, Replies())
    named = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.16.1")
    naming = memoryview(frame(named, 3, 2, "same"))
    serve(naming, 0, len(naming), calls[1], Replies())
    for call in calls:
        for _ in range(2):
            serve(payload, 0, len(payload), call, Replies())
    measures.requests.settle()
    rows = [
        (listener, row.software[0], row.requests, row.responses, row.bytes_in // len(payload))
        for listener, row in measures.requests.clients.rows()
    ]
    assert sorted(rows) == [
        ("OTHER", "unknown", 5, 5, 5),
        ("PLAINTEXT", "librdkafka", 3, 3, 2),
        ("PLAINTEXT", "unknown", 8, 8, 8),
    ]
    kafka.stop()


def test_what_the_cache_has_served_for_a_deleted_topic_stays_in_the_total(
    kafka: InProcessBroker, measures: Measures
) -> None:
    for _ in range(5):
        kafka.call(produce_request(batch(b"one", b"two")), CACHED)
    now(kafka.broker.controller.submit(DeleteTopics([TopicReference("t")])))
    for _ in TrafficCollector(measures, kafka.broker).collect():
        pass
    kafka.create("t")
    for _ in range(3):
        kafka.call(produce_request(batch(b"one", b"two")), CACHED)
    measures.requests.settle()
    assert measures.traffic.of("t").messages_in == 6
    total = measures.traffic.total()
    assert (total.produces, total.messages_in) == (8, 16)


def test_changes_of_the_metadata_lose_no_counts(kafka: InProcessBroker, measures: Measures) -> None:
    for number in range(6):
        kafka.call(produce_request(batch(b"x")), CACHED)
        kafka.call(produce_request(batch(b"x")), CACHED)
        kafka.create(f"other-{number}")
    assert list(measures.requests.received()) == [("Produce", CACHED, 12)]
    assert measures.traffic.of("t").produces == 12


@pytest.mark.parametrize("rare_ns, weight", [(1 << 60, SAMPLED), (-1, 1)])
def test_of_frequent_requests_that_the_cache_serves_one_is_timed_for_several(
    kafka: InProcessBroker,
    measures: Measures,
    monkeypatch: pytest.MonkeyPatch,
    rare_ns: int,
    weight: int,
) -> None:
    monkeypatch.setattr(measured_pipeline, "_RARE_NS", rare_ns)
    api = measures.requests.of("Produce")
    kafka.call(produce_request(batch(b"decoded")), CACHED)
    for served in range(1, 3 * SAMPLED + 1):
        kafka.call(produce_request(batch(b"repeated")), CACHED)
        timed = 1 + -(-served // weight) * weight
        assert (api.immediate.count, sum(quantiles([api.immediate]).values()) > 0) == (timed, True)
    measures.requests.settle()
    assert api.finished == 1 + 3 * SAMPLED


def test_the_conversions_of_a_topic_are_counted_from_a_change_of_its_compression_on(
    kafka: InProcessBroker, measures: Measures
) -> None:
    def conversions() -> int:
        kafka.call(produce_request(batch(b"x")), CACHED)
        return measures.traffic.of("t").conversions

    assert [conversions(), conversions()] == [0, 0]
    alter = IncrementalAlterConfigsRequest.AlterConfigsResource
    gzip = alter.AlterableConfig(name="compression.type", config_operation=0, value="gzip")
    topic = alter(resource_type=2, resource_name="t", configs=[gzip])
    kafka.call(IncrementalAlterConfigsRequest(resources=[topic]), 1)
    assert [conversions(), conversions()] == [1, 2]


def test_what_the_broker_appends_itself_is_counted_as_in_kafka(
    kafka: InProcessBroker, measures: Measures
) -> None:
    topic = OffsetCommitRequest.Topic
    partition = topic.Partition(partition_index=0, committed_offset=0)
    commit = OffsetCommitRequest(group_id="g", topics=[topic(name="t", partitions=[partition])])
    kafka.call(FindCoordinatorRequest(key="g"), 0)  # Creates the topic of offsets.
    for _ in range(2):
        assert not kafka.call(commit, 8).topics[0].partitions[0].error_code
    logs = [
        partition.log
        for (name, _), partition in kafka.broker.partitions.items()
        if name == "__consumer_offsets"
    ]
    counters = measures.traffic.of("__consumer_offsets")
    assert (counters.produces, counters.messages_in) == (2, sum(log.end_offset for log in logs))
    assert counters.bytes_in == sum(log.size_bytes for log in logs) > 0


def test_sizes_are_those_on_the_wire(kafka: InProcessBroker, measures: Measures) -> None:
    kafka.call(produce_request(batch(b"value" * 20_000)), CACHED)
    assert measures.requests.of("Produce").request_bytes > 100_000
    kafka.call(fetch_request(0), FETCH)
    assert measures.requests.of("Fetch").response_bytes > 100_000
    [(listener, client)] = measures.requests.clients.rows()
    assert (listener, client.software) == ("PLAINTEXT", ("unknown", "unknown"))
    assert (client.requests, client.responses) == (2, 2)
    assert client.bytes_in > 100_000 and client.bytes_out > 100_000


def test_refused_batches_are_counted_for_their_topic(
    kafka: InProcessBroker, measures: Measures
) -> None:
    kafka.call(produce_request(b"\0" * 100), CACHED)
    assert measures.traffic.of("t").failed_produces == 1
    kafka.call(produce_request(batch(b"x"), topic="missing"), CACHED)
    assert measures.traffic.of_others.failed_produces == 1
    errors = measures.requests.of("Produce").errors
    assert errors[Error.UNKNOWN_TOPIC_OR_PARTITION] == 1
    assert errors.total() == 2 and errors[0] == 0


def test_a_batch_that_is_too_large_is_counted_in_bytes(
    kafka: InProcessBroker, measures: Measures
) -> None:
    kafka.create("small", max_message_bytes="1000")
    records = batch(b"x" * 2000)
    kafka.call(produce_request(records, topic="small"), CACHED)
    assert measures.traffic.of("small").bytes_rejected == len(records)


def test_fetched_bytes_are_counted_for_the_topic_and_the_kind_of_fetch(
    kafka: InProcessBroker, measures: Measures
) -> None:
    records = batch(b"one")
    kafka.call(produce_request(records), CACHED)
    kafka.call(fetch_request(0), FETCH)
    counters = measures.traffic.of("t")
    assert (counters.bytes_out, counters.fetches, counters.failed_fetches) == (len(records), 1, 0)
    kafka.call(fetch_request(99), FETCH)
    assert (counters.fetches, counters.failed_fetches) == (2, 1)
    received = set(measures.requests.received())
    assert received >= {
        ("Fetch", FETCH, 2),
        ("FetchConsumer", FETCH, 2),
        ("FetchFollower", FETCH, 0),
    }
    assert measures.requests.of("FetchConsumer").finished == 2
    # As in Kafka, the error of each response and that of each partition.
    assert measures.requests.of("Fetch").errors == {0: 3, Error.OFFSET_OUT_OF_RANGE: 1}


def test_a_waiting_fetch_has_a_remote_time(kafka: InProcessBroker, measures: Measures) -> None:
    async def run() -> None:
        exchange = kafka.begin(fetch_request(0, max_wait_ms=5000), FETCH)
        api, consumers = measures.requests.of("Fetch"), measures.requests.of("FetchConsumer")
        assert (api.in_flight, consumers.finished) == (1, 0)
        kafka.call(produce_request(batch(b"x")), CACHED)
        while not exchange.is_done:
            await asyncio.sleep(0)
        assert exchange.response.responses[0].partitions[0].records
        assert (api.in_flight, consumers.finished, consumers.waited_total.count) == (0, 1, 1)
        total_us, local_us = (
            quantiles([each], ("0.50",))["0.50"]
            for each in (consumers.waited_total, consumers.waited_local)
        )
        assert total_us >= local_us > 0
        assert consumers.immediate.count == 0
        other = kafka.begin(fetch_request(1, max_wait_ms=5000), FETCH)
        assert api.in_flight == 1
        other.abandon()
        assert api.in_flight == 0

    asyncio.run(run())


def test_clients_are_counted_by_the_software_they_name(
    kafka: InProcessBroker, measures: Measures
) -> None:
    named = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.16.1")
    kafka.call(named, 3)
    kafka.call(MetadataRequest(topics=[]), 9)
    rows = {row.software: row.requests for _, row in measures.requests.clients.rows()}
    assert rows == {("librdkafka", "2.16.1"): 1, ("unknown", "unknown"): 1}


def test_the_errors_of_nested_arrays_are_counted(
    kafka: InProcessBroker, measures: Measures
) -> None:
    missing = MetadataRequest.Topic(name="no such topic!")
    kafka.call(MetadataRequest(topics=[missing], allow_auto_topic_creation=False), 9)
    errors = measures.requests.of("Metadata").errors
    assert errors[Error.INVALID_TOPIC_EXCEPTION] == 1


def test_a_node_without_metrics_counts_nothing(tmp_path: Path, manual_clock: ManualClock) -> None:
    broker = InProcessBroker(tmp_path / "data", manual_clock)
    broker.create("t")
    broker.call(produce_request(batch(b"x")), CACHED)
    assert broker.partition("t").traffic is None
    broker.stop()
