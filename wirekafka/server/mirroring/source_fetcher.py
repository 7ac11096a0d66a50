"""Fetches mirrored partitions from one broker of the source, over one connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import groupby

from wirekafka.clock import Clock
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.fetch import FetchRequest, FetchResponse
from wirekafka.quotas.token_bucket import TokenBucket
from wirekafka.replication.fetching.fetcher import FetchedPartition
from wirekafka.replication.fetching.fetcher_session import FollowedKey, Plan
from wirekafka.replication.mirroring.mirror_fetcher import CopiedPartition, MirrorFetcher
from wirekafka.runtime.backoff import Backoff
from wirekafka.runtime.driver import start_later
from wirekafka.runtime.promise import Promise
from wirekafka.server.mirroring.source_cluster import TIMEOUT_MS, SourceCluster
from wirekafka.server.peers.peer import Peer

logger = logging.getLogger(__name__)

_NAMED = 12
"""The newest version of Fetch in which requests name topics: brokers before 2.8 have no ids."""
_WAIT_MS = 500
_PARTITION_BYTES = 8 << 20
_RESPONSE_BYTES = 32 << 20
_LEAST_BYTES = 64 << 10
_TURN_MS = 2
"""How long a response is processed before yielding to the event loop."""
_BACKOFF = Backoff(100, 5_000, jitter=0.2)
_EARLIEST, _LATEST = -2, -1
_SESSION_ERRORS = frozenset({Error.FETCH_SESSION_ID_NOT_FOUND, Error.INVALID_FETCH_SESSION_EPOCH})


class SourceFetcher:
    """One connection to one broker of the source, and the task that fetches over it."""

    def __init__(
        self,
        source: SourceCluster,
        node_id: int,
        clock: Clock,
        rate: TokenBucket | None,
        moved: Callable[[], None],
    ):
        """`rate` is shared by all fetchers; `moved` is called if the metadata may have changed."""
        self._source, self._node_id, self._clock = source, node_id, clock
        self._rate = rate
        self._moved = moved
        self._peer: Peer | None = None
        self._pause: Promise[None] | None = None
        self._failures = 0
        self.error: str | None = None
        """Why the last request has failed."""
        self.fetcher = MirrorFetcher()
        self.fetcher.on_ready = self._wake
        self.fetcher.on_moved = moved
        self._partition_bytes, self._response_bytes = _PARTITION_BYTES, _RESPONSE_BYTES
        if rate is not None:
            least = max(int(rate.limit), _LEAST_BYTES)
            self._partition_bytes = min(_PARTITION_BYTES, least)
            self._response_bytes = min(_RESPONSE_BYTES, least)
        self._run = start_later(self._fetch_all)

    def stop(self) -> None:
        """End fetching, and close the connection."""
        self._run.stop()
        self._disconnect()

    async def _fetch_all(self) -> None:
        while True:
            try:
                if unbegun := self.fetcher.unbegun():
                    await self._begin(unbegun)
                plan = self.fetcher.plan(self._clock.now_ms())
                if plan is None:
                    await self._until(self.fetcher.next_retry_ms())
                    continue
                await self._fetch(plan)
            except Exception as error:
                self._failed(error)
                await self._until(self._clock.now_ms() + int(_BACKOFF.delay_ms(self._failures)))
                self._failures += 1
            else:
                self._succeeded()

    async def _fetch(self, plan: Plan) -> None:
        """Send one request, and process its response. Raises KafkaError."""
        if self._rate is not None:
            while throttle_ms := self._rate.throttle_ms(self._clock.now_ms()):
                await self._sleep(throttle_ms)
        if self._peer is None:
            self._peer = self._source.new_peer(self._node_id, self._node_id)
        request = self._request(plan)
        response = await self._peer.send(request, timeout_ms=TIMEOUT_MS, most=_NAMED)
        if response.error_code:
            self.fetcher.refuse(response.error_code)
            if response.error_code not in _SESSION_ERRORS:
                raise KafkaError.of(response.error_code)
            return
        self.fetcher.accept(response.session_id)
        size_bytes = await self._take(response)
        self.fetcher.settle(has_records=size_bytes > 0)
        if self._rate is not None:
            self._rate.take(size_bytes, self._clock.now_ms())
        if out_of_range := self.fetcher.out_of_range():
            await self._return_to_range(out_of_range)

    async def _take(self, response: FetchResponse) -> int:
        """Append a response, yielding to other requests every `_TURN_MS`; returns its bytes."""
        now, size_bytes = self._clock.now_ms, 0
        turn_ends_ms = now() + _TURN_MS
        for topic in response.responses:
            name = topic.topic.encode()
            for data in topic.partitions:
                fetched = _fetched(data)
                size_bytes += len(fetched.records)
                for _ in self.fetcher.take((name, data.partition_index), fetched, now()):
                    if now() >= turn_ends_ms:
                        await asyncio.sleep(0)
                        turn_ends_ms = now() + _TURN_MS
        return size_bytes

    async def _begin(self, unbegun: list[CopiedPartition]) -> None:
        """Begin empty partitions at the first record since a time. Raises KafkaError."""
        wanted = {each.key: each.begins_at_ms or 0 for each in unbegun}
        found = await self._source.offsets(self._node_id, wanted)
        newest = [key for key, offset in found.items() if offset == -1]
        ends = await self._source.offsets(self._node_id, dict.fromkeys(newest, _LATEST))
        for each in unbegun:
            offset = {**found, **ends}[each.key]
            if isinstance(offset, KafkaError):
                self._moved()
                raise offset
            self.fetcher.begin(each, offset, self._clock.now_ms())

    async def _return_to_range(self, partitions: list[CopiedPartition]) -> None:
        """Request the source's offsets for partitions that are out of its range."""
        keys = [each.key for each in partitions]
        try:
            starts = await self._source.offsets(self._node_id, dict.fromkeys(keys, _EARLIEST))
            ends = await self._source.offsets(self._node_id, dict.fromkeys(keys, _LATEST))
        except KafkaError as error:
            for each in partitions:
                self.fetcher.fail(each, error, self._clock.now_ms())
            raise
        missing = KafkaError(Error.UNKNOWN_SERVER_ERROR, "the source has not returned its offsets")
        for each in partitions:
            start, end = starts.get(each.key, missing), ends.get(each.key, missing)
            now_ms = self._clock.now_ms()
            if isinstance(start, KafkaError):
                self.fetcher.fail(each, start, now_ms)
            elif isinstance(end, KafkaError):
                self.fetcher.fail(each, end, now_ms)
            else:
                self.fetcher.found_range(each, start, end, now_ms)

    def _request(self, plan: Plan) -> FetchRequest:
        kind = FetchRequest.Topic
        return FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=self._response_bytes,
            session_id=plan.session_id,
            session_epoch=plan.session_epoch,
            topics=[
                kind(
                    topic=name.decode(),
                    partitions=[
                        kind.Partition(
                            partition=index,
                            fetch_offset=at.fetch_offset,
                            last_fetched_epoch=at.last_fetched_epoch,
                            partition_max_bytes=self._partition_bytes,
                        )
                        for (_, index), at in wanted
                    ],
                )
                for name, wanted in groupby(plan.wanted.items(), lambda item: item[0][0])
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(
                    topic=name.decode(), partitions=[index for _, index in keys]
                )
                for name, keys in groupby(sorted(plan.forgotten), _name_of)
            ],
        )

    def _failed(self, error: Exception) -> None:
        """Close the connection, and log the error unless it repeats the last one."""
        self._disconnect()
        self.fetcher.interrupt()
        self._moved()
        text = str(error) if isinstance(error, KafkaError) else repr(error)
        if not isinstance(error, KafkaError):
            logger.exception("Fetching from broker %d of the source failed", self._node_id)
        elif text != self.error:
            logger.error("Cannot fetch from broker %d of the source: %s", self._node_id, text)
        self.error = text

    def _succeeded(self) -> None:
        if self.error is not None:
            logger.info("Fetching from broker %d of the source succeeds again", self._node_id)
        self.error, self._failures = None, 0

    def _disconnect(self) -> None:
        # The next connection uses the address that the broker has then.
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    async def _until(self, due_ms: int | None) -> None:
        """Wait until `due_ms`, None for no limit, or until a partition can be fetched."""
        pause = self._pause = Promise()
        try:
            if due_ms is None:
                await pause
            else:
                await pause.within(self._clock, max(due_ms - self._clock.now_ms(), 1))
        finally:
            self._pause = None

    async def _sleep(self, delay_ms: float) -> None:
        await Promise[None]().within(self._clock, delay_ms)

    def _wake(self) -> None:
        if self._pause is not None:
            self._pause.set(None)


def _fetched(data: FetchResponse.FetchableTopicResponse.PartitionData) -> FetchedPartition:
    diverging = data.diverging_epoch
    return FetchedPartition(
        error=data.error_code,
        high_watermark=data.high_watermark,
        start_offset=data.log_start_offset,
        diverging=None
        if diverging.epoch < 0 and diverging.end_offset < 0
        else (diverging.epoch, diverging.end_offset),
        records=data.records or b"",
    )


def _name_of(key: FollowedKey) -> bytes:
    return key[0]
