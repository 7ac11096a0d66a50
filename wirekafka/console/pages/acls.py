"""The pages of ACLs: the list, and the forms that add and remove one, each after a preview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar
from urllib.parse import urlencode

from wirekafka.client.admin.acls import NoAuthorizer, create_acls, delete_acls, filter_of, list_acls
from wirekafka.client.client import Client, CliError
from wirekafka.console.pages.page import Change, Page, PageError, PageView, Redirect, Visit
from wirekafka.console.pages.tables import table
from wirekafka.console.source import Known, Unknown
from wirekafka.security.acl import (
    CLUSTER,
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

LINK = ("ACLs", "/acls", "a")

_MOST_CHARACTERS = 1_000
"""Of a field: links to the preview have all fields."""
_OPEN = "The brokers have no authorizer: everybody may do everything."

_Word = TypeVar("_Word", ResourceType, PatternType, Operation, Permission)


def show(visit: Visit) -> PageView:
    """All ACLs that the visitor may see, and the form of a new one."""
    rules = _rules(visit.client)
    values = {
        "title": "ACLs",
        "unknown_rules": rules if isinstance(rules, Unknown) else None,
        "rules": table(
            [] if isinstance(rules, Unknown) else rules, visit.query, name=_words, sorts=_SORTS
        ),
        "fields_of": fields_of,
        **_choices(),
        "entered": fields_of(_EXAMPLE),
    }
    return PageView("acls.html", values)


def review(visit: Visit) -> PageView:
    """The ACL that would be added, and the form to correct it."""
    if not (visit.form or visit.query):
        return correct(visit)
    acl = _acl(_stripped(visit.form or visit.query))
    others = _rules(visit.client)
    values = {
        "title": "Add an ACL",
        "acl": acl,
        "entered": fields_of(acl),
        "is_there": not isinstance(others, Unknown) and acl in others,
        **_choices(),
    }
    return PageView("acl_add.html", values)


def correct(visit: Visit) -> PageView:
    """The form with what was entered in it, without a preview."""
    entered = visit.form or visit.query
    example = fields_of(_EXAMPLE)
    fields = {name: entered.get(name, "") for name in example} if entered else example
    values = {"title": "Add an ACL", "acl": None, "entered": fields, "is_there": False}
    return PageView("acl_add.html", {**values, **_choices()})


def add(visit: Visit) -> Redirect:
    """Add the ACL of the preview."""
    acl = _acl(_stripped(visit.form))
    create_acls(visit.client, [acl])
    return Redirect(f"/acls?{urlencode({'q': acl.principal})}")


def confirm(visit: Visit) -> PageView:
    """The ACL that would be removed."""
    acl = _acl(visit.form or visit.query)
    rules = _rules(visit.client)
    if not isinstance(rules, Unknown) and acl not in rules:
        raise PageError(404, "There is no such ACL.")
    values = {"title": "Remove an ACL", "acl": acl, "fields": fields_of(acl)}
    return PageView("acl_remove.html", values)


def remove(visit: Visit) -> Redirect:
    """Remove the ACL that was confirmed, and no other."""
    acl = _acl(visit.form)
    if not delete_acls(visit.client, [filter_of(acl)]):
        raise PageError(404, "There is no such ACL any more.")
    return Redirect("/acls")


def fields_of(acl: Acl) -> dict[str, str]:
    """The fields by which forms and links name an ACL."""
    return {
        "principal": acl.principal,
        "host": acl.host,
        "permission": acl.permission.name,
        "operation": acl.operation.name,
        "type": acl.resource_type.name,
        "pattern": acl.pattern_type.name,
        "name": acl.resource_name,
    }


def _again(visit: Visit) -> PageView:
    """The preview of the ACL that was not added, if the fields name one."""
    try:
        return review(visit)
    except PageError:
        return correct(visit)


def _stripped(fields: Mapping[str, str]) -> dict[str, str]:
    """What was typed; the fields of an ACL that exists are taken as they are."""
    return {name: text.strip() for name, text in fields.items()}


def _acl(fields: Mapping[str, str]) -> Acl:
    """The ACL of a form. Raises PageError."""
    entered = {name: fields.get(name, "") for name in fields_of(_EXAMPLE)}
    if any(len(text) > _MOST_CHARACTERS for text in entered.values()):
        raise PageError(400, f"A field of an ACL has at most {_MOST_CHARACTERS} characters.")
    kind = _named(ResourceType, entered["type"], "types")
    name = entered["name"]
    if kind is CLUSTER:
        name = name or CLUSTER_NAME
    if not name:
        raise PageError(400, f"Enter the name of a resource, or {WILDCARD} for all.")
    principal = entered["principal"]
    if not all(principal.partition(":")):
        reason = f"A principal is a type and a name, such as User:alice, not {principal!r}."
        raise PageError(400, reason)
    return Acl(
        kind,
        name,
        _named(PatternType, entered["pattern"], "patterns"),
        principal,
        entered["host"] or WILDCARD,
        _named(Operation, entered["operation"], "operations"),
        _named(Permission, entered["permission"], "permissions"),
    )


def _named(kind: type[_Word], name: str, plural: str) -> _Word:
    if name not in _names(kind):
        raise PageError(400, f"{name!r} is none of the {plural} {', '.join(_names(kind))}.")
    return kind[name]


def _names(kind: type[_Word]) -> list[str]:
    """The members that an ACL can have; others are for filters."""
    return [each.name for each in kind if each.name not in ("UNKNOWN", "ANY", "MATCH")]


def _choices() -> dict[str, list[str]]:
    return {
        "types": _names(ResourceType),
        "patterns": _names(PatternType),
        "operations": _names(Operation),
        "permissions": _names(Permission)[::-1],
    }


def _rules(client: Client) -> Known[Sequence[Acl]]:
    try:
        return list_acls(client)
    except NoAuthorizer:
        return Unknown(_OPEN)
    except CliError as error:
        return Unknown(str(error))


def _words(acl: Acl) -> str:
    return " ".join((*fields_of(acl).values(), acl.resource_type.label))


def _order(acl: Acl) -> tuple[str, ...]:
    return tuple(fields_of(acl).values())


_EXAMPLE = Acl(
    ResourceType.TOPIC, "", PatternType.LITERAL, "User:", WILDCARD, Operation.READ, Permission.ALLOW
)
"""The form of a new ACL begins with it."""
_SORTS = {"principal": _order, "name": lambda acl: (acl.resource_type, acl.resource_name)}

ENTRIES = (
    Page("/acls", show),
    Page("/acls/add", review, correct),
    Change("/acls/add", add, _again),
    Page("/acls/remove", confirm),
    Change("/acls/remove", remove, confirm),
)
