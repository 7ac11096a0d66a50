"""A node's connections to others: requests in order, and every way in which they can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from tests.server.other_node import Asked, OtherNode
from wirekafka.codec.message import Request
from wirekafka.codec.outgoing_request import OutgoingRequest
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wirekafka.protocol.fetch import FetchRequest, FetchResponse
from wirekafka.protocol.heartbeat import HeartbeatRequest, HeartbeatResponse
from wirekafka.server.clock import LoopClock
from wirekafka.server.net import SocketNet
from wirekafka.server.peers.peer import Peer, PeerOptions

_HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
_LONG_MS = 60_000
_VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=0, max_version=last)
        for key, last in ((1, 17), (12, 3), (18, 5))
    ]
)


def with_peer(scenario: Callable[[Peer, OtherNode], Awaitable[None]], **options: Any) -> None:
    """Run a scenario between a peer and a node that it is to connect to."""

    async def run() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        async with asyncio.timeout(60), OtherNode().listening() as other:
            other.answers[ApiVersionsRequest] = _VERSIONS
            host, port = other.address
            peer = Peer(SocketNet(), clock, PeerOptions(host, port, "broker-1", **options))
            try:
                await scenario(peer, other)
            finally:
                peer.close()

    asyncio.run(run())


def asking(peer: Peer, request: Request = _HEARTBEAT, **options: Any) -> asyncio.Task[Any]:
    return asyncio.create_task(peer.send(request, timeout_ms=_LONG_MS, **options))


async def failure(asked: Awaitable[Any]) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        await asked
    return caught.value


def test_first_request_connects_and_learns_versions() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        assert not peer.is_connected
        sent = asking(peer)
        asked = await other.asked.get()
        assert (asked.client_id, asked.request, asked.version) == ("broker-1", _HEARTBEAT, 3)
        [first] = other.versions_asked
        assert (first.version, first.client_id) == (5, "broker-1")
        assert first.request.client_software_name == "wirekafka"
        asked.answer(HeartbeatResponse(error_code=27))
        assert (await sent).error_code == 27
        assert peer.is_connected

    with_peer(scenario)


def test_requests_are_sent_in_order_and_matched_by_correlation_id() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        sent = [asking(peer, HeartbeatRequest(group_id=str(number))) for number in range(5)]
        asked = [await other.asked.get() for _ in sent]
        assert [each.request.group_id for each in asked] == ["0", "1", "2", "3", "4"]
        for number, each in enumerate(asked):
            each.answer(HeartbeatResponse(error_code=number))
        assert [(await each).error_code for each in sent] == [0, 1, 2, 3, 4]
        assert len(other.versions_asked) == 1

    with_peer(scenario)


def test_version_is_the_newest_common_one_within_the_callers_limit() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        versions = []
        for options in ({}, {"most": 2}, {"version": 1}):
            sent = asking(peer, **options)
            asked = await other.asked.get()
            versions.append(asked.version)
            asked.answer(HeartbeatResponse())
            await sent
        assert versions == [3, 2, 1]
        for options in ({"version": 4}, {"most": -1}):
            assert (await failure(asking(peer, **options))).error is Error.UNSUPPORTED_VERSION
        assert peer.is_connected

    with_peer(scenario)


def test_api_versions_is_repeated_in_the_version_of_an_older_node() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        own = ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=2)

        def answer(asked: Asked) -> None:
            if asked.version > 2:
                refusal = ApiVersionsResponse(error_code=Error.UNSUPPORTED_VERSION, api_keys=[own])
                asked.answer(refusal, version=0)
            else:
                asked.answer(_VERSIONS)

        other.answers[ApiVersionsRequest] = answer
        sent = asking(peer)
        (await other.asked.get()).answer(HeartbeatResponse(error_code=5))
        assert (await sent).error_code == 5
        assert [asked.version for asked in other.versions_asked] == [5, 2]

    with_peer(scenario)


def test_records_of_a_large_response_are_views_of_its_buffer() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        records = bytes(range(256)) * 40_000
        kind = FetchResponse.FetchableTopicResponse
        sent = [asking(peer, FetchRequest()) for _ in range(2)]
        for each in [await other.asked.get(), await other.asked.get()]:
            topic = kind(partitions=[kind.PartitionData(records=records)])
            each.answer(FetchResponse(responses=[topic]))
        for each in sent:
            found = (await each).responses[0].partitions[0].records
            assert isinstance(found, memoryview)
            assert found == records
            assert len(found.obj) < 1.2 * len(records)

    with_peer(scenario)


def test_responses_may_arrive_in_any_pieces() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        await asyncio.gather(asking(peer), answered(other))
        for piece in (1, 3, 5):
            sent = [asking(peer) for _ in range(3)]
            frames = b"".join(
                [(await other.asked.get()).frame(HeartbeatResponse(error_code=9)) for _ in sent]
            )
            for at in range(0, len(frames), piece):
                other.writers[0].write(frames[at : at + piece])
                await asyncio.sleep(0)
            assert [(await each).error_code for each in sent] == [9, 9, 9]

    async def answered(other: OtherNode) -> None:
        (await other.asked.get()).answer(HeartbeatResponse())

    with_peer(scenario)


def test_refused_connection_is_a_network_error_and_the_next_request_tries_again() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        await asyncio.gather(failing(), failing())

    async def failing() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        peer = Peer(SocketNet(), clock, PeerOptions("127.0.0.1", 1, "broker-1"))
        for _ in range(2):
            error = await failure(asking(peer))
            assert error.error is Error.NETWORK_EXCEPTION
            assert "127.0.0.1:1" in str(error)

    with_peer(scenario)


def test_lost_connection_fails_what_is_outstanding_and_the_next_request_reconnects() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        sent = [asking(peer), asking(peer)]
        await other.asked.get()
        other.hang_up()
        for each in sent:
            assert (await failure(each)).error is Error.NETWORK_EXCEPTION
        assert not peer.is_connected
        while not other.asked.empty():
            other.asked.get_nowait()
        again = asking(peer, HeartbeatRequest(group_id="again"))
        asked = await other.asked.get()
        assert asked.request.group_id == "again"
        asked.answer(HeartbeatResponse())
        await again

    with_peer(scenario)


def test_request_without_a_response_times_out_and_closes_the_connection() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        patient = asking(peer)
        await other.asked.get()
        hasty = asyncio.create_task(peer.send(_HEARTBEAT, timeout_ms=10))
        assert (await failure(hasty)).error is Error.REQUEST_TIMED_OUT
        assert (await failure(patient)).error is Error.NETWORK_EXCEPTION
        assert not peer.is_connected

    with_peer(scenario)


def test_each_of_many_requests_times_out_at_its_own_time() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(2):
            sent = asyncio.create_task(peer.send(_HEARTBEAT, timeout_ms=400))
            (await other.asked.get()).answer(HeartbeatResponse())
            await sent
            await asyncio.sleep(0.25)  # The second one's response comes when the first's is due.
        sent_s = loop.time()
        last = asyncio.create_task(peer.send(_HEARTBEAT, timeout_ms=400))
        assert (await failure(last)).error is Error.REQUEST_TIMED_OUT
        assert loop.time() - sent_s >= 0.39

    with_peer(scenario)


def test_a_request_times_out_although_the_clock_was_set_back() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        peer._clock = clock = SetClock(asyncio.get_running_loop())
        for _ in range(2):
            sent = asyncio.create_task(peer.send(_HEARTBEAT, timeout_ms=100))
            await other.asked.get()
            clock.ahead_ms -= 3_600_000
            assert (await failure(sent)).error is Error.REQUEST_TIMED_OUT

    with_peer(scenario)


class SetClock(LoopClock):
    """A clock that somebody sets."""

    __slots__ = ("ahead_ms",)

    def __init__(self, loop: asyncio.AbstractEventLoop):
        super().__init__(loop)
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


def test_a_callback_may_close_the_peer_or_send_again() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        found: list[Any] = []

        def again(response: Any) -> None:
            found.append(response)
            if len(found) < 3:
                peer.post(OutgoingRequest(_HEARTBEAT), again, timeout_ms=_LONG_MS)
            else:
                peer.close()

        peer.post(OutgoingRequest(_HEARTBEAT), again, timeout_ms=_LONG_MS)
        for number in range(3):
            (await other.asked.get()).answer(HeartbeatResponse(error_code=number))
        while len(found) < 3:
            await asyncio.sleep(0)
        assert [each.error_code for each in found] == [0, 1, 2]
        peer.post(OutgoingRequest(_HEARTBEAT), found.append, timeout_ms=_LONG_MS)
        assert found[3].error is Error.NETWORK_EXCEPTION

    with_peer(scenario)


def test_a_callback_may_close_a_peer_that_cannot_connect_or_times_out() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        found: list[Any] = []

        def close(response: Any, closed: Peer) -> None:
            found.append(response.error)
            closed.close()

        clock = LoopClock(asyncio.get_running_loop())
        failing = Peer(SocketNet(), clock, PeerOptions("127.0.0.1", 1, "broker-1"))
        failing.post(
            OutgoingRequest(_HEARTBEAT), partial(close, closed=failing), timeout_ms=_LONG_MS
        )
        peer.post(OutgoingRequest(_HEARTBEAT), partial(close, closed=peer), timeout_ms=100)
        patient = asking(peer)
        assert (await failure(patient)).error is Error.NETWORK_EXCEPTION
        while len(found) < 2:
            await asyncio.sleep(0.01)
        assert sorted(found) == sorted([Error.NETWORK_EXCEPTION, Error.REQUEST_TIMED_OUT])

    with_peer(scenario)


def test_a_request_whose_caller_gave_up_still_closes_a_silent_connection() -> None:
    """Clients' short timeouts must not keep a connection that has died unnoticed."""

    async def scenario(peer: Peer, other: OtherNode) -> None:
        patient = asking(peer)
        await other.asked.get()
        abandoned = asyncio.create_task(peer.send(_HEARTBEAT, timeout_ms=100))
        await other.asked.get()
        abandoned.cancel()
        assert (await failure(patient)).error is Error.NETWORK_EXCEPTION
        assert not peer.is_connected

    with_peer(scenario)


