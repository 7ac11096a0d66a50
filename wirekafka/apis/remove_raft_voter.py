"""RemoveRaftVoter: removes a controller from the voters of the metadata quorum (KIP-853)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.raft_requests import check_cluster_id
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from wirekafka.replication.raft.messages import NO_DIRECTORY, RemoveVoter, ReplicaKey
from wirekafka.security.access import refusal
from wirekafka.security.acl import ALTER, CLUSTER


@api(RemoveRaftVoterRequest, RemoveRaftVoterResponse, forwarded=True)
async def remove_raft_voter(
    request: RemoveRaftVoterRequest, call: ControllerCall
) -> RemoveRaftVoterResponse:
    """Remove the controller; a leader resigns once its removal is committed."""
    if not call.is_authorized(ALTER, CLUSTER):
        raise refusal(CLUSTER)
    check_cluster_id(request.cluster_id, call)
    voter = ReplicaKey(request.voter_id, request.voter_directory_id)
    if voter.id < 0 or voter.directory_id == NO_DIRECTORY:
        raise KafkaError(Error.INVALID_REQUEST, "Remove voter request didn't include a valid voter")
    await call.controller.raft.remove_voter(RemoveVoter(voter=voter), call.now_ms)
    return RemoveRaftVoterResponse(error_message=None)


@failure_of(remove_raft_voter)
def remove_raft_voter_failure(
    request: RemoveRaftVoterRequest, error: KafkaError, call: Call
) -> RemoveRaftVoterResponse:
    """Report the error; a node that does not lead responds without a message."""
    return RemoveRaftVoterResponse(error_code=error.error, error_message=error.message or "")
