"""ShareFetch and ShareAcknowledge: acquisition, acknowledgement, waiting, sessions, leadership."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.apis.share_member import ShareMember, acquired, errors
from tests.in_process import InProcessBroker, batch, now
from tests.manual_clock import ManualClock
from tests.memory_share_states import MemoryShareStates
from wirekafka.codec.batch import batches
from wirekafka.coordinator.share_state.states import (
    ShareKey,
    StateBatch,
    StateInitialization,
    StateRead,
    StateWrite,
)
from wirekafka.errors import Error, KafkaError

ACCEPT, RELEASE, REJECT, RENEW = [1], [2], [3], [4]


class Shared(InProcessBroker):
    """A broker with one shared topic and stored states in memory."""

    def __init__(self, directory: Path, clock: ManualClock, **settings: str):
        super().__init__(directory, clock, **settings)
        self.states = MemoryShareStates()
        self.broker.share_states = self.states
        self.topic_id = self.create("t")
        self.key = self.topic_id, 0
        self.share("g")

    def share(self, group: str, start_offset: int = 0) -> None:
        key = ShareKey(group, *self.key)
        assert now(self.states.initialize([StateInitialization(key, 1, start_offset)])) == [None]

    def produce(self, count: int, **options: Any) -> None:
        """One batch of records."""
        values = [b"%d" % index for index in range(count)]
        self.partition("t").leading().append_from_client(
            batch(*values, **options), 1, self.clock.now_ms()
        )

    def stored(self, group: str = "g") -> tuple[int, tuple[StateBatch, ...]]:
        """The stored start offset and batches."""
        [state] = now(self.states.read([StateRead(ShareKey(group, *self.key), 0)]))
        assert not isinstance(state, KafkaError)
        return state.start_offset, state.batches


@pytest.fixture
def shared(tmp_path: Path, manual_clock: ManualClock) -> Shared:
    return Shared(tmp_path / "data", manual_clock)


def test_a_batch_is_acquired_and_accepted(shared: Shared) -> None:
    shared.produce(3)
    member = ShareMember(shared)
    response = member.fetch({shared.key: []})
    assert acquired(response) == [(0, 2, 1)]
    assert response.acquisition_lock_timeout_ms == 30_000
    [partition] = response.responses[0].partitions
    assert [header.count for _, header in batches(bytes(partition.records))] == [3]
    accepted = member.acknowledge({shared.key: [(0, 2, ACCEPT)]})
    assert accepted.responses[0].partitions[0].error_code == Error.NONE
    assert shared.stored() == (0, (StateBatch(0, 2, 2, 1),))
    shared.produce(1)
    assert acquired(member.fetch()) == [(3, 3, 1)]


def test_members_get_different_records(shared: Shared) -> None:
    one, two = ShareMember(shared, "m1"), ShareMember(shared, "m2")
    shared.produce(2)
    assert acquired(one.fetch({shared.key: []})) == [(0, 1, 1)]
    assert acquired(two.fetch({shared.key: []})) == []
    shared.produce(2)
    assert acquired(two.fetch()) == [(2, 3, 1)]


def test_released_records_are_delivered_again(shared: Shared) -> None:
    shared.produce(4)
    one, two = ShareMember(shared, "m1"), ShareMember(shared, "m2")
    one.fetch({shared.key: []})
    one.acknowledge({shared.key: [(0, 3, [1, 2, 2, 3])]})
    assert acquired(two.fetch({shared.key: []})) == [(1, 2, 2)]


def test_acknowledgements_in_a_fetch_have_results_in_its_response(shared: Shared) -> None:
    shared.produce(2)
    member = ShareMember(shared)
    member.fetch({shared.key: []})
    shared.produce(2)
    response = member.fetch({shared.key: [(0, 1, ACCEPT)]})
    assert acquired(response) == [(2, 3, 1)]
    assert errors(response) == [(0, 0)]
    response = member.fetch({shared.key: [(0, 1, ACCEPT), (2, 3, ACCEPT)]})
    assert errors(response) == [(0, 0)]
    response = member.fetch({shared.key: [(2, 3, ACCEPT)]})
    assert errors(response) == [(0, 0)], "below the start offset"
    response = member.fetch({shared.key: [(9, 9, ACCEPT)]})
    assert errors(response) == [(0, Error.INVALID_RECORD_STATE)]


def test_locks_expire(shared: Shared, manual_clock: ManualClock) -> None:
    shared.produce(2)
    one, two = ShareMember(shared, "m1"), ShareMember(shared, "m2")
    one.fetch({shared.key: []})
    manual_clock.advance(29_999)
    assert acquired(two.fetch({shared.key: []})) == []
    manual_clock.advance(1)
    assert shared.stored() == (0, (StateBatch(0, 1, 0, 1),))
    assert acquired(two.fetch()) == [(0, 1, 2)]
    response = one.acknowledge({shared.key: [(0, 1, ACCEPT)]})
    [partition] = response.responses[0].partitions
    assert partition.error_code == Error.INVALID_RECORD_STATE
    assert partition.error_message == "Member is not the owner of batch record"


def test_a_renewed_lock_expires_later(shared: Shared, manual_clock: ManualClock) -> None:
    shared.produce(1)
    one, two = ShareMember(shared, "m1"), ShareMember(shared, "m2")
    one.fetch({shared.key: []})
    manual_clock.advance(20_000)
    response = one.acknowledge({shared.key: [(0, 0, RENEW)]}, is_renew_ack=True)
    assert response.responses[0].partitions[0].error_code == Error.NONE
    manual_clock.advance(20_000)
    assert acquired(two.fetch({shared.key: []})) == []
    manual_clock.advance(10_000)
    assert acquired(two.fetch()) == [(0, 0, 2)]


def test_a_record_is_delivered_five_times(shared: Shared, manual_clock: ManualClock) -> None:
    shared.produce(1)
    member = ShareMember(shared)
    member.fetch({shared.key: []})
    for count in range(2, 6):
        response = member.fetch({shared.key: [(0, 0, RELEASE)]})
        assert acquired(response) == [(0, 0, count)]
    shared.produce(1)
    response = member.fetch({shared.key: [(0, 0, RELEASE)]})
    assert acquired(response) == [(1, 1, 1)]
    member.acknowledge({shared.key: [(1, 1, ACCEPT)]})
    assert shared.stored()[0] == 1


def test_a_fetch_waits_for_records(shared: Shared, manual_clock: ManualClock) -> None:
    async def scenario() -> None:
        one, two = ShareMember(shared, "m1"), ShareMember(shared, "m2")
        first = one.begin({shared.key: []}, max_wait_ms=1000)
        second = two.begin({shared.key: []}, max_wait_ms=1000)
        await first.settled()
        assert not first.is_done and not second.is_done
        shared.produce(2)
        await first.settled()
        assert first.is_done and not second.is_done, "one append serves one of them"
        assert acquired(first.response) == [(0, 1, 1)]
        one.fetch({shared.key: [(0, 1, RELEASE)]}, max_records=0)
        await second.settled()
        assert acquired(second.response) == [(0, 1, 2)]

    asyncio.run(scenario())


def test_a_wait_ends_without_records(shared: Shared, manual_clock: ManualClock) -> None:
    async def scenario() -> None:
        member = ShareMember(shared)
        waiting = member.begin({shared.key: []}, max_wait_ms=1000)
        await waiting.settled()
        manual_clock.advance(1000)
        await waiting.settled()
        assert errors(waiting.response) == [(0, 0)]
        assert acquired(waiting.response) == []

    asyncio.run(scenario())


def test_an_abandoned_wait_lets_others_acquire(shared: Shared) -> None:
    async def scenario() -> None:
        one, two = ShareMember(shared, "m1"), ShareMember(shared, "m2")
        first = one.begin({shared.key: []}, max_wait_ms=1000)
        second = two.begin({shared.key: []}, max_wait_ms=1000)
        await first.settled()
        shared.produce(2)
        first.abandon()
        await second.settled()
        assert acquired(second.response) == [(0, 1, 1)]

    asyncio.run(scenario())


def test_a_disconnect_releases_records(shared: Shared) -> None:
    shared.produce(2)
    one, two = ShareMember(shared, "m1"), ShareMember(shared, "m2")
    assert acquired(two.fetch({shared.key: []}, max_records=1)) == [(0, 1, 1)]
    two.epoch = 0
    opened = one.begin({shared.key: []})
    shared.produce(2)
    assert acquired(one.fetch()) == [(2, 3, 1)]
    opened.abandon()
    assert acquired(two.fetch({shared.key: []})) == [(2, 3, 2)]


def test_closing_a_session_releases_records(shared: Shared) -> None:
    shared.produce(2)
    one, two = ShareMember(shared, "m1"), ShareMember(shared, "m2")
    one.fetch({shared.key: []})
    response = one.fetch({shared.key: [(0, 0, ACCEPT)]}, share_session_epoch=-1)
    assert errors(response) == [(0, 0)]
    assert acquired(two.fetch({shared.key: []})) == [(1, 1, 2)]
    assert one.fetch(share_session_epoch=5).error_code == Error.SHARE_SESSION_NOT_FOUND


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"group_id": None}, Error.INVALID_REQUEST),
        ({"member_id": ""}, Error.INVALID_REQUEST),
        ({"member_id": "x" * 37}, Error.INVALID_REQUEST),
        ({"share_session_epoch": 1}, Error.SHARE_SESSION_NOT_FOUND),
        ({"share_session_epoch": -1}, Error.SHARE_SESSION_NOT_FOUND),
        ({"is_renew_ack": True}, Error.INVALID_REQUEST),
    ],
)
def test_invalid_requests(shared: Shared, options: dict[str, Any], error: Error) -> None:
    response = ShareMember(shared).fetch({shared.key: []}, **options)
    assert (response.error_code, response.error_message, response.responses) == (error, None, [])


def test_unknown_partitions_and_invalid_acknowledgements(shared: Shared) -> None:
    member = ShareMember(shared)
    unknown = bytes(15) + b"x", 0
    response = member.fetch({unknown: [], (shared.topic_id, 9): []})
    assert errors(response) == [(Error.UNKNOWN_TOPIC_ID, 0), (Error.UNKNOWN_TOPIC_OR_PARTITION, 0)]
    response = member.fetch({shared.key: [(1, 0, ACCEPT)]})
    assert (0, Error.INVALID_REQUEST) in errors(response)
    response = member.fetch({shared.key: [(0, 0, RENEW)]})
    assert (0, Error.INVALID_REQUEST) in errors(response)
    response = member.fetch({shared.key: [(0, 2, [1, 1])]})
    assert (0, Error.INVALID_REQUEST) in errors(response)


def test_a_refused_write_leaves_records_acquired(shared: Shared) -> None:
    shared.produce(2)
    member = ShareMember(shared)
    member.fetch({shared.key: []})
    shared.states.failures.append(KafkaError(Error.NOT_COORDINATOR))
    response = member.acknowledge({shared.key: [(0, 1, ACCEPT)]})
    [partition] = response.responses[0].partitions
    assert partition.error_code == Error.COORDINATOR_NOT_AVAILABLE
    response = member.acknowledge({shared.key: [(0, 1, ACCEPT)]})
    assert response.responses[0].partitions[0].error_code == Error.NONE


def test_a_fenced_leader_loads_the_state_again(shared: Shared) -> None:
    shared.produce(2)
    member = ShareMember(shared)
    member.fetch({shared.key: []})
    shared.states.failures.append(KafkaError(Error.FENCED_STATE_EPOCH))
    response = member.acknowledge({shared.key: [(0, 1, ACCEPT)]})
    [partition] = response.responses[0].partitions
    assert partition.error_code == Error.NOT_LEADER_OR_FOLLOWER
    assert partition.current_leader.leader_id == shared.broker.node_id
    assert [node.node_id for node in response.node_endpoints] == [shared.broker.node_id]
    assert acquired(member.fetch()) == [(0, 1, 1)]


@pytest.mark.parametrize("sees_other_leader", [True, False], ids=["seen", "not seen"])
def test_a_leader_that_leads_again_loads_what_another_stored(
    shared: Shared, sees_other_leader: bool
) -> None:
    shared.produce(2)
    one, two = ShareMember(shared, "m1"), ShareMember(shared, "m2")
    assert acquired(one.fetch({shared.key: []})) == [(0, 1, 1)]
    elsewhere = replace(shared.partition("t").leadership, leader_id=2, leader_epoch=1)
    if sees_other_leader:
        shared.partition("t").follow(elsewhere)
    accepted = StateWrite(ShareKey("g", *shared.key), 1, 1, 0, 1, (StateBatch(0, 0, 2, 1),))
    assert now(shared.states.write([accepted])) == [None]
    shared.partition("t").lead(replace(elsewhere, leader_id=1, leader_epoch=2))
    assert acquired(two.fetch({shared.key: []})) == [(1, 1, 1)]


def test_a_leader_in_a_next_epoch_keeps_what_is_acquired(shared: Shared) -> None:
    shared.produce(2)
    member = ShareMember(shared)
    member.fetch({shared.key: []})
    partition = shared.partition("t")
    for leader_epoch in (1, 2):
        partition.lead(replace(partition.leadership, leader_epoch=leader_epoch))
    response = member.acknowledge({shared.key: [(0, 1, ACCEPT)]})
    assert response.responses[0].partitions[0].error_code == Error.NONE


def test_the_session_limit(tmp_path: Path, manual_clock: ManualClock) -> None:
    shared = Shared(tmp_path / "data", manual_clock, group_share_max_share_sessions="1")
    ShareMember(shared, "m1").fetch({shared.key: []})

    async def scenario() -> None:
        refused = ShareMember(shared, "m2").begin({shared.key: []}, max_wait_ms=500)
        await refused.settled()
        assert not refused.is_done
        manual_clock.advance(500)
        await refused.settled()
        assert refused.response.error_code == Error.SHARE_SESSION_LIMIT_REACHED

    asyncio.run(scenario())


def test_a_member_above_its_quota_is_throttled_and_locks_nothing(shared: Shared) -> None:
    for _ in range(4):
        shared.produce(1)
    one, two = ShareMember(shared), ShareMember(shared, "m2")
    quotas = shared.broker.stored_quotas
    quotas.change((("client-id", "test"),), "consumer_byte_rate", 20)
    shared.broker.quotas = quotas
    first = one.begin({shared.key: []}, max_records=1)
    size_bytes = 4 + len(first.response.encode(2))
    assert acquired(first.response) == [(0, 0, 1)] and first.response.throttle_time_ms == 0
    # The rate is that of ten seconds: 200 bytes.
    assert size_bytes < 200 < 2 * size_bytes
    second = two.begin({shared.key: []}, max_records=1)
    assert acquired(second.response) == [(1, 1, 1)]
    throttle_ms = second.response.throttle_time_ms
    assert throttle_ms == (2 * size_bytes - 200) * 50
    third = ShareMember(shared, "m3").begin({shared.key: []}, max_records=1)
    assert acquired(third.response) == [] and third.response.throttle_time_ms > throttle_ms
    shared.clock.advance(11_000)
    assert acquired(ShareMember(shared, "m4").fetch({shared.key: []}, max_records=1)) == [(2, 2, 1)]
