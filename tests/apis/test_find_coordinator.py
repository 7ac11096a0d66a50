"""FindCoordinator, every version."""

from pathlib import Path

import pytest

from tests import share_state_topic
from tests.apis.group_broker import OFFSETS_PARTITIONS, GroupBroker
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.coordinator.java_hash import coordinator_partition
from wirekafka.coordinator.share_state.states import coordinator_key, share_key_of
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest

SHARE_KEY = "g:AAAAAAAAAAAAAAAAAAAAAQ:0"


@pytest.mark.parametrize("version", range(4))
def test_one_key_is_found_where_its_partition_is_led(version: int) -> None:
    answer = GroupBroker().ask(FindCoordinatorRequest(key="g"), version)
    assert (answer.error_code, answer.node_id, answer.port) == (Error.NONE, 1, 9092)
    assert answer.error_message == ("NONE" if version else "")


@pytest.mark.parametrize("version", [4, 5, 6])
def test_many_keys_are_found_at_once(version: int) -> None:
    answer = GroupBroker().ask(FindCoordinatorRequest(coordinator_keys=["g", "", "g"]), version)
    assert [
        (each.key, each.node_id, each.error_code, each.error_message)
        for each in answer.coordinators
    ] == [("g", 1, 0, ""), ("", 1, 0, ""), ("g", 1, 0, "")]


def test_the_address_is_the_one_of_the_clients_listener() -> None:
    broker = GroupBroker(
        listeners="PLAINTEXT://broker.test:9092,OUTSIDE://outside.test:9093",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
    )
    for listener, host, port in (
        ("PLAINTEXT", "broker.test", 9092),
        ("OUTSIDE", "outside.test", 9093),
    ):
        [found] = broker.ask(
            FindCoordinatorRequest(coordinator_keys=["g"]), 6, listener
        ).coordinators
        assert (found.host, found.port) == (host, port)


@pytest.mark.parametrize(
    ("key_type", "topic"), [(0, "__consumer_offsets"), (1, "__transaction_state")]
)
def test_the_internal_topic_is_created_by_the_first_lookup(key_type: int, topic: str) -> None:
    broker = GroupBroker()
    answer = broker.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["k"]), 4)
    assert answer.coordinators[0].error_code == Error.NONE
    assert len(broker.image.topics[topic].partitions) == OFFSETS_PARTITIONS


def test_no_coordinator_is_named_before_this_broker_leads_its_partition() -> None:
    """Otherwise it would respond with NOT_COORDINATOR, which ends programs that use librdkafka."""
    broker = GroupBroker().ready()
    place = "__consumer_offsets", coordinator_partition("g", OFFSETS_PARTITIONS)
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    del broker.broker.partitions[place]
    assert broker.ask(request, 4).coordinators[0].error_code == Error.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", range(7))
def test_coordinator_not_available_without_a_live_broker(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = GroupBroker()

    async def refuse(topic: str) -> None:
        raise KafkaError(Error.INVALID_REPLICATION_FACTOR)

    monkeypatch.setattr(broker.broker, "ensure_internal_topic", refuse)
    answer = broker.ask(FindCoordinatorRequest(key="g", coordinator_keys=["g"]), version)
    if version >= 4:
        (answer,) = answer.coordinators
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (
        Error.COORDINATOR_NOT_AVAILABLE,
        -1,
        "",
        -1,
    )
    if 1 <= version < 4:
        assert answer.error_message == "The coordinator is not available."


@pytest.mark.parametrize("version", range(1, 7))
def test_an_unknown_kind_of_key_is_an_invalid_request(version: int) -> None:
    answer = GroupBroker().ask(
        FindCoordinatorRequest(key="g", key_type=3, coordinator_keys=["g"]), version
    )
    if version >= 4:
        (answer,) = answer.coordinators
    assert (answer.error_code, answer.node_id) == (Error.INVALID_REQUEST, -1)
    assert answer.error_message.startswith("This most likely occurs because of a request being")


@pytest.mark.parametrize(
    ("key", "is_valid"),
    [
        (SHARE_KEY, True),
        ("group:with:colons:AAAAAAAAAAAAAAAAAAAAAQ:0", True),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ==:+7", True),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:-1::", True),
        ("bad", False),
        ("", False),
        (":AAAAAAAAAAAAAAAAAAAAAQ:0", False),
        (" \t:AAAAAAAAAAAAAAAAAAAAAQ:0", False),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ", False),
        ("g:AAAAAAAAAAAAAAAAAAAAA:0", False),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:x", False),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:2147483648", False),
    ],
)
def test_share_keys_need_version_6_and_name_a_share_partition(key: str, is_valid: bool) -> None:
    broker = GroupBroker()
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
    for version in (5, 6):
        [found] = broker.ask(request, version).coordinators
        is_found = is_valid and version == 6
        assert found.error_code == (Error.NONE if is_found else Error.INVALID_REQUEST)


def test_a_share_partition_has_one_coordinator_for_every_form_of_its_key() -> None:
    for key in (SHARE_KEY, SHARE_KEY.replace(":0", "==:+0"), f"{SHARE_KEY}:"):
        share_key = share_key_of(key)
        assert share_key is not None
        assert coordinator_key(share_key) == SHARE_KEY


def test_the_share_state_topic_is_created_with_kafkas_options(
    tmp_path: Path, manual_clock: ManualClock
) -> None:
    kafka = InProcessBroker(
        tmp_path / "data",
        manual_clock,
        share_coordinator_state_topic_segment_bytes="2097152",
        **share_state_topic.settings(3),
    )
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[SHARE_KEY])
    [found] = kafka.call(request, 6).coordinators
    assert found.error_code in (Error.NONE, Error.COORDINATOR_NOT_AVAILABLE)
    image = kafka.broker.image
    assert len(image.topics["__share_group_state"].partitions) == 3
    # The topic configs that Kafka 4.4.0 records.
    assert image.config(2, "__share_group_state") == {
        "compression.type": "producer",
        "min.insync.replicas": "1",
        "cleanup.policy": "delete",
        "segment.bytes": "2097152",
        "retention.ms": "-1",
    }
    kafka.stop()
