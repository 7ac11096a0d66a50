"""The empty group id is refused as such by every broker, not only by its coordinator."""

import pytest

from tests.apis.group_broker import GroupBroker
from tests.apis.group_requests import join_request
from wirekafka.codec.message import Request
from wirekafka.errors import Error
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.leave_group import LeaveGroupRequest
from wirekafka.protocol.offset_delete import OffsetDeleteRequest
from wirekafka.protocol.sync_group import SyncGroupRequest

_MEMBER = {"member_id": "m", "generation_id": 1}
_LEAVING = LeaveGroupRequest.MemberIdentity(member_id="m")


def requests(group_id: str) -> list[Request]:
    return [
        join_request(group_id=group_id, member_id="m"),
        SyncGroupRequest(
            group_id=group_id, protocol_type="consumer", protocol_name="range", **_MEMBER
        ),
        HeartbeatRequest(group_id=group_id, **_MEMBER),
        LeaveGroupRequest(group_id=group_id, members=[_LEAVING]),
        OffsetDeleteRequest(group_id=group_id, topics=[]),
    ]


@pytest.mark.parametrize("index", range(5))
def test_the_empty_group_id_is_refused_by_brokers_that_coordinate_no_group(index: int) -> None:
    broker = GroupBroker()
    for group_id, error in (("g", Error.NOT_COORDINATOR), ("", Error.INVALID_GROUP_ID)):
        request = requests(group_id)[index]
        answer = broker.ask(request, type(request).versions.last)
        assert answer.error_code == error


def test_the_refusal_of_a_join_has_the_id_of_the_member() -> None:
    answer = GroupBroker().ask(join_request(group_id="", member_id="m"), 9)
    assert (answer.error_code, answer.member_id) == (Error.INVALID_GROUP_ID, "m")
