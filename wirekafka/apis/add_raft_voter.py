"""AddRaftVoter: adds a controller to the voters of the metadata quorum (KIP-853).

v1: a response as soon as the leader has appended the change (KIP-1186).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.raft_requests import check_cluster_id, endpoints_of
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from wirekafka.replication.raft.messages import NO_DIRECTORY, AddVoter, ReplicaKey
from wirekafka.security.access import refusal
from wirekafka.security.acl import ALTER, CLUSTER


@api(AddRaftVoterRequest, AddRaftVoterResponse, forwarded=True)
async def add_raft_voter(
    request: AddRaftVoterRequest, call: ControllerCall
) -> AddRaftVoterResponse:
    """Add the controller once its log is near the end of the leader's."""
    if not call.is_authorized(ALTER, CLUSTER):
        raise refusal(CLUSTER)
    check_cluster_id(request.cluster_id, call)
    voter = ReplicaKey(request.voter_id, request.voter_directory_id)
    if voter.id < 0 or voter.directory_id == NO_DIRECTORY:
        raise KafkaError(Error.INVALID_REQUEST, "Add voter request didn't include a valid voter")
    add = AddVoter(
        voter=voter,
        endpoints=endpoints_of(request.listeners),
        ack_when_committed=request.ack_when_committed,
    )
    await call.controller.raft.add_voter(add, call.now_ms)
    return AddRaftVoterResponse(error_message=None)


@failure_of(add_raft_voter)
def add_raft_voter_failure(
    request: AddRaftVoterRequest, error: KafkaError, call: Call
) -> AddRaftVoterResponse:
    """Report the error; a node that does not lead responds without a message."""
    return AddRaftVoterResponse(error_code=error.error, error_message=error.message or "")
