"""The dependencies of a broker, among them the source of its metadata: the controllers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from wirekafka.clock import Clock
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.log.files import Disk
from wirekafka.metadata.bootstrap import FirstUsers
from wirekafka.metadata.broker.feed import MetadataFeed
from wirekafka.metadata.controller.channel import ControllerChannel
from wirekafka.metadata.controller.registration import Endpoint
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.quotas.address_quotas import Resolve, unresolved
from wirekafka.replication.raft.metadata_log import MetadataLog, Sync, sync_inline
from wirekafka.runtime.observation import Committed

if TYPE_CHECKING:
    from wirekafka.metrics.measures import Measures


def _ignore(error: Exception) -> None:
    """The default for `failed`: the error is only logged, where it occurred."""


@dataclass(slots=True, kw_only=True)
class Foundation:
    """The dependencies of a broker. `new_id` returns a random id of 16 bytes."""

    config: BrokerConfig
    clock: Clock
    node_clock: Clock | None = None
    """The clock of the broker's membership, by which nodes watch each other; None is `clock`."""
    disk: Disk
    new_id: Callable[[], bytes]
    recover: Callable[..., set[str]] | None = None
    """A `recovery_job.Recover`, called with the number of `processes`; None: this process."""
    cluster_id: str | None = None
    """The cluster id for new log directories; None generates one."""
    source: Callable[[SourceParts], MetadataSource]
    """Creates the controller in this process, or the connection to the cluster's controllers."""
    sync: Sync = sync_inline
    """Runs the metadata log's fsyncs."""
    run_apart: Sync = sync_inline
    """Reads the files of config providers, which may be on a network."""
    failed: Callable[[Exception], None] = _ignore
    """Called when an observer of metadata or records has failed too often: the node must stop."""
    measures: Measures | None = None
    """The node's counters; None while there are no metrics."""
    controller_endpoints: Sequence[Endpoint] = ()
    """The advertised listeners of the controller in this process."""
    resolve: Resolve = unresolved
    """Looks up the host names that have quotas."""
    users: FirstUsers = ()
    """The SCRAM credentials of a new cluster; ignored in an existing one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceParts:
    """The dependencies of a source.

    `directory` is the log directory with the metadata log; `published` takes the committed batches.
    `incarnation_id`, 16 bytes, is random for each start.
    """

    foundation: Foundation
    config: Callable[[], BrokerConfig]
    """Returns the broker's configuration, which has changed where dynamic options have."""
    cluster_id: str
    directory: LogDirectory
    incarnation_id: bytes
    published: Published


class Published(Protocol):
    """The committed metadata of this process, up to `end_offset`."""

    image: MetadataImage
    end_offset: int

    def take(self, committed: Committed) -> Iterator[None] | None:
        """Apply a batch; an `Observer`."""


class MetadataSource(Protocol):
    """A controller in this process, or the connection to the controllers of the cluster."""

    @property
    def feed(self) -> MetadataFeed:
        """The committed metadata, as far as the broker has applied it."""

    @property
    def channel(self) -> ControllerChannel:
        """The channel on which changes of the metadata are requested."""

    @property
    def log(self) -> MetadataLog:
        """The metadata log in this process's directory."""

    @property
    def controller(self) -> object | None:
        """The `ControllerRole` in this process; None if the controllers are elsewhere."""

    def load(self) -> None:
        """Deliver the metadata in the log directory that is known to be committed.

        Raises UnusableDirectory.
        """

    async def catch_up(self) -> None:
        """Wait until all metadata that the cluster has committed so far is delivered.

        Raises the error that makes that impossible.
        """

    async def start(self) -> None:
        """Start the controller in this process, if any."""

    async def cut_off(self) -> None:
        """Wait until this node notices that it cannot reach a majority of the controllers."""

    async def resign(self) -> None:
        """Resign if the controller here is active; called while it can still respond."""

    async def stop(self) -> None:
        """Deliver nothing more, and close the connections."""

    def abort(self) -> None:
        """Stop at once, without waiting, as if the process was killed."""
