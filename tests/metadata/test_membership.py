"""A broker's registration, heartbeats and controlled shutdown under scripted responses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.manual_clock import ManualClock
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.broker.membership import Membership
from wirekafka.metadata.controller.channel import Beat, Registration
from wirekafka.metadata.controller.heartbeats import Standing
from wirekafka.metadata.controller.registration import Endpoint
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.protocol.records.metadata import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from wirekafka.runtime.promise import Promise

EPOCH = 40
SERVING = Standing(is_caught_up=True, is_fenced=False, should_shut_down=False)
FENCED = Standing(is_caught_up=False, is_fenced=True, should_shut_down=False)
GO = Standing(is_caught_up=True, is_fenced=True, should_shut_down=True)


class Controllers:
    """The channel, with the responses to the next requests; the last one is repeated."""

    def __init__(self, clock: ManualClock):
        self.clock = clock
        self.to_registrations: list[int | Error] = [EPOCH]
        self.to_beats: list[Standing | Error] = [SERVING]
        self.registrations = 0
        self.beats: list[Beat] = []
        self.takes_ms = 0

    async def register(self, registration: Registration) -> int:
        self.registrations += 1
        return self._answer(self.to_registrations)

    async def heartbeat(self, beat: Beat) -> Standing:
        self.beats.append(beat)
        return self._answer(self.to_beats)

    def _answer(self, answers: list[Any]) -> Any:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Error):
            raise KafkaError(answer)
        return answer


class Follower:
    """The broker's metadata, which has its registration already.

    A condition that does not hold waits for `arrive`.
    """

    end_offset = EPOCH + 2

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.image.replay(
            RegisterBrokerRecord(broker_id=7, broker_epoch=EPOCH, fenced=False, end_points=[])
        )

        self._waiting: list[tuple[Any, Promise]] = []

    async def until(self, holds: Any) -> None:
        if not holds(self.image):
            promise = Promise()
            self._waiting.append((holds, promise))
            await promise

    def arrive(self, record: Any) -> None:
        self.image.replay(record)
        for holds, promise in self._waiting:
            if holds(self.image):
                promise.set(None)


class Stage:
    def __init__(self, **settings: str) -> None:
        self.follower = Follower()
        self.clock = ManualClock()
        self.controllers = Controllers(self.clock)
        self.cordoned: list[bytes] = []
        self.cut_off = Promise()
        """Set once no majority of the controllers can be reached."""
        config = BrokerConfig.of({name.replace("_", "."): text for name, text in settings.items()})
        self.membership = Membership(
            self.controllers,  # type: ignore[arg-type]
            self.follower,
            self.clock,
            Registration.with_own_features(
                broker_id=7,
                cluster_id="c",
                incarnation_id=bytes(16),
                endpoints=(),
                rack=None,
                log_dirs=[],
            ),
            lambda: config,
            cordoned=lambda: self.cordoned,
        )

    async def join(self, most_ms: int = 300_000) -> Error | None:
        return await self._over(
            self.membership.join([Endpoint("PLAINTEXT", "localhost", 9092)]), most_ms
        )

    async def leave(self, most_ms: int = 600_000) -> Error | None:
        return await self._over(self.membership.leave(lambda: self.cut_off), most_ms)

    async def _over(self, coroutine: Any, most_ms: int) -> Error | None:
        """Run a coroutine while time passes; returns the error that it ended with, if any."""
        task = asyncio.ensure_future(coroutine)
        for _ in range(most_ms // 50):
            for _ in range(3):
                await asyncio.sleep(0)
            if task.done():
                break
            self.clock.advance(50)
        assert task.done(), "it still waits"
        try:
            task.result()
        except KafkaError as error:
            return error.error
        return None


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_registration_waits_for_the_session_of_the_previous_incarnation(stage: Stage) -> None:
    stage.controllers.to_registrations = [Error.DUPLICATE_BROKER_REGISTRATION] * 4 + [EPOCH]
    assert asyncio.run(stage.join()) is None
    assert stage.membership.broker_epoch == EPOCH and stage.controllers.registrations == 5


def test_a_registration_that_is_refused_for_too_long_ends_the_start(stage: Stage) -> None:
    stage.controllers.to_registrations = [Error.DUPLICATE_BROKER_REGISTRATION]
    assert asyncio.run(stage.join()) is Error.DUPLICATE_BROKER_REGISTRATION
    assert stage.controllers.registrations == 31, "every two seconds for a minute"


def test_a_registration_that_is_wrong_ends_the_start_at_once(stage: Stage) -> None:
    stage.controllers.to_registrations = [Error.INCONSISTENT_CLUSTER_ID]
    assert asyncio.run(stage.join()) is Error.INCONSISTENT_CLUSTER_ID
    assert stage.controllers.registrations == 1


def test_a_registration_waits_for_a_controller_without_a_limit(stage: Stage) -> None:
    absent = [Error.REQUEST_TIMED_OUT, Error.NETWORK_EXCEPTION, Error.NOT_CONTROLLER] * 20
    stage.controllers.to_registrations = [*absent, EPOCH]
    assert asyncio.run(stage.join()) is None
    assert stage.controllers.registrations == 61


def test_a_broker_is_in_service_once_a_heartbeat_response_unfences_it(stage: Stage) -> None:
    stage.controllers.to_beats = [FENCED, Error.NOT_CONTROLLER, Error.REQUEST_TIMED_OUT, SERVING]
    assert asyncio.run(stage.join()) is None
    assert len(stage.controllers.beats) == 4
    assert {beat.metadata_offset for beat in stage.controllers.beats} == {EPOCH + 1}


def test_heartbeats_go_on_until_the_metadata_shows_the_broker_in_service(stage: Stage) -> None:
    """Otherwise the session may end before that, and nothing would renew it."""

    async def test() -> None:
        change = BrokerRegistrationChangeRecord
        stage.follower.arrive(change(broker_id=7, broker_epoch=EPOCH, fenced=1))
        joining = asyncio.ensure_future(stage.join())
        while len(stage.controllers.beats) < 5:
            await asyncio.sleep(0)
        assert not joining.done()
        stage.follower.arrive(change(broker_id=7, broker_epoch=EPOCH, fenced=-1))
        assert await joining is None

    asyncio.run(test())


def test_a_start_whose_registration_was_replaced_fails(stage: Stage) -> None:
    stage.controllers.to_beats = [Error.STALE_BROKER_EPOCH]
    assert asyncio.run(stage.join()) is Error.STALE_BROKER_EPOCH


def test_a_controlled_shutdown_sends_heartbeats_until_it_is_granted(stage: Stage) -> None:
    async def test() -> None:
        assert await stage.join() is None
        stage.controllers.beats.clear()
        stage.controllers.to_beats = [SERVING, Error.NOT_CONTROLLER, SERVING, GO]
        begun_ms = stage.clock.now_ms()
        assert await stage.leave() is None
        assert [beat.wants_shut_down for beat in stage.controllers.beats] == [True] * 4
        # The second heartbeat follows at once: most shutdowns are granted then.
        assert stage.clock.now_ms() - begun_ms == 50 + 2000 + 2000
        assert await stage.leave() is None
        assert len(stage.controllers.beats) == 4

    asyncio.run(test())


def test_a_controlled_shutdown_ends_with_the_session_if_no_controller_responds(
    stage: Stage,
) -> None:
    async def test() -> None:
        assert await stage.join() is None
        stage.controllers.to_beats = [Error.REQUEST_TIMED_OUT]
        begun_ms = stage.clock.now_ms()
        assert await stage.leave() is Error.REQUEST_TIMED_OUT
        assert 9_000 <= stage.clock.now_ms() - begun_ms <= 11_100

    asyncio.run(test())


def test_a_controlled_shutdown_ends_early_if_the_other_controllers_have_stopped(
    stage: Stage,
) -> None:
    async def test() -> None:
        assert await stage.join() is None
        stage.controllers.to_beats = [Error.REQUEST_TIMED_OUT]
        stage.cut_off.set(None)
        begun_ms = stage.clock.now_ms()
        assert await stage.leave() is Error.NETWORK_EXCEPTION
        assert 2_000 <= stage.clock.now_ms() - begun_ms <= 2_100
        beats = len(stage.controllers.beats)
        for _ in range(200):
            stage.clock.advance(50)
            await asyncio.sleep(0)
        assert len(stage.controllers.beats) <= beats + 1

    asyncio.run(test())


def test_a_controlled_shutdown_that_is_never_granted_ends_as_in_kafka(stage: Stage) -> None:
    async def test() -> None:
        assert await stage.join() is None
        begun_ms = stage.clock.now_ms()
        assert await stage.leave() is None
        assert 300_000 <= stage.clock.now_ms() - begun_ms <= 302_000

    asyncio.run(test())


def test_a_controlled_shutdown_can_be_switched_off() -> None:
    async def test() -> None:
        stage = Stage(controlled_shutdown_enable="false")
        assert await stage.join() is None
        stage.controllers.beats.clear()
        assert await stage.leave() is None
        stage.clock.advance(60_000)
        assert stage.controllers.beats == []

    asyncio.run(test())


def test_first_heartbeat_asks_to_stay_fenced_as_in_kafka(stage: Stage) -> None:
    assert asyncio.run(stage.join()) is None
    assert [beat.wants_fence for beat in stage.controllers.beats] == [True, False]


def test_failed_directory_is_reported_at_once_and_in_every_later_heartbeat(stage: Stage) -> None:
    assert asyncio.run(stage.join()) is None
    del stage.controllers.beats[:]
    stage.membership.report_failed(b"d" * 16)
    assert [beat.offline_directories for beat in stage.controllers.beats] == [[b"d" * 16]]
    stage.membership.report_failed(b"e" * 16)
    stage.clock.advance(2_000)
    assert stage.controllers.beats[-1].offline_directories == [b"d" * 16, b"e" * 16]


def test_newly_cordoned_directories_are_reported_at_once(stage: Stage) -> None:
    stage.membership.configured()
    assert not stage.controllers.beats
    assert asyncio.run(stage.join()) is None
    del stage.controllers.beats[:]
    stage.membership.configured()
    assert not stage.controllers.beats
    for stage.cordoned in ([b"d" * 16], []):
        stage.membership.configured()
        stage.membership.configured()
        assert stage.controllers.beats.pop().cordoned_directories == stage.cordoned
        assert not stage.controllers.beats


@pytest.mark.parametrize("is_answered", [True, False])
def test_broker_stops_unless_a_controller_hears_of_the_failed_directory(is_answered: bool) -> None:
    stage = Stage(log_dir_failure_timeout_ms="5000")
    assert asyncio.run(stage.join()) is None
    failures: list[Exception] = []
    stage.membership.on_unreported = failures.append
    stage.controllers.to_beats = [SERVING if is_answered else Error.REQUEST_TIMED_OUT]
    stage.membership.report_failed(b"d" * 16)
    stage.clock.advance(4_999)
    assert not failures
    stage.clock.advance(1)
    assert len(failures) == (0 if is_answered else 1)
