"""A connection over real sockets: order, waiting, backpressure, bad input."""

from __future__ import annotations

import asyncio
import logging
import struct
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.eventually import eventually_async
from tests.manual_clock import ManualClock
from tests.raw_client import RawClient, frame
from tests.server.probe_api import KEY, Gate, ProbeRequest
from wirekafka.apis import api_versions
from wirekafka.apis.shared import registry, routes
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wirekafka.quotas.client_quotas import CONNECTIONS, ClientQuotas
from wirekafka.quotas.rate import Windows
from wirekafka.server.connections.admission import ConnectionLimits
from wirekafka.server.connections.listener import Listener
from wirekafka.server.connections.request_memory import RequestMemory
from wirekafka.server.net import SocketNet

CLUSTER_ID = "wire-kafka-test-cluste"


class Served:
    """A listener on a loop in a thread of its own."""

    def __init__(
        self,
        gate: Gate,
        limits: Mapping[str, str] | None = None,
        new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
        memory: RequestMemory | None = None,
    ):
        self.gate = gate
        self.loop = new_loop()
        config = {"socket.request.max.bytes": str(1 << 20), **(limits or {})}
        self.limits = ConnectionLimits(memory=memory)
        self.listener = Listener("PLAINTEXT", SocketNet().listen("127.0.0.1", 0), self.limits)
        self.port = self.listener.address[1]
        self.clock = ManualClock()
        self.quotas = ClientQuotas(Windows(11, 1000), (CONNECTIONS,))
        broker: Any = types.SimpleNamespace(
            clock=self.clock,
            waiting=types.SimpleNamespace(clock=self.clock),
            controller_channel=types.SimpleNamespace(controller_versions={}),
            metadata_offset=5,
            image=types.SimpleNamespace(features={}),
            quorum=types.SimpleNamespace(is_dynamic=True, kraft_version=1),
            shares=types.SimpleNamespace(disconnected=lambda connection_id: None),
            measures=None,
            authorizer=None,
            quotas=None,
            stored_quotas=self.quotas,
            cluster_id=CLUSTER_ID,
            node_id=1,
            config=BrokerConfig.of(config),
        )
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.run(self.listener.start(broker))

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def call(self, function: Any, *arguments: Any) -> Any:
        async def inside() -> Any:
            return function(*arguments)

        return self.run(inside())

    def until(self, condition: Any) -> None:
        self.run(eventually_async(condition, timeout_s=9))

    def stop(self) -> None:
        self.call(self.listener.stop_accepting)
        self.call(self.listener.abort)
        self.until(lambda: not self.listener.connections)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setitem(registry._apis, KEY, gate.api())
    yield gate
    for version in (0, 1):
        routes.BROKERS.known.pop(KEY << 16 | version, None)


@pytest.fixture
def served(gate: Gate) -> Iterator[Served]:
    served = Served(gate)
    yield served
    served.stop()


@pytest.fixture
def client(served: Served) -> Iterator[RawClient]:
    with RawClient(served.port) as client:
        yield client


def probe(action: str = "echo", text: str = "") -> ProbeRequest:
    return ProbeRequest(action=action, text=text)


@pytest.mark.parametrize("version", [0, 1])
def test_a_request_is_answered_in_its_version(client: RawClient, version: int) -> None:
    assert client.call(probe(text="grüezi"), version).text == "grüezi"


def test_responses_leave_in_request_order_per_connection(served: Served) -> None:
    with RawClient(served.port) as client:
        sent = [client.send(probe("wait" if n == 3 else "echo", str(n)), 0) for n in range(10)]
        before = [client.receive(ProbeRequest, 0, correlation).text for correlation in sent[:3]]
        served.until(lambda: served.gate.waiting)
        served.call(served.gate.open)
        after = [client.receive(ProbeRequest, 0, correlation).text for correlation in sent[3:]]
    assert before + after == [str(n) for n in range(10)]


def test_a_request_in_single_bytes_is_served(client: RawClient) -> None:
    payload = frame(probe(text="slow"), 0)
    for byte in struct.pack(">i", len(payload)) + payload:
        client.socket.send(bytes([byte]))
    assert client.receive(ProbeRequest, 0).text == "slow"


