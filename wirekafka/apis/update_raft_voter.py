"""UpdateRaftVoter: a voter reports its listeners and kraft.versions to the leader (KIP-853)."""

from __future__ import annotations

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.raft_requests import check_cluster_id, endpoints_of
from wirekafka.apis.shared.registry import controller_api
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from wirekafka.replication.raft.messages import NO_DIRECTORY, ReplicaKey, UpdateVoter, VersionRange
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION


@controller_api(UpdateRaftVoterRequest, UpdateRaftVoterResponse)
async def update_raft_voter(
    request: UpdateRaftVoterRequest, call: ControllerCall
) -> UpdateRaftVoterResponse:
    """Store the voter's listeners and versions, in the log of a dynamic quorum."""
    call.authorize(CLUSTER_ACTION, CLUSTER)
    try:
        check_cluster_id(request.cluster_id, call)
        await call.controller.raft.update_voter(_update(request), call.now_ms)
    except KafkaError as error:
        return _response(error.error, call)
    return _response(Error.NONE, call)


def _update(request: UpdateRaftVoterRequest) -> UpdateVoter:
    voter = ReplicaKey(request.voter_id, request.voter_directory_id)
    versions = request.kraft_version_feature
    low, high = versions.min_supported_version, versions.max_supported_version
    if voter.id < 0 or voter.directory_id == NO_DIRECTORY or not 0 <= low <= high:
        raise KafkaError(Error.INVALID_REQUEST)
    return UpdateVoter(
        voter=voter,
        leader_epoch=request.current_leader_epoch,
        endpoints=endpoints_of(request.listeners),
        versions=VersionRange(min_supported=low, max_supported=high),
    )


def _response(error: Error, call: ControllerCall) -> UpdateRaftVoterResponse:
    leader_id, epoch, endpoints = call.controller.raft.leadership
    host, port = next(
        ((host, port) for name, host, port in endpoints if name == call.listener), ("", 0)
    )
    return UpdateRaftVoterResponse(
        error_code=error,
        current_leader=UpdateRaftVoterResponse.CurrentLeader(
            leader_id=leader_id, leader_epoch=epoch, host=host, port=port
        ),
    )
