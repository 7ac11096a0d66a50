"""A broker's requests to controllers on other nodes: search, retries and contents."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from tests.server.other_node import VERSIONS, Asked, OtherNode
from wirekafka.codec.frame import RequestHeader
from wirekafka.config.address import Address
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.channel import Beat, Registration
from wirekafka.metadata.controller.producer_ids import Block
from wirekafka.metadata.controller.topics import NewTopic
from wirekafka.protocol.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from wirekafka.protocol.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from wirekafka.protocol.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from wirekafka.protocol.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from wirekafka.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from wirekafka.protocol.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from wirekafka.protocol.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from wirekafka.protocol.envelope import DefaultPrincipalData, EnvelopeRequest, EnvelopeResponse
from wirekafka.replication.partition.remote_replica import DecidedIsr, IsrChange, IsrMember
from wirekafka.replication.raft.metadata_log import sync_inline
from wirekafka.server.clock import LoopClock
from wirekafka.server.controllers import remote_channel
from wirekafka.server.controllers.controller_search import ControllerSearch, FoundController, Quorum
from wirekafka.server.controllers.remote_channel import BACKOFF, ControllerRoute, RemoteChannel
from wirekafka.server.net import SocketNet
from wirekafka.server.peers.peer import Peer, PeerOptions

_CONFIG = BrokerConfig.of({"node.id": "1", "process.roles": "broker"})


class Feed:
    """The broker's metadata, of which each offset is reached when the test says so."""

    def __init__(self) -> None:
        self.position = 1 << 60
        self.awaited: list[int] = []
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def reached(self, offset: int) -> None:
        self.awaited.append(offset)
        await self.goes_on.wait()


@dataclass
class Stage:
    """Controllers 3000, 3001, ..., and a broker's channel to them."""

    controllers: list[OtherNode]
    search: ControllerSearch
    channel: RemoteChannel
    feed: Feed = field(default_factory=Feed)

    def lead(self, leader: int | None) -> None:
        """Let all controllers report the one with this index as active, which serves requests."""
        brokers = [
            DescribeClusterResponse.Broker(broker_id=3000 + index, host=host, port=port)
            for index, (host, port) in enumerate(each.address for each in self.controllers)
        ]
        for index, each in enumerate(self.controllers):
            each.answers[DescribeClusterRequest] = DescribeClusterResponse(
                endpoint_type=2,
                cluster_id="the cluster",
                controller_id=-1 if leader is None else 3000 + leader,
                brokers=brokers,
            )
            error = Error.NONE if index == leader else Error.NOT_CONTROLLER
            each.answers[BrokerHeartbeatRequest] = BrokerHeartbeatResponse(
                error_code=error, is_fenced=False
            )
            each.answers[AllocateProducerIdsRequest] = AllocateProducerIdsResponse(
                error_code=error, producer_id_start=5000, producer_id_len=1000
            )
            each.answers[DescribeQuorumRequest] = _quorum_at(77)

    def controller(self, index: int) -> FoundController:
        return FoundController(3000 + index, *self.controllers[index].address)


def _quorum_at(high_watermark: int) -> DescribeQuorumResponse:
    kind = DescribeQuorumResponse.TopicData
    partition = kind.PartitionData(high_watermark=high_watermark, leader_id=3000)
    return DescribeQuorumResponse(
        topics=[kind(topic_name="__cluster_metadata", partitions=[partition])]
    )


def on_stage(count: int, scenario: Callable[[Stage], Awaitable[None]]) -> None:
    """Run a scenario with some controllers, of which the first is active."""

    async def run() -> None:
        async with asyncio.timeout(60), AsyncExitStack() as stack:
            nodes = [await stack.enter_async_context(OtherNode().listening()) for _ in range(count)]
            clock = LoopClock(asyncio.get_running_loop())

            def connect(host: str, port: int) -> Peer:
                return Peer(SocketNet(), clock, PeerOptions(host, port, "1"))

            quorum = Quorum(voters={}, bootstrap=[Address(*each.address) for each in nodes])
            search, feed = ControllerSearch(quorum, connect), Feed()
            route = ControllerRoute(
                search=search, connect=connect, clock=clock, config=lambda: _CONFIG, feed=feed
            )
            stage = Stage(nodes, search, RemoteChannel(route), feed)
            stage.lead(0)
            try:
                await scenario(stage)
            finally:
                stage.channel.close()
                search.close()

    asyncio.run(run())