def test_large_requests_arrive_whole_between_small_ones(client: RawClient) -> None:
    texts = ["a", "b" * 30_000, "c", "d" * 32_000, "e"] * 20
    for text in texts:
        client.send(probe(text=text), 0)
    assert [client.receive(ProbeRequest, 0).text for _ in texts] == texts


def test_a_request_of_a_megabyte_is_served(served: Served, client: RawClient) -> None:
    # The client id takes no more than 32 KiB and a tagged field 128, so several make up the size.
    filler = 100_000
    tags = [bytes([tag]) + _uvarint(filler) + bytes(filler) for tag in range(9, 18)]
    body = probe(text="big").encode(1)[:-1] + bytes([len(tags)]) + b"".join(tags)
    header = struct.pack(">hhih", KEY, 1, 7, -1) + b"\0"
    for _ in range(3):
        client.send_frame(header + body)
        assert client.receive(ProbeRequest, 1).text == "big"


def test_other_connections_are_served_while_one_waits(served: Served) -> None:
    with RawClient(served.port) as patient, RawClient(served.port) as other:
        patient.send(probe("wait", "at last"), 0)
        served.until(lambda: served.gate.waiting)
        assert other.call(probe(text="meanwhile"), 0).text == "meanwhile"
        served.call(served.gate.open)
        assert patient.receive(ProbeRequest, 0).text == "at last"


def test_records_stay_readable_for_a_handler_that_keeps_them(served: Served) -> None:
    with RawClient(served.port) as patient, RawClient(served.port) as other:
        for size in (10, 30_000, 600_000):
            data = b"z" * size
            patient.send(ProbeRequest(action="echo", text="before"), 0)
            patient.send(ProbeRequest(action="wait and look", data=data[:30_000]), 0)
            patient.send(ProbeRequest(action="echo", text="after", data=data), 0)
            assert patient.receive(ProbeRequest, 0).text == "before"
            served.until(lambda: served.gate.waiting)
            assert other.call(ProbeRequest(action="echo", text="n" * 30_000), 0)
            served.call(served.gate.open)
            assert patient.receive(ProbeRequest, 0).text == data[:30_000].decode()
            assert patient.receive(ProbeRequest, 0).text == "after"


def test_requests_that_arrive_while_one_waits_are_buffered_within_a_limit(served: Served) -> None:
    with RawClient(served.port) as client:
        client.send(probe("wait", "first"), 0)
        served.until(lambda: served.gate.waiting)
        text = "x" * 30_000
        sender = threading.Thread(
            target=lambda: [client.send(probe(text=text), 0) for _ in range(400)]
        )
        sender.start()
        [connection] = served.listener._connections
        served.until(lambda: connection._reading_paused)
        assert len(connection._own) <= 4 << 20
        served.call(served.gate.open)
        assert client.receive(ProbeRequest, 0).text == "first"
        assert all(client.receive(ProbeRequest, 0).text == text for _ in range(400))
        sender.join()


def test_a_waiting_request_is_cancelled_when_the_peer_disconnects(served: Served) -> None:
    with RawClient(served.port) as client:
        client.send(probe("wait"), 0)
        served.until(lambda: served.gate.waiting)
    served.until(lambda: not served.listener.connections)
    assert served.gate.unwound == 1
    served.call(served.gate.open)


def test_a_client_that_does_not_read_is_not_served_further(served: Served) -> None:
    text = "y" * 32_000
    with RawClient(served.port) as client:
        client.socket.settimeout(0.5)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 2000:
                client.send(probe(text=text), 0)
                sent += 1
        [connection] = served.listener._connections
        assert connection._transport.get_write_buffer_size() < 4 << 20
        client.socket.settimeout(10)
        for _ in range(sent):
            assert client.receive(ProbeRequest, 0).text == text


def test_small_requests_with_large_responses_do_not_fill_the_memory(served: Served) -> None:
    with RawClient(served.port) as client:
        payload = frame(probe("amplify"), 0)
        requests = (struct.pack(">i", len(payload)) + payload) * 5000
        sender = threading.Thread(target=client.socket.sendall, args=(requests,))
        sender.start()
        served.until(lambda: served.listener.connections)
        [connection] = served.listener._connections
        served.until(lambda: connection.is_stalled)
        assert served.call(connection._transport.get_write_buffer_size) < 4 << 20
        for _ in range(5000):
            assert len(client.receive(ProbeRequest, 0).text) == 30_000
        sender.join()


