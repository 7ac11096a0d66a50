"""A connection over real sockets: order, waiting, backpressure, bad input."""

from __future__ import annotations

import asyncio
import logging
import struct
import threading
import types
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.manual_clock import ManualClock
from tests.raw_client import RawClient, frame
from tests.server.probe_api import KEY, Gate, ProbeRequest
from wirekafka.apis import registry
from wirekafka.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.server.listener import Listener, Roll, bind


class Served:
    """A listener on a loop in a thread of its own."""

    def __init__(self, gate: Gate, limits: Mapping[str, str] | None = None):
        self.gate = gate
        self.loop = asyncio.new_event_loop()
        config = {"socket.request.max.bytes": str(1 << 20), **(limits or {})}
        self.roll = Roll()
        self.listener = Listener("PLAINTEXT", bind("127.0.0.1", 0), self.roll)
        self.port = self.listener.address[1]
        broker: Any = types.SimpleNamespace(
            clock=ManualClock(), metadata_offset=5, image=types.SimpleNamespace(features={}),
            quorum=types.SimpleNamespace(is_dynamic=True, kraft_version=1),
            config=BrokerConfig.of(config))
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
        async def inside() -> None:
            async with asyncio.timeout(10):
                while not condition():
                    await asyncio.sleep(0.002)
        self.run(inside())

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
        registry.routes.pop(KEY << 16 | version, None)


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
    # The client id takes no more than 32 KiB, so tags make up the size.
    filler = 900_000
    tag = b"\x01\x09" + _uvarint(filler) + bytes(filler)
    body = probe(text="big").encode(1)[:-1] + tag
    header = struct.pack(">hhih", KEY, 1, 7, -1) + b"\0"
    for _ in range(3):
        client.send_frame(header + body)
        assert client.receive(ProbeRequest, 1).text == "big"


def test_other_connections_go_on_while_one_waits(served: Served) -> None:
    with RawClient(served.port) as patient, RawClient(served.port) as other:
        patient.send(probe("wait", "at last"), 0)
        served.until(lambda: served.gate.waiting)
        assert other.call(probe(text="meanwhile"), 0).text == "meanwhile"
        served.call(served.gate.open)
        assert patient.receive(ProbeRequest, 0).text == "at last"


def test_records_stay_readable_for_a_handler_that_says_so(served: Served) -> None:
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


def test_what_comes_while_a_request_waits_is_kept_and_bounded(served: Served) -> None:
    with RawClient(served.port) as client:
        client.send(probe("wait", "first"), 0)
        served.until(lambda: served.gate.waiting)
        text = "x" * 30_000
        sender = threading.Thread(
            target=lambda: [client.send(probe(text=text), 0) for _ in range(400)])
        sender.start()
        [connection] = served.listener._connections
        served.until(lambda: connection._reading_paused)
        assert len(connection._own) <= 4 << 20
        served.call(served.gate.open)
        assert client.receive(ProbeRequest, 0).text == "first"
        assert all(client.receive(ProbeRequest, 0).text == text for _ in range(400))
        sender.join()


def test_a_waiting_request_ends_when_the_peer_goes(served: Served) -> None:
    with RawClient(served.port) as client:
        client.send(probe("wait"), 0)
        served.until(lambda: served.gate.waiting)
    served.until(lambda: not served.listener.connections)
    assert served.gate.unwound == 1
    served.call(served.gate.open)


def test_a_client_that_does_not_read_is_not_served_on(served: Served) -> None:
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


def test_an_error_is_told_in_the_response(client: RawClient) -> None:
    assert client.call(probe("refuse"), 0).error_code == 44


def test_a_fault_is_told_without_its_details(client: RawClient,
                                             caplog: pytest.LogCaptureFixture) -> None:
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
                                + b"\0\2\xff\xfe\0\0" + bytes(4),
    "tags beyond the header": struct.pack(">ihhih", 11, KEY, 1, 1, -1) + b"\x05",
}


