"""RemoveRaftVoter: removes a controller from the voters of the metadata quorum (KIP-853)."""

from __future__ import annotations

from wirekafka.apis.raft_requests import check_cluster_id
from wirekafka.apis.registry import Call, ControllerCall, api, failure_of
from wirekafka.codec.message import Int16, Int32, Request, Response, String, Uuid, field
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.raft.messages import NO_DIRECTORY, RemoveVoter, ReplicaKey
from wirekafka.security.access import refusal
from wirekafka.security.acl import ALTER, CLUSTER


class RemoveRaftVoterRequest(Request, key=81, versions="0", flexible="0+"):
    cluster_id: String | None
    voter_id: Int32
    voter_directory_id: Uuid


class RemoveRaftVoterResponse(Response, answers=RemoveRaftVoterRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default="")


@api(RemoveRaftVoterRequest, RemoveRaftVoterResponse, forwarded=True)
async def remove_raft_voter(
    request: RemoveRaftVoterRequest, call: ControllerCall
) -> RemoveRaftVoterResponse:
    """Remove the controller; if it is the leader, it resigns once that is committed."""
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