def beat(stage: Stage) -> Awaitable[Any]:
    return stage.channel.heartbeat(Beat(broker_id=1, broker_epoch=9, metadata_offset=4))


async def failure(asked: Awaitable[Any]) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        await asked
    return caught.value


def kinds(node: OtherNode) -> list[str]:
    return [type(asked.request).__name__ for asked in node.history]


# The search for the active controller.


def test_active_controller_is_found_by_asking_any_controller() -> None:
    async def scenario(stage: Stage) -> None:
        stage.lead(2)
        assert await stage.search.find() == stage.controller(2)
        assert stage.search.cluster_id == "the cluster"

    on_stage(3, scenario)


def test_controllers_that_do_not_respond_are_skipped() -> None:
    async def scenario(stage: Stage) -> None:
        stage.lead(1)
        for each in (stage.controllers[0], stage.controllers[2]):
            each.answers[DescribeClusterRequest] = partial(_hang_up, each)
        assert await stage.search.find() == stage.controller(1)

    on_stage(3, scenario)


def _hang_up(node: OtherNode, asked: Asked) -> None:
    node.hang_up()


def test_search_fails_while_no_controller_is_active_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(stage: Stage) -> None:
        stage.lead(None)
        for _ in range(3):
            assert (await failure(stage.search.find())).error is Error.NETWORK_EXCEPTION
        [logged] = caplog.records
        assert "No active controller is known, retrying" in logged.message
        stage.lead(1)
        await stage.search.find()
        assert caplog.records[-1].message == f"The active controller is {stage.controller(1)}"

    on_stage(2, scenario)


def test_concurrent_searches_are_combined() -> None:
    async def scenario(stage: Stage) -> None:
        found = await asyncio.gather(*(stage.search.find() for _ in range(4)))
        assert set(found) == {stage.controller(0)}
        assert sum(len(kinds(each)) for each in stage.controllers) == 1

    on_stage(2, scenario)


def test_learned_leader_ends_a_search() -> None:
    async def scenario(stage: Stage) -> None:
        for each in stage.controllers:
            each.answers[DescribeClusterRequest] = lambda asked: None
        searching = asyncio.create_task(_found(stage.search))
        while not any(each.history for each in stage.controllers):
            await asyncio.sleep(0)
        stage.search.learned(stage.controller(1), 5)
        assert await searching == stage.controller(1)

    on_stage(2, scenario)


async def _found(search: ControllerSearch) -> FoundController:
    return await search.find()


def test_closed_search_fails_at_once_and_contacts_nobody() -> None:
    async def scenario(stage: Stage) -> None:
        stage.controllers[0].answers[DescribeClusterRequest] = lambda asked: None
        searching = asyncio.create_task(_found(stage.search))
        while not stage.controllers[0].history:
            await asyncio.sleep(0)
        stage.search.close()
        for each in (searching, stage.search.find()):
            assert (await failure(each)).error is Error.NETWORK_EXCEPTION
        assert len(stage.controllers[0].history) == 1

    on_stage(1, scenario)


def test_leader_of_an_older_epoch_is_ignored() -> None:
    async def scenario(stage: Stage) -> None:
        stage.search.learned(stage.controller(1), 5)
        stage.search.learned(stage.controller(0), 4)
        assert stage.search.active == stage.controller(1)
        stage.search.learned(stage.controller(0), 6)
        assert stage.search.active == stage.controller(0)

    on_stage(2, scenario)


