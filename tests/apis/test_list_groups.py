"""ListGroups, every version."""

import pytest

from tests.apis.group_broker import GroupBroker
from tests.apis.group_requests import commit_request, join_and_sync
from wirekafka.errors import Error
from wirekafka.protocol.list_groups import ListGroupsRequest


def ready() -> GroupBroker:
    broker = GroupBroker().ready()
    join_and_sync(broker, "stable")
    for group_id in ("simple", "other"):
        broker.ask(commit_request(("t", 0, 5), group_id=group_id), 9)
    return broker


@pytest.mark.parametrize("version", range(6))
def test_groups_of_all_shards_are_listed(version: int) -> None:
    answer = ready().ask(ListGroupsRequest(), version)
    assert answer.error_code == Error.NONE
    assert sorted((each.group_id, each.protocol_type) for each in answer.groups) == [
        ("other", ""),
        ("simple", ""),
        ("stable", "consumer"),
    ]
    states = {each.group_id: (each.group_state, each.group_type) for each in answer.groups}
    assert states["stable"] == ("Stable" if version >= 4 else "", "classic" if version >= 5 else "")


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        (["Empty"], [], ["other", "simple"]),
        (["STABLE", "dead"], [], ["stable"]),
        ([" stable "], [], ["stable"]),
        (["bogus"], [], []),
        ([], ["Classic"], ["other", "simple", "stable"]),
        ([], ["consumer"], []),
        ([], ["bogus"], []),
    ],
)
def test_filters_ignore_case(states: list[str], types: list[str], found: list[str]) -> None:
    answer = ready().ask(ListGroupsRequest(states_filter=states, types_filter=types), 5)
    assert sorted(each.group_id for each in answer.groups) == found


def test_38_a_listing_waits_for_every_shard_to_load() -> None:
    broker = ready()
    broker.groups.shard_for("stable")._machine = None
    assert broker.ask(ListGroupsRequest(), 5).error_code == Error.COORDINATOR_LOAD_IN_PROGRESS
