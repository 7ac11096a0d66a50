"""CreateAcls: adds ACLs, each for itself (KIP-140);
v1: pattern types (KIP-290).
"""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Int8, Int16, Int32, Part, Request, Response, String, field
from wirekafka.errors import Error, KafkaError


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


@api(CreateAclsRequest, CreateAclsResponse)
def create_acls(request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
    """Refuse all: there is no authorizer, as in Kafka by default."""
    error = KafkaError(Error.SECURITY_DISABLED, "No Authorizer is configured.")
    return create_acls_failure(request, error, call)


def create_acls_failure(request: CreateAclsRequest, error: KafkaError,
                        call: Call) -> CreateAclsResponse:
    """Every one fails the same way."""
    return CreateAclsResponse(results=[CreateAclsResponse.AclCreationResult(
        error_code=error.error,
        error_message=error.message,
    ) for _ in request.creations])
