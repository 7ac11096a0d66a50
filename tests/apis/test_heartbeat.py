"""Heartbeat, every version."""

import pytest

from tests.apis.group_broker import GroupBroker
from tests.apis.group_requests import join, join_and_sync, join_request
from wirekafka.errors import Error
from wirekafka.protocol.heartbeat import HeartbeatRequest

VERSIONS = range(5)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_heartbeat_writes_nothing_and_keeps_the_member(version: int) -> None:
    broker = GroupBroker().ready()
    joined = join_and_sync(broker)
    log = broker.partition("__consumer_offsets", broker.groups.partition_for("g"))
    written = log.end_offset
    for _ in range(5):
        broker.clock.advance(9_000)
        answer = broker.ask(
            HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id), version
        )
        assert answer.error_code == Error.NONE
    assert log.end_offset == written


@pytest.mark.parametrize("version", VERSIONS)
def test_errors(version: int) -> None:
    broker = GroupBroker().ready()
    joined = join_and_sync(broker)
    for fields, error in (
        ({"group_id": ""}, Error.INVALID_GROUP_ID),
        ({"group_id": "other"}, Error.UNKNOWN_MEMBER_ID),
        ({"member_id": "stranger"}, Error.UNKNOWN_MEMBER_ID),
        ({"generation_id": 0}, Error.ILLEGAL_GENERATION),
    ):
        given = {"group_id": "g", "generation_id": 1, "member_id": joined.member_id} | fields
        assert broker.ask(HeartbeatRequest(**given), version).error_code == error


def test_a_rebalance_is_reported_and_waiting_for_the_assignment_is_not() -> None:
    broker = GroupBroker().ready()
    joined = join(broker, instance_id="i")
    request = HeartbeatRequest(
        group_id="g", generation_id=1, member_id=joined.member_id, group_instance_id="i"
    )
    assert broker.ask(request, 4).error_code == Error.NONE
    broker.ask(join_request(), 9)
    assert broker.ask(request, 4).error_code == Error.NONE
    broker.groups.shard_for("g").machine.groups["g"].pending_joins.clear()


def test_38_a_group_that_is_still_loading_gets_no_error() -> None:
    broker = GroupBroker().ready()
    runtime = broker.groups.shard_for("g")
    runtime._machine = None
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert broker.ask(request, 4).error_code == Error.NONE
    broker.groups.resign(broker.groups.partition_for("g"))
    assert broker.ask(request, 4).error_code == Error.NOT_COORDINATOR
