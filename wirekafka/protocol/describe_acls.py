"""DescribeAcls: lists the ACLs that match a filter (KIP-140)."""

from __future__ import annotations

from wirekafka.codec.message import Int8, Int16, Int32, Part, Request, Response, String, field


class DescribeAclsRequest(Request, key=29, versions="1-3", flexible="2+"):
    resource_type_filter: Int8
    resource_name_filter: String | None = field(default="")
    pattern_type_filter: Int8 = field(default=3)
    principal_filter: String | None = field(default="")
    host_filter: String | None = field(default="")
    operation: Int8
    permission_type: Int8


class DescribeAclsResponse(Response, answers=DescribeAclsRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default="")
    resources: list[Resource]

    class Resource(Part):
        resource_type: Int8
        resource_name: String
        pattern_type: Int8 = field(default=3)
        acls: list[AclDescription]

        class AclDescription(Part):
            principal: String
            host: String
            operation: Int8
            permission_type: Int8
