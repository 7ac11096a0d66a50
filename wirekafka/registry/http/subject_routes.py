"""Answers about subjects and their versions: registrations, look-ups, checks and deletions."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from starlette.responses import Response

from wirekafka.registry import deletion, errors, registration
from wirekafka.registry.access import RegistryOperation
from wirekafka.registry.http import answers
from wirekafka.registry.http.call import RegistryCall
from wirekafka.registry.http.forms import text_as_sent, text_in_form
from wirekafka.registry.http.scopes import subjects_of_prefix
from wirekafka.registry.records import SchemaRecord
from wirekafka.registry.registration import SchemaRequest
from wirekafka.registry.subjects import ALL_CONTEXTS
from wirekafka.registry.versions import find_version

_MOST_SUBJECTS = 20_000


async def subjects(call: RegistryCall) -> Any:
    """The names of subjects, of all contexts unless a prefix says otherwise."""
    await call.require(RegistryOperation.GLOBAL_SUBJECTS_READ)
    only_deleted = call.flag("deletedOnly")
    prefix = call.text("subjectPrefix", ALL_CONTEXTS if call.context is None else "")
    names = subjects_of_prefix(call, prefix, deleted=only_deleted or call.flag("deleted"))
    if only_deleted:
        live = set(call.state.subjects())
        names = [each for each in names if each not in live]
    return call.page(await call.readable_subjects(names), _MOST_SUBJECTS)


async def look_up(call: RegistryCall) -> Any:
    """The version of a subject that has the schema of the body."""
    subject = call.subject()
    await call.require(RegistryOperation.SUBJECT_READ, subject)
    request, parser = await call.schema_request(), call.registry.parser
    search = registration.look_up(
        call.state, subject, request, parser, deleted=call.flag("deleted")
    )
    found = search.found_at_once() or await call.in_thread(search.found)
    if found is None:
        raise errors.schema_not_found()
    return answers.version(found, await _text(call, request, found))


async def register(call: RegistryCall) -> Any:
    """Give the schema of the body a version of a subject."""
    subject = call.subject()
    await call.require(RegistryOperation.SUBJECT_WRITE, subject)
    request = await call.schema_request()
    parser = call.registry.parser
    known = registration.registered_before(call.state, subject, request, parser)
    if known is None:
        decision = registration.register(subject, request, parser)
        known = await call.submit(decision)
    return answers.registered(known, await _text(call, request, known))


async def versions(call: RegistryCall) -> Any:
    """The numbers of the versions of a subject."""
    subject = call.subject()
    await call.require(RegistryOperation.SUBJECT_READ, subject)
    only_deleted = call.flag("deletedOnly")
    found = call.state.versions(subject, deleted=only_deleted or call.flag("deleted"))
    if only_deleted:
        found = [each for each in found if each.deleted]
    if not found:
        raise errors.subject_not_found(subject)
    return call.page([each.version for each in found], _MOST_SUBJECTS)


async def version(call: RegistryCall) -> Any:
    """A version of a subject."""
    record = await _version(call)
    return answers.version(record, await text_in_form(call, record))


async def text_of_version(call: RegistryCall) -> Any:
    """The schema of a version, without the JSON around it."""
    record = await _version(call)
    return Response(await text_in_form(call, record), media_type="application/json")


async def referenced_by(call: RegistryCall) -> Any:
    """The ids of the schemas that refer to a version."""
    record = await _version(call)
    deleted = call.flag("deleted")
    referrers = call.state.referrers(record.subject, record.version)
    ids = {each.id for each in referrers if deleted or not each.deleted}
    return call.page(sorted(ids), _MOST_SUBJECTS)


async def latest_with_metadata(call: RegistryCall) -> Any:
    """The newest version whose metadata has the properties that are asked for."""
    subject = call.subject()
    await call.require(RegistryOperation.SUBJECT_READ, subject)
    names, values = call.texts("key"), call.texts("value")
    wanted = dict(zip(names, values, strict=False))
    found = call.state.versions(subject, deleted=call.flag("deleted"))
    if not found:
        raise errors.subject_not_found(subject)
    for each in reversed(found):
        if _has_properties(each, wanted):
            return answers.version(each, await text_in_form(call, each))
    raise errors.schema_not_found()


async def delete_subject(call: RegistryCall) -> Any:
    """Delete all versions of a subject."""
    subject = call.subject()
    await call.require(RegistryOperation.SUBJECT_DELETE, subject)
    return await call.submit(deletion.delete_subject(subject, permanent=call.flag("permanent")))


async def delete_version(call: RegistryCall) -> Any:
    """Delete a version of a subject."""
    subject, number = call.subject(), call.variables["version"]
    await call.require(RegistryOperation.SUBJECT_DELETE, subject)
    permanent = call.flag("permanent")
    return await call.submit(deletion.delete_version(subject, number, permanent=permanent))


async def compatibility(call: RegistryCall) -> Any:
    """Whether the schema of the body could be registered after all versions that count."""
    return await _compatibility(call, None)


async def compatibility_with_version(call: RegistryCall) -> Any:
    """Whether the schema of the body is compatible with one version."""
    subject, number = call.subject(), call.variables["version"]
    await call.require(RegistryOperation.SUBJECT_READ, subject)
    try:
        record = find_version(call.state, subject, number)
    except errors.RegistryError as error:
        if error.code == 40401 and number in ("latest", "-1"):
            return await _compatibility(call, None)
        if error.code == 40401:
            raise errors.version_not_found(number) from None
        raise
    return await _compatibility(call, record)


async def _compatibility(call: RegistryCall, record: SchemaRecord | None) -> Any:
    subject = call.subject()
    await call.require(RegistryOperation.SUBJECT_READ, subject)
    request, parser = await call.schema_request(), call.registry.parser
    verbose = call.flag("verbose")
    try:
        comparison = registration.compare(call.state, subject, request, parser, record)
        messages = await call.in_thread(comparison.messages)
    except errors.RegistryError as error:
        if not verbose or error.code != errors.INVALID_SCHEMA:
            raise
        messages = [error.message]
    answer: dict[str, Any] = {"is_compatible": not messages}
    return {**answer, "messages": messages} if verbose else answer


async def _text(call: RegistryCall, request: SchemaRequest, record: SchemaRecord) -> str:
    if call.text("format"):
        return await text_in_form(call, record)
    return text_as_sent(request, record)


async def _version(call: RegistryCall) -> SchemaRecord:
    subject, number = call.subject(), call.variables["version"]
    await call.require(RegistryOperation.SUBJECT_READ, subject)
    return find_version(call.state, subject, number, deleted=call.flag("deleted"))


def _has_properties(record: SchemaRecord, wanted: dict[str, str]) -> bool:
    """The client of Python encodes names and values twice."""
    has = (record.content.metadata or {}).get("properties", {})
    return all(
        has.get(name) == value or has.get(unquote(name)) == unquote(value)
        for name, value in wanted.items()
    )
