"""AddRaftVoter: adds a controller to the voters of the metadata quorum (KIP-853).

v1: a response as soon as the leader has appended the change (KIP-1186).
"""

from __future__ import annotations

from wirekafka.apis.raft_requests import LeaderEndpoint, check_cluster_id, endpoints_of
from wirekafka.apis.registry import Call, ControllerCall, api, failure_of
from wirekafka.codec.message import Bool, Int16, Int32, Request, Response, String, Uuid, field
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.raft.messages import NO_DIRECTORY, AddVoter, ReplicaKey
from wirekafka.security.access import refusal
from wirekafka.security.acl import ALTER, CLUSTER


class AddRaftVoterRequest(Request, key=80, versions="0-1", flexible="0+"):
    cluster_id: String | None
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[LeaderEndpoint]
    ack_when_committed: Bool = field("1+", default=True)


class AddRaftVoterResponse(Response, answers=AddRaftVoterRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default="")


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
