"""The metadata source of a broker whose controllers are other nodes of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from wirekafka.clock import Clock
from wirekafka.config.address import Address
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints import controllers, listeners
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.broker.source import SourceParts
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.replication.raft.messages import NO_DIRECTORY
from wirekafka.replication.raft.metadata_log import MetadataRetention
from wirekafka.replication.raft.parts import RaftOptions, RaftParts
from wirekafka.replication.raft.quorum_log import QuorumLog
from wirekafka.replication.raft.raft import Raft
from wirekafka.replication.raft.voter_set import Voter, VoterSet
from wirekafka.replication.raft.wire import QuorumWire
from wirekafka.runtime.promise import Promise, pause
from wirekafka.server.controllers.controller_search import ControllerSearch, Quorum
from wirekafka.server.controllers.quorum_driver import DriverParts, QuorumDriver
from wirekafka.server.controllers.remote_channel import ControllerRoute, RemoteChannel
from wirekafka.server.net import Net
from wirekafka.server.peers.peer import Peer, PeerOptions, PeerTraffic
from wirekafka.server.peers.peer_security import PeerSecurity

_RETRY_MS = 500


class Controllers:
    """The configured addresses of the cluster's controllers, and connections to them."""

    def __init__(self, net: Net, clock: Clock, config: BrokerConfig):
        """Raises ConfigError if the options of the controllers are invalid."""
        self._net = net
        self.clock = clock
        """The clock of requests to controllers, and of the quorum."""
        self._node_id = config.node_id
        self._connect_timeout_ms = config.socket_connection_setup_timeout_ms
        self._config: Callable[[], BrokerConfig] = lambda: config
        self.quorum_traffic = PeerTraffic()
        """The traffic of this node as an observer or a voter."""
        self._security: PeerSecurity | None = None
        # A node on its own connects to no controller, and need not say how.
        if controllers.addresses(config) or not config.has_own_controller:
            self._security = PeerSecurity.to_controllers(lambda: self._config())
        voters = controllers.voters(config)
        bootstrap = controllers.bootstrap_servers(config)
        self.listener = (listeners.controller_names(config) or ["CONTROLLER"])[0]
        """The name of the listener that requests to controllers are sent to."""
        self.servers: Sequence[Address] = controllers.addresses(config)
        """The addresses at which the quorum's leader can be found."""
        self.voters = VoterSet.of(
            [
                Voter(id, NO_DIRECTORY, ((self.listener, each.host, each.port),))
                for id, each in voters.items()
            ]
        )
        """The voters of a static quorum; empty for a dynamic one."""
        self.search = ControllerSearch(
            Quorum(
                voters=voters,
                bootstrap=bootstrap,
                request_timeout_ms=config.controller_quorum_request_timeout_ms,
            ),
            self.connect,
        )

    async def cluster_id(self) -> str:
        """Request the cluster's id from the controllers until a controller responds."""
        while self.search.cluster_id is None:
            try:
                await self.search.find()
            except KafkaError:
                await pause(self.clock, _RETRY_MS)
        return self.search.cluster_id

    def follow(self, config: Callable[[], BrokerConfig]) -> None:
        """Use the dynamic configuration of the node for connections from now on."""
        self._config = config

    def connect(self, host: str, port: int) -> Peer:
        """Return a new, unconnected peer for the broker's requests to a controller."""
        return self._peer(host, port, str(self._node_id))

    def connect_as_observer(self, host: str, port: int) -> Peer:
        """As `connect`, for the requests of an observer or a voter of the metadata log."""
        return self._peer(host, port, f"raft-client-{self._node_id}", self.quorum_traffic)

    def close(self) -> None:
        """End the search for the active controller."""
        self.search.close()

    def _peer(
        self, host: str, port: int, client_id: str, traffic: PeerTraffic | None = None
    ) -> Peer:
        assert self._security is not None, "there are no other controllers"
        options = PeerOptions(host, port, client_id, self._security, self._connect_timeout_ms)
        return Peer(self._net, self.clock, options, traffic)


class RemoteSource:
    """A `MetadataSource` that copies the controllers' log; changes are sent to the active one."""

    controller = None

    def __init__(self, parts: SourceParts, known: Controllers):
        known.follow(parts.config)
        foundation, directory = parts.foundation, parts.directory
        config, clock = foundation.config, known.clock
        assert directory.identity is not None, "claimed"
        self._directory = directory
        self._known = known
        self.quorum_traffic = known.quorum_traffic
        self.log = QuorumLog(
            directory.open_metadata_log(config.metadata_topic_config, clock.now_ms()),
            foundation.disk,
            clock,
            MetadataCodec(),
            voters=known.voters,
            sync=foundation.sync,
            retention=MetadataRetention(
                config.metadata_max_retention_bytes, config.metadata_max_retention_ms
            ),
        )
        self.feed = self.log.observe(parts.published.take, foundation.failed)
        self._raft = Raft(
            RaftParts(
                voter=Voter(config.node_id, directory.identity.directory_id),
                log=self.log,
                random=Random(parts.incarnation_id),  # noqa: S311
                listener=known.listener,
                options=_options(config),
                can_vote=False,
            )
        )
        self._raft.on_leader_changed = partial(known.search.elected, listener=known.listener)
        self._driver = QuorumDriver(
            self._raft,
            DriverParts(
                clock=clock,
                wire=QuorumWire(
                    cluster_id=parts.cluster_id, listener=known.listener, config=config
                ),
                connect=known.connect_as_observer,
                servers=known.servers,
                failed=foundation.failed,
            ),
        )
        self.channel = RemoteChannel(
            ControllerRoute(
                search=known.search,
                connect=known.connect,
                clock=clock,
                config=parts.config,
                feed=self.feed,
            )
        )

    def load(self) -> None:
        """Deliver the newest snapshot; only the leader knows which later records are committed."""
        self.log.load()
        self._raft.load()

    async def catch_up(self) -> None:
        """Begin to follow the leader, and wait until everything committed is delivered."""
        # The log grows from now on: unless this node stops cleanly, the next start recovers it.
        self._directory.forget_clean_stop()
        self._driver.start()
        await self._driver.caught_up()
        await self.feed.reached(self.log.committed_offset)

    async def start(self) -> None:
        """Do nothing: the controllers are other nodes."""

    async def cut_off(self) -> None:
        """Wait forever: this node does not send requests to all of the controllers."""
        await Promise()

    async def resign(self) -> None:
        """Do nothing: this node is no voter."""

    async def stop(self) -> None:
        """Close the connections, and wait for a snapshot that is being written."""
        self.abort()
        await self.log.settled()
        self.log.end(KafkaError(Error.NOT_CONTROLLER))

    def abort(self) -> None:
        """Close the connections."""
        self._driver.abort()
        self.channel.close()
        self._known.close()


def _options(config: BrokerConfig) -> RaftOptions:
    return RaftOptions(
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
    )
