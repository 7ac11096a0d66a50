"""JoinGroup, every version. Rebalances are tested by tests/transcripts."""

import asyncio

import pytest

from tests.apis.group_broker import GroupBroker
from tests.apis.group_requests import join_and_sync, join_request, refusal
from wirekafka.errors import Error
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.join_group import JoinGroupRequest

VERSIONS = range(10)


async def join_live(broker: GroupBroker, request: JoinGroupRequest, version: int):
    exchange = await broker.begin(request, version, "client").settled()
    broker.clock.advance(1)
    return (await exchange.settled()).response


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_02_versions_0_and_1_are_served_and_join_at_once(version: int) -> None:
    joined = asyncio.run(join_live(GroupBroker().ready(), join_request(), version))
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.member_id == joined.leader == joined.members[0].member_id
    assert joined.member_id.startswith("client-")
    assert len(joined.member_id) == len("client-") + 36


def test_a_member_that_sends_a_protocol_twice_supports_it_once() -> None:
    request = join_request()
    request.protocols = [*request.protocols, *request.protocols]
    joined = asyncio.run(join_live(GroupBroker().ready(), request, 3))
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")


def test_rebalance_timeout_of_version_0_is_the_session_timeout() -> None:
    broker = GroupBroker().ready()
    asyncio.run(join_live(broker, join_request(), 0))
    group = broker.groups.shard_for("g").machine.groups["g"]
    assert [m.rebalance_timeout_ms for m in group.members.values()] == [10_000]


@pytest.mark.parametrize("version", [4, 5, 6, 7, 8, 9])
def test_39_dynamic_members_get_a_member_id_to_rejoin_with(version: int) -> None:
    broker = GroupBroker().ready()
    answer = broker.ask(join_request(), version)
    assert answer.error_code == Error.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("client-")
    assert answer.generation_id == -1
    assert answer.protocol_name == ("" if version < 7 else None)


@pytest.mark.parametrize("version", [5, 9])
def test_39_static_members_join_without_a_second_request(version: int) -> None:
    request = join_request(group_instance_id="i")
    answer = asyncio.run(join_live(GroupBroker().ready(), request, version))
    assert answer.error_code == Error.NONE
    assert answer.member_id.startswith("i-")
    assert [m.group_instance_id for m in answer.members] == ["i"]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_group_id_is_refused(version: int) -> None:
    answer = GroupBroker().ready().ask(join_request(group_id="", member_id="q"), version)
    assert refusal(answer) == (Error.INVALID_GROUP_ID, "q")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001])
def test_a_session_timeout_out_of_bounds_is_refused(version: int, timeout_ms: int) -> None:
    answer = (
        GroupBroker()
        .ready()
        .ask(join_request(session_timeout_ms=timeout_ms, member_id="q"), version)
    )
    assert refusal(answer) == (Error.INVALID_SESSION_TIMEOUT, "q")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_of_no_group_is_unknown(version: int) -> None:
    answer = GroupBroker().ready().ask(join_request(member_id="q"), version)
    assert refusal(answer) == (Error.UNKNOWN_MEMBER_ID, "q")


@pytest.mark.parametrize("version", VERSIONS)
def test_no_protocols_are_inconsistent(version: int) -> None:
    answer = GroupBroker().ready().ask(join_request(protocols=[]), version)
    assert refusal(answer) == (Error.INCONSISTENT_GROUP_PROTOCOL, "")
    assert answer.protocol_name == ("" if version < 7 else None)


def test_38_not_coordinator_before_the_offsets_topic_exists() -> None:
    answer = GroupBroker().ask(join_request(member_id="q"), 9)
    assert refusal(answer) == (Error.NOT_COORDINATOR, "")


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"protocol_type": "connect"}, Error.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": []}, Error.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_instance_id": "i"}, Error.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_group_of_the_consumer_protocol_refuses_without_a_member_id(wrong, error) -> None:
    broker = GroupBroker().ready()
    member = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m" * 22,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert broker.ask(member, 1).error_code == Error.NONE
    answer = broker.ask(join_request(member_id="q", **wrong), 9)
    assert refusal(answer) == (error, "")


def test_41_a_restarted_static_leader_skips_the_assignment() -> None:
    broker = GroupBroker().ready()
    old = join_and_sync(broker, instance_id="i")
    answer = broker.ask(join_request(group_instance_id="i"), 9)
    assert (answer.error_code, answer.skip_assignment) == (Error.NONE, True)
    assert answer.leader == answer.member_id != old.member_id
    assert [each.member_id for each in answer.members] == [answer.member_id]
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


def test_before_version_9_another_member_is_named_as_leader() -> None:
    broker = GroupBroker().ready()
    old = join_and_sync(broker, instance_id="i")
    answer = broker.ask(join_request(group_instance_id="i"), 8)
    assert (answer.leader, answer.members) == (old.member_id, [])


def test_42_the_old_id_of_a_static_member_is_fenced() -> None:
    broker = GroupBroker().ready()
    old = join_and_sync(broker, instance_id="i")
    broker.ask(join_request(group_instance_id="i"), 9)
    answer = broker.ask(join_request(group_instance_id="i", member_id=old.member_id), 9)
    assert refusal(answer) == (Error.FENCED_INSTANCE_ID, old.member_id)
