"""DescribeAcls: lists the ACLs that match a filter (KIP-140).

v1: pattern types (KIP-290).
"""

from __future__ import annotations

from wirekafka.apis.shared.acl_types import require_types
from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api
from wirekafka.errors import Error
from wirekafka.protocol.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from wirekafka.security.acl import (
    CLUSTER,
    DESCRIBE,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    of_code,
)

_Resource = DescribeAclsResponse.Resource


@api(DescribeAclsRequest, DescribeAclsResponse, on_every_listener=True)
def describe_acls(request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
    """List the ACLs by the resource pattern that they are for."""
    require_types(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    call.authorize(DESCRIBE, CLUSTER)
    if call.authorizer is None:
        return DescribeAclsResponse(
            error_code=Error.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
        )
    resources: dict[tuple[int, str, int], list[Acl]] = {}
    for _, acl in call.authorizer.index.matching(_filter(request)):
        pattern = acl.resource_type, acl.resource_name, acl.pattern_type
        resources.setdefault(pattern, []).append(acl)
    return DescribeAclsResponse(
        resources=[
            _Resource(
                resource_type=resource_type,
                resource_name=name,
                pattern_type=pattern_type,
                acls=[
                    _Resource.AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in acls
                ],
            )
            for (resource_type, name, pattern_type), acls in resources.items()
        ]
    )


def _filter(request: DescribeAclsRequest) -> AclFilter:
    return AclFilter(
        of_code(ResourceType, request.resource_type_filter),
        request.resource_name_filter,
        of_code(PatternType, request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        of_code(Operation, request.operation),
        of_code(Permission, request.permission_type),
    )