@pytest.mark.parametrize("data", BAD_FRAMES.values(), ids=BAD_FRAMES.keys())
def test_bad_input_closes_the_connection_with_one_line(
        served: Served, data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with RawClient(served.port) as bad, RawClient(served.port) as honest:
        port = bad.socket.getsockname()[1]
        bad.socket.sendall(data)
        assert bad.is_closed()
        assert honest.call(probe(text="undisturbed"), 0).text == "undisturbed"
    lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) == 1
    assert str(port) in lines[0].getMessage()
    assert lines[0].exc_info is None


def test_requests_before_a_bad_one_are_still_answered(served: Served) -> None:
    with RawClient(served.port) as client:
        payload = frame(probe(text="good"), 0)
        good = struct.pack(">i", len(payload)) + payload
        client.socket.sendall(good + BAD_FRAMES["unknown api"])
        assert client.receive(ProbeRequest, 0).text == "good"
        assert client.is_closed()


def test_the_api_versions_response_header_is_always_v0(client: RawClient) -> None:
    for version in range(5):
        request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        client.send_frame(frame(request, version, 77))
        body = client.receive_frame()
        assert struct.unpack_from(">i", body) == (77,)
        ApiVersionsResponse.decode(body, version, at=4)


def test_an_unsupported_api_versions_version_gets_a_v0_body_with_its_range(
        client: RawClient) -> None:
    for version in (5, 100, -1):
        client.send_frame(struct.pack(">hhih", 18, version, 7, -1) + b"\0")
        body = client.receive_frame()
        response = ApiVersionsResponse.decode(body, 0, at=4)
        assert response.error_code == 35
        [key] = response.api_keys
        assert (key.api_key, key.min_version, key.max_version) == (18, 0, 4)


@pytest.mark.parametrize(("name", "version"), [("a!", "1"), ("", "1"), ("a", ""), ("-a", "1"),
                                               ("a", "1 0"), ("é", "1")])
def test_bad_client_software_name_or_version_is_an_invalid_request(
        client: RawClient, name: str, version: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    response = client.call(request, 3)
    assert response.error_code == 42
    assert response.api_keys == []


def test_features_with_a_range_from_zero_are_told_from_version_4_on(client: RawClient) -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    assert [f.name for f in client.call(request, 3).supported_features] == ["metadata.version"]
    assert "transaction.version" in {f.name for f in client.call(request, 4).supported_features}


def test_the_level_of_a_quorum_that_keeps_its_voters_is_told(client: RawClient) -> None:
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
        served.until(lambda: served.roll.total == 0)
        with RawClient(served.port) as again:
            assert again.call(probe(text="in"), 0).text == "in"
    finally:
        served.stop()


def test_connections_above_the_limit_of_the_broker_are_closed(gate: Gate) -> None:
    served = Served(gate, {"max.connections": "1"})
    try:
        with RawClient(served.port) as one:
            one.call(probe(), 0)
            with RawClient(served.port) as two:
                assert two.is_closed()
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


def test_a_request_that_dribbles_in_is_cut_off(served: Served,
                                               caplog: pytest.LogCaptureFixture) -> None:
    with RawClient(served.port) as slow:
        payload = frame(probe(text="x" * 50), 0)
        data = struct.pack(">i", len(payload)) + payload
        slow.socket.sendall(data[:5])
        served.until(lambda: served.listener.connections)
        [connection] = served.listener._connections
        for second in range(30):
            slow.socket.sendall(data[5 + second:6 + second])
            served.until(lambda n=second: connection.frame_bytes == 6 + n)
            served.call(served.listener.sweep, 1000 * second)
        assert served.listener.connections == 1
        served.call(served.listener.sweep, 31_000)
        assert slow.is_closed()
    assert "takes too long" in caplog.text


def test_draining_answers_what_is_under_way(served: Served) -> None:
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
