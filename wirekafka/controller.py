"""The controller role of a node: the metadata log and the controller machine on it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, TypeVar

from wirekafka.clock import Clock
from wirekafka.codec.message import Message
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.log.files import Disk
from wirekafka.log.log import Log
from wirekafka.metadata.broker.dynamic_config import DynamicConfig, settings_in
from wirekafka.metadata.broker.source import Published
from wirekafka.metadata.controller.command import ControllerCommand
from wirekafka.metadata.controller.controller import Controller
from wirekafka.metadata.controller.features import AbortTransaction, Bootstrap
from wirekafka.metadata.controller.quotas import enforce
from wirekafka.metadata.controller.registration import Endpoint, RegisterController
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.metadata.image.image import BROKER, MetadataImage
from wirekafka.protocol.records import metadata as r
from wirekafka.quotas.address_quotas import Resolve, unresolved
from wirekafka.quotas.client_quotas import ClientQuotas
from wirekafka.replication.raft.metadata_log import MetadataRetention, Sync, sync_inline
from wirekafka.replication.raft.parts import RaftOptions, RaftParts
from wirekafka.replication.raft.quorum_log import QuorumLog
from wirekafka.replication.raft.raft import Raft
from wirekafka.replication.raft.voter_set import Voter, VoterSet
from wirekafka.runtime.driver import start
from wirekafka.runtime.observation import Committed
from wirekafka.runtime.promise import Promise
from wirekafka.runtime.replicated_log import Buffer
from wirekafka.runtime.runtime import Runtime
from wirekafka.security.authorizer import Authorizer

_Reply = TypeVar("_Reply")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerParts:
    """The dependencies of a controller. Ids are 16 bytes, the incarnation's random for each start.

    `voter` is this node; `voters` are the configured voters, which count until the log has a voter
    set. `endpoints` are this node's controller listeners, `listener` the name of the listener for
    requests between controllers. `published` is the image of the committed metadata. `bootstrap`
    are the first records of a new cluster; `sync` runs the log's fsyncs, `run_apart` reads the
    files of config providers; `failed` is called when an observer of the log has failed too often,
    and the node must stop.
    """

    config: BrokerConfig
    clock: Clock
    disk: Disk
    new_id: Callable[[], bytes]
    cluster_id: str
    log: Log
    voter: Voter
    voters: VoterSet
    listener: str = "CONTROLLER"
    endpoints: Sequence[Endpoint] = ()
    incarnation_id: bytes
    published: Published
    bootstrap: Sequence[Message]
    sync: Sync = sync_inline
    run_apart: Sync = sync_inline
    failed: Callable[[Exception], None] | None = None
    resolve: Resolve = unresolved


class ControllerRole:
    """A controller: while it leads the quorum, it decides on changes of the metadata.

    Otherwise it only follows, and commands fail with NOT_CONTROLLER. `load` reads the log and
    writes nothing; the driver of `raft` starts it.
    """

    def __init__(self, parts: ControllerParts):
        self.clock = parts.clock
        self.cluster_id = parts.cluster_id
        self.node_id = parts.voter.id
        self.config = parts.config
        """The static configuration with the dynamic settings of the metadata log."""
        self.authorizer = Authorizer.of(
            parts.config, lambda: self.committed_image.security.acl_index
        )
        """Decides on forwarded requests; None allows everything."""
        self.quotas = ClientQuotas.of_controller(parts.config)
        """The limits on changes of topics."""
        self.resolve = parts.resolve
        """Looks up the host names that get quotas."""
        self.parts = parts
        """The dependencies."""
        self.run_apart = parts.run_apart
        """Reads the files of config providers while requests are served, then calls back."""
        self._dynamic = DynamicConfig(self)
        self._waiting: dict[Promise[Any], None] = {}
        self._term: Runtime | None = None
        self._claimed: Promise[None] = Promise()
        self.quorum = QuorumLog(
            parts.log,
            parts.disk,
            parts.clock,
            MetadataCodec(),
            voters=parts.voters,
            sync=parts.sync,
            retention=MetadataRetention(
                parts.config.metadata_max_retention_bytes, parts.config.metadata_max_retention_ms
            ),
        )
        """The metadata log."""
        self.quorum.on_failure = self._fail
        self._failed = failed = parts.failed or _ignore
        self.feed = self.quorum.observe(parts.published.take, failed)
        """The committed metadata, as far as it is in `committed_image`."""
        self.quorum.observe(self._follow, failed)
        self.raft = Raft(
            RaftParts(
                voter=parts.voter,
                log=self.quorum,
                random=Random(parts.incarnation_id),  # noqa: S311
                listener=parts.listener,
                options=raft_options(parts.config),
            )
        )
        self.raft.on_leader = self._lead
        self.raft.on_resigned = self._resign

    def load(self) -> None:
        """Read the log, and deliver the batches known to be committed to the observers.

        These are all batches if this node is the only voter, else the newest snapshot. Raises as
        `QuorumLog.load`, `Raft.load` and `Raft.check_alone`.
        """
        self.quorum.load()
        self.raft.load()
        if self.is_alone:
            self.raft.check_alone()
            self.quorum.commit(self.quorum.end_offset)
        self._dynamic.load(self.committed_image)

    @property
    def is_alone(self) -> bool:
        """Whether this node is the only voter."""
        return self.raft.voters.is_only(self.parts.voter.key)

    @property
    def is_active(self) -> bool:
        """Whether this node leads the quorum, and accepts commands."""
        return self._term is not None

    async def claimed(self) -> None:
        """Wait until this node has been active once, with its first records committed.

        Raises KafkaError: the error of these records.
        """
        await self._claimed

    async def stop(self) -> None:
        """Stop, after the sync in progress; commands that are still waiting fail."""
        await self.quorum.settled()
        self._resign()
        self.quorum.end(KafkaError(Error.NOT_CONTROLLER))

    def abort(self) -> None:
        """Decide and append nothing more, as if the process was killed."""
        self._resign()
        self.quorum.cease()

    @property
    def committed_image(self) -> MetadataImage:
        """The metadata with all committed records, also while this node is not active."""
        return self.parts.published.image

    @property
    def image(self) -> MetadataImage:
        """The metadata with all appended records, committed or not. Raises KafkaError."""
        machine = self._active().machine
        assert isinstance(machine, Controller)
        return machine.image

    async def submit(self, command: ControllerCommand[_Reply]) -> _Reply:
        """Run one command; returns its reply once its records are committed.

        Raises KafkaError: the command's error; NOT_CONTROLLER; KAFKA_STORAGE_ERROR.
        """
        return await self._settled(self.post(command))

    def post(self, command: ControllerCommand[_Reply]) -> Promise[_Reply]:
        """Run one command; the promise holds its reply once committed. Raises as `submit`."""
        term = self._active()
        self.quorum.check_writable()
        ticket = term.post(command)
        self.quorum.deliver()
        return ticket

    async def keep_voters(self) -> None:
        """Write the voters to the log (kraft.version 1, KIP-853). Raises as `submit`."""
        self._active()
        end_offset = self.raft.keep_voters(self.clock.now_ms())
        committed: Promise[None] = Promise()
        self.quorum.when_committed(end_offset, partial(committed.set, None))
        self.quorum.deliver()
        await self._settled(committed)

    def _active(self) -> Runtime:
        if self._term is None:
            raise KafkaError(Error.NOT_CONTROLLER)
        return self._term

    async def _settled(self, promise: Promise[_Reply]) -> _Reply:
        """Wait for a promise; raises KafkaError if its records will never be committed."""
        if not promise.done:
            if self.quorum.failure is not None:
                raise self.quorum.failure
            self._active()  # An append may find that this node can lead no more.
        self._waiting[promise] = None
        try:
            return await promise
        finally:
            del self._waiting[promise]

    def _lead(self, epoch: int) -> None:
        """Become active: go on where the committed image ends, and write the first records."""
        logger.info("Node %d is the active controller in epoch %d", self.node_id, epoch)
        ahead = _Ahead(self)
        codec = MetadataCodec(self.committed_image.features)
        term = self._term = Runtime(
            ahead.machine, ahead, codec, self.clock, lost=Error.NOT_CONTROLLER
        )
        term.load()
        parts = self.parts
        first = (
            AbortTransaction(),
            Bootstrap(parts.bootstrap),
            RegisterController(self.node_id, parts.incarnation_id, parts.endpoints),
        )
        start(self._claim([term.post(command) for command in first]))

    async def _claim(self, tickets: Sequence[Promise[None]]) -> None:
        try:
            for ticket in tickets:
                await self._settled(ticket)
        except KafkaError as error:
            if error.error is not Error.NOT_CONTROLLER:
                logger.error("The first records could not be written: %s", error)
                self._claimed.set(error)
            return
        self.quorum.deliver()
        self._claimed.set(None)

    def _resign(self) -> None:
        """Stop deciding: another node leads the quorum, or none; its log has the outcome."""
        term, self._term = self._term, None
        if term is not None:
            logger.info("Node %d is no longer the active controller", self.node_id)
            self._release(KafkaError(Error.NOT_CONTROLLER))
            term.stop()

    def _follow(self, committed: Committed) -> None:
        enforce(self.quotas, committed)
        if committed.is_snapshot or any(
            isinstance(record, r.ConfigRecord) and record.resource_type == BROKER
            for record in committed.records
        ):
            image = self.image if self.is_active else self.committed_image
            self._dynamic.apply(*settings_in(image, self.node_id))

    def configured(self) -> None:
        """Do nothing: every command reads the options that it depends on (`Configured`)."""

    def _fail(self, error: KafkaError) -> None:
        """Stop the node after a failed sync, and fail all waiting commands."""
        logger.error("The controller accepts no more changes: %s", error.__cause__ or error)
        self._release(error)
        self._failed(error)

    def _release(self, error: KafkaError) -> None:
        for promise in list(self._waiting):
            promise.set(error)


class _Ahead:
    """The quorum's log as a new leader reads it: from the end of the committed image on."""

    def __init__(self, role: ControllerRole):
        self._quorum = quorum = role.quorum
        self._role = role
        self._begin = 0
        self.append = quorum.append
        self.when_committed = quorum.when_committed

    def machine(self) -> Controller:
        """A machine with a copy of the committed image; `read_batches` has the later records."""
        role, parts = self._role, self._role.parts
        self._begin = parts.published.end_offset
        image = parts.published.image.copied()
        return Controller(
            lambda: role.config, parts.new_id, image, voters=lambda: role.raft.voters.ids
        )

    @property
    def end_offset(self) -> int:
        """As `ReplicatedLog`."""
        return self._quorum.end_offset

    @property
    def committed_offset(self) -> int:
        """As `ReplicatedLog`."""
        return self._quorum.committed_offset

    def read_batches(self) -> Iterator[Buffer]:
        """Read the batches behind the committed image."""
        return self._quorum.read_from(self._begin)


def raft_options(config: BrokerConfig) -> RaftOptions:
    """The options `controller.quorum.*`."""
    return RaftOptions(
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        auto_join=config.controller_quorum_auto_join_enable,
    )


def _ignore(error: Exception) -> None:
    """The default `failed`: the failure is in the log."""
