"""AddRaftVoter: to another cluster; what else is refused depends on the kind of quorum."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.protocol.add_raft_voter import AddRaftVoterRequest

BOOK = Book(AddRaftVoterRequest, "administration", ConformanceLevel.ADMIN, "KIP-853")


def _add(cluster_id: str) -> AddRaftVoterRequest:
    """A request without an address of the voter, which no cluster can accept."""
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=5000,
        voter_id=9999,
        voter_directory_id=bytes(range(1, 17)),
        listeners=[],
    )


BOOK.ask("a voter of another cluster", lambda _: _add("another-cluster"))