def test_an_error_is_returned_in_the_response(client: RawClient) -> None:
    assert client.call(probe("refuse"), 0).error_code == 44


def test_an_unexpected_exception_is_returned_without_its_details(
    client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    response = client.call(probe("break", "x"), 0)
    assert response.error_code == -1
    assert "secret" not in response.text
    assert "a secret of the inside" in caplog.text
    assert client.call(probe(text="still here"), 0).text == "still here"


def test_no_response_when_the_handler_gives_none(client: RawClient) -> None:
    client.send(probe("silence"), 0)
    assert client.call(probe(text="next"), 0).text == "next"


def test_a_handler_can_close_the_connection_after_its_response(client: RawClient) -> None:
    client.send(probe("close", "bye"), 0)
    client.send(probe(text="too late"), 0)
    assert client.receive(ProbeRequest, 0).text == "bye"
    assert client.is_closed()


@pytest.mark.parametrize("action", ["exceed a quota", "exceed a quota late"])
def test_a_throttled_connection_is_muted_after_its_response(served: Served, action: str) -> None:
    with RawClient(served.port) as slow, RawClient(served.port) as other:
        slow.send(probe(action), 0)
        for number in range(3):
            slow.send(probe(text=str(number)), 0)
        assert slow.receive(ProbeRequest, 0).throttle_time_ms == 500
        served.until(
            lambda: any(
                each._muted and each._own is not None for each in served.listener._connections
            )
        )
        [muted] = [each for each in served.listener._connections if each._muted is not None]
        served.call(served.clock.advance, 499)
        assert other.call(probe(text="undisturbed"), 0).text == "undisturbed"
        assert muted._muted is not None and muted.frames == 1
        served.call(served.clock.advance, 1)
        assert [slow.receive(ProbeRequest, 0).text for _ in range(3)] == ["0", "1", "2"]
        assert slow.call(probe(text="again"), 0).throttle_time_ms == 0


def test_a_connection_is_muted_without_a_response_too(served: Served) -> None:
    with RawClient(served.port) as client:
        client.send(probe("exceed a quota silently"), 0)
        client.send(probe(text="later"), 0)
        served.until(lambda: any(each._muted for each in served.listener._connections))
        served.call(served.clock.advance, 500)
        assert client.receive(ProbeRequest, 0).text == "later"


def test_a_muted_connection_is_not_idle_and_does_not_delay_a_stop(served: Served) -> None:
    with RawClient(served.port) as client:
        assert client.call(probe("exceed a quota"), 0).text == "slow"
        for now_ms in range(0, 2_000_000, 100_000):
            served.call(served.listener.sweep, now_ms)
        assert served.listener.connections == 1
        served.call(served.listener.drain)
        assert client.is_closed()
    served.call(served.clock.advance, 500)


def test_the_end_of_a_muted_connection_is_noticed_at_once(served: Served) -> None:
    with RawClient(served.port) as client:
        assert client.call(probe("exceed a quota"), 0).text == "slow"
    served.until(lambda: not served.listener.connections)
    served.call(served.clock.advance, 500)


BAD_FRAMES = {
    "length zero": struct.pack(">i", 0),
    "length below zero": struct.pack(">i", -1),
    "length above socket.request.max.bytes": struct.pack(">i", (1 << 20) + 1),
    "unknown api": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "unknown version": struct.pack(">ihhih", 10, KEY, 2, 1, -1),
    "header cut short": struct.pack(">ihhi", 8, KEY, 0, 1),
    "client id beyond the frame": struct.pack(">ihhih", 10, KEY, 0, 1, 500),
    "client id that is not UTF-8": struct.pack(">ihhih", 12, KEY, 0, 1, 2) + b"\xff\xfe",
    "body cut short": struct.pack(">ihhih", 10, KEY, 0, 1, -1),
    "string beyond the body": struct.pack(">ihhihh", 12, KEY, 0, 1, -1, 9000),
    "string that is not UTF-8": struct.pack(">ihhih", 20, KEY, 0, 1, -1)
    + b"\0\2\xff\xfe\0\0"
    + bytes(4),
    "tags beyond the header": struct.pack(">ihhih", 11, KEY, 1, 1, -1) + b"\x05",
}


@pytest.mark.parametrize("data", BAD_FRAMES.values(), ids=BAD_FRAMES.keys())
def test_bad_input_closes_the_connection_with_one_line(
    served: Served, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with RawClient(served.port) as bad, RawClient(served.port) as honest:
        port = bad.socket.getsockname()[1]
        bad.socket.sendall(data)
        assert bad.is_closed()
        assert honest.call(probe(text="undisturbed"), 0).text == "undisturbed"
    lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) == 1
    assert str(port) in lines[0].getMessage()
    assert lines[0].exc_info is None


def test_a_hostile_peer_does_not_fill_the_log(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(50):
        with RawClient(served.port) as bad:
            bad.socket.sendall(struct.pack(">ihhih", 10, 900 + number, 0, 1, -1))
            assert bad.is_closed()
    [line] = [record.getMessage() for record in caplog.records]
    assert "API 900 version 0 is not supported" in line
    served.call(served.listener.sweep, served.clock.now_ms() + 60_000)
    assert "49 more like this" in caplog.records[-1].getMessage()


def test_requests_before_a_bad_one_still_get_responses(served: Served) -> None:
    with RawClient(served.port) as client:
        payload = frame(probe(text="good"), 0)
        good = struct.pack(">i", len(payload)) + payload
        client.socket.sendall(good + BAD_FRAMES["unknown api"])
        assert client.receive(ProbeRequest, 0).text == "good"
        assert client.is_closed()


def test_the_api_versions_response_header_is_always_v0(client: RawClient) -> None:
    for version in range(6):
        request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        client.send_frame(frame(request, version, 77))
        body = client.receive_frame()
        assert struct.unpack_from(">i", body) == (77,)
        ApiVersionsResponse.decode(body, version, at=4)


def test_an_unsupported_api_versions_version_gets_a_v0_body_with_its_range(
    client: RawClient,
) -> None:
    for version in (6, 100, -1):
        client.send_frame(struct.pack(">hhih", 18, version, 7, -1) + b"\0")
        body = client.receive_frame()
        response = ApiVersionsResponse.decode(body, 0, at=4)
        assert response.error_code == 35
        [key] = response.api_keys
        assert (key.api_key, key.min_version, key.max_version) == (18, 0, 5)


@pytest.mark.parametrize(
    ("name", "version"), [("a!", "1"), ("", "1"), ("a", ""), ("-a", "1"), ("a", "1 0"), ("é", "1")]
)
def test_bad_client_software_name_or_version_is_an_invalid_request(
    client: RawClient, name: str, version: str
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    response = client.call(request, 3)
    assert response.error_code == 42
    assert response.api_keys == []


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, 0),
        (CLUSTER_ID, 1, 0),
        (CLUSTER_ID, 2, 129),
        ("another", 1, 129),
        ("another", 2, 129),
        ("", 1, 129),
        (CLUSTER_ID, -2, 129),
        (CLUSTER_ID, -1, 42),
        ("another", -1, 42),
        (None, 1, 42),
        (None, 2, 42),
    ],
)
def test_a_client_that_expects_another_cluster_or_node_has_to_rebootstrap(
    client: RawClient, cluster_id: str | None, node_id: int, error: int
) -> None:
    request = ApiVersionsRequest(
        client_software_name="x",
        client_software_version="1",
        cluster_id=cluster_id,
        node_id=node_id,
    )
    response = client.call(request, 5)
    assert response.error_code == error
    assert bool(response.api_keys) == (not error)
    # The connection stays open either way, and older versions have no such fields.
    assert client.call(request, 4).error_code == 0


