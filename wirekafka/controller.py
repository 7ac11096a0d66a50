"""The controller role of a node: the metadata log and the controller machine on it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wirekafka.clock import Clock
from wirekafka.codec.message import Message
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.log.files import Disk
from wirekafka.log.log import Log
from wirekafka.metadata import records as r
from wirekafka.metadata.command import Command
from wirekafka.metadata.controller import Controller
from wirekafka.metadata.features import AbortTransaction, Bootstrap
from wirekafka.metadata.framing import MetadataCodec
from wirekafka.metadata.image import BROKER, MetadataImage
from wirekafka.metadata.quotas import enforce
from wirekafka.metadata.registration import Endpoint, RegisterController
from wirekafka.quotas.client_quotas import ClientQuotas
from wirekafka.replication.metadata_log import Sync, sync_inline
from wirekafka.replication.observation import Committed
from wirekafka.replication.promise import Promise
from wirekafka.replication.quorum import QuorumLog, Voter
from wirekafka.replication.runtime import Runtime
from wirekafka.security.authorizer import Authorizer

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerParts:
    """The dependencies of a controller. Ids are 16 bytes, the incarnation's random for each start.

    `bootstrap` are the first records of a new cluster; `sync` runs the log's fsyncs; `failed` is
    called when an observer of the log has failed too often, and the node must stop.
    """

    config: BrokerConfig
    clock: Clock
    disk: Disk
    new_id: Callable[[], bytes]
    cluster_id: str
    log: Log
    voter: Voter
    incarnation_id: bytes
    bootstrap: Sequence[Message]
    sync: Sync = sync_inline
    failed: Callable[[Exception], None] | None = None


class ControllerRole:
    """The active controller: decides on changes of the metadata for all brokers of the cluster.

    `load` reads the log and writes nothing; `start` becomes leader.
    """

    def __init__(self, parts: ControllerParts):
        self.clock = parts.clock
        self.cluster_id = parts.cluster_id
        self.node_id = parts.voter.id
        self.config = parts.config
        """The static configuration with the dynamic settings of the metadata log."""
        self.authorizer = Authorizer.of(parts.config, lambda: self.image.security.acl_index)
        """Decides on forwarded requests; None allows everything."""
        self.quotas = ClientQuotas.of_controller(parts.config)
        """The limits on changes of topics."""
        self._parts = parts
        self._waiting: dict[Promise, None] = {}
        self.quorum = QuorumLog(parts.log, parts.disk, parts.clock, parts.voter, sync=parts.sync)
        self.quorum.on_failure = self._fail
        self.runtime = Runtime(
            lambda: Controller(lambda: self.config, parts.new_id),
            self.quorum,
            MetadataCodec(),
            parts.clock,
            lost=Error.NOT_CONTROLLER,
            observer_failed=parts.failed,
        )
        self.runtime.observe(self._follow)

    def load(self) -> None:
        """Read the log, delivering all of it to the observers added before.

        Raises as `QuorumLog.read_batches` and `QuorumLog.check_alone`.
        """
        self.runtime.load()
        self.quorum.check_alone()
        self._configure()

    async def start(self, endpoints: Sequence[Endpoint]) -> None:
        """Lead the quorum, and register the controller with these endpoints."""
        self.quorum.lead()
        await self.submit(AbortTransaction())
        await self.submit(Bootstrap(self._parts.bootstrap))
        await self.submit(RegisterController(self.node_id, self._parts.incarnation_id, endpoints))

    async def stop(self) -> None:
        """Stop, after the sync in progress; commands that are still waiting fail."""
        await self.quorum.settled()
        self._release(KafkaError(Error.NOT_CONTROLLER))
        self.runtime.stop()

    @property
    def image(self) -> MetadataImage:
        """The metadata with all appended records, committed or not. Raises KafkaError."""
        machine = self.runtime.machine
        assert isinstance(machine, Controller)
        return machine.image

    async def submit(self, command: Command) -> Any:
        """Run one command; returns its reply once its records are committed.

        Raises KafkaError: the command's error; NOT_CONTROLLER; KAFKA_STORAGE_ERROR.
        """
        self.quorum.check_writable()
        return await self._settled(self.runtime.post(command))

    async def keep_voters(self) -> None:
        """Write the voters to the log (kraft.version 1, KIP-853). Raises as `submit`."""
        self.quorum.keep_voters()
        self.runtime.pass_control_batch()
        committed = Promise()
        self.quorum.when_committed(self.quorum.end_offset, lambda: committed.set(None))
        await self._settled(committed)

    async def _settled(self, promise: Promise) -> Any:
        """Wait for a promise; raises KafkaError if its records will never be committed."""
        if not promise.done and self.quorum.failure is not None:
            raise self.quorum.failure
        self._waiting[promise] = None
        try:
            return await promise
        finally:
            del self._waiting[promise]

    def _follow(self, committed: Committed) -> Iterator[None] | None:
        enforce(self.quotas, committed)
        if (
            any(
                isinstance(record, r.ConfigRecord) and record.resource_type == BROKER
                for record in committed.records
            )
            and self.runtime.is_loaded
        ):
            self._configure()
        return None

    def _configure(self) -> None:
        self.config = self._parts.config.with_dynamic(
            self.image.config(BROKER, ""), self.image.config(BROKER, str(self.node_id))
        )

    def _fail(self, error: KafkaError) -> None:
        """Fail all waiting commands after a failed sync; the quorum's log refuses new ones."""
        logger.error("The controller accepts no more changes: %s", error.message)
        self._release(error)

    def _release(self, error: KafkaError) -> None:
        for promise in list(self._waiting):
            promise.set(error)
