"""A simulated broker: it registers and sends heartbeats; a test sends all its other requests."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.errors import Error
from wirekafka.metadata.controller.features import SUPPORTED
from wirekafka.protocol.broker_heartbeat import BrokerHeartbeatRequest
from wirekafka.protocol.broker_registration import BrokerRegistrationRequest
from wirekafka.protocol.fetch import FetchRequest

HOST, PORT, RACK = "mute.test", 9999, "b"
_BEAT_S = 0.5
_HAS_ALL = 1 << 40
"""A metadata offset beyond everything that the controller has written."""


class SimulatedBroker:
    """A broker without listeners, which the controller considers alive until `end`."""

    def __init__(self, id: int, cluster_id: str, controller: tuple[str, int]):
        self.id = id
        self.epoch = -1
        self._wants_fence = self._wants_shut_down = False
        self._cluster_id = cluster_id
        self._wire = Wire(controller)
        self._one_at_a_time = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat_on, daemon=True)
        self.restart()
        self._thread.start()

    def restart(self) -> None:
        """Shut down, register again with another broker epoch, and be unfenced."""
        if self.epoch >= 0:
            self._wants_shut_down = True
            eventually(self._beat)
        with self._one_at_a_time:
            self._register(self._cluster_id)
            self._wants_shut_down = False
        self.unfence()

    def fence(self) -> None:
        """Be fenced, so that other brokers lead."""
        self._wants_fence = True
        self._beat()

    def unfence(self) -> None:
        """Be in service again."""
        self._wants_fence = False
        self._beat()

    def end(self) -> None:
        """Be fenced, and stop sending requests."""
        self._over.set()
        self._thread.join()
        self.fence()
        self._wire.close()

    def state(self) -> FetchRequest.ReplicaState:
        """The ReplicaState of its fetches (KIP-903)."""
        return FetchRequest.ReplicaState(replica_id=self.id, replica_epoch=self.epoch)

    def _register(self, cluster_id: str) -> None:
        request = registration(self.id, cluster_id)

        def is_registered() -> bool:
            response = self._wire.ask(request, 4)
            if isinstance(response, str) or response.error_code == Error.NOT_CONTROLLER:
                return False
            assert response.error_code == 0, Error(response.error_code)
            self.epoch = response.broker_epoch
            return True

        eventually(is_registered)

    def _beat_on(self) -> None:
        while not self._over.wait(_BEAT_S):
            self._beat()

    def _beat(self) -> bool:
        """Send a heartbeat; returns whether the broker may shut down."""
        with self._one_at_a_time:
            response = self._wire.ask(
                heartbeat(self.id, self.epoch, self._wants_fence, self._wants_shut_down), 2
            )
        assert response.error_code == 0, Error(response.error_code)
        return bool(response.should_shut_down)


def registration(id: int, cluster_id: str) -> BrokerRegistrationRequest:
    """The registration of a new start of a broker."""
    kind = BrokerRegistrationRequest
    return kind(
        broker_id=id,
        cluster_id=cluster_id,
        incarnation_id=uuid4().bytes,
        listeners=[kind.Listener(name="PLAINTEXT", host=HOST, port=PORT, security_protocol=0)],
        features=[
            kind.Feature(name=name, min_supported_version=first, max_supported_version=last)
            for name, (first, last) in SUPPORTED.items()
        ],
        rack=RACK,
        log_dirs=[uuid4().bytes],
        previous_broker_epoch=-1,
    )


def heartbeat(
    id: int, epoch: int, wants_fence: bool = False, wants_shut_down: bool = False
) -> BrokerHeartbeatRequest:
    """The heartbeat of a broker that has all metadata."""
    return BrokerHeartbeatRequest(
        broker_id=id,
        broker_epoch=epoch,
        current_metadata_offset=_HAS_ALL,
        want_fence=wants_fence,
        want_shut_down=wants_shut_down,
        cordoned_log_dirs=[],
    )


@dataclass(kw_only=True)
class Position:
    """One partition of a fetch."""

    offset: int = 0
    current_epoch: int = 0
    last_epoch: int = -1
    log_start: int = 0
    index: int = 0


def fetch_of(topic: tuple[str, bytes], version: int, positions: Sequence[Position], **fields: Any):
    """A Fetch of one topic, in the fields of this version; outside of sessions by default."""
    name, topic_id = topic
    kind = FetchRequest.Topic
    part = kind(topic_id=topic_id) if version >= 13 else kind(topic=name)
    part.partitions = [
        kind.Partition(
            partition=each.index,
            current_leader_epoch=each.current_epoch,
            fetch_offset=each.offset,
            last_fetched_epoch=each.last_epoch,
            log_start_offset=each.log_start,
            partition_max_bytes=1 << 20,
        )
        for each in positions
    ]
    values = {"max_wait_ms": 0, "min_bytes": 1, "isolation_level": 0, "session_epoch": -1}
    return FetchRequest(**{**values, **fields}, topics=[part] if positions else [])