def test_unregistered_leader_is_found_at_its_voters_address() -> None:
    async def scenario(stage: Stage) -> None:
        stage.controllers[0].answers[DescribeClusterRequest] = DescribeClusterResponse(
            endpoint_type=2, cluster_id="the cluster", controller_id=3000
        )
        host, port = stage.controllers[0].address
        quorum = Quorum(voters={3000: Address(host, port)}, bootstrap=())
        search = ControllerSearch(quorum, stage.search._connect)
        assert await search.find() == stage.controller(0)

    on_stage(1, scenario)


# Requests.


@pytest.mark.parametrize("previous_epoch", [41, -1], ids=["clean", "unclean"])
def test_registration_says_whether_the_last_stop_was_clean(previous_epoch: int) -> None:
    """KAFKA-18635: after an unclean stop, the controllers take the broker out of the ISRs."""

    async def scenario(stage: Stage) -> None:
        stage.controllers[0].answers[BrokerRegistrationRequest] = BrokerRegistrationResponse(
            broker_epoch=50
        )
        stage.lead(0)
        registration = Registration.with_own_features(
            broker_id=1,
            cluster_id="the cluster",
            incarnation_id=bytes(16),
            endpoints=(),
            rack=None,
            log_dirs=[b"d" * 16],
            previous_epoch=previous_epoch,
        )
        assert await stage.channel.register(registration) == 50
        [sent] = [
            asked.request
            for asked in stage.controllers[0].history
            if isinstance(asked.request, BrokerRegistrationRequest)
        ]
        assert sent.previous_broker_epoch == previous_epoch

    on_stage(1, scenario)


def test_request_is_sent_to_the_new_controller_after_not_controller() -> None:
    async def scenario(stage: Stage) -> None:
        stage.search.learned(stage.controller(0), 1)
        stage.lead(1)
        standing = await beat(stage)
        assert not standing.is_fenced
        sent = [asked for node in stage.controllers for asked in node.history]
        beats = [each for each in sent if isinstance(each.request, BrokerHeartbeatRequest)]
        assert [each.client_id for each in beats] == ["1", "1"]
        assert beats[0].request == beats[1].request

    on_stage(2, scenario)


def test_request_to_a_deposed_controller_that_does_not_respond_goes_to_the_new_one() -> None:
    """That one may be cut off from the others: `controller.socket.timeout.ms` is 30 s."""

    async def scenario(stage: Stage) -> None:
        cut_off, other = stage.controllers
        del cut_off.answers[AllocateProducerIdsRequest]
        stage.search.learned(stage.controller(0), 4)
        ids = asyncio.create_task(_ids(stage))
        await cut_off.asked.get()
        stage.lead(1)
        stage.search.learned(stage.controller(1), 5)
        async with asyncio.timeout(10):
            assert await ids == Block(5000, 6000)
        assert "AllocateProducerIdsRequest" in kinds(other)
        # The first is active again, and gets a new connection.
        stage.lead(0)
        stage.search.learned(stage.controller(0), 6)
        assert await _ids(stage) == Block(5000, 6000)

    on_stage(2, scenario)


def test_response_of_a_deposed_controller_is_still_awaited() -> None:
    async def scenario(stage: Stage) -> None:
        deposed, other = stage.controllers
        del deposed.answers[AllocateProducerIdsRequest]
        stage.search.learned(stage.controller(0), 4)
        ids = asyncio.create_task(_ids(stage))
        asked = await deposed.asked.get()
        stage.search.learned(stage.controller(1), 5)
        asked.answer(AllocateProducerIdsResponse(producer_id_start=7000, producer_id_len=10))
        assert await ids == Block(7000, 7010)
        assert "AllocateProducerIdsRequest" not in kinds(other)

    on_stage(2, scenario)