def test_a_response_to_a_caller_that_gave_up_keeps_the_connection() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        abandoned = asyncio.create_task(peer.send(_HEARTBEAT, timeout_ms=100))
        asked = await other.asked.get()
        abandoned.cancel()
        asked.answer(HeartbeatResponse())
        last = asyncio.create_task(peer.send(_HEARTBEAT, timeout_ms=_LONG_MS))
        asked = await other.asked.get()
        await asyncio.sleep(0.2)  # Until the first timeout is over.
        asked.answer(HeartbeatResponse(error_code=27))
        assert (await last).error_code == 27

    with_peer(scenario)


def test_stalled_response_times_out() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        sent = asyncio.create_task(peer.send(_HEARTBEAT, timeout_ms=200))
        asked = await other.asked.get()
        other.writers[0].write(asked.frame(HeartbeatResponse())[:-1])
        assert (await failure(sent)).error is Error.REQUEST_TIMED_OUT
        assert not peer.is_connected

    with_peer(scenario)


def test_node_that_does_not_respond_to_api_versions_is_disconnected() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        other.answers[ApiVersionsRequest] = lambda asked: None
        error = await failure(asking(peer))
        assert error.error is Error.NETWORK_EXCEPTION
        assert "timed out" in str(error)

    with_peer(scenario, connect_timeout_ms=20)


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "1213486160 bytes"),
        (b"\xff\xff\xff\xff", "-1 bytes"),
        (b"\0\0\0\4\0\0\0\x63", "response to request 99"),
    ],
)
def test_garbage_ends_the_connection(garbage: bytes, reason: str) -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        sent = asking(peer)
        await other.asked.get()
        other.writers[0].write(garbage)
        error = await failure(sent)
        assert error.error is Error.NETWORK_EXCEPTION
        assert reason in str(error)
        assert not peer.is_connected

    with_peer(scenario, largest_response_bytes=1 << 30)


def test_response_to_another_request_ends_the_connection() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        sent = [asking(peer), asking(peer)]
        (await other.asked.get()).answer(HeartbeatResponse(), shift=1)
        for each in sent:
            assert (await failure(each)).error is Error.NETWORK_EXCEPTION

    with_peer(scenario)


def test_malformed_response_ends_the_connection() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        sent = asking(peer, version=3)
        (await other.asked.get()).answer(HeartbeatResponse(), version=0)
        error = await failure(sent)
        assert error.error is Error.NETWORK_EXCEPTION
        assert "malformed" in str(error)

    with_peer(scenario)


def test_closed_peer_fails_every_request() -> None:
    async def scenario(peer: Peer, other: OtherNode) -> None:
        sent = asking(peer)
        await other.asked.get()
        connecting = Peer(SocketNet(), LoopClock(asyncio.get_running_loop()), peer.options)
        waiting = asking(connecting)
        await asyncio.sleep(0)
        for each in (peer, connecting):
            each.close()
        for each in (sent, waiting, asking(peer)):
            assert (await failure(each)).error is Error.NETWORK_EXCEPTION

    with_peer(scenario)
