"""The metadata source of a broker whose controllers are other nodes of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wirekafka.clock import Clock
from wirekafka.config import controllers
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.framing import MetadataCodec
from wirekafka.metadata.registration import Endpoint
from wirekafka.metadata.source import SourceParts
from wirekafka.replication.promise import pause
from wirekafka.replication.quorum_observer import QuorumObserver
from wirekafka.server.controller_search import ControllerSearch, Quorum
from wirekafka.server.metadata_follower import FollowerParts, Identity, MetadataFollower
from wirekafka.server.net import Net
from wirekafka.server.peer import Peer, PeerOptions
from wirekafka.server.peer_security import PeerSecurity
from wirekafka.server.remote_channel import RemoteChannel, Route

_RETRY_MS = 500


class Controllers:
    """The configured addresses of the cluster's controllers, and connections to them."""

    def __init__(self, net: Net, clock: Clock, config: BrokerConfig):
        """Raises ConfigError if the options of the controllers are invalid."""
        self._net = net
        self._clock = clock
        self._node_id = config.node_id
        self._connect_timeout_ms = config.socket_connection_setup_timeout_ms
        self._config: Callable[[], BrokerConfig] = lambda: config
        self._security = PeerSecurity.to_controllers(lambda: self._config())
        voters = controllers.voters(config)
        self.static_voters = tuple(sorted(voters))
        """The ids of the voters of a static quorum; empty for a dynamic one."""
        self.search = ControllerSearch(
            Quorum(
                voters=voters,
                bootstrap=controllers.bootstrap_servers(config),
                request_timeout_ms=config.controller_quorum_request_timeout_ms,
            ),
            self.connect,
        )

    async def cluster_id(self) -> str:
        """Request the cluster's id from the controllers until one of them responds."""
        while self.search.cluster_id is None:
            try:
                await self.search.find()
            except KafkaError:
                await pause(self._clock, _RETRY_MS)
        return self.search.cluster_id

    def source(self, parts: SourceParts) -> RemoteSource:
        """Return the `MetadataSource` of a broker, whose configuration counts from now on."""
        self._config = parts.config
        return RemoteSource(parts, self)

    def connect(self, host: str, port: int) -> Peer:
        """Return a new, unconnected peer for the broker's requests to a controller."""
        return self._peer(host, port, str(self._node_id))

    def connect_as_observer(self, host: str, port: int) -> Peer:
        """As `connect`, for the requests of an observer of the metadata log."""
        return self._peer(host, port, f"raft-client-{self._node_id}")

    def close(self) -> None:
        """End the search for the active controller."""
        self.search.close()

    def _peer(self, host: str, port: int, client_id: str) -> Peer:
        options = PeerOptions(host, port, client_id, self._security, self._connect_timeout_ms)
        return Peer(self._net, self._clock, options)


class RemoteSource:
    """A `MetadataSource` that copies the controllers' log; changes are sent to the active one."""

    controller = None

    def __init__(self, parts: SourceParts, known: Controllers):
        foundation, directory = parts.foundation, parts.directory
        config, clock = foundation.config, foundation.clock
        assert directory.identity is not None, "claimed"
        self._directory = directory
        self._known = known
        self.log = QuorumObserver(
            directory.open_metadata_log(config.metadata_topic_config, clock.now_ms()),
            foundation.disk,
            clock,
            MetadataCodec(),
            sync=foundation.sync,
        )
        self.feed = self.log.observe(parts.observer, foundation.failed)
        self._follower = MetadataFollower(
            self.log,
            FollowerParts(
                search=known.search,
                connect=known.connect_as_observer,
                clock=clock,
                config=config,
                static_voters=known.static_voters,
                identity=Identity(
                    node_id=config.node_id,
                    cluster_id=parts.cluster_id,
                    directory_id=directory.identity.directory_id,
                ),
                failed=foundation.failed,
            ),
        )
        self.channel = RemoteChannel(
            Route(
                search=known.search,
                connect=known.connect,
                clock=clock,
                config=parts.config,
                feed=self.feed,
            )
        )

    def load(self) -> None:
        """Deliver the newest snapshot; what is committed after it, only the leader can report."""
        self.log.load()

    async def catch_up(self) -> None:
        """Begin to follow the leader, and wait until everything committed is delivered."""
        # The log grows from now on: unless this node stops cleanly, the next start recovers it.
        self._directory.forget_clean_stop()
        self._follower.start()
        await self._follower.caught_up()
        await self.feed.reached(self.log.committed_offset)

    async def start(self, endpoints: Sequence[Endpoint]) -> None:
        """Do nothing: the controllers are other nodes."""
        assert not endpoints, "the controllers are elsewhere"

    async def stop(self) -> None:
        """Close the connections, and wait for a snapshot that is being written."""
        self.abort()
        await self.log.settled()
        self.log.end(KafkaError(Error.NOT_CONTROLLER))

    def abort(self) -> None:
        """Close the connections."""
        self._follower.stop()
        self.channel.close()
        self._known.close()
