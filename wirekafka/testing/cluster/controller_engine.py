"""Runs a controller of a cluster under test on the cluster's event loop."""

from __future__ import annotations

from wirekafka.metadata.image.image import MetadataImage
from wirekafka.replication.raft.metadata_log import sync_inline
from wirekafka.server.controller_node import ControllerNode
from wirekafka.server.node import Platform
from wirekafka.testing.clock import NodeClock
from wirekafka.testing.disk import TestDisk
from wirekafka.testing.settings import checked
from wirekafka.testing.setup import Place, Setup, started


class ControllerEngine:
    """A controller, with its clock and disk; its methods are called on the event loop."""

    def __init__(self, setup: Setup, place: Place, cluster_id: str):
        self._config = checked({**setup.settings, "log.dirs": setup.directory})
        self._place = place
        self._cluster_id = cluster_id
        self._clock = NodeClock(place.thread.steady)
        self._disk = TestDisk(syncs=setup.syncs)
        self._node: ControllerNode | None = None

    @property
    def is_up(self) -> bool:
        """Whether the controller runs."""
        return self._node is not None

    @property
    def is_active(self) -> bool:
        """Whether it runs and is the active controller, as far as it knows."""
        return self._node is not None and self._node.source.controller.is_active

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        assert self._node is not None, "it is down"
        return self._node.source.controller.committed_image

    @property
    def epoch(self) -> int:
        """The epoch of the quorum, as far as the controller knows."""
        return -1 if self._node is None else self._node.source.controller.quorum.epoch

    async def start_node(self) -> None:
        """Start on the same directory and port. Raises OSError, ValueError."""
        assert self._node is None, "it runs"
        platform = Platform(
            clock=lambda: self._clock,
            disk=lambda: self._disk,
            net=self._place.net,
            recover=None,
            sync=sync_inline,
            cluster_id=self._cluster_id,
        )
        node = ControllerNode(self._config, platform)
        await started(node)
        self._node = node

    async def stop_node(self) -> None:
        """Stop cleanly, as SIGTERM does."""
        node, self._node = self._node, None
        if node is not None:
            await node.stop()
        self._clock.forget()

    def abort_node(self) -> None:
        """Stop as `kill -9` does."""
        node, self._node = self._node, None
        if node is not None:
            self._clock.forget()
            node.abort()

    def pause(self) -> None:
        """Hold back the timers; the network holds back the links to the controller."""
        self._clock.pause()

    def resume(self) -> None:
        """Continue after `pause`."""
        self._clock.resume()
