"""A broker whose image lags behind the controller: which responses wait for the image."""

import asyncio
from itertools import pairwise

import pytest

from tests.in_process import InProcessBroker, batch, now
from tests.manual_clock import ManualClock
from wirekafka.broker import Broker
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.broker_heartbeat import BrokerHeartbeatRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.protocol.update_features import UpdateFeaturesRequest


@pytest.fixture
def kafka(tmp_path, manual_clock):
    kafka = InProcessBroker(tmp_path, manual_clock)
    kafka.create("busy")
    yield kafka
    kafka.stop()


def create(name, partitions):
    kind = CreateTopicsRequest.CreatableTopic
    return CreateTopicsRequest(
        topics=[kind(name=name, num_partitions=partitions, replication_factor=1)]
    )


def delete(name):
    return DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=name)])


def produce():
    kind = ProduceRequest.TopicProduceData
    data = kind.PartitionProduceData(index=0, records=batch(b"v"))
    return ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[kind(name="busy", partition_data=[data])]
    )


def test_requests_are_served_while_hundreds_of_partitions_are_created_and_deleted(
    kafka, manual_clock: ManualClock, monkeypatch
):
    made, dropped = Broker._made, Broker._drop

    def slow_made(*args):
        manual_clock.sleep(1)
        return made(*args)

    def slow_dropped(*args):
        manual_clock.sleep(1)
        dropped(*args)

    monkeypatch.setattr(Broker, "_made", slow_made)
    monkeypatch.setattr(Broker, "_drop", slow_dropped)

    async def alongside(request, version):
        times = [manual_clock.now_ms()]
        exchange = kafka.begin(request, version)
        while not exchange.is_done:
            times.append(manual_clock.now_ms())
            answer = kafka.call(produce(), 9).responses[0].partition_responses[0]
            assert answer.error_code == 0
            manual_clock.advance(0)
            await exchange.settled()
        assert len(times) > 100
        assert max(after - before for before, after in pairwise(times)) <= 2
        return exchange.response

    created = asyncio.run(alongside(create("t", 300), 7))
    assert created.topics[0].error_code == 0
    assert sum(topic == "t" for topic, _ in kafka.broker.partitions) == 300
    deleted = asyncio.run(alongside(delete("t"), 6))
    assert deleted.responses[0].error_code == 0
    assert list(kafka.broker.partitions) == [("busy", 0)]


def test_the_metadata_offset_is_that_of_the_image(kafka):
    before = kafka.broker.metadata_offset
    kafka.create("t")
    assert kafka.broker.metadata_offset == kafka.broker.feed.position - 1 > before


def test_a_single_broker_is_not_fenced_after_a_suspension_of_its_process(kafka, manual_clock):
    manual_clock.sleep(3_600_000)
    manual_clock.advance(60_000)
    assert not kafka.broker.image.brokers[1].fenced
    before = kafka.broker.controller.quorum.end_offset
    manual_clock.advance(60_000)
    assert kafka.broker.controller.quorum.end_offset == before, "heartbeats write nothing"


def test_a_fenced_broker_comes_back_with_its_next_heartbeat(kafka, manual_clock):
    epoch = kafka.broker.image.brokers[1].epoch
    beat = BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, want_fence=True)
    now(kafka.broker.controller_channel.send(beat, 2))
    assert kafka.broker.image.brokers[1].fenced
    manual_clock.advance(2_000)
    assert not kafka.broker.image.brokers[1].fenced


def test_a_kraft_version_update_gets_its_response_without_metadata_records(kafka):
    key = UpdateFeaturesRequest.FeatureUpdateKey(
        feature="kraft.version", max_version_level=1, upgrade_type=1
    )
    exchange = kafka.begin(UpdateFeaturesRequest(feature_updates=[key]), 1)
    assert exchange.is_done and exchange.response.error_code == 0
    assert kafka.broker.quorum.kraft_version == 1
    # Records after the control records are followed as before.
    assert kafka.create("t")


def test_clients_may_not_send_requests_of_brokers_to_controllers(kafka):
    keys = {
        each.api_key
        for each in kafka.call(
            ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4
        ).api_keys
    }
    assert not {62, 63, 67, 73} & keys and 64 in keys
    exchange = kafka.begin(BrokerHeartbeatRequest(), 2)
    assert exchange.closes_connection and exchange.response is None


def test_a_replica_that_cannot_be_placed_at_a_start_is_no_stray(
    tmp_path, manual_clock, monkeypatch
):
    kafka = InProcessBroker(tmp_path, manual_clock)
    kafka.create("busy")
    kafka.call(produce(), 9)
    kafka.stop()
    made = Broker._made

    def fail(*args):
        raise OSError("not now")

    monkeypatch.setattr(Broker, "_made", fail)
    again = InProcessBroker(tmp_path, manual_clock)
    assert not again.broker.partitions
    monkeypatch.setattr(Broker, "_made", made)
    manual_clock.advance(5_000)
    assert again.partition("busy").log.end_offset == 1
    again.stop()
