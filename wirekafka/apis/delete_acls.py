"""DeleteAcls: removes the ACLs that match filters (KIP-140).

v1: pattern types (KIP-290).
"""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.apis.shared.acl_types import require_types
from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.acls import DeleteAcls
from wirekafka.protocol.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from wirekafka.security.acl import (
    ALTER,
    CLUSTER,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    of_code,
)

_Result = DeleteAclsResponse.FilterResult


async def _on_controller(request: DeleteAclsRequest, call: ControllerCall) -> DeleteAclsResponse:
    _require_types(request)
    call.authorize(ALTER, CLUSTER)
    if call.authorizer is None:
        error = KafkaError(Error.SECURITY_DISABLED, "No Authorizer is configured.")
        return delete_acls_failure(request, error, call)
    outcome = await call.controller.submit(DeleteAcls([_filter(each) for each in request.filters]))
    return DeleteAclsResponse(filter_results=[_result(each) for each in outcome])


@api(DeleteAclsRequest, DeleteAclsResponse, on_controller=_on_controller)
async def delete_acls(request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse:
    """Remove the ACLs that match the filters; each filter has a result of its own."""
    _require_types(request)
    response: DeleteAclsResponse = await call.broker.controller_channel.forward(request, call)
    return response


@failure_of(delete_acls)
def delete_acls_failure(
    request: DeleteAclsRequest, error: KafkaError, call: Call | ControllerCall
) -> DeleteAclsResponse:
    """Report the error for every filter of the request."""
    return DeleteAclsResponse(filter_results=[_result(error) for _ in request.filters])


def _require_types(request: DeleteAclsRequest) -> None:
    for each in request.filters:
        require_types(
            each.resource_type_filter,
            each.pattern_type_filter,
            each.operation,
            each.permission_type,
        )


def _result(outcome: Sequence[Acl] | KafkaError) -> DeleteAclsResponse.FilterResult:
    if isinstance(outcome, KafkaError):
        return _Result(error_code=outcome.error, error_message=outcome.message)
    return _Result(error_message=None, matching_acls=[_matching(acl) for acl in outcome])


def _filter(wanted: DeleteAclsRequest.Filter) -> AclFilter:
    return AclFilter(
        of_code(ResourceType, wanted.resource_type_filter),
        wanted.resource_name_filter,
        of_code(PatternType, wanted.pattern_type_filter),
        wanted.principal_filter,
        wanted.host_filter,
        of_code(Operation, wanted.operation),
        of_code(Permission, wanted.permission_type),
    )


def _matching(acl: Acl) -> DeleteAclsResponse.FilterResult.MatchingAcl:
    return _Result.MatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
