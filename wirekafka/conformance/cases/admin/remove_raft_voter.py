"""RemoveRaftVoter: of another cluster; what else is refused depends on the kind of quorum."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.protocol.remove_raft_voter import RemoveRaftVoterRequest

BOOK = Book(RemoveRaftVoterRequest, "administration", ConformanceLevel.ADMIN, "KIP-853")


def _remove(cluster_id: str) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(
        cluster_id=cluster_id, voter_id=9999, voter_directory_id=bytes(range(1, 17))
    )


BOOK.ask("a voter of another cluster", lambda _: _remove("another-cluster"))
