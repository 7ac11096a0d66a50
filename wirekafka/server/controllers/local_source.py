"""The metadata source of a node that is a controller, and perhaps a broker too."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

from wirekafka.apis.shared.local_channel import LocalChannel
from wirekafka.controller import ControllerParts, ControllerRole
from wirekafka.metadata.bootstrap import bootstrap_records
from wirekafka.metadata.broker.source import SourceParts
from wirekafka.metadata.compatibility import check_alone, check_compatible, check_untiered
from wirekafka.replication.raft.messages import NO_DIRECTORY
from wirekafka.replication.raft.voter_set import Voter, VoterSet
from wirekafka.replication.raft.wire import QuorumWire
from wirekafka.server.controllers.controller_registrar import ControllerRegistrar, registration_of
from wirekafka.server.controllers.quorum_channel import QuorumChannel
from wirekafka.server.controllers.quorum_driver import DriverParts, QuorumDriver
from wirekafka.server.controllers.remote_channel import ControllerRoute, RemoteChannel
from wirekafka.server.controllers.remote_source import Controllers

logger = logging.getLogger(__name__)

_PATIENCE_MS = 3_000
"""After how long a start that waits for the quorum is logged."""


class LocalSource:
    """A `MetadataSource` whose controller is one of the quorum's, as its leader or a standby."""

    def __init__(self, parts: SourceParts, known: Controllers):
        """`known` are the cluster's controllers, this one included."""
        foundation = parts.foundation
        config, clock = foundation.config, foundation.clock
        self._parts = parts
        self._known = known
        self.quorum_traffic = known.quorum_traffic
        self.controller = ControllerRole(_controller_parts(parts, known))
        raft = self.controller.raft
        raft.on_leader_changed = partial(known.search.elected, listener=known.listener)
        self.feed, self.log = self.controller.feed, self.controller.quorum
        self._driver = QuorumDriver(
            raft,
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
        self.channel = QuorumChannel(
            LocalChannel(self.controller, self.feed),
            RemoteChannel(
                ControllerRoute(
                    search=known.search,
                    connect=known.connect,
                    clock=clock,
                    config=parts.config,
                    feed=self.feed,
                )
            ),
            self.controller,
        )
        self._registrar = ControllerRegistrar(
            registration_of(config.node_id, parts.incarnation_id, foundation.controller_endpoints),
            self.channel.send,
            clock,
        )
        self.log.observe(self._registrar.note, foundation.failed)

    def load(self) -> None:
        """Deliver the metadata that is known to be committed: the whole log for the only voter."""
        self.controller.load()
        image = self.controller.committed_image
        check_compatible(image)
        if not self._parts.config().remote_log_storage_system_enable:
            check_untiered(image, self.controller.node_id)
        if not self._parts.foundation.controller_endpoints:
            # Without a listener for controllers, no other node can be in the cluster.
            check_alone(image, self.controller.node_id)

    async def catch_up(self) -> None:
        """Wait until all that the quorum has committed is delivered; the only voter has it."""
        if self.controller.is_alone:
            return
        # The log grows from now on: unless this node stops cleanly, the next start recovers it.
        self._parts.directory.forget_clean_stop()
        self._driver.start()
        patience = self._parts.foundation.clock.call_later(_PATIENCE_MS, self._log_waiting)
        try:
            await self._driver.caught_up()
        finally:
            patience.cancel()
        await self.feed.reached(self.log.committed_offset)

    def _log_waiting(self) -> None:
        voters = ", ".join(str(voter.id) for voter in self.controller.raft.voters)
        failure = self._driver.last_failure or "none"
        logger.warning(
            "Waiting for a leader of the metadata quorum; voters: %s; last failure: %s",
            voters or "not known yet",
            failure,
        )

    async def start(self) -> None:
        """Become active as the only voter; a standby is registered with the active controller."""
        controller = self.controller
        controller.committed_image.security.acl_index.is_loaded = True
        if controller.is_alone:
            self._parts.directory.forget_clean_stop()
            self._driver.start()
            await controller.claimed()
        else:
            self._registrar.start()

    async def cut_off(self) -> None:
        """As `MetadataSource`; the only voter never is."""
        await self._driver.cut_off()

    async def resign(self) -> None:
        """Leave the quorum, before its listeners are closed: another voter takes over."""
        if not self.controller.is_alone:
            await self._driver.stop()

    async def stop(self) -> None:
        """Stop the controller, and close the connections."""
        await self.controller.stop()
        self.abort()

    def abort(self) -> None:
        """Close the connections, and append nothing more: the directory may be opened again."""
        self._registrar.stop()
        self._driver.abort()
        self.controller.abort()
        self.channel.close()
        self._known.close()


def _controller_parts(parts: SourceParts, known: Controllers) -> ControllerParts:
    foundation, directory = parts.foundation, parts.directory
    config = foundation.config
    disk = foundation.disk
    now_ms = foundation.clock.now_ms()
    assert directory.identity is not None, "claimed"
    endpoints = foundation.controller_endpoints
    voter = Voter(
        config.node_id,
        directory.identity.directory_id,
        tuple((each.name, each.host, each.port) for each in endpoints),
    )
    return ControllerParts(
        config=config,
        clock=foundation.clock,
        disk=disk,
        new_id=foundation.new_id,
        cluster_id=parts.cluster_id,
        log=directory.open_metadata_log(config.metadata_topic_config, now_ms),
        voter=voter,
        voters=_static_voters(known, voter),
        listener=known.listener,
        endpoints=endpoints,
        incarnation_id=parts.incarnation_id,
        published=parts.published,
        bootstrap=bootstrap_records(disk, directory.path, now_ms, foundation.users),
        sync=foundation.sync,
        run_apart=foundation.run_apart,
        failed=foundation.failed,
        resolve=foundation.resolve,
    )


def _static_voters(known: Controllers, own: Voter) -> VoterSet:
    """The configured voters; this node alone if no controllers are configured.

    As in Kafka, the directory ids of configured voters are unknown.
    """
    is_named = bool(known.servers)
    if known.voters.ids == (own.id,) or not is_named:
        return VoterSet((replace(own, directory_id=NO_DIRECTORY),))
    return known.voters
