"""An in-process broker for tests of the group APIs: topics "t" and "u", no disk."""

from __future__ import annotations

from typing import Any

from tests import share_state_topic
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.simulation.disk import SimulatedDisk
from wirekafka.codec.message import Request
from wirekafka.coordinator.groups.coordinator import GroupCoordinator
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest

OFFSETS_PARTITIONS = 4
_SETTINGS = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "transaction.state.log.num.partitions": str(OFFSETS_PARTITIONS),
    **share_state_topic.settings(OFFSETS_PARTITIONS),
    "group.initial.rebalance.delay.ms": "0",
}


def topic_id(name: str) -> bytes:
    """The id that a `GroupBroker` gives to a topic of this name."""
    return name.encode().ljust(16, b"\x01")


class GroupBroker(InProcessBroker):
    """An in-process broker that coordinates no group until `ready` is called."""

    def __init__(self, **settings: str):
        self._next_id: bytes | None = None
        super().__init__("/data", ManualClock(), disk=SimulatedDisk(), **_SETTINGS | settings)
        for name, partitions in (("t", 3), ("u", 1)):
            self._next_id = topic_id(name)
            self.create(name, partitions)

    @property
    def groups(self) -> GroupCoordinator:
        return self.broker.groups

    @property
    def image(self) -> MetadataImage:
        return self.broker.image

    def ready(self) -> GroupBroker:
        """Create and load the offsets topic; return this broker."""
        answer = self.call(FindCoordinatorRequest(key="any"), 1)
        assert answer.error_code == 0
        self.clock.advance(1)
        return self

    def ask(self, request: Request, version: int, listener: str | None = None) -> Any:
        """The response to a request of the client "client"."""
        return self.call(request, version, "client", listener)

    def _new_id(self) -> bytes:
        found, self._next_id = self._next_id, None
        return found or super()._new_id()
