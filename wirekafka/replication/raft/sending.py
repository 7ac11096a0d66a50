"""The requests of a node that are to be sent or under way: one at a time to each other node."""

from __future__ import annotations

from wirekafka.replication.raft.messages import Outgoing, ReplicaKey, Request

ANY = -1
"""The key of requests to any node of the quorum."""


class Sending:
    """The outbox, and for each node its request under way, or when the next may be sent."""

    def __init__(self, timeout_ms: int, backoff_ms: int):
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._outbox: list[Outgoing] = []
        self._under_way: dict[int, Outgoing] = {}
        self._not_before: dict[int, int] = {}
        self.silent: set[int] = set()
        """The nodes that could not be reached, or did not answer, when last sent a request."""

    def is_free(self, node: int, now_ms: int) -> bool:
        """Whether a request may be sent: none is under way, and none has just failed."""
        return node not in self._under_way and self._not_before.get(node, now_ms) <= now_ms

    def free_at(self, node: int) -> int | None:
        """When a request may be sent after a failure; None while one is under way."""
        return None if node in self._under_way else self._not_before.get(node, 0)

    def send(
        self,
        request: Request,
        to: ReplicaKey | None = None,
        endpoint: tuple[str, int] | None = None,
    ) -> None:
        """Put a request into the outbox; by default to any node."""
        outgoing = Outgoing(request, to, endpoint, self._timeout_ms)
        self._under_way[ANY if to is None else to.id] = outgoing
        self._outbox.append(outgoing)

    def take(self) -> list[Outgoing]:
        """Return the outbox, and empty it."""
        outbox = self._outbox
        self._outbox = []
        return outbox

    def answered(self, outgoing: Outgoing) -> bool:
        """End a request; False if it no longer counts, because the node's role has changed."""
        node = ANY if outgoing.to is None else outgoing.to.id
        if self._under_way.get(node) is not outgoing:
            return False
        del self._under_way[node]
        return True

    def back_off(self, outgoing: Outgoing, now_ms: int) -> None:
        """Send nothing to the node of a failed request for a while."""
        node = ANY if outgoing.to is None else outgoing.to.id
        self._not_before[node] = now_ms + self._backoff_ms

    def lost(self, outgoing: Outgoing) -> None:
        """Note that a request was not answered."""
        if outgoing.to is not None:
            self.silent.add(outgoing.to.id)

    def heard(self, node: int) -> None:
        """Note that a node has answered a request, or sent one."""
        self.silent.discard(node)

    def reset(self) -> None:
        """Forget all requests: they belonged to another role or epoch."""
        self._outbox.clear()
        self._under_way.clear()
        self._not_before.clear()
