"""The page of ACLs, users with passwords, and quotas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wirekafka.client.admin.acls import NoAuthorizer, list_acls
from wirekafka.client.admin.users import ScramUser, list_users
from wirekafka.client.client import Client, CliError, check
from wirekafka.console.pages.page import Page, PageView, Visit
from wirekafka.console.pages.tables import table
from wirekafka.console.source import Known, Unknown
from wirekafka.protocol.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

LINK = ("ACLs and users", "/acls", "a")


class AclRow(NamedTuple):
    """An ACL, in Kafka's words."""

    principal: str
    permission: str
    operation: str
    resource: str
    pattern: str
    name: str
    host: str


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
    try:
        acls = list_acls(client)
    except NoAuthorizer:
        return Unknown("The brokers have no authorizer: everybody may do everything.")
    except CliError as error:
        return Unknown(str(error))
    return [
        AclRow(
            acl.principal,
            acl.permission.name.capitalize(),
            acl.operation.name,
            acl.resource_type.label,
            acl.pattern_type.name.lower(),
            acl.resource_name,
            acl.host,
        )
        for acl in acls
    ]


def _users(client: Client) -> Known[Sequence[ScramUser]]:
    try:
        return list_users(client)
    except CliError as error:
        return Unknown(str(error))


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
