"""ACLs of a cluster: listed, created and deleted."""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.client.client import Client, CliError, check
from wirekafka.errors import Error
from wirekafka.protocol.create_acls import CreateAclsRequest, CreateAclsResponse
from wirekafka.protocol.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from wirekafka.protocol.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from wirekafka.security.acl import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    of_code,
)

EVERY_ACL = AclFilter(
    ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY
)
"""The filter that selects all ACLs."""


class NoAuthorizer(CliError):
    """The brokers have no authorizer, and so no ACLs."""


def list_acls(client: Client, wanted: AclFilter = EVERY_ACL) -> list[Acl]:
    """The ACLs that a filter selects, sorted. Raises NoAuthorizer, CliError."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    response = client.send(request, DescribeAclsResponse)
    _check(response.error_code, response.error_message)
    return sorted(
        Acl(
            of_code(ResourceType, resource.resource_type),
            resource.resource_name,
            of_code(PatternType, resource.pattern_type),
            acl.principal,
            acl.host,
            of_code(Operation, acl.operation),
            of_code(Permission, acl.permission_type),
        )
        for resource in response.resources
        for acl in resource.acls
    )


def create_acls(client: Client, acls: Sequence[Acl]) -> None:
    """Create ACLs; an ACL that exists stays. Raises NoAuthorizer, CliError."""
    kind = CreateAclsRequest.AclCreation
    request = CreateAclsRequest(
        creations=[
            kind(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ]
    )
    for result in client.send(request, CreateAclsResponse).results:
        _check(result.error_code, result.error_message)


def delete_acls(client: Client, filters: Sequence[AclFilter]) -> list[Acl]:
    """Delete the ACLs that any of the filters selects, and return them, sorted.

    Raises NoAuthorizer, CliError; the other filters may have deleted theirs then.
    """
    kind = DeleteAclsRequest.Filter
    request = DeleteAclsRequest(
        filters=[
            kind(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.resource_name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in filters
        ]
    )
    deleted = set()
    for result in client.send(request, DeleteAclsResponse).filter_results:
        _check(result.error_code, result.error_message)
        for acl in result.matching_acls:
            _check(acl.error_code, acl.error_message)
            deleted.add(
                Acl(
                    of_code(ResourceType, acl.resource_type),
                    acl.resource_name,
                    of_code(PatternType, acl.pattern_type),
                    acl.principal,
                    acl.host,
                    of_code(Operation, acl.operation),
                    of_code(Permission, acl.permission_type),
                )
            )
    return sorted(deleted)


def filter_of(acl: Acl) -> AclFilter:
    """The filter that selects this ACL alone."""
    return AclFilter(*acl)


def _check(error_code: int, message: str | None) -> None:
    if error_code == Error.SECURITY_DISABLED:
        raise NoAuthorizer("the brokers have no authorizer: everybody may do everything")
    check(error_code, "ACLs", message)
