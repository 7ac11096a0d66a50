"""RemoveRaftVoter: removes a controller from the voters of the metadata quorum (KIP-853)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Request, Response, String, Uuid, field


class RemoveRaftVoterRequest(Request, key=81, versions="0", flexible="0+"):
    cluster_id: String | None
    voter_id: Int32
    voter_directory_id: Uuid


class RemoveRaftVoterResponse(Response, answers=RemoveRaftVoterRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default="")
