"""FindCoordinator, every version."""

import pytest

from tests.apis.group_broker import OFFSETS_PARTITIONS, GroupBroker
from wirekafka.apis.find_coordinator import FindCoordinatorRequest
from wirekafka.errors import Error

SHARE_KEY = "g:AAAAAAAAAAAAAAAAAAAAAQ:0"


@pytest.mark.parametrize("version", range(4))
def test_one_key_is_found_where_its_partition_is_led(version: int) -> None:
    answer = GroupBroker().ask(FindCoordinatorRequest(key="g"), version)
    assert (answer.error_code, answer.node_id, answer.port) == (Error.NONE, 1, 9092)
    assert answer.error_message == ("NONE" if version else "")


@pytest.mark.parametrize("version", [4, 5, 6])
def test_many_keys_are_found_at_once(version: int) -> None:
    answer = GroupBroker().ask(FindCoordinatorRequest(coordinator_keys=["g", "", "g"]), version)
    assert [(each.key, each.node_id, each.error_code, each.error_message)
            for each in answer.coordinators] == [
        ("g", 1, 0, ""), ("", 1, 0, ""), ("g", 1, 0, "")]


def test_the_address_is_the_one_of_the_clients_listener() -> None:
    answer = GroupBroker().ask(
        FindCoordinatorRequest(coordinator_keys=["g"]), 6, listener="OUTSIDE")
    assert answer.coordinators[0].host == "host-of-OUTSIDE"


@pytest.mark.parametrize(("key_type", "topic"), [
    (0, "__consumer_offsets"), (1, "__transaction_state")])
def test_the_internal_topic_is_made_when_first_asked_for(key_type: int, topic: str) -> None:
    broker = GroupBroker()
    answer = broker.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["k"]), 4)
    assert answer.coordinators[0].error_code == Error.NONE
    assert len(broker.image.topics[topic].partitions) == OFFSETS_PARTITIONS


@pytest.mark.parametrize("version", range(7))
def test_38_coordinator_not_available_when_there_is_nobody(version: int) -> None:
    broker = GroupBroker()
    broker.can_create_topics = False
    answer = broker.ask(FindCoordinatorRequest(key="g", coordinator_keys=["g"]), version)
    if version >= 4:
        (answer,) = answer.coordinators
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (
        Error.COORDINATOR_NOT_AVAILABLE, -1, "", -1)
    if 1 <= version < 4:
        assert answer.error_message == "The coordinator is not available."


@pytest.mark.parametrize("version", range(1, 7))
def test_an_unknown_kind_of_key_is_an_invalid_request(version: int) -> None:
    answer = GroupBroker().ask(
        FindCoordinatorRequest(key="g", key_type=3, coordinator_keys=["g"]), version)
    if version >= 4:
        (answer,) = answer.coordinators
    assert (answer.error_code, answer.node_id) == (Error.INVALID_REQUEST, -1)
    assert answer.error_message.startswith("This most likely occurs because of a request being")


def test_share_keys_need_version_6_the_feature_and_three_parts() -> None:
    broker = GroupBroker()
    for version, key, level, error in (
        (5, SHARE_KEY, 1, Error.INVALID_REQUEST),
        (6, SHARE_KEY, 0, Error.INVALID_REQUEST),
        (6, "bad", 1, Error.INVALID_REQUEST),
        (6, SHARE_KEY, 1, Error.NONE),
    ):
        broker.image.features["share.version"] = level
        answer = broker.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), version)
        assert answer.coordinators[0].error_code == error
