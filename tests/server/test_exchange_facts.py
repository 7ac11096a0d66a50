"""What is shown of a request and its response at one glance."""

from wirekafka.codec.record import Record, encode_batch
from wirekafka.errors import Error
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.fetch import FetchRequest, FetchResponse
from wirekafka.protocol.join_group import JoinGroupRequest, JoinGroupResponse
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.produce import ProduceRequest, ProduceResponse
from wirekafka.server.connections.exchange_facts import ExchangeFacts

ORDERS = bytes(15) + b"\1"
NAMES = {ORDERS: "orders"}.get


def produced(version: int, records: bytes) -> ExchangeFacts:
    topic = ProduceRequest.TopicProduceData
    partition = topic.PartitionProduceData(index=2, records=records)
    asked = topic(name="orders", topic_id=ORDERS, partition_data=[partition])
    return ExchangeFacts.of_request(ProduceRequest(topic_data=[asked]), version, NAMES)


def test_a_produce_request_has_records_and_the_offset_of_its_response():
    batch = encode_batch([Record(value=b"x") for _ in range(3)])
    facts = produced(9, batch * 2)
    assert (facts.topics, facts.partitions) == (["orders"], 1)
    assert (facts.records, facts.record_bytes) == (6, 2 * len(batch))
    topic = ProduceResponse.TopicProduceResponse
    partition = topic.PartitionProduceResponse(index=2, base_offset=17)
    response = ProduceResponse(responses=[topic(name="orders", partition_responses=[partition])])
    facts.add_response(response, 9, NAMES)
    assert (facts.least_offset, facts.greatest_offset) == (17, 17)
    assert (facts.records, facts.errors) == (6, [])


def test_a_topic_is_named_also_where_the_request_has_its_id():
    assert produced(13, b"").topics == ["orders"]


def test_records_that_are_broken_are_given_by_their_size():
    facts = produced(9, b"\xff" * 80)
    assert (facts.records, facts.record_bytes) == (-1, 80)


def test_a_fetch_has_the_range_of_its_offsets_and_the_size_of_the_response():
    topic = FetchRequest.Topic
    partition = topic.Partition
    asked = [partition(partition=index, fetch_offset=at) for index, at in ((0, 5), (1, 90))]
    request = FetchRequest(topics=[topic(topic="orders", partitions=asked)])
    facts = ExchangeFacts.of_request(request, 12, NAMES)
    responses = FetchResponse.FetchableTopicResponse
    batch = encode_batch([Record(value=b"x")])
    found = [
        responses.PartitionData(partition_index=0, records=[batch]),
        responses.PartitionData(partition_index=1, error_code=Error.OFFSET_OUT_OF_RANGE),
    ]
    facts.add_response(
        FetchResponse(responses=[responses(topic="orders", partitions=found)]), 12, NAMES
    )
    assert (facts.least_offset, facts.greatest_offset) == (5, 90)
    assert (facts.partitions, facts.records, facts.record_bytes) == (2, 1, len(batch))
    assert facts.errors == ["OFFSET_OUT_OF_RANGE"]


def test_an_error_of_the_whole_response_is_named():
    facts = ExchangeFacts.of_request(JoinGroupRequest(group_id="g"), 7, NAMES)
    response = JoinGroupResponse(error_code=Error.MEMBER_ID_REQUIRED)
    facts.add_response(response, 7, NAMES)
    assert facts.errors == ["MEMBER_ID_REQUIRED"]
    assert facts.topics == []


def test_of_many_topics_the_first_are_named_and_the_others_counted():
    names = [MetadataRequest.Topic(name=f"t{n}") for n in range(2_000)]
    facts = ExchangeFacts.of_request(MetadataRequest(topics=names), 9, NAMES)
    assert facts.topics == ["t0", "t1", "t2"]
    assert 3 < facts.topic_count < 2_000, "a part of a large message is looked at"


def test_options_of_a_topic_are_no_topics():
    topic = CreateTopicsRequest.CreatableTopic
    config = topic.CreatableTopicConfig(name="retention.ms", value="1")
    request = CreateTopicsRequest(topics=[topic(name="orders", configs=[config])])
    assert ExchangeFacts.of_request(request, 7, NAMES).topics == ["orders"]