def test_request_is_sent_again_after_the_connection_broke() -> None:
    async def scenario(stage: Stage) -> None:
        active = stage.controllers[0]
        answer = active.answers[AllocateProducerIdsRequest]

        def break_once(asked: Asked) -> None:
            active.answers[AllocateProducerIdsRequest] = answer
            active.hang_up()

        active.answers[AllocateProducerIdsRequest] = break_once
        assert await stage.channel.allocate_producer_ids(1, 9) == Block(5000, 6000)
        assert kinds(active).count("AllocateProducerIdsRequest") == 2

    on_stage(1, scenario)


def test_heartbeats_do_not_wait_behind_other_requests() -> None:
    async def scenario(stage: Stage) -> None:
        active = stage.controllers[0]
        active.answers[AllocateProducerIdsRequest] = lambda asked: None
        slow = asyncio.create_task(_ids(stage))
        while "AllocateProducerIdsRequest" not in kinds(active):
            await asyncio.sleep(0)
        await beat(stage)
        assert not slow.done()
        slow.cancel()

    on_stage(1, scenario)


async def _ids(stage: Stage) -> Block:
    return await stage.channel.allocate_producer_ids(1, 9)


def test_isr_changes_do_not_wait_behind_other_requests() -> None:
    async def scenario(stage: Stage) -> None:
        active = stage.controllers[0]
        active.answers[AllocateProducerIdsRequest] = lambda asked: None
        kind = AlterPartitionResponse.TopicData
        decided = kind.PartitionData(
            partition_index=3, leader_id=1, leader_epoch=7, isr=[1], partition_epoch=6
        )
        active.answers[AlterPartitionRequest] = AlterPartitionResponse(
            topics=[kind(topic_id=b"t" * 16, partitions=[decided])]
        )
        slow = asyncio.create_task(_ids(stage))
        while "AllocateProducerIdsRequest" not in kinds(active):
            await asyncio.sleep(0)
        replica = (b"t" * 16, 3)
        change = IsrChange((IsrMember(1, 9),), leader_epoch=7, partition_epoch=5)
        decisions = await stage.channel.alter_partition(1, 9, {replica: change})
        assert decisions == {replica: DecidedIsr(1, 7, (1,), 0, 6)}
        assert not slow.done()
        slow.cancel()

    on_stage(1, scenario)


def test_heartbeat_without_a_controller_times_out_within_half_a_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = BrokerConfig.of(
        {"node.id": "1", "process.roles": "broker", "broker.session.timeout.ms": "500"}
    )
    monkeypatch.setitem(globals(), "_CONFIG", config)

    async def scenario(stage: Stage) -> None:
        stage.lead(None)
        assert (await failure(beat(stage))).error is Error.REQUEST_TIMED_OUT
        # At 0, 50 and 150 ms, each with a search of its own.
        assert 1 <= len(stage.controllers[0].history) <= 4

    on_stage(1, scenario)


def test_retries_back_off_with_jitter() -> None:
    waits = [[BACKOFF.delay_ms(attempt) for _ in range(50)] for attempt in (0, 1, 2, 3, 4, 5, 1000)]
    for each, middle in zip(waits, (50, 100, 200, 400, 500, 500, 500), strict=True):
        assert all(0.8 * middle <= wait <= 1.2 * middle for wait in each)
        assert len(set(each)) > 25


def test_closed_channel_fails_its_requests() -> None:
    async def scenario(stage: Stage) -> None:
        stage.controllers[0].answers[AllocateProducerIdsRequest] = lambda asked: None
        waiting = asyncio.create_task(_ids(stage))
        while "AllocateProducerIdsRequest" not in kinds(stage.controllers[0]):
            await asyncio.sleep(0)
        stage.channel.close()
        assert (await failure(waiting)).error is Error.REQUEST_TIMED_OUT
        assert (await failure(_ids(stage))).error is Error.REQUEST_TIMED_OUT

    on_stage(1, scenario)


def test_controllers_versions_are_known_once_connected() -> None:
    async def scenario(stage: Stage) -> None:
        assert stage.channel.controller_versions == {}
        await _ids(stage)
        expected = {each.api_key: each.max_version for each in VERSIONS.api_keys}
        found = stage.channel.controller_versions
        assert {key: last for key, (_, last) in found.items()} == expected

    on_stage(1, scenario)


