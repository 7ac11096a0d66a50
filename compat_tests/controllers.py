"""Active controllers to compare: Apache Kafka's, and this project's machine on a log in memory.

Neither has brokers: a test registers simulated ones and sends their requests, so that the
controllers' decisions depend on the test alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from compat_tests.cluster import FIRST_CONTROLLER, HOST, Cluster, Shape
from compat_tests.wire import Wire
from tests.eventually import eventually
from tests.metadata.cluster import EmptyCluster
from wirekafka.apis.shared import registry
from wirekafka.apis.shared.call import ControllerCall
from wirekafka.codec.batch import batches, read_header
from wirekafka.codec.message import Message, Request
from wirekafka.errors import KafkaError
from wirekafka.log.directories.log_directory import METADATA_LOG
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.protocol.records.metadata import NoOpRecord, RegisterControllerRecord

_TICK_MS = 100


class ActiveController(Protocol):
    """An active controller without brokers."""

    cluster_id: str
    is_apache: bool

    def ask(self, request: Request, version: int) -> Any:
        """The response to a request."""

    def batches(self) -> list[list[Message]]:
        """All batches of metadata records so far, NoOp records left out."""

    def until(self, condition: Callable[[], bool]) -> None:
        """Let time pass until the condition holds."""

    def end_offset(self) -> int:
        """The end of the log."""


class ApacheController:
    """Apache Kafka's controller; requests are sent to its controller listener."""

    is_apache = True

    def __init__(self, cluster: Cluster):
        node = cluster.nodes[FIRST_CONTROLLER]
        self.cluster_id = cluster.id
        self._wire = Wire((HOST, node.controller_port))
        self._log = node.data / METADATA_LOG / f"{0:020d}.log"
        eventually(self._is_ready, timeout_s=60)

    @classmethod
    @contextmanager
    def running(cls, directory: Path, **settings: str) -> Iterator[ApacheController]:
        """Start a controller; settings are its properties, with underscores for dots."""
        properties = {name.replace("_", "."): value for name, value in settings.items()}
        shape = Shape(brokers=(), controllers=1, is_combined=False, settings=properties)
        with Cluster.running(shape, directory) as cluster:
            controller = cls(cluster)
            try:
                yield controller
            finally:
                controller._wire.close()

    def ask(self, request: Request, version: int) -> Any:
        return self._wire.ask(request, version)

    def batches(self) -> list[list[Message]]:
        codec = MetadataCodec()
        data = self._log.read_bytes()
        found = []
        for position, header in batches(data):
            if not header.is_control:
                batch = data[position : position + header.size_bytes]
                found.append(_without_no_ops(codec.decode(batch)))
        return [records for records in found if records]

    def until(self, condition: Callable[[], bool]) -> None:
        eventually(condition, timeout_s=30)

    def end_offset(self) -> int:
        return max(header.end_offset for _, header in batches(self._log.read_bytes()))

    def _is_ready(self) -> bool:
        """Whether it is active, and has registered itself."""
        return self._log.exists() and any(
            isinstance(record, RegisterControllerRecord)
            for records in self.batches()
            for record in records
        )


class OwnController:
    """This project's controller machine, with a manual clock."""

    is_apache = False

    def __init__(self, **settings: str):
        self._cluster = EmptyCluster(node_id=str(FIRST_CONTROLLER), **settings)
        self.cluster_id = self._cluster.cluster_id
        registry.load()

    def ask(self, request: Request, version: int) -> Any:
        request = type(request).decode(request.encode(version), version)
        declared = registry.declared_by(type(request))
        assert declared.decide is not None
        call = ControllerCall(self._cluster.role, version)
        try:
            response = self._cluster.settled(declared.decide(request, call))
        except KafkaError as error:
            response = declared.failure(request, error, call)
        return type(response).decode(response.encode(version), version)

    def batches(self) -> list[list[Message]]:
        codec = MetadataCodec()
        found = [
            _without_no_ops(codec.decode(batch))
            for batch in self._cluster.log.read_batches()
            if not read_header(batch).is_control
        ]
        return [records for records in found if records]

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(600):
            if condition():
                return
            self._cluster.clock.advance(_TICK_MS)
        raise AssertionError("not within a minute")

    def end_offset(self) -> int:
        return self._cluster.log.end_offset


def _without_no_ops(records: Any) -> list[Message]:
    return [record for record in records if not isinstance(record, NoOpRecord)]
