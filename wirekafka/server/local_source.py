"""The metadata source of a node that is both broker and controller."""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.apis.controller_channel import LocalChannel
from wirekafka.controller import ControllerParts, ControllerRole
from wirekafka.metadata.bootstrap import bootstrap_records
from wirekafka.metadata.compatibility import check_compatible
from wirekafka.metadata.registration import Endpoint
from wirekafka.metadata.source import SourceParts
from wirekafka.replication.quorum import Voter


class LocalSource:
    """A `MetadataSource` whose controller runs in this process, as the quorum's only voter."""

    def __init__(self, parts: SourceParts):
        foundation, directory = parts.foundation, parts.directory
        config, disk, now_ms = foundation.config, foundation.disk, foundation.clock.now_ms()
        assert directory.identity is not None, "claimed"
        self.controller = ControllerRole(
            ControllerParts(
                config=config,
                clock=foundation.clock,
                disk=disk,
                new_id=foundation.new_id,
                cluster_id=parts.cluster_id,
                log=directory.open_metadata_log(config.metadata_topic_config, now_ms),
                voter=Voter(config.node_id, directory.identity.directory_id),
                incarnation_id=parts.incarnation_id,
                bootstrap=bootstrap_records(disk, directory.path, now_ms, foundation.users),
                sync=foundation.sync,
                failed=foundation.failed,
            )
        )
        self.feed = self.controller.runtime.observe(parts.observer)
        self.log = self.controller.quorum
        self.channel = LocalChannel(self.controller, self.feed)

    def load(self) -> None:
        """Read the whole log; all of it is committed, since this node is the only voter."""
        self.controller.load()
        check_compatible(self.controller.image, self.controller.node_id)

    async def catch_up(self) -> None:
        """Return at once: `load` has delivered everything."""

    async def start(self, endpoints: Sequence[Endpoint]) -> None:
        """Become the quorum's leader, and register the controller with its endpoints."""
        await self.controller.start(endpoints)

    async def stop(self) -> None:
        """Stop the controller."""
        await self.controller.stop()

    def abort(self) -> None:
        """Do nothing: there is no connection to close."""