# Topics and forwarding.

_TOPICS = CreateTopicsResponse(
    topics=[
        CreateTopicsResponse.CreatableTopicResult(name="good"),
        CreateTopicsResponse.CreatableTopicResult(
            name="bad", error_code=Error.INVALID_TOPIC_EXCEPTION, error_message="no"
        ),
    ]
)


def test_topics_are_created_once_the_brokers_metadata_has_them() -> None:
    async def scenario(stage: Stage) -> None:
        stage.controllers[0].answers[CreateTopicsRequest] = _TOPICS
        stage.feed.goes_on.clear()
        creating = asyncio.create_task(_create(stage))
        while not stage.feed.awaited:
            await asyncio.sleep(0)
        assert stage.feed.awaited == [77]
        assert not creating.done()
        stage.feed.goes_on.set()
        errors = await creating
        assert errors["good"] is None
        assert errors["bad"] is not None
        assert errors["bad"].error is Error.INVALID_TOPIC_EXCEPTION

    on_stage(1, scenario)


def test_created_topics_are_reported_although_the_high_watermark_stays_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The active controller may be lost after the change; clients wait a minute at most."""
    monkeypatch.setattr(remote_channel, "_FOLLOW_FOR_MS", 100)

    async def scenario(stage: Stage) -> None:
        stage.controllers[0].answers[CreateTopicsRequest] = _TOPICS
        stage.controllers[0].answers[DescribeQuorumRequest] = lambda asked: None
        async with asyncio.timeout(10):
            assert (await _create(stage))["good"] is None
        assert stage.feed.awaited == []

    on_stage(1, scenario)


async def _create(stage: Stage) -> dict[str, KafkaError | None]:
    return await stage.channel.create_topics([NewTopic(name="good"), NewTopic(name="bad")])


def test_not_controller_in_a_topics_result_is_retried() -> None:
    async def scenario(stage: Stage) -> None:
        stage.search.learned(stage.controller(0), 1)
        stage.lead(1)
        stage.controllers[0].answers[CreateTopicsRequest] = CreateTopicsResponse(
            topics=[
                CreateTopicsResponse.CreatableTopicResult(
                    name="good", error_code=Error.NOT_CONTROLLER
                )
            ]
        )
        stage.controllers[1].answers[CreateTopicsRequest] = _TOPICS
        assert (await _create(stage))["good"] is None

    on_stage(2, scenario)


def client(version: int = 7) -> Any:
    """The part of a client's `Call` that forwarding reads."""
    call = SimpleNamespace(
        version=version,
        correlation_id=4711,
        client_id="a client",
        client_host="/10.1.2.3",
        principal="User:CN=alice,O=x",
        is_token_authenticated=False,
        throttle_ms=0,
        is_closed=False,
        run_apart=sync_inline,
    )
    call.close = lambda: setattr(call, "is_closed", True)
    return call


def in_envelope(inner: CreateTopicsResponse, version: int = 7) -> EnvelopeResponse:
    data = (4711).to_bytes(4, "big") + b"\0" + inner.encode(version)
    return EnvelopeResponse(response_data=data)


def test_forwarded_request_carries_the_clients_header_principal_and_address() -> None:
    async def scenario(stage: Stage) -> None:
        stage.controllers[0].answers[EnvelopeRequest] = in_envelope(_TOPICS)
        request = CreateTopicsRequest(
            topics=[CreateTopicsRequest.CreatableTopic(name="t")], timeout_ms=5
        )
        assert await stage.channel.forward(request, client()) == _TOPICS
        assert stage.feed.awaited == [77]
        [envelope] = [
            asked.request
            for asked in stage.controllers[0].history
            if isinstance(asked.request, EnvelopeRequest)
        ]
        header, at = RequestHeader.decoder(2)(envelope.request_data, 0, len(envelope.request_data))
        assert header == RequestHeader(
            request_api_key=19, request_api_version=7, correlation_id=4711, client_id="a client"
        )
        assert CreateTopicsRequest.decode(envelope.request_data, 7, at) == request
        principal = DefaultPrincipalData.decode(envelope.request_principal, 0, 2)
        assert envelope.request_principal[:2] == b"\0\0"
        assert (principal.type, principal.name) == ("User", "CN=alice,O=x")
        assert not principal.token_authenticated
        assert envelope.client_host_address == ipaddress.ip_address("10.1.2.3").packed

    on_stage(1, scenario)


