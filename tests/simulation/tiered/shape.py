"""The nodes of a cluster with tiered storage, whose limits of time are short."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Self

import pytest

from tests.simulation.cluster.shape import MIN_ISR, REPLICAS, NodeSpec, Shape
from tests.simulation.tiered.threads import VirtualEvent
from wirekafka.config.own import TIER
from wirekafka.server.tiering import copier, copies, remote_metadata, tiering
from wirekafka.server.tiering.settings import CLASS_NAME, LOCAL_CLASS
from wirekafka.tiered import byte_cache

REQUEST_MS = 3_000
READ_BACK_MS = 2_000
_SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "500",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "rlmm.config.remote.log.metadata.topic.replication.factor": str(REPLICAS),
    "rlmm.config.remote.log.metadata.topic.min.isr": str(MIN_ISR),
    "remote.fetch.max.wait.ms": "200",
    "broker.heartbeat.interval.ms": "1000",
    "request.timeout.ms": str(REQUEST_MS),
    "log.retention.check.interval.ms": "700",
    "share.coordinator.state.topic.num.partitions": "1",
}
TIERED = {
    "remote.storage.enable": "true",
    "local.retention.bytes": "1",
    "min.insync.replicas": str(MIN_ISR),
    "internal.segment.bytes": "400",
    "segment.ms": "604800000",
}
"""The configs of tiered topics: little is local, and each segment has a few batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieredShape(Shape):
    """One controller and three brokers, or three nodes that are both."""

    tier: tuple[tuple[str, str], ...]
    """The settings of the layout of the objects, and of how new followers begin."""

    @classmethod
    def drawn(cls, random: Random) -> Self:
        """The shape of a seed."""
        is_combined = random.random() < 0.3
        if is_combined:
            specs = [NodeSpec(id=id, roles="broker,controller") for id in (1, 2, 3)]
        else:
            specs = [NodeSpec(id=1, roles="controller")]
            specs += [NodeSpec(id=id, roles="broker") for id in (2, 3, 4)]
        if random.random() < 0.5:
            layout = {CLASS_NAME: LOCAL_CLASS, "rsm.config.dir": "/tier"}
        else:
            layout = {TIER: "memory:///"}
        if random.random() < 0.3:
            layout["follower.fetch.last.tiered.offset.enable"] = "true"
        return cls(
            specs=tuple(specs),
            voters=(1, 2, 3) if is_combined else (1,),
            is_dynamic=False,
            is_synced=random.random() < 0.4,
            rolls=True,
            tier=tuple(layout.items()),
        )

    @property
    def topic_configs(self) -> dict[str, str]:
        return TIERED

    def settings(self, spec: NodeSpec) -> dict[str, str]:
        return {**Shape.settings(self, spec), **_SETTINGS, **dict(self.tier)}


@contextmanager
def short_limits() -> Iterator[None]:
    """What takes minutes takes seconds: uploads, and until what nobody continues is deleted.

    What jobs of the store wait for happens in virtual time too.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copies, "_COPY_MS", 2_000)
        patch.setattr(copies, "_MARGIN_MS", 8_000)
        patch.setattr(copies, "READ_BACK_MS", READ_BACK_MS)
        patch.setattr(remote_metadata, "READ_BACK_MS", READ_BACK_MS)
        patch.setattr(copier, "_DELETE_LIMIT_MS", 2_000)
        patch.setattr(tiering, "_ORPHANED_MS", 4_000)
        patch.setattr(byte_cache, "Event", VirtualEvent)
        yield
