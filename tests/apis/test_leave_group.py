"""LeaveGroup, every version."""

import pytest

from tests.apis.group_broker import GroupBroker
from tests.apis.group_requests import join_and_sync
from wirekafka.errors import Error
from wirekafka.protocol.leave_group import LeaveGroupRequest

Identity = LeaveGroupRequest.MemberIdentity


def request(member_id: str, **fields: object) -> LeaveGroupRequest:
    given = {"group_id": "g", "member_id": member_id, "members": [Identity(member_id=member_id)]}
    return LeaveGroupRequest(**(given | fields))


@pytest.mark.parametrize("version", range(6))
def test_a_member_leaves(version: int) -> None:
    broker = GroupBroker().ready()
    joined = join_and_sync(broker)
    answer = broker.ask(request(joined.member_id), version)
    assert answer.error_code == Error.NONE
    assert [each.error_code for each in answer.members] == ([] if version < 3 else [0])


@pytest.mark.parametrize("group_id", ["g", "other"])
@pytest.mark.parametrize("version", range(6))
def test_an_unknown_member_is_a_top_level_error_only_before_version_3(
    version: int, group_id: str
) -> None:
    broker = GroupBroker().ready()
    join_and_sync(broker)
    answer = broker.ask(request("stranger", group_id=group_id), version)
    if version < 3:
        assert answer.error_code == Error.UNKNOWN_MEMBER_ID
    else:
        assert answer.error_code == Error.NONE
        assert [
            (each.member_id, each.group_instance_id, each.error_code) for each in answer.members
        ] == [("stranger", None, Error.UNKNOWN_MEMBER_ID)]


@pytest.mark.parametrize("version", range(6))
def test_an_empty_group_id_is_refused(version: int) -> None:
    answer = GroupBroker().ready().ask(request("m", group_id=""), version)
    assert (answer.error_code, answer.members) == (Error.INVALID_GROUP_ID, [])


def test_static_members_are_removed_by_instance_id() -> None:
    broker = GroupBroker().ready()
    join_and_sync(broker, instance_id="i")
    answer = broker.ask(
        LeaveGroupRequest(
            group_id="g",
            members=[
                Identity(member_id="", group_instance_id="i"),
                Identity(member_id="", group_instance_id="nobody"),
            ],
        ),
        5,
    )
    assert [(each.group_instance_id, each.error_code) for each in answer.members] == [
        ("i", Error.NONE),
        ("nobody", Error.UNKNOWN_MEMBER_ID),
    ]


@pytest.mark.parametrize("group_id", ["g", "other"])
def test_an_empty_list_of_members_succeeds(group_id: str) -> None:
    broker = GroupBroker().ready()
    join_and_sync(broker)
    answer = broker.ask(LeaveGroupRequest(group_id=group_id, members=[]), 5)
    assert (answer.error_code, answer.members) == (Error.NONE, [])
