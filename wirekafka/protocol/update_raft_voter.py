"""UpdateRaftVoter: a voter reports its listeners and kraft.versions to the leader (KIP-853)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, Uuid, field
from wirekafka.protocol.quorum_endpoints import LeaderEndpoint


class UpdateRaftVoterRequest(Request, key=82, versions="0", flexible="0+"):
    cluster_id: String | None
    current_leader_epoch: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[LeaderEndpoint]
    kraft_version_feature: KRaftVersionFeature

    class KRaftVersionFeature(Part):
        min_supported_version: Int16
        max_supported_version: Int16


class UpdateRaftVoterResponse(Response, answers=UpdateRaftVoterRequest):
    throttle_time_ms: Int32
    error_code: Int16
    current_leader: CurrentLeader = field(tag=0)

    class CurrentLeader(Part):
        leader_id: Int32 = field(default=-1)
        leader_epoch: Int32 = field(default=-1)
        host: String
        port: Int32
