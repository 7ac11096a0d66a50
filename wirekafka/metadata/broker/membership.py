"""A broker's membership in the cluster: registration, heartbeats and controlled shutdown."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from wirekafka.clock import Clock, Timer
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.channel import Beat, ControllerChannel, Registration, Replica
from wirekafka.metadata.controller.heartbeats import Standing
from wirekafka.metadata.controller.producer_ids import Block
from wirekafka.metadata.controller.registration import Endpoint
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.replication.partition.remote_replica import DecidedIsr, IsrChange
from wirekafka.runtime.driver import start
from wirekafka.runtime.promise import Pauses, Promise, pause

logger = logging.getLogger(__name__)

_UNREACHABLE = frozenset({Error.NOT_CONTROLLER, Error.REQUEST_TIMED_OUT, Error.NETWORK_EXCEPTION})
"""Errors if no active controller has processed the request; retried until there is one."""
_RETRIABLE = frozenset(
    {
        # After a crash, until the session of the previous incarnation has expired.
        Error.DUPLICATE_BROKER_REGISTRATION,
        Error.BROKER_NOT_AVAILABLE,
    }
)
_FIRST_SHUTDOWN_PAUSE_MS = 50
_LONGEST_SHUTDOWN_MS = 300_000
"""How long a controlled shutdown may take, as in Kafka."""
_PATIENCE_MS = 2_000
"""How long a controlled shutdown goes on without a majority of controllers: one may return."""


class AppliedImage(Protocol):
    """A broker's metadata image, as far as its feed has applied it."""

    image: MetadataImage
    end_offset: int

    async def until(self, holds: Callable[[MetadataImage], bool]) -> None:
        """Wait until the condition holds for the image."""


