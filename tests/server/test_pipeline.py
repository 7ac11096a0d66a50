"""The stages of a request, without sockets: admission, failures, throttling."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.raw_client import frame, response_in
from wirekafka.apis.shared import registry, routes
from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.routes import Route
from wirekafka.codec.message import Request
from wirekafka.errors import Error
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.metadata import MetadataRequest, MetadataResponse
from wirekafka.replication.raft.metadata_log import sync_inline
from wirekafka.server.connections import pipeline as pipelines
from wirekafka.server.connections.pipeline import ParkedHandler, Pipeline, Refused
from wirekafka.server.connections.replies import Replies
from wirekafka.testing.hooks.traffic import _errors

registry.load()
APIS = routes.BROKERS.served()
Handler = Callable[[Route, Any, Call], Any]


class Standing:
    """A hook that runs a handler of the test."""

    def __init__(self, handler: Handler):
        self.handle = handler


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    broker = InProcessBroker(tmp_path / "data", manual_clock)
    yield broker
    broker.stop()


def served(pipeline: Pipeline, request: Request, version: int, call: Call) -> Any:
    """The response, decoded; None if there is none."""
    replies = Replies()
    data = memoryview(frame(request, version, 7))
    parked = pipeline.serve(data, 0, len(data), call, replies)
    while parked is not None:
        if parked.resume(call, replies):
            parked = None
    return decoded(replies, request, version)


def decoded(replies: Replies, request: Request, version: int) -> Any:
    data = b"".join([*replies.buffers, replies.tail])
    if not data:
        return None
    size, correlation_id = struct.unpack_from(">ii", data)
    assert (size, correlation_id) == (len(data) - 4, 7)
    return response_in(data[4:], type(request), version)


def filled(cls: Any, version: int) -> Any:
    """A message with one element in each array."""
    values = {}
    for field in cls.fields:
        if version not in field.versions:
            continue
        if field.part is not None:
            part = filled(field.part, version)
            values[field.name] = [part] if field.is_array else part
        elif field.is_array:
            values[field.name] = [{"string": "x", "16s": bytes(16)}.get(field.kind, 1)]
    return cls(**values)


def break_down(route: Route, request: Any, call: Call) -> Any:
    raise ZeroDivisionError("a mistake")


async def break_down_later(route: Route, request: Any, call: Call) -> Any:
    await Turn()
    raise ZeroDivisionError("a mistake")


async def return_what_cannot_be_encoded(route: Route, request: Any, call: Call) -> Any:
    await Turn()
    return object()


class Turn:
    """Suspends once, as an awaited future does."""

    def __await__(self) -> Iterator[None]:
        yield


_SAYS_NO_ERROR = {("DescribeLogDirs", 1), ("DescribeLogDirs", 2)}
"""Versions of APIs whose response to a failure has no error code, in Kafka either."""


@pytest.mark.parametrize("handler", [break_down, break_down_later, return_what_cannot_be_encoded])
@pytest.mark.parametrize("declared", APIS, ids=lambda declared: declared.name)
def test_a_handler_that_raises_leads_to_an_error_response_in_every_version(
    kafka: InProcessBroker, declared: registry.Api, handler: Handler
) -> None:
    pipeline = Pipeline(Standing(handler))
    for version in range(declared.request.versions.first, declared.request.versions.last + 1):
        request = filled(declared.request, version)
        response = served(pipeline, request, version, Call(kafka.broker))
        if (declared.name, version) not in _SAYS_NO_ERROR:
            assert Error.UNKNOWN_SERVER_ERROR in set(_errors(response)), version


@pytest.mark.parametrize("handler", [break_down, break_down_later, return_what_cannot_be_encoded])
def test_a_failure_of_a_large_request_leads_to_an_error_response_too(
    kafka: InProcessBroker, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelines, "LARGE_BYTES", 0)
    pipeline = Pipeline(Standing(handler))
    for declared in APIS:
        version = declared.request.versions.last
        call = Call(kafka.broker)
        response = served(pipeline, filled(declared.request, version), version, call)
        if (declared.name, version) not in _SAYS_NO_ERROR:
            assert Error.UNKNOWN_SERVER_ERROR in set(_errors(response)), declared.name
        assert call.run_apart is sync_inline


def test_a_handler_that_raises_is_logged_once_a_minute(
    kafka: InProcessBroker, manual_clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline, call = Pipeline(Standing(break_down)), Call(kafka.broker)
    for _ in range(20):
        served(pipeline, MetadataRequest(), 9, call)
    [record] = caplog.records
    assert "Metadata version 9" in record.getMessage() and record.exc_info
    manual_clock.advance(60_000)
    pipeline.warnings.sweep(manual_clock.now_ms())
    assert "19 more" in caplog.records[-1].getMessage()


def test_only_authentication_requests_are_admitted_before_it(kafka: InProcessBroker) -> None:
    pipeline, call = Pipeline(), Call(kafka.broker)
    call.client.require_authentication()
    admitted = set()
    for declared in APIS:
        version = declared.request.versions.first
        try:
            served(pipeline, declared.request(), version, call)
        except Refused:
            continue
        admitted.add(declared.name)
    assert admitted == {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
    call.authenticated("User:ann")
    assert served(pipeline, MetadataRequest(), 9, call).error_code == 0


def test_nothing_is_decoded_before_it_is_admitted(kafka: InProcessBroker) -> None:
    call = Call(kafka.broker)
    call.client.require_authentication()
    payload = memoryview(frame(MetadataRequest(), 9)[:-1] + b"\xff")
    with pytest.raises(Refused, match="before authentication: Metadata"):
        Pipeline().serve(payload, 0, len(payload), call, Replies())


def test_a_throttled_response_contains_the_throttle_time(kafka: InProcessBroker) -> None:
    def throttle(route: Route, request: Any, call: Call) -> Any:
        call.throttle_ms = 250
        return route.handle(request, call)

    pipeline = Pipeline(Standing(throttle))
    response = served(pipeline, MetadataRequest(), 9, Call(kafka.broker))
    assert isinstance(response, MetadataResponse) and response.throttle_time_ms == 250
    assert served(pipeline, ApiVersionsRequest(), 2, Call(kafka.broker)).throttle_time_ms == 250


def test_a_hook_may_wait_before_the_handler(kafka: InProcessBroker) -> None:
    async def wait(route: Route, request: Any, call: Call) -> Any:
        await Turn()
        response = route.handle(request, call)
        return await response if isinstance(response, Awaitable) else response

    call, replies = Call(kafka.broker), Replies()
    data = memoryview(frame(MetadataRequest(), 9, 7))
    parked = Pipeline(Standing(wait)).serve(data, 0, len(data), call, replies)
    assert isinstance(parked, ParkedHandler) and not replies.tail
    assert parked.resume(call, replies)
    assert decoded(replies, MetadataRequest(), 9).brokers
