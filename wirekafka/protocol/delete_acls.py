"""DeleteAcls: removes the ACLs that match filters (KIP-140)."""

from __future__ import annotations

from wirekafka.codec.message import Int8, Int16, Int32, Part, Request, Response, String, field


class DeleteAclsRequest(Request, key=31, versions="1-3", flexible="2+"):
    filters: list[Filter]

    class Filter(Part):
        resource_type_filter: Int8
        resource_name_filter: String | None = field(default="")
        pattern_type_filter: Int8 = field(default=3)
        principal_filter: String | None = field(default="")
        host_filter: String | None = field(default="")
        operation: Int8
        permission_type: Int8


class DeleteAclsResponse(Response, answers=DeleteAclsRequest):
    throttle_time_ms: Int32
    filter_results: list[FilterResult]

    class FilterResult(Part):
        error_code: Int16
        error_message: String | None = field(default="")
        matching_acls: list[MatchingAcl]

        class MatchingAcl(Part):
            error_code: Int16
            error_message: String | None = field(default="")
            resource_type: Int8
            resource_name: String
            pattern_type: Int8 = field(default=3)
            principal: String
            host: String
            operation: Int8
            permission_type: Int8
