"""DeleteGroups, every version."""

import pytest

from tests.apis.group_broker import GroupBroker
from tests.apis.group_requests import commit_request, join_and_sync
from wirekafka.errors import Error
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.list_groups import ListGroupsRequest


@pytest.mark.parametrize("version", range(4))
def test_each_group_has_its_own_error(version: int) -> None:
    broker = GroupBroker().ready()
    join_and_sync(broker, "stable")
    for group_id in ("empty", ""):
        broker.ask(commit_request(("t", 0, 5), group_id=group_id), 9)
    answer = broker.ask(
        DeleteGroupsRequest(groups_names=["empty", "stable", "nope", "", "empty"]), version
    )
    assert {each.group_id: each.error_code for each in answer.results} == {
        "empty": Error.NONE,
        "": Error.NONE,
        "stable": Error.NON_EMPTY_GROUP,
        "nope": Error.GROUP_ID_NOT_FOUND,
    }
    assert len(answer.results) == 4
    assert {each.error_message for each in answer.results} == {None}
    listed = broker.ask(ListGroupsRequest(), 5)
    assert [each.group_id for each in listed.groups] == ["stable"]


def test_38_a_group_of_another_coordinator_is_not_coordinator() -> None:
    answer = GroupBroker().ask(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert [each.error_code for each in answer.results] == [Error.NOT_COORDINATOR]
