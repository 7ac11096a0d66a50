"""CreateAcls: adds ACLs (KIP-140)."""

from __future__ import annotations

from wirekafka.codec.message import Int8, Int16, Int32, Part, Request, Response, String, field


class CreateAclsRequest(Request, key=30, versions="1-3", flexible="2+"):
    creations: list[AclCreation]

    class AclCreation(Part):
        resource_type: Int8
        resource_name: String
        resource_pattern_type: Int8 = field(default=3)
        principal: String
        host: String
        operation: Int8
        permission_type: Int8


class CreateAclsResponse(Response, answers=CreateAclsRequest):
    throttle_time_ms: Int32
    results: list[AclCreationResult]

    class AclCreationResult(Part):
        error_code: Int16
        error_message: String | None = field(default="")