def test_a_large_forwarded_request_is_encoded_apart_and_its_response_decoded_there() -> None:
    apart = []

    def run_apart(run: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        apart.append(run)
        sync_inline(run, done)

    async def scenario(stage: Stage) -> None:
        stage.controllers[0].answers[EnvelopeRequest] = in_envelope(_TOPICS)
        call = client()
        call.run_apart = run_apart
        response = await stage.channel.forward(CreateTopicsRequest(), call)
        assert response == _TOPICS and len(apart) == 2

    on_stage(1, scenario)


def test_forwarded_read_waits_for_no_metadata() -> None:
    async def scenario(stage: Stage) -> None:
        data = (4711).to_bytes(4, "big") + b"\0" + _quorum_at(3).encode(2)
        stage.controllers[0].answers[EnvelopeRequest] = EnvelopeResponse(response_data=data)
        response = await stage.channel.forward(DescribeQuorumRequest(), client(2))
        assert response == _quorum_at(3)
        assert stage.feed.awaited == []

    on_stage(1, scenario)


def test_clients_connection_is_muted_for_the_controllers_throttle_time() -> None:
    async def scenario(stage: Stage) -> None:
        throttled = CreateTopicsResponse(throttle_time_ms=300)
        stage.controllers[0].answers[EnvelopeRequest] = in_envelope(throttled)
        call = client()
        await stage.channel.forward(CreateTopicsRequest(), call)
        assert call.throttle_ms == 300

    on_stage(1, scenario)


def test_envelope_refused_for_its_version_closes_the_clients_connection() -> None:
    async def scenario(stage: Stage) -> None:
        stage.controllers[0].answers[EnvelopeRequest] = EnvelopeResponse(
            error_code=Error.UNSUPPORTED_VERSION
        )
        call = client()
        assert await stage.channel.forward(CreateTopicsRequest(), call) is None
        assert call.is_closed

    on_stage(1, scenario)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (
            EnvelopeResponse(error_code=Error.CLUSTER_AUTHORIZATION_FAILED),
            Error.CLUSTER_AUTHORIZATION_FAILED,
        ),
        (EnvelopeResponse(response_data=b"\0\0"), Error.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(), Error.UNKNOWN_SERVER_ERROR),
        (
            EnvelopeResponse(response_data=b"\0\0\0\1\0" + _TOPICS.encode(7)),
            Error.UNKNOWN_SERVER_ERROR,
        ),
    ],
)
def test_failure_of_an_envelope_is_an_error_for_the_client(
    answer: EnvelopeResponse, error: Error
) -> None:
    async def scenario(stage: Stage) -> None:
        stage.controllers[0].answers[EnvelopeRequest] = answer
        asked = stage.channel.forward(CreateTopicsRequest(), client())
        assert (await failure(asked)).error is error

    on_stage(1, scenario)


def test_forwarded_request_is_sent_again_when_the_controller_moved() -> None:
    async def scenario(stage: Stage) -> None:
        stage.search.learned(stage.controller(0), 1)
        stage.lead(1)
        stage.controllers[0].answers[EnvelopeRequest] = EnvelopeResponse(
            error_code=Error.NOT_CONTROLLER
        )
        stage.controllers[1].answers[EnvelopeRequest] = in_envelope(_TOPICS)
        assert await stage.channel.forward(CreateTopicsRequest(), client()) == _TOPICS

    on_stage(2, scenario)
