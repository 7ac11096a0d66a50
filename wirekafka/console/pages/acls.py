"""The page of ACLs, users with passwords, and quotas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wirekafka.client.client import Client, CliError, check
from wirekafka.console.pages.page import Page, PageView, Visit
from wirekafka.console.pages.tables import table
from wirekafka.console.source import Known, Unknown
from wirekafka.errors import Error
from wirekafka.protocol.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from wirekafka.protocol.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from wirekafka.protocol.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from wirekafka.security.acl import Operation, PatternType, Permission, ResourceType, of_code

LINK = ("ACLs and users", "/acls", "a")

_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


class AclRow(NamedTuple):
    """An ACL, in Kafka's words."""

    principal: str
    permission: str
    operation: str
    resource: str
    pattern: str
    name: str
    host: str


class User(NamedTuple):
    """A user with a SCRAM password."""

    name: str
    mechanism: str
    iterations: int


class Quota(NamedTuple):
    """A limit of an entity, such as a user."""

    entity: str
    key: str
    value: float


def show(visit: Visit) -> PageView:
    """All ACLs, users and quotas that the visitor may see."""
    rules = _rules(visit.client)
    values = {
        "title": "ACLs and users",
        "unknown_rules": rules if isinstance(rules, Unknown) else None,
        "rules": table(
            [] if isinstance(rules, Unknown) else rules,
            visit.query,
            name=" ".join,
            sorts={"principal": _whole, "name": lambda rule: (rule.resource, rule.name)},
        ),
        "users": _users(visit.client),
        "quotas": _quotas(visit.client),
    }
    return PageView("acls.html", values)


def _rules(client: Client) -> Known[Sequence[AclRow]]:
    every = DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    try:
        response = client.send(every, DescribeAclsResponse)
        if response.error_code == Error.SECURITY_DISABLED:
            return Unknown("The brokers have no authorizer: everybody may do everything.")
        check(response.error_code, "ACLs", response.error_message)
    except CliError as error:
        return Unknown(str(error))
    return [
        AclRow(
            acl.principal,
            of_code(Permission, acl.permission_type).name.capitalize(),
            of_code(Operation, acl.operation).name,
            of_code(ResourceType, resource.resource_type).label,
            of_code(PatternType, resource.pattern_type).name.lower(),
            resource.resource_name,
            acl.host,
        )
        for resource in response.resources
        for acl in resource.acls
    ]


def _users(client: Client) -> Known[Sequence[User]]:
    try:
        response = client.send(
            DescribeUserScramCredentialsRequest(users=None), DescribeUserScramCredentialsResponse
        )
        check(response.error_code, "users", response.error_message)
    except CliError as error:
        return Unknown(str(error))
    return sorted(
        User(each.user, _MECHANISMS.get(info.mechanism, "unknown"), info.iterations)
        for each in response.results
        for info in each.credential_infos
    )


def _quotas(client: Client) -> Known[Sequence[Quota]]:
    try:
        response = client.send(DescribeClientQuotasRequest(), DescribeClientQuotasResponse)
        check(response.error_code, "quotas", response.error_message)
    except CliError as error:
        return Unknown(str(error))
    return sorted(
        Quota(
            ", ".join(
                f"{part.entity_type} {part.entity_name or '(default)'}" for part in entry.entity
            ),
            value.key,
            value.value,
        )
        for entry in response.entries or ()
        for value in entry.values
    )


def _whole(rule: AclRow) -> AclRow:
    return rule


ENTRIES = (Page("/acls", show),)
