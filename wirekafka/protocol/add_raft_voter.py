"""AddRaftVoter: adds a controller to the voters of the metadata quorum (KIP-853)."""

from __future__ import annotations

from wirekafka.codec.message import Bool, Int16, Int32, Request, Response, String, Uuid, field
from wirekafka.protocol.quorum_endpoints import LeaderEndpoint


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
