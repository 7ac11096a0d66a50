"""DeleteAcls: removes the ACLs that match filters (KIP-140);
v1: pattern types (KIP-290).
"""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Int8, Int16, Int32, Part, Request, Response, String, field
from wirekafka.errors import Error, KafkaError


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


@api(DeleteAclsRequest, DeleteAclsResponse)
def delete_acls(request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse:
    """Refuse all: there is no authorizer, as in Kafka by default."""
    error = KafkaError(Error.SECURITY_DISABLED, "No Authorizer is configured.")
    return delete_acls_failure(request, error, call)


def delete_acls_failure(request: DeleteAclsRequest, error: KafkaError,
                        call: Call) -> DeleteAclsResponse:
    """Every one fails the same way."""
    return DeleteAclsResponse(filter_results=[DeleteAclsResponse.FilterResult(
        error_code=error.error,
        error_message=error.message,
    ) for _ in request.filters])
