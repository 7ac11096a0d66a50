"""CreateAcls: adds ACLs (KIP-140).

v1: pattern types (KIP-290).
"""

from __future__ import annotations

from wirekafka.apis.shared.acl_types import require_types
from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.acls import CreateAcls
from wirekafka.protocol.create_acls import CreateAclsRequest, CreateAclsResponse
from wirekafka.security.acl import (
    ALTER,
    CLUSTER,
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    of_code,
)

_Creation = CreateAclsRequest.AclCreation


async def _on_controller(request: CreateAclsRequest, call: ControllerCall) -> CreateAclsResponse:
    _require_types(request)
    call.authorize(ALTER, CLUSTER)
    if call.authorizer is None:
        error = KafkaError(Error.SECURITY_DISABLED, "No Authorizer is configured.")
        return create_acls_failure(request, error, call)
    if any(_names_several(each) for each in request.creations):
        raise KafkaError(Error.UNKNOWN_SERVER_ERROR)
    acls = [_acl(each) for each in request.creations]
    errors = [_why_invalid(acl) for acl in acls]
    outcome = iter(
        await call.controller.submit(
            CreateAcls([acl for acl, error in zip(acls, errors, strict=True) if error is None])
        )
    )
    return CreateAclsResponse(
        results=[_result(next(outcome) if error is None else error) for error in errors]
    )


@api(CreateAclsRequest, CreateAclsResponse, on_controller=_on_controller)
async def create_acls(request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
    """Add ACLs at the controller; each has a result of its own."""
    _require_types(request)
    response: CreateAclsResponse = await call.broker.controller_channel.forward(request, call)
    return response


@failure_of(create_acls)
def create_acls_failure(
    request: CreateAclsRequest, error: KafkaError, call: Call | ControllerCall
) -> CreateAclsResponse:
    """Report the error for every ACL of the request."""
    return CreateAclsResponse(results=[_result(error) for _ in request.creations])


def _require_types(request: CreateAclsRequest) -> None:
    for each in request.creations:
        require_types(
            each.resource_type, each.resource_pattern_type, each.operation, each.permission_type
        )


def _acl(creation: _Creation) -> Acl:
    return Acl(
        of_code(ResourceType, creation.resource_type),
        creation.resource_name,
        of_code(PatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        of_code(Operation, creation.operation),
        of_code(Permission, creation.permission_type),
    )


def _names_several(creation: _Creation) -> bool:
    """Whether the ACL has a type for filters only, which Kafka takes for a fault of its own."""
    acl = _acl(creation)
    return (
        acl.resource_type is ResourceType.ANY
        or acl.pattern_type in (PatternType.ANY, PatternType.MATCH)
        or acl.operation is Operation.ANY
        or acl.permission is Permission.ANY
    )


def _why_invalid(acl: Acl) -> KafkaError | None:
    if acl.resource_type is CLUSTER and acl.resource_name != CLUSTER_NAME:
        message = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        return KafkaError(Error.INVALID_REQUEST, message)
    if not acl.resource_name:
        return KafkaError(Error.INVALID_REQUEST, "Invalid empty resource name")
    return None


def _result(error: KafkaError | None) -> CreateAclsResponse.AclCreationResult:
    return CreateAclsResponse.AclCreationResult(
        error_code=error.error if error else Error.NONE,
        error_message=error.message if error else "",
    )
