"""SyncGroup, every version."""

import pytest

from tests.apis.group_broker import GroupBroker
from tests.apis.group_requests import join_and_sync
from wirekafka.errors import Error
from wirekafka.protocol.sync_group import SyncGroupRequest


def request(**fields: object) -> SyncGroupRequest:
    given = {
        "group_id": "g",
        "generation_id": 1,
        "member_id": "q",
        "protocol_type": "consumer",
        "protocol_name": "range",
    }
    return SyncGroupRequest(**(given | fields))


@pytest.mark.parametrize("version", range(6))
def test_a_member_of_a_stable_group_gets_its_assignment_again(version: int) -> None:
    broker = GroupBroker().ready()
    joined = join_and_sync(broker)
    answer = broker.ask(request(member_id=joined.member_id), version)
    assert (answer.error_code, answer.assignment) == (Error.NONE, b"part")
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize("version", range(6))
def test_errors_come_with_an_empty_assignment(version: int) -> None:
    broker = GroupBroker().ready()
    joined = join_and_sync(broker)
    for fields, error in (
        ({"group_id": ""}, Error.INVALID_GROUP_ID),
        ({"group_id": "other"}, Error.UNKNOWN_MEMBER_ID),
        ({}, Error.UNKNOWN_MEMBER_ID),
        ({"member_id": joined.member_id, "generation_id": 2}, Error.ILLEGAL_GENERATION),
    ):
        answer = broker.ask(request(**fields), version)
        assert (answer.error_code, answer.assignment) == (error, b"")
        assert (answer.protocol_type, answer.protocol_name) == (None, None)


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_version_5_needs_type_and_name_before_anything_else(missing: str) -> None:
    answer = GroupBroker().ready().ask(request(group_id="", **{missing: None}), 5)
    assert answer.error_code == Error.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("field", ["protocol_type", "protocol_name"])
def test_another_protocol_is_inconsistent(field: str) -> None:
    broker = GroupBroker().ready()
    joined = join_and_sync(broker)
    answer = broker.ask(request(member_id=joined.member_id, **{field: "other"}), 5)
    assert answer.error_code == Error.INCONSISTENT_GROUP_PROTOCOL
