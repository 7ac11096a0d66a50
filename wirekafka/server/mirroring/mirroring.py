"""Keeps a node's mirrors: their topics, the fetchers of their partitions, and their promotion."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from wirekafka.broker import Broker
from wirekafka.config.topic_config import MIRROR_SOURCE, is_mirror
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.mirrors import RaiseLeaderEpochs, RaiseProducerIds
from wirekafka.metadata.controller.topics import CreatePartitions, CreateTopics, Growth, NewTopic
from wirekafka.metadata.image.image import TOPIC
from wirekafka.quotas.rate import Windows
from wirekafka.quotas.token_bucket import TokenBucket
from wirekafka.replication.mirroring.mirror_fetcher import CopiedPartition
from wirekafka.replication.mirroring.topic_plan import (
    Key,
    LocalTopic,
    SourceTopic,
    TopicPlan,
    origin_of,
    topic_plan,
)
from wirekafka.replication.partition.internal_topics import INTERNAL_TOPICS
from wirekafka.runtime.backoff import Backoff
from wirekafka.runtime.driver import Driver, start_later
from wirekafka.runtime.promise import Promise
from wirekafka.server.mirroring.group_offsets import GroupOffsets
from wirekafka.server.mirroring.settings import MirrorSettings
from wirekafka.server.mirroring.source_cluster import SourceCluster
from wirekafka.server.mirroring.source_fetcher import SourceFetcher
from wirekafka.server.mirroring.topic_settings import KEPT, TopicSettings
from wirekafka.server.net import Net

logger = logging.getLogger(__name__)

_BACKOFF = Backoff(200, 10_000, jitter=0.2)
_SOON_MS = 200
"""How soon the metadata is looked at after a partition's leader has changed."""
_CREATED_AT_ONCE = 1_000
"""How many partitions are created by one command."""
_LATEST = -1
_PRODUCER_IDS = 1 << 40
"""Producers of a cluster that mirrors another have ids from a multiple of this number on: above
all that the source will ever assign."""


