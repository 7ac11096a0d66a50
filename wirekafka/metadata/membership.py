"""One node's life in the cluster: it registers, serves, and takes its leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wirekafka.codec.message import Message
from wirekafka.metadata.command import ControllerState, Decision
from wirekafka.metadata.features import Bootstrap, bootstrap_features
from wirekafka.metadata.records import AbortTransactionRecord
from wirekafka.metadata.registration import (
    Endpoint,
    RegisterBroker,
    RegisterController,
    ShutDownBroker,
    UnfenceBroker,
)
from wirekafka.replication.quorum import QuorumLog
from wirekafka.replication.runtime import Runtime


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who a node is. Ids are 16 bytes; the incarnation is random for every start.

    `bootstrap` is what a cluster begins with if this node finds none.
    """

    node_id: int
    incarnation_id: bytes
    directory_ids: Sequence[bytes]
    rack: str | None = None
    bootstrap: Sequence[Message] = ()


class AbortTransaction:
    """End a metadata transaction whose controller died in it."""

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """Nothing if there is none open."""
        if not state.image.in_transaction:
            return Decision(())
        return Decision([AbortTransactionRecord(reason="The controller restarted.")])


class Membership:
    """Controller and broker of one node, in the roles Kafka calls combined."""

    def __init__(self, controller: Runtime, quorum: QuorumLog, identity: Identity):
        self._controller = controller
        self._quorum = quorum
        self._identity = identity
        self.broker_epoch = -1

    async def join(self, controller: Sequence[Endpoint], broker: Sequence[Endpoint]) -> None:
        """Lead the quorum, register under the addresses that listen by now, and serve.

        To be called once the controller is loaded.
        """
        submit = self._controller.submit
        me = self._identity
        self._quorum.lead()
        await submit(AbortTransaction())
        await submit(Bootstrap(me.bootstrap or bootstrap_features()))
        await submit(RegisterController(me.node_id, me.incarnation_id, controller))
        self.broker_epoch = self._quorum.end_offset
        await submit(RegisterBroker(
            id=me.node_id,
            incarnation_id=me.incarnation_id,
            epoch=self.broker_epoch,
            endpoints=broker,
            rack=me.rack,
            log_dirs=me.directory_ids,
        ))
        await submit(UnfenceBroker(me.node_id, self.broker_epoch))

    async def leave(self) -> None:
        """Hand over leadership and be fenced: the next start finds a clean stop."""
        await self._controller.submit(ShutDownBroker(self._identity.node_id, self.broker_epoch))
