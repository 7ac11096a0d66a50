"""Answers about schemas by their ids and GUIDs, whatever subjects they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from wirekafka.registry import errors
from wirekafka.registry.access import RegistryOperation
from wirekafka.registry.http import answers
from wirekafka.registry.http.call import RegistryCall
from wirekafka.registry.http.forms import text_in_form
from wirekafka.registry.http.scopes import records_of_prefix
from wirekafka.registry.records import SchemaRecord
from wirekafka.registry.subjects import context_of, qualified

_TYPES = ["JSON", "PROTOBUF", "AVRO"]
_MOST_SCHEMAS = 1000
_MOST_SUBJECTS = 20_000


async def types(call: RegistryCall) -> Any:
    """The formats."""
    return _TYPES


async def schemas(call: RegistryCall) -> Any:
    """All versions of the subjects that the parameters mean: of all without any."""
    await call.require(RegistryOperation.GLOBAL_SUBJECTS_READ)
    prefix = call.text("subjectPrefix")
    found = records_of_prefix(call, prefix, deleted=call.flag("deleted"))
    if call.flag("latestOnly"):
        latest = {each.subject: each for each in found}
        found = list(latest.values())
    wanted = call.text("ruleType")
    if wanted:
        found = [each for each in found if _has_rule(each, wanted)]
    return [answers.version(each) for each in call.page(await call.readable(found), _MOST_SCHEMAS)]


async def schema_of_id(call: RegistryCall) -> Any:
    """The schema of an id."""
    uses = await _uses(call)
    text = await text_in_form(call, uses[0])
    max_id = call.state.max_id(context_of(uses[0].subject)) if call.flag("fetchMaxId") else None
    return answers.schema(uses[0], text, max_id)


async def text_of_id(call: RegistryCall) -> Any:
    """The schema of an id, without the JSON around it."""
    uses = await _uses(call)
    return Response(await text_in_form(call, uses[0]), media_type="application/json")


async def subjects_of_id(call: RegistryCall) -> Any:
    """The subjects that have a schema."""
    found = await _visible_uses(call)
    names = list(dict.fromkeys(each.subject for each in found))
    return call.page(names, _MOST_SUBJECTS)


async def versions_of_id(call: RegistryCall) -> Any:
    """The subjects and versions that have a schema."""
    found = call.page(await _visible_uses(call), _MOST_SUBJECTS)
    return [{"subject": each.subject, "version": each.version} for each in found]


async def schema_of_guid(call: RegistryCall) -> Any:
    """The schema of a GUID."""
    guid = call.variables["guid"].lower()
    found = call.state.of_guid(guid)
    if not found:
        raise errors.schema_not_found(guid)
    await call.require_schema(found)
    return answers.schema(found[0], await text_in_form(call, found[0]))


async def ids_of_guid(call: RegistryCall) -> Any:
    """The ids of a GUID, one for each context that has the schema."""
    found = call.state.of_guid(call.variables["guid"].lower())
    await call.require_schema(found)
    return [{"context": context_of(each.subject), "id": each.id} for each in found]


async def _uses(call: RegistryCall) -> Sequence[SchemaRecord]:
    """The uses of the id of the path, which may be soft-deleted; there is one at least."""
    id = _id(call)
    found = _uses_of(call, id)
    if not found:
        raise errors.schema_not_found(id)
    await call.require_schema(found)
    return found


async def _visible_uses(call: RegistryCall) -> Sequence[SchemaRecord]:
    """The uses that the user may read, without soft-deleted ones unless wanted."""
    found = _uses_of(call, _id(call))
    subject, deleted = call.text("subject"), call.flag("deleted")
    found = [each for each in found if deleted or not each.deleted]
    if qualified(subject).name:
        name = qualified(subject).name
        found = [each for each in found if qualified(each.subject).name == name]
    if not found:
        raise errors.schema_not_found()
    return await call.readable(found)


def _uses_of(call: RegistryCall, id: int) -> Sequence[SchemaRecord]:
    """In the context that is asked for; else, of an unqualified subject, in any context."""
    subject, context = call.text("subject"), call.schema_context()
    found = list(call.state.uses(context, id))
    if not subject or subject.startswith(":.") or call.context is not None:
        return found
    for uses in (found, *(list(call.state.uses(each, id)) for each in call.state.contexts())):
        if any(qualified(each.subject).name == subject for each in uses):
            return uses
    return found


def _id(call: RegistryCall) -> int:
    text = call.variables["id"]
    if not (
        text.isascii() and text.removeprefix("-").isdigit() and len(text) <= len("-2147483648")
    ):
        raise errors.of_http(404, "Not Found")
    return int(text)


def _has_rule(record: SchemaRecord, wanted: str) -> bool:
    rule_set = record.content.rule_set or {}
    places = ("migrationRules", "domainRules", "encodingRules")
    return any(rule.get("type") == wanted for place in places for rule in rule_set.get(place, ()))