class Mirroring:
    """Copies topics of another cluster until they are promoted."""

    def __init__(self, broker: Broker, settings: MirrorSettings, net: Net):
        self._broker, self.settings = broker, settings
        self._clock = broker.clock
        self._source = SourceCluster(net, self._clock, settings.bootstrap, settings.security)
        self._rate = (
            TokenBucket(Windows(1, 1_000), settings.rate_bytes) if settings.rate_bytes else None
        )
        self._fetchers: dict[int, SourceFetcher] = {}
        """By the id of the broker at the source."""
        self._placed: dict[Key, int] = {}
        """By which fetcher each partition is fetched."""
        self.copied: dict[Key, CopiedPartition] = {}
        self.plan = TopicPlan()
        """The last comparison of the topics."""
        self.error: str | None = None
        """Why the source could not be looked at."""
        self.is_complete = False
        """Whether a copy that is made once has been made."""
        self._topic_settings = TopicSettings(broker, self._source)
        groups = settings.groups
        self._groups = None if groups is None else GroupOffsets(broker, self._source, groups)
        self._pause: Promise[None] | None = None
        self._is_moved = False
        self._run: Driver | None = None

    def start(self) -> None:
        """Begin; topics that are about to be mirrored are not created by clients meanwhile."""
        logger.info("Mirroring topics of %s", self.settings.source)
        self._broker.auto_creation.is_reserved = self._is_wanted
        self._run = start_later(self._keep)

    def stop(self) -> None:
        """Close all connections; nothing is appended afterwards."""
        if self._run is not None:
            self._run.stop()
        self._end_fetchers()
        self._source.close()

    @property
    def lag(self) -> int | None:
        """How many offsets the copies are behind; None before that is known."""
        lags = [each.lag for each in self.copied.values()]
        known = [lag for lag in lags if lag is not None]
        return None if len(known) < len(lags) or self.error else sum(known)

    def fetch_error(self, key: Key) -> str | None:
        """Why the broker that leads a partition at the source cannot be fetched from."""
        fetcher = self._fetchers.get(self._placed.get(key, -1))
        return None if fetcher is None else fetcher.error

    async def _keep(self) -> None:
        failures = 0
        while not self.is_complete:
            self._is_moved = False
            try:
                await self._look()
            except Exception as error:
                delay_ms = _BACKOFF.delay_ms(failures)
                failures += 1
                self._failed(error)
            else:
                failures, delay_ms = 0, self.settings.refresh_ms
                if self.error is not None:
                    logger.info("The mirrored cluster %s answers again", self.settings.source)
                    self.error = None
            await self._until(delay_ms)
        logger.info("The copy of %s is complete", self.settings.source)
        self._end_fetchers()
        self._source.close()

    async def _look(self) -> None:
        """Compare the topics of both clusters, and make what is missing. Raises KafkaError."""
        view = await self._source.view()
        plan = topic_plan(view, self._local_topics(), self._is_wanted)
        self._note(plan)
        await self._part_producer_ids()
        if plan.create or plan.grow or plan.epochs:
            await self._make(plan, view.cluster_id)
            plan = topic_plan(view, self._local_topics(), self._is_wanted)
            if plan.epochs:
                await self._raise_epochs(plan)
        self.plan = plan
        await self._place(plan)
        if self._groups is not None and not plan.is_over:
            await self._groups.copy(self.plan)
        if self.settings.copies_configs and not plan.is_over:
            await self._topic_settings.follow({name for name, _ in plan.follow})
        if self.settings.is_once:
            copied = self.copied.values()
            self.is_complete = all(each.is_complete for each in copied) and bool(copied)

    async def _part_producer_ids(self) -> None:
        """Have producers here get higher ids than the source's have. Raises KafkaError."""
        broker = self._broker
        newest = max(
            (
                producer.producer_id
                for copied in self.copied.values()
                for producer in copied.partition.log.producers
            ),
            default=0,
        )
        least = (newest // _PRODUCER_IDS + 1) * _PRODUCER_IDS
        if broker.image.next_producer_id < least:
            command = RaiseProducerIds(broker.node_id, broker.epoch, least)
            await broker.controller.submit(command)
            broker.producer_ids.discard()

    def _is_wanted(self, name: str) -> bool:
        return name not in INTERNAL_TOPICS and self.settings.topics.matches(name)

    def _local_topics(self) -> dict[str, LocalTopic]:
        image = self._broker.image
        found = {}
        for name, topic in image.topics.items():
            overrides = image.config(TOPIC, name)
            origin = overrides.get(MIRROR_SOURCE, "")
            found[name] = LocalTopic(
                name,
                origin,
                bool(origin) and not is_mirror(overrides),
                {index: each.leader_epoch for index, each in topic.partitions.items()},
            )
        return found

    def _note(self, plan: TopicPlan) -> None:
        """Log what has changed since the last comparison."""
        for name, reason in plan.refused.items():
            if self.plan.refused.get(name) != reason:
                logger.error("Topic %s is not mirrored: %s", name, reason)
        if plan.is_over and not self.plan.is_over:
            logger.info("All mirrored topics are promoted: nothing is mirrored any more")

    async def _make(self, plan: TopicPlan, cluster_id: str) -> None:
        """Create topics, add partitions, and raise leader epochs. Raises KafkaError."""
        part: list[SourceTopic] = []
        for topic in plan.create:
            part.append(topic)
            if sum(len(each.partitions) for each in part) >= _CREATED_AT_ONCE:
                await self._create(part, cluster_id)
                part = []
        if part:
            await self._create(part, cluster_id)
        if plan.grow:
            own = self._broker.node_id
            present = {name: len(self._broker.image.topics[name].partitions) for name in plan.grow}
            growths = [
                Growth(name, count, [[own]] * (count - present[name]))
                for name, count in plan.grow.items()
            ]
            self._check(await self._broker.controller.submit(CreatePartitions(growths)))
        await self._raise_epochs(plan)

    async def _create(self, topics: list[SourceTopic], cluster_id: str) -> None:
        configs: Mapping[str, Mapping[str, str]] = {}
        if self.settings.copies_configs:
            configs = await self._topic_settings.of({topic.name for topic in topics})
        new = [
            NewTopic(
                name=topic.name,
                assignments=[(index, [self._broker.node_id]) for index in topic.partitions],
                configs={
                    **configs.get(topic.name, KEPT),
                    MIRROR_SOURCE: origin_of(cluster_id, topic.id),
                },
            )
            for topic in topics
        ]
        outcome = await self._broker.controller.submit(CreateTopics(new))
        await self._broker.controller_channel.follow()
        self._check(outcome)

    def _check(self, outcome: Mapping[str, Any]) -> None:
        """Raise the first error of a command's topics, but for a topic that exists."""
        for name, result in outcome.items():
            if isinstance(result, KafkaError) and result.error != Error.TOPIC_ALREADY_EXISTS:
                raise KafkaError(result.error, f"topic {name}: {result.message}")

    async def _raise_epochs(self, plan: TopicPlan) -> None:
        if plan.epochs:
            await self._broker.controller.submit(RaiseLeaderEpochs(plan.epochs))
        await self._broker.controller_channel.follow()

    async def _place(self, plan: TopicPlan) -> None:
        """Have each partition fetched from its leader, and no others. Raises KafkaError."""
        for key in self.copied.keys() - plan.follow.keys():
            self._remove(key)
        begun = []
        for key, source in plan.follow.items():
            partition = self._broker.partitions.get(key)
            if partition is None or partition.mirror is None:
                self._remove(key)
                continue
            copied = self.copied.get(key)
            if copied is None or copied.partition is not partition:
                self._remove(key)
                from_ms = self.settings.from_ms
                copied = self.copied[key] = CopiedPartition(
                    partition, None if from_ms is None else self._clock.now_ms() - from_ms
                )
            if source.leader_id >= 0:
                self._fetch_from(source.leader_id, key, copied)
            if self.settings.is_once and copied.goal is None:
                begun.append((source.leader_id, copied))
        if begun:
            await self._set_goals(begun)
        for node_id, fetcher in list(self._fetchers.items()):
            if not len(fetcher.fetcher):
                fetcher.stop()
                del self._fetchers[node_id]
            else:
                fetcher.fetcher.on_ready()

    def _fetch_from(self, node_id: int, key: Key, copied: CopiedPartition) -> None:
        placed = self._placed.get(key)
        if placed is not None and placed != node_id:
            self._fetchers[placed].fetcher.forget(copied)
        fetcher = self._fetchers.get(node_id)
        if fetcher is None:
            fetcher = self._fetchers[node_id] = SourceFetcher(
                self._source, node_id, self._clock, self._rate, self._look_soon
            )
        self._placed[key] = node_id
        fetcher.fetcher.follow(copied)

    async def _set_goals(self, begun: list[tuple[int, CopiedPartition]]) -> None:
        """Note where a copy that is made once ends."""
        by_leader: dict[int, list[CopiedPartition]] = {}
        for node_id, copied in begun:
            by_leader.setdefault(node_id, []).append(copied)
        for node_id, partitions in by_leader.items():
            wanted = {each.key: _LATEST for each in partitions}
            ends = await self._source.offsets(node_id, wanted)
            for each in partitions:
                end = ends.get(each.key)
                if isinstance(end, int):
                    each.goal = end

    def _remove(self, key: Key) -> None:
        copied = self.copied.pop(key, None)
        placed = self._placed.pop(key, None)
        if copied is not None and placed is not None:
            self._fetchers[placed].fetcher.forget(copied)

    def _end_fetchers(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()
        self._placed.clear()

    def _look_soon(self) -> None:
        """Look at the source's metadata soon: a leader may have changed."""
        if not self._is_moved:
            self._is_moved = True
            self._clock.call_later(_SOON_MS, self._wake)

    def _wake(self) -> None:
        if self._pause is not None:
            self._pause.set(None)

    def _failed(self, error: Exception) -> None:
        text = str(error) if isinstance(error, KafkaError) else repr(error)
        if not isinstance(error, KafkaError):
            logger.exception("Looking at the mirrored cluster failed")
        elif text != self.error:
            logger.error("The mirrored cluster cannot be looked at: %s", text)
        self.error = text

    async def _until(self, delay_ms: float) -> None:
        pause = self._pause = Promise()
        try:
            await pause.within(self._clock, delay_ms)
        finally:
            self._pause = None
