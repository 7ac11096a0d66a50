"""A controller registers with the active one until the metadata says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.manual_clock import ManualClock
from wirekafka.codec.message import Request
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.features import SUPPORTED
from wirekafka.metadata.controller.registration import Endpoint
from wirekafka.protocol.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from wirekafka.protocol.records.metadata import FeatureLevelRecord, RegisterControllerRecord
from wirekafka.runtime.observation import Committed
from wirekafka.server.controllers.controller_registrar import ControllerRegistrar, registration_of

INCARNATION = b"i" * 16


class Stage:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.sent: list[Any] = []
        self.answers: list[ControllerRegistrationResponse | KafkaError] = []
        registration = registration_of(2, INCARNATION, [Endpoint("CONTROLLER", "two", 9093, 3)])
        self.registrar = ControllerRegistrar(registration, self._send, self.clock)

    async def _send(self, request: Request, version: int) -> Any:
        self.sent.append(request)
        answer = self.answers.pop(0) if self.answers else ControllerRegistrationResponse()
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    def commit(self, *records: Any, is_snapshot: bool = False) -> None:
        self.registrar.note(Committed(records, 1, is_snapshot))

    async def settle(self, ms: int = 0) -> int:
        """Let everything run that is ready; how many requests were sent so far."""
        self.clock.advance(ms)
        for _ in range(5):
            await asyncio.sleep(0)
        return len(self.sent)


def run(test: Callable[[Stage], Awaitable[None]]) -> None:
    async def staged() -> None:
        await test(Stage())

    asyncio.run(staged())


def level(feature_level: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name="metadata.version", feature_level=feature_level)


def registered(incarnation: bytes, id: int = 2) -> RegisterControllerRecord:
    return RegisterControllerRecord(controller_id=id, incarnation_id=incarnation)


def test_a_controller_registers_its_listeners_and_features_once() -> None:
    async def test(stage: Stage) -> None:
        stage.commit(level(30))
        assert await stage.settle() == 0
        stage.registrar.start()
        assert await stage.settle() == 1
        [sent] = stage.sent
        assert (sent.controller_id, sent.incarnation_id) == (2, INCARNATION)
        kind = ControllerRegistrationRequest
        listener = kind.Listener(name="CONTROLLER", host="two", port=9093, security_protocol=3)
        assert sent.listeners == [listener]
        assert {
            each.name: (each.min_supported_version, each.max_supported_version)
            for each in sent.features
        } == SUPPORTED
        stage.commit(registered(INCARNATION))
        stage.commit(level(31))
        assert await stage.settle(60_000) == 1

    run(test)


def test_it_registers_again_when_another_incarnation_of_it_is_in_the_metadata() -> None:
    async def test(stage: Stage) -> None:
        stage.commit(level(30), registered(INCARNATION))
        stage.registrar.start()
        stage.commit(registered(b"o" * 16, id=3))
        assert await stage.settle() == 0
        stage.commit(registered(b"o" * 16))
        assert await stage.settle() == 1
        stage.commit(registered(INCARNATION))
        stage.commit(level(30), is_snapshot=True)
        assert await stage.settle() == 2

    run(test)


def test_a_refused_or_lost_registration_is_sent_again_after_growing_pauses() -> None:
    async def test(stage: Stage) -> None:
        stage.answers = [
            KafkaError(Error.REQUEST_TIMED_OUT),
            ControllerRegistrationResponse(error_code=Error.UNSUPPORTED_VERSION),
        ]
        stage.commit(level(30))
        stage.registrar.start()
        assert await stage.settle() == 1
        assert await stage.settle(79) == 1
        assert await stage.settle(50) == 2
        assert await stage.settle(130) == 2
        assert await stage.settle(150) == 3
        assert await stage.settle(60_000) == 3

    run(test)


def test_nothing_is_sent_before_the_metadata_can_have_it_or_after_a_stop() -> None:
    async def test(stage: Stage) -> None:
        stage.commit(level(14))
        stage.registrar.start()
        assert await stage.settle() == 0
        stage.answers = [KafkaError(Error.REQUEST_TIMED_OUT)]
        stage.commit(level(15))
        assert await stage.settle() == 1
        stage.registrar.stop()
        assert await stage.settle(60_000) == 1

    run(test)