def test_a_bad_client_name_is_reported_before_a_wrong_cluster_or_node(client: RawClient) -> None:
    request = ApiVersionsRequest(
        client_software_name="", client_software_version="1", cluster_id="another", node_id=1
    )
    assert client.call(request, 5).error_code == 42


def test_a_feature_is_reported_once_its_apis_are_served(
    client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")

    def shown() -> set[str]:
        return {feature.name for feature in client.call(request, 4).supported_features}

    announced = {
        "group.version": [68, 69],
        "share.version": [76, 77, 78, 79],
        "streams.version": [88, 89, 93],
    }
    registry.load()
    brokers = routes.BROKERS
    for name, keys in announced.items():
        assert name in shown()
        for missing in keys:
            fewer = types.SimpleNamespace(
                served=brokers.served,
                serves=lambda key, missing=missing: key != missing and brokers.serves(key),
            )
            monkeypatch.setattr(api_versions, "BROKERS", fewer)
            assert name not in shown()
            monkeypatch.undo()


def test_features_with_a_range_from_zero_are_reported_from_version_4_on(client: RawClient) -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    assert [f.name for f in client.call(request, 3).supported_features] == ["metadata.version"]
    assert "transaction.version" in {f.name for f in client.call(request, 4).supported_features}


def test_the_kraft_version_of_a_quorum_that_keeps_its_voters_is_reported(client: RawClient) -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    [feature] = client.call(request, 4).finalized_features
    assert (feature.name, feature.max_version_level) == ("kraft.version", 1)


def test_connections_above_the_limit_of_a_host_are_closed(gate: Gate) -> None:
    served = Served(gate, {"max.connections.per.ip": "2"})
    try:
        with RawClient(served.port) as one, RawClient(served.port) as two:
            for client in (one, two):
                client.call(probe(), 0)
            with RawClient(served.port) as three:
                assert three.is_closed()
            assert one.call(probe(text="in"), 0).text == "in"
        served.until(lambda: served.limits.total == 0)
        with RawClient(served.port) as again:
            assert again.call(probe(text="in"), 0).text == "in"
    finally:
        served.stop()


def test_an_idle_connection_is_closed(served: Served) -> None:
    with RawClient(served.port) as client:
        client.call(probe(), 0)
        for now_ms in (0, 300_000):
            served.call(served.listener.sweep, now_ms)
        assert client.call(probe(text="awake"), 0).text == "awake"
        for now_ms in (600_000, 900_000, 1_200_001):
            served.call(served.listener.sweep, now_ms)
        assert client.is_closed()


def test_a_connection_whose_request_waits_is_not_idle(served: Served) -> None:
    with RawClient(served.port) as client:
        client.send(probe("wait", "patience"), 0)
        served.until(lambda: served.gate.waiting)
        for now_ms in range(0, 2_000_000, 100_000):
            served.call(served.listener.sweep, now_ms)
        served.call(served.gate.open)
        assert client.receive(ProbeRequest, 0).text == "patience"


def test_a_request_that_arrives_too_slowly_is_cut_off(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with RawClient(served.port) as slow:
        payload = frame(probe(text="x" * 50), 0)
        data = struct.pack(">i", len(payload)) + payload
        slow.socket.sendall(data[:5])
        served.until(lambda: served.listener.connections)
        [connection] = served.listener._connections
        for second in range(30):
            slow.socket.sendall(data[5 + second : 6 + second])
            served.until(lambda n=second: connection.frame_bytes == 6 + n)
            served.call(served.listener.sweep, 100_000 + 1000 * second)
        assert served.listener.connections == 1
        served.call(served.listener.sweep, 131_000)
        assert slow.is_closed()
    assert "takes too long" in caplog.text


def test_requests_received_before_a_close_are_not_served_after_it(served: Served) -> None:
    with RawClient(served.port) as client:
        client.call(probe(), 0)
        [connection] = served.listener._connections
        served.call(connection.pause_writing)
        client.send(probe("wait"), 0)
        served.until(lambda: connection._own is not None)

        def close() -> None:
            connection.close()
            connection.resume_writing()

        served.call(close)
        assert client.is_closed() and not served.gate.waiting


def test_draining_sends_the_responses_to_running_requests(served: Served) -> None:
    with RawClient(served.port) as waiting, RawClient(served.port) as idle:
        idle.call(probe(), 0)
        waiting.send(probe("wait", "in time"), 0)
        served.until(lambda: served.gate.waiting)
        served.call(served.listener.drain)
        assert idle.is_closed()
        served.call(served.gate.open)
        assert waiting.receive(ProbeRequest, 0).text == "in time"
        assert waiting.is_closed()


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
