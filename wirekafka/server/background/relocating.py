"""Copies replicas to other log directories in the background, at a limited rate."""

from __future__ import annotations

import asyncio
import logging

from wirekafka.broker import Broker
from wirekafka.errors import KafkaError
from wirekafka.metadata.image.followers import relocation_throttle
from wirekafka.replication.partition.relocation import Relocation

logger = logging.getLogger(__name__)

_COPY_BYTES = 256 << 10
"""How much is copied between two turns of the event loop: one or two milliseconds."""
_RETRY_MS = 5_000
_PAUSE_S = 0.2
"""How long nothing is copied while the rate is exceeded, or while no move can go on."""


class Relocating:
    """The task that copies while replicas are moving."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self._relocations = broker.relocations
        self._throttle = relocation_throttle(broker.image, broker.config)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Copy the replicas that move now or later."""
        self._relocations.on_begin = self._begin
        if self._relocations.moving:
            self._begin()

    def stop(self) -> None:
        """Stop at once; moves continue after the next start."""
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._relocations.moving:
                has_copied = False
                for relocation in list(self._relocations.moving.values()):
                    has_copied |= await self._advanced(relocation)
                await asyncio.sleep(0 if has_copied else _PAUSE_S)
        finally:
            self._task = None

    async def _advanced(self, relocation: Relocation) -> bool:
        """Copy some batches, or complete the move; returns whether to go on at once."""
        now_ms = self._broker.clock.now_ms()
        if now_ms < relocation.retry_ms or self._throttle.is_exceeded(now_ms):
            return False
        try:
            if self._copied(relocation):
                await asyncio.sleep(0)
                return True
            if not relocation.has_caught_up:
                return False  # It was truncated, and is copied from there after a pause.
            await self._sync(relocation)
            # What was appended meanwhile is little: it is copied and synced here and now.
            while self._is_moving(relocation) and self._copied(relocation):
                pass
            if self._is_moving(relocation) and relocation.has_caught_up:
                self._relocations.complete(relocation)
        except (KafkaError, OSError) as error:
            relocation.retry_ms = now_ms + _RETRY_MS
            if str(error) != relocation.last_error:
                relocation.last_error = str(error)
                logger.error("%s cannot be moved: %s", relocation.log.name, error)
            return False
        return True

    def _copied(self, relocation: Relocation) -> int:
        now_ms = self._broker.clock.now_ms()
        copied_bytes = relocation.copy(_COPY_BYTES, now_ms)
        if copied_bytes:
            self._throttle.record(copied_bytes, now_ms)
        return copied_bytes

    async def _sync(self, relocation: Relocation) -> None:
        log = relocation.log
        flush = log.begin_flush()
        if flush is not None:
            try:
                await asyncio.to_thread(flush.run)
            except OSError as error:
                log.withdraw_flush(flush, error)
                raise
            log.finish_flush(flush)

    def _is_moving(self, relocation: Relocation) -> bool:
        return self._relocations.moving.get(relocation.key) is relocation
