"""Watching a client: what is kept, what is hidden, and what it costs nobody."""

import asyncio
import json
from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, ResourceType

from tests.planted_secrets import planted
from wirekafka import Broker
from wirekafka.server.monitoring import wire_tap
from wirekafka.server.monitoring.wire_tap import (
    Choice,
    TooManyWatches,
    WatchedExchange,
    WireWatches,
)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders"]) as broker:
        yield broker


def wire_of(broker: Broker) -> WireWatches:
    engine = broker._engine
    return WireWatches(engine._node, engine._loop)


@pytest.fixture
def wire(broker: Broker) -> WireWatches:
    return wire_of(broker)


def client(broker: Broker, client_id: str, **options: object) -> confluent_kafka.Producer:
    return confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "client.id": client_id, **options}
    )


def produce(made: confluent_kafka.Producer, value: str = "secret content") -> None:
    made.produce("orders", value)
    assert made.flush(10) == 0


def apis(found: list[WatchedExchange] | None) -> list[str]:
    assert found is not None
    return [each.api for each in found]


def test_only_the_chosen_client_is_kept(broker, wire):
    watch = wire.watch(Choice(client_id="mine"))
    produce(client(broker, "other"))
    produce(client(broker, "mine"))
    found = wire.read(watch)
    assert "Produce" in apis(found)
    assert {each.client_id for each in found} == {"mine"}
    [first] = [each for each in found if each.api == "Produce"]
    request, response = json.loads(first.request), json.loads(first.response)
    assert request["topicData"][0]["partitionData"][0]["recordsSizeInBytes"] > 60
    assert response["responses"][0]["partitionResponses"][0]["baseOffset"] == 1
    assert first.took_ms is not None and first.failure == ""
    assert "secret content" not in str(found)


def test_one_connection_can_be_watched(broker, wire):
    made = client(broker, "mine")
    produce(made)
    connected = [each for each in wire.clients() if each.client_id == "mine"]
    assert {each.software.split()[0] for each in connected} == {"confluent-kafka-python"}
    watches = {
        each.connection_id: wire.watch(Choice(connection_id=each.connection_id))
        for each in connected
    }
    produce(made)
    kept = {name: apis(wire.read(watch)) for name, watch in watches.items()}
    assert sum("Produce" in each for each in kept.values()) == 1


def test_exchanges_are_read_behind_a_number(broker, wire):
    watch = wire.watch(Choice(client_id="mine"))
    made = client(broker, "mine")
    produce(made)
    last = wire.read(watch)[-1].number
    assert wire.read(watch, last) == []
    produce(made)
    assert apis(wire.read(watch, last)) == ["Produce"]


def test_a_waiting_request_is_kept_once_it_is_answered(broker, wire):
    watch = wire.watch(Choice(client_id="reader"))
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": "reader",
            "group.id": "g",
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    consumer.poll(0.1)
    broker.wait_for(lambda: "Fetch" in apis(wire.read(watch)))
    fetch = next(each for each in wire.read(watch) if each.api == "Fetch")
    assert fetch.took_ms >= 50
    consumer.close()


def test_the_pipeline_is_as_before_without_watches(broker, wire):
    pipeline = broker._engine._node.pipeline
    before = pipeline.hook
    first, second = wire.watch(Choice("a")), wire.watch(Choice("b"))
    assert pipeline.hook is not before
    wire.stop(first)
    assert pipeline.hook is not before
    wire.stop(second)
    wire.stop(second)
    assert pipeline.hook is before
    assert wire.read(first) is None


def test_requests_are_served_from_the_cache_again_afterwards(broker, wire):
    pipeline = broker._engine._node.pipeline
    before, pipeline.hook = pipeline.hook, None
    made = client(broker, "mine", **{"enable.idempotence": True})
    produce(made)
    watch = wire.watch(Choice("mine"))
    produce(made)
    assert apis(wire.read(watch)) == ["Produce"]
    wire.stop(watch)
    assert pipeline._produce_cache is not None
    for _ in range(3):
        produce(made)
    assert len(broker.records("orders")) == 5
    pipeline.hook = before


def test_watches_are_limited_and_forgotten(broker, wire, monkeypatch):
    monkeypatch.setattr(wire_tap, "FORGOTTEN_S", 0.05)
    watches = [wire.watch(Choice(str(number))) for number in range(wire_tap.MOST_WATCHES)]
    with pytest.raises(TooManyWatches):
        wire.watch(Choice("one more"))
    before = broker._engine._hook
    broker.wait_for(lambda: broker._engine._node.pipeline.hook is before)
    assert wire.read(watches[0]) is None


def test_few_exchanges_are_kept(broker, wire, monkeypatch):
    watch = wire.watch(Choice("mine"))
    made = client(broker, "mine", **{"linger.ms": 0})
    for _ in range(wire_tap.KEPT + 20):
        produce(made)
    found = wire.read(watch)
    assert len(found) == wire_tap.KEPT
    assert found[-1].number > wire_tap.KEPT


def test_large_messages_are_cut(broker, wire):
    broker.create_topic("wide", partitions=3000)
    watch = wire.watch(Choice("mine"))
    AdminClient({"bootstrap.servers": broker.bootstrap_servers, "client.id": "mine"}).list_topics()
    # The library also asks for brokers alone.
    answers = [each for each in wire.read(watch) if each.api == "Metadata"]
    metadata = max(answers, key=lambda each: len(each.response))
    assert len(metadata.response) < 100_000
    assert "... and" in metadata.response


def test_passwords_are_hidden():
    with Broker(users={"alice": planted("alice")}, topics=["orders"]) as broker:
        wire = wire_of(broker)
        watch = wire.watch(Choice("mine"))
        settings = broker.client_config("confluent", "alice") | {"client.id": "mine"}
        admin = AdminClient(settings)
        resource = ConfigResource(
            ResourceType.BROKER,
            "1",
            incremental_configs=[
                ConfigEntry(
                    "listener.name.x.ssl.keystore.password",
                    planted("of-a-keystore"),
                    incremental_operation=confluent_kafka.admin.AlterConfigOpType.SET,
                )
            ],
        )
        [future] = admin.incremental_alter_configs([resource]).values()
        future.exception(10)
        found = wire.read(watch)
    kept = {each.api: each for each in found}
    assert "IncrementalAlterConfigs" in kept and "SaslAuthenticate" in kept
    assert json.loads(kept["SaslAuthenticate"].request) == {"authBytes": "(redacted)"}
    assert json.loads(kept["SaslAuthenticate"].response)["authBytes"] == "(redacted)"
    assert planted("of-a-keystore") not in str(found) and "(redacted)" in str(
        kept["IncrementalAlterConfigs"].request
    )


def test_a_failed_request_is_kept_with_its_error(broker, wire):
    watch = wire.watch(Choice("mine"))
    broker.fail("Metadata", "UNKNOWN_SERVER_ERROR", times=1)
    produce(client(broker, "mine"))
    assert any("-1" in each.response for each in wire.read(watch) if each.api == "Metadata")
    assert asyncio.iscoroutinefunction(wire_tap._awaited)
