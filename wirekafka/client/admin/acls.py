"""ACLs of a cluster: listed, created and deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, TypeVar

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

_Filter = TypeVar("_Filter", DescribeAclsRequest, DeleteAclsRequest.Filter)
_Resource: TypeAlias = DescribeAclsResponse.Resource
_Matching: TypeAlias = DeleteAclsResponse.FilterResult.MatchingAcl


class NoAuthorizer(CliError):
    """The brokers have no authorizer, and so no ACLs."""


def list_acls(client: Client, wanted: AclFilter = EVERY_ACL) -> list[Acl]:
    """The ACLs that a filter selects, sorted. Raises NoAuthorizer, CliError."""
    response = client.send(_filter(DescribeAclsRequest, wanted), DescribeAclsResponse)
    _check(response.error_code, response.error_message)
    return sorted(_acl(resource, acl) for resource in response.resources for acl in resource.acls)


def create_acls(client: Client, acls: Iterable[Acl]) -> None:
    """Create ACLs; an ACL that exists stays. Raises NoAuthorizer, CliError."""
    for result in client.send(creation_of(acls), CreateAclsResponse).results:
        _check(result.error_code, result.error_message)


def delete_acls(client: Client, filters: Iterable[AclFilter]) -> list[Acl]:
    """Delete the ACLs that any of the filters selects, and return them, sorted.

    Raises NoAuthorizer, CliError; the other filters may have deleted theirs then.
    """
    deleted = set()
    for result in client.send(deletion_by(filters), DeleteAclsResponse).filter_results:
        _check(result.error_code, result.error_message)
        for acl in result.matching_acls:
            _check(acl.error_code, acl.error_message)
            deleted.add(_acl(acl, acl))
    return sorted(deleted)


def creation_of(acls: Iterable[Acl]) -> CreateAclsRequest:
    """The request that creates these ACLs."""
    kind = CreateAclsRequest.AclCreation
    return CreateAclsRequest(
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


def deletion_by(filters: Iterable[AclFilter]) -> DeleteAclsRequest:
    """The request that deletes the ACLs that any of the filters selects."""
    kind = DeleteAclsRequest.Filter
    return DeleteAclsRequest(filters=[_filter(kind, each) for each in filters])


def filter_of(acl: Acl) -> AclFilter:
    """The filter that selects this ACL alone."""
    return AclFilter(*acl)


def _filter(kind: type[_Filter], wanted: AclFilter) -> _Filter:
    return kind(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def _acl(resource: _Resource | _Matching, entry: _Resource.AclDescription | _Matching) -> Acl:
    """The ACL of a response; codes of a later Kafka become UNKNOWN."""
    return Acl(
        of_code(ResourceType, resource.resource_type),
        resource.resource_name,
        of_code(PatternType, resource.pattern_type),
        entry.principal,
        entry.host,
        of_code(Operation, entry.operation),
        of_code(Permission, entry.permission_type),
    )


def _check(error_code: int, message: str | None) -> None:
    if error_code == Error.SECURITY_DISABLED:
        raise NoAuthorizer("the brokers have no authorizer: everybody may do everything")
    check(error_code, "ACLs", message)
