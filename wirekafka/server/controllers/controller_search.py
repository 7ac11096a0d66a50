"""Finds the cluster's active controller, and remembers it until a request to it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wirekafka.config.address import Address
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from wirekafka.replication.partition.replica import NO_LEADER
from wirekafka.replication.raft.messages import LeaderAndEpoch
from wirekafka.runtime.promise import Promise
from wirekafka.server.peers.peer import Peer

logger = logging.getLogger(__name__)

_CONTROLLERS = 2
_NOBODY = -1


class FoundController(NamedTuple):
    """A controller and its address."""

    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.node_id} at {Address(self.host, self.port)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The configured controllers: `voters`, or servers to `bootstrap` from, or both."""

    voters: Mapping[int, Address]
    bootstrap: Sequence[Address]
    request_timeout_ms: int = 2_000
    """How long to wait for a controller's response (`controller.quorum.request.timeout.ms`)."""


class ControllerSearch:
    """Keeps track of the active controller.

    The node of the quorum in this process reports each leader (`elected`). While none is known,
    DescribeCluster (KIP-919) is sent to one controller after the other: the controllers in the last
    response and in the configuration.
    """

    def __init__(self, quorum: Quorum, connect: Callable[[str, int], Peer]):
        """`connect` returns a new, unconnected peer at a host and port."""
        self.active: FoundController | None = None
        """The active controller; None while it is unknown."""
        self.cluster_id: str | None = None
        """The cluster's id as reported by a controller; None before the first response."""
        self.on_learned: Callable[[FoundController], None] = lambda controller: None
        """Called with each leader of the quorum that is passed to `learned`."""
        self._quorum = quorum
        self._connect = connect
        self._epoch = -1
        self._named: tuple[FoundController, ...] = ()
        """The controllers that the last response listed."""
        self._waiting: list[Promise[FoundController]] = []
        self._searching: asyncio.Task[None] | None = None
        self._rounds = 0
        self._is_closed = False
        self._reported: FoundController | None = None
        """The active controller that was logged last."""
        self._is_silent = False
        """Whether the last search has failed, which is logged only once."""

    async def find(self) -> FoundController:
        """Return the active controller; if it is unknown, after one request to each controller.

        Raises KafkaError(NETWORK_EXCEPTION) if no controller responds with an active controller.
        """
        if self._is_closed:
            raise KafkaError(Error.NETWORK_EXCEPTION, "the node is stopping")
        if self.active is not None:
            return self.active
        answer: Promise[FoundController] = Promise()
        self._waiting.append(answer)
        if self._searching is None:
            self._searching = asyncio.get_running_loop().create_task(self._search())
        return await answer

    def learned(self, controller: FoundController, epoch: int) -> None:
        """Store the quorum's leader of an epoch; ignored if a newer epoch is known."""
        if epoch >= self._epoch:
            self._epoch = epoch
            self._found(controller)
            self.on_learned(controller)

    def elected(self, leadership: LeaderAndEpoch, listener: str) -> None:
        """Store the leader, with its listener, or none; an `on_leader_changed` of `Raft`."""
        if leadership.leader_id == NO_LEADER and self.active is not None:
            self.forget(self.active)
        for name, host, port in leadership.endpoints:
            if name == listener:
                self.learned(FoundController(leadership.leader_id, host, port), leadership.epoch)

    def forget(self, controller: FoundController) -> None:
        """Note that a controller is not active, or does not respond."""
        if self.active == controller:
            self.active = None

    def close(self) -> None:
        """Fail the current search, if any, and every later search."""
        self._is_closed = True
        if self._searching is not None:
            self._searching.cancel()
            self._searching = None
        self._fail("the node is stopping")

    async def _search(self) -> None:
        reasons = []
        self._rounds += 1
        try:
            for address in self._addresses():
                try:
                    found = await self._ask(address)
                except KafkaError as error:
                    reasons.append(error.message or f"{address}: {error.error.name}")
                    continue
                if self.active is None and found is not None:
                    self._found(found)
                if self.active is not None:
                    return
                reasons.append(f"{address} knows no active controller")
            self._fail("; ".join(reasons))
        except Exception as error:
            logger.exception("The search for the active controller failed")
            self._fail(str(error))
        finally:
            self._searching = None

    def _addresses(self) -> list[Address]:
        """All known addresses of controllers; each search begins with another address."""
        every = dict.fromkeys(
            [
                *(Address(each.host, each.port) for each in self._named),
                *self._quorum.voters.values(),
                *self._quorum.bootstrap,
            ]
        )
        addresses = list(every)
        first = self._rounds % len(addresses) if addresses else 0
        return addresses[first:] + addresses[:first]

    async def _ask(self, address: Address) -> FoundController | None:
        """Request the active controller from one of the controllers. Raises KafkaError."""
        peer = self._connect(address.host, address.port)
        try:
            response = await peer.send(
                DescribeClusterRequest(endpoint_type=_CONTROLLERS),
                timeout_ms=self._quorum.request_timeout_ms,
            )
        finally:
            peer.close()
        if response.error_code:
            raise KafkaError.of(response.error_code, response.error_message)
        return self._named_in(response)

    def _named_in(self, response: DescribeClusterResponse) -> FoundController | None:
        self.cluster_id = response.cluster_id
        self._named = tuple(
            FoundController(each.broker_id, each.host, each.port) for each in response.brokers
        )
        leader = response.controller_id
        if leader == _NOBODY:
            return None
        for each in self._named:
            if each.node_id == leader:
                return each
        # Only registered controllers are listed; a new leader may not be registered yet.
        address = self._quorum.voters.get(leader)
        return FoundController(leader, *address) if address is not None else None

    def _found(self, controller: FoundController) -> None:
        if controller != self._reported or self._is_silent:
            # Logged once: during an election the other controllers keep reporting the old one.
            level = logging.WARNING if self._is_silent else logging.INFO
            logger.log(level, "The active controller is %s", controller)
            self._reported = controller
        self._is_silent = False
        self.active = controller
        waiting = self._waiting
        self._waiting = []
        for each in waiting:
            each.set(controller)

    def _fail(self, reason: str) -> None:
        waiting = self._waiting
        self._waiting = []
        if waiting and not self._is_silent and not self._is_closed:
            self._is_silent = True
            logger.warning("No active controller is known, retrying: %s", reason)
        for each in waiting:
            each.set(KafkaError(Error.NETWORK_EXCEPTION, f"no active controller: {reason}"))
