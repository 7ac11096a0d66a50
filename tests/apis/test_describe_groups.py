"""DescribeGroups, every version."""

import pytest

from tests.apis.group_broker import GroupBroker
from tests.apis.group_requests import SUBSCRIBED_TO_T, commit_request, join, join_and_sync
from wirekafka.errors import Error
from wirekafka.protocol.describe_groups import DescribeGroupsRequest

VERSIONS = range(7)
UNSET = -(1 << 31)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stable_group_has_protocol_and_members(version: int) -> None:
    broker = GroupBroker().ready()
    joined = join_and_sync(broker, instance_id="i")
    (group,) = broker.ask(DescribeGroupsRequest(groups=["g"]), version).groups
    assert (group.error_code, group.group_state) == (Error.NONE, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (
        joined.member_id,
        "client",
        "/127.0.0.1",
    )
    assert (member.member_metadata, member.member_assignment) == (SUBSCRIBED_TO_T, b"part")
    assert member.group_instance_id == ("i" if version >= 4 else None)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_rebalancing_group_has_no_protocol(version: int) -> None:
    broker = GroupBroker().ready()
    join(broker)
    (group,) = broker.ask(DescribeGroupsRequest(groups=["g"]), version).groups
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "CompletingRebalance",
        "consumer",
        "",
    )
    (member,) = group.members
    assert (member.member_metadata, member.member_assignment) == (b"", b"")


@pytest.mark.parametrize("version", VERSIONS)
def test_46_an_unknown_group_is_dead_and_an_error_from_version_6(version: int) -> None:
    (group,) = GroupBroker().ready().ask(DescribeGroupsRequest(groups=["nope"]), version).groups
    assert (group.group_state, group.members) == ("Dead", [])
    if version < 6:
        assert group.error_code == Error.NONE
    else:
        assert group.error_code == Error.GROUP_ID_NOT_FOUND
        assert group.error_message == "Group nope not found."


@pytest.mark.parametrize("version", range(3, 7))
def test_authorized_operations_are_reported_if_requested(version: int) -> None:
    broker = GroupBroker().ready()
    broker.ask(commit_request(("t", 0, 5)), 9)
    asked = broker.ask(
        DescribeGroupsRequest(groups=["g", "nope"], include_authorized_operations=True), version
    )
    assert [group.authorized_operations for group in asked.groups] == [
        3400,
        3400 if version < 6 else UNSET,
    ]
    (group,) = broker.ask(DescribeGroupsRequest(groups=["g"]), version).groups
    assert (group.group_state, group.authorized_operations) == ("Empty", UNSET)


def test_38_each_group_has_an_error_of_its_own() -> None:
    broker = GroupBroker().ready()
    broker.groups.resign(broker.groups.partition_for("g"))
    groups = broker.ask(DescribeGroupsRequest(groups=["g", "h"]), 5).groups
    errors = {group.group_id: group.error_code for group in groups}
    assert errors == {"g": Error.NOT_COORDINATOR, "h": Error.NONE}
