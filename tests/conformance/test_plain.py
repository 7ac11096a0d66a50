"""Answers as plain data: what differs from run to run has a name, the rest is as it is."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.conformance import plain as plain_answers
from wirekafka.conformance.plain import Names, paths, shortened
from wirekafka.protocol.describe_groups import DescribeGroupsResponse
from wirekafka.protocol.find_coordinator import FindCoordinatorResponse
from wirekafka.protocol.init_producer_id import InitProducerIdResponse
from wirekafka.protocol.join_group import JoinGroupResponse
from wirekafka.protocol.metadata import MetadataResponse
from wirekafka.protocol.produce import ProduceResponse

ID = uuid.UUID(int=7).bytes


def plain(value: Any, names: Names) -> Any:
    """A message or a value in plain form."""
    return plain_answers.plain(value, names)


def records(data: bytes, names: Names) -> list[Any]:
    """Batches in plain form."""
    return plain_answers.records(data, names)


@pytest.fixture
def names() -> Names:
    return Names({"run-1a2b": "P", "cluster-x": "the cluster"}, nodes=[1, 2], ports=[9092])


def test_fields_with_their_default_are_left_out(names: Names) -> None:
    partition = ProduceResponse.TopicProduceResponse.PartitionProduceResponse(
        index=0, error_code=0, base_offset=5
    )
    answer = ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(name="run-1a2b-t", partition_responses=[partition])
        ],
        throttle_time_ms=7,
    )
    shown = plain(answer, names)
    assert shown == {"responses": [{"name": "P-t", "partition_responses": [{"base_offset": 5}]}]}


def test_error_codes_are_read_as_names(names: Names) -> None:
    assert plain(InitProducerIdResponse(error_code=47), names)["error_code"] == (
        "INVALID_PRODUCER_EPOCH"
    )
    assert plain(InitProducerIdResponse(error_code=29_999), names)["error_code"] != 29_999


def test_random_ids_are_numbered_in_their_order(names: Names) -> None:
    first, second = (f"consumer-{uuid.UUID(int=number)}" for number in (1, 2))
    member = JoinGroupResponse.Member
    answer = JoinGroupResponse(
        leader=first, member_id=second, members=[member(member_id=first), member(member_id=second)]
    )
    shown = plain(answer, names)
    assert (shown["leader"], shown["member_id"]) == ("member 1", "member 2")
    assert [each["member_id"] for each in shown["members"]] == ["member 1", "member 2"]


@pytest.mark.parametrize("host", ["/127.0.0.1", "/172.17.0.1"])
def test_hosts_of_members_are_all_alike_but_for_their_slash(names: Names, host: str) -> None:
    member = DescribeGroupsResponse.DescribedGroup.DescribedGroupMember
    assert plain(member(client_host=host), names) == {"client_host": "/a host"}
    assert plain(member(client_host=host[1:]), names) == {"client_host": host[1:]}


def test_producer_ids_are_numbered_but_none_is_none(names: Names) -> None:
    assert plain(InitProducerIdResponse(producer_id=4711), names)["producer_id"] == "producer 1"
    assert plain(InitProducerIdResponse(producer_id=0), names).get("producer_id") in (
        None,
        "producer 2",
    )
    assert names.of("producer_id", -1) == -1


def test_topics_are_known_by_name_or_by_id(names: Names) -> None:
    topic = MetadataResponse.Topic
    names.ids = {ID: "id of P-t"}
    by_both = plain(MetadataResponse(topics=[topic(name="run-1a2b-t", topic_id=ID)]), names)
    assert by_both["topics"] == [{"name": "P-t", "topic_id": "id of P-t"}]
    assert names.of_id(bytes(16)) == "no id"
    assert names.of_id(bytes(range(1, 17))) == "an unknown id"
    assert names.of_id(b"\7" * 16) == "an id"


def test_brokers_of_any_number_read_the_same(names: Names) -> None:
    broker = MetadataResponse.Broker

    def shown(*ids: int) -> object:
        brokers = [broker(node_id=each, host="h", port=9092) for each in ids]
        return plain(MetadataResponse(brokers=brokers), names)["brokers"]

    assert shown(1) == shown(1, 2) == [{"node_id": "a broker", "host": "h", "port": "a port"}]
    assert names.of("leader_id", 99) == 99


def test_the_broker_zero_reads_as_the_others_where_it_is_named() -> None:
    shown = [_coordinator_as_plain(node) for node in (0, 1)]
    assert shown[0] == shown[1] == {"node_id": "a broker", "host": "h", "port": "a port"}
    unset = FindCoordinatorResponse(coordinators=[])
    assert plain(unset, Names({}, nodes=[0], ports=[])) == {}


def _coordinator_as_plain(node: int) -> object:
    answer = FindCoordinatorResponse(node_id=node, host="h", port=9092)
    return plain(answer, Names({}, nodes=[0, 1], ports=[9092]))


def test_times_near_now_are_about_now(names: Names) -> None:
    now_ms = int(time.time() * 1000)
    assert names.of("timestamp", now_ms - 1000) == "about now"
    assert names.of("timestamp", 1_700_000_000_000) == 1_700_000_000_000
    assert names.of("error_message", f"at {now_ms}") == "at a long number"


def test_lists_are_sorted(names: Names) -> None:
    assert plain([3, 1, 2], names) == [1, 2, 3]
    assert plain([{"b": 1}, {"a": 1}], names) == [{"a": 1}, {"b": 1}]


def test_bytes_are_text_where_they_can_be(names: Names) -> None:
    assert plain(b"run-1a2b", names) == "P"
    assert plain(b"\0\1", names) == "0x0001"
    assert shortened("x" * 100).endswith("...100 characters")


def test_batches_show_what_they_hold(names: Names) -> None:
    whole = encode_batch([Record(0, 1_700_000_000_000, b"k", None)], options=BatchOptions())
    (shown,) = records(whole, names)
    assert shown["offsets"] == "0-0" and shown["records"] == ["k: null"]
    assert records(whole + whole[:20], names)[1:] == ["a part of a batch"]
    broken = bytearray(whole)
    broken[-1] ^= 1
    (shown,) = records(bytes(broken), names)
    assert shown["crc"] == "wrong"


def test_every_scalar_has_a_path() -> None:
    value = {"a": [{"b": 1}, {}], "c": None}
    assert list(paths(value)) == [("a[0].b", 1), ("a[1]", {}), ("c", None)]