class Membership:
    """One broker as a member of its cluster.

    The endpoints are added to `registration` in `join`; the other fields must be set.
    """

    def __init__(
        self,
        channel: ControllerChannel,
        follower: AppliedImage,
        clock: Clock,
        registration: Registration,
        config: Callable[[], BrokerConfig],
        *,
        cordoned: Callable[[], Sequence[bytes]] = tuple,
    ):
        self.broker_id = registration.broker_id
        self.broker_epoch = -1
        """The broker epoch of this incarnation, -1 before it is registered."""
        self._answered_ms = clock.now_ms()
        """When a controller answered a heartbeat last."""
        self._channel = channel
        self._follower = follower
        self._clock = clock
        self._registration = registration
        self._config = config
        self._cordoned = cordoned
        self._timer: Timer | None = None
        self._reported_cordoned: Sequence[bytes] = ()
        self._failed_directories: dict[bytes, bool] = {}
        """By id of a failed log directory: whether a controller knows of the failure."""
        self.on_unreported: Callable[[Exception], None] = lambda error: None
        """Called if no controller could be informed of a failed log directory in time."""
        self._is_leaving = False
        self._has_left = False

    @property
    def unanswered_ms(self) -> int:
        """How many ms ago a controller answered a heartbeat last; 0 within the session timeout."""
        silent_ms = self._clock.now_ms() - self._answered_ms
        return silent_ms if silent_ms > self._config().broker_session_timeout_ms else 0

    async def join(self, endpoints: Sequence[Endpoint]) -> None:
        """Register with these endpoints, which accept connections already, and wait to be unfenced.

        Raises KafkaError for an error that is not retriable, or that persists for
        `initial.broker.registration.timeout.ms`.
        """
        self._registration = replace(self._registration, endpoints=endpoints)
        await self._register()
        id, epoch = self.broker_id, self.broker_epoch
        await self._is_fenced(wants_fence=True)
        await self._follower.until(lambda image: _epoch(image, id) >= epoch)
        while await self._is_fenced():
            await self._pause()
        # The session may end, and the next heartbeat renew it, before the metadata arrives here.
        self._beat_later()
        await self._follower.until(lambda image: _serves(image, id))
        # Kafka's words, which Testcontainers and scripts wait for in a container's log.
        logger.info("The broker has been unfenced. Transitioning from RECOVERY to RUNNING.")

    async def leave(self, cut_off: Callable[[], Awaitable[None]]) -> None:
        """Stop heartbeats, and perform a controlled shutdown: leaderships move to other brokers.

        There is no controlled shutdown the second time, before `join`, or without
        `controlled.shutdown.enable`. Raises KafkaError if no controller has processed it within
        `broker.session.timeout.ms`, after which this broker is fenced anyway, or, after two
        seconds, once `cut_off` returns: the other controllers have stopped too.
        """
        self.stop()
        if self.broker_epoch < 0 or self._has_left or not self._config().controlled_shutdown_enable:
            return
        self._has_left = True
        left: Promise[None] = Promise()
        patience = Pauses(self._clock)
        start(self._shut_down(left))
        if not left.done:
            start(_give_up(left, patience, cut_off))
        try:
            await left
        finally:
            patience.end()

    def report_failed(self, directory: bytes) -> None:
        """Report a failed log directory, by its id, in this heartbeat and all later ones.

        If no heartbeat is answered within `log.dir.failure.timeout.ms`, `on_unreported` is called:
        until then the controllers take the directory's partitions to be in service.
        """
        self._failed_directories[directory] = False
        self._clock.call_later(
            self._config().log_dir_failure_timeout_ms, lambda: self._check_reported(directory)
        )
        if self.broker_epoch >= 0 and not self._is_leaving:
            start(self._try_beat())

    def configured(self) -> None:
        """Report log directories that a new configuration cordons, or no longer does, at once.

        The controllers take them into account when they next place replicas (KIP-1066).
        """
        is_unknown = self._cordoned() != self._reported_cordoned
        if is_unknown and self.broker_epoch >= 0 and not self._is_leaving:
            start(self._try_beat())

    def stop(self) -> None:
        """Stop sending heartbeats."""
        self._is_leaving = True
        if self._timer is not None:
            self._timer.cancel()

    async def allocate_producer_ids(self) -> Block:
        """Allocate the next block of producer ids. Raises KafkaError."""
        return await self._channel.allocate_producer_ids(self.broker_id, self.broker_epoch)

    async def assign_directories(self, directories: Mapping[Replica, bytes]) -> None:
        """Report the log directories of replicas. Raises KafkaError."""
        await self._channel.assign_directories(self.broker_id, self.broker_epoch, directories)

    async def alter_partition(
        self, changes: Mapping[Replica, IsrChange]
    ) -> dict[Replica, DecidedIsr | KafkaError]:
        """Propose ISRs of partitions led here; returns the decisions. Raises KafkaError."""
        return await self._channel.alter_partition(self.broker_id, self.broker_epoch, changes)

    async def _shut_down(self, left: Promise[None]) -> None:
        """Send heartbeats that request a controlled shutdown until it is over, or `left` is set."""
        begun_ms = answered_ms = self._clock.now_ms()
        pause_ms = _FIRST_SHUTDOWN_PAUSE_MS
        while not left.done and self._clock.now_ms() - begun_ms < _LONGEST_SHUTDOWN_MS:
            try:
                if (await self._beat(wants_shut_down=True)).should_shut_down:
                    break
                answered_ms = self._clock.now_ms()
            except Exception as error:
                silent_ms = self._clock.now_ms() - answered_ms
                has_expired = silent_ms >= self._config().broker_session_timeout_ms
                is_unreachable = isinstance(error, KafkaError) and error.error in _UNREACHABLE
                if has_expired or not is_unreachable:
                    left.set(error)
                    return
            await pause(self._clock, pause_ms)
            pause_ms = self._config().broker_heartbeat_interval_ms
        left.set(None)

    async def _register(self) -> None:
        give_up_ms = self._next_registration_timeout()
        while True:
            try:
                self.broker_epoch = await self._channel.register(self._registration)
            except KafkaError as error:
                if error.error in _UNREACHABLE:
                    give_up_ms = self._next_registration_timeout()
                elif error.error not in _RETRIABLE or self._clock.now_ms() >= give_up_ms:
                    raise
                logger.info("Broker %d is not registered yet: %s", self.broker_id, error)
                await self._pause()
            else:
                return

    def _next_registration_timeout(self) -> int:
        return self._clock.now_ms() + self._config().initial_broker_registration_timeout_ms

    def _check_reported(self, directory: bytes) -> None:
        if not self._failed_directories[directory] and not self._is_leaving:
            reason = "no controller could be informed of the failed log directory"
            self.on_unreported(KafkaError(Error.KAFKA_STORAGE_ERROR, reason))

    async def _is_fenced(self, *, wants_fence: bool = False) -> bool:
        try:
            return (await self._beat(wants_fence=wants_fence)).is_fenced
        except KafkaError as error:
            if error.error not in _UNREACHABLE:
                raise
            logger.info("Broker %d is not in service yet: %s", self.broker_id, error)
            return True

    async def _beat(self, *, wants_fence: bool = False, wants_shut_down: bool = False) -> Standing:
        failed = list(self._failed_directories)
        self._reported_cordoned = cordoned = self._cordoned()
        standing = await self._channel.heartbeat(
            Beat(
                broker_id=self.broker_id,
                broker_epoch=self.broker_epoch,
                metadata_offset=self._follower.end_offset - 1,
                wants_fence=wants_fence,
                wants_shut_down=wants_shut_down,
                offline_directories=failed,
                cordoned_directories=cordoned,
            )
        )
        self._answered_ms = self._clock.now_ms()
        self._failed_directories.update(dict.fromkeys(failed, True))
        return standing

    def _beat_later(self) -> None:
        self._timer = self._clock.call_later(
            self._config().broker_heartbeat_interval_ms, lambda: start(self._keep_alive())
        )

    async def _keep_alive(self) -> None:
        try:
            await self._try_beat()
        finally:
            if not self._is_leaving:
                self._beat_later()

    async def _try_beat(self) -> None:
        try:
            await self._beat()
        except KafkaError as error:
            logger.warning("A heartbeat of broker %d failed: %s", self.broker_id, error)

    async def _pause(self) -> None:
        """Wait for `broker.heartbeat.interval.ms`."""
        await pause(self._clock, self._config().broker_heartbeat_interval_ms)


async def _give_up(
    left: Promise[None], patience: Pauses, cut_off: Callable[[], Awaitable[None]]
) -> None:
    """End a controlled shutdown that no controller can process any more."""
    await patience.wait(_PATIENCE_MS)
    if not left.done:
        await cut_off()
        left.set(KafkaError(Error.NETWORK_EXCEPTION, "no majority of the controllers is left"))


def _epoch(image: MetadataImage, broker: int) -> int:
    known = image.brokers.get(broker)
    return known.epoch if known is not None else -1


def _serves(image: MetadataImage, broker: int) -> bool:
    known = image.brokers.get(broker)
    return known is not None and not known.fenced
