"""The pages of schemas: the subjects of the registry, one subject, and one schema by its id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from wirekafka.client.client import CliError
from wirekafka.client.schema_registry import RegisteredSchema, RegistryRefused, SchemaRegistry
from wirekafka.console.pages.page import Page, PageError, PageView, Visit
from wirekafka.console.pages.tables import table
from wirekafka.console.records.record_pages import PageWish, newest_partitions, read_page
from wirekafka.console.source import Known, Unknown
from wirekafka.console.subject_reads import (
    MOST_SHOWN_CHARACTERS,
    DifferenceLine,
    SeenIds,
    SubjectVersion,
    TopicUse,
    difference,
    mode,
    own_level,
    places_of,
    record_name,
    referring,
    schema_text,
    seen_ids,
    subject_lines,
    subject_names,
    uses_of,
    version_numbers,
)
from wirekafka.console.topic_reads import TopicReads

LINK = ("Schemas", "/schemas", "s")

_NEWEST_RECORDS = 100
_NEWEST_PARTITIONS = 10
_KEPT_BYTES = 4 << 10
_MOST_IDS = 10
_MOST_LISTED = 200


class IdLine(NamedTuple):
    """An id that the newest records of a topic name, and the versions that have it."""

    id: str
    records: int
    places: Known[list[SubjectVersion]]


@dataclass(slots=True)
class UseLine:
    """A topic that a subject describes, and what its newest records name."""

    use: TopicUse
    seen: Known[SeenIds]
    ids: list[IdLine] = field(default_factory=list)


def show(visit: Visit) -> PageView:
    """The list of subjects."""
    registry = registry_of(visit)
    with_deleted = visit.query.get("deleted") == "yes"
    names, deleted = subject_names(registry, with_deleted=with_deleted)
    subjects = table(names, visit.query, name=str, sorts={"name": str})
    values = {
        "title": "Schemas",
        "subjects": subjects,
        "lines": subject_lines(registry, subjects.rows, deleted),
        "with_deleted": with_deleted,
        "level": known(own_level, registry),
        "mode": known(mode, registry),
    }
    return PageView("subjects.html", values)


def one(visit: Visit) -> PageView:
    """A subject: its versions, the text of one, and its differences to another."""
    registry = registry_of(visit)
    name = visit.query.get("name", "")
    versions, deleted = numbers_of(registry, name)
    live = [each for each in versions if each not in deleted]
    chosen = _chosen(visit, "version", versions, (live or versions)[-1])
    schema = registry.version(name, chosen, deleted=True)
    text = schema_text(schema)
    older = _chosen(visit, "from", versions, 0)
    values = {
        "title": f"Subject {name}",
        "name": name,
        "versions": versions[::-1][:_MOST_LISTED],
        "most": _MOST_LISTED,
        "count": len(versions),
        "deleted": deleted,
        "is_deleted": not live,
        "chosen": chosen,
        "older": older,
        "schema": schema,
        "text": text[:MOST_SHOWN_CHARACTERS],
        "is_cut": len(text) > MOST_SHOWN_CHARACTERS,
        "lines": _difference(registry, name, older, text) if older else None,
        "level": known(own_level, registry, name),
        "default_level": known(own_level, registry),
        "referring": known(referring, registry, name, chosen),
        **_uses(visit, registry, name, schema),
    }
    return PageView("subject.html", values)


def by_id(visit: Visit) -> PageView:
    """A schema by its id or GUID, and the versions that have it."""
    registry = registry_of(visit)
    guid = visit.query.get("guid", "")
    try:
        if guid:
            schema = registry.schema_of_guid(UUID(guid))
        else:
            schema = registry.schema(visit.number("id", 0), visit.query.get("subject", ""))
    except ValueError:
        raise PageError(400, f"{guid!r} is not a GUID.") from None
    except RegistryRefused as error:
        raise PageError(error.status if error.status == 404 else 502, str(error)) from None
    id = schema.id if guid else visit.number("id", 0)
    text = schema_text(schema)
    values = {
        "title": f"Schema with GUID {guid}" if guid else f"Schema with id {id}",
        "schema": schema,
        "text": text[:MOST_SHOWN_CHARACTERS],
        "is_cut": len(text) > MOST_SHOWN_CHARACTERS,
        "places": Unknown("the registry gives no id for the GUID")
        if id is None
        else known(places_of, registry, id, visit.query.get("subject", "")),
    }
    return PageView("schema.html", values)


def registry_of(visit: Visit) -> SchemaRegistry:
    """The registry of the console, which these pages need."""
    assert visit.registry is not None, "served only with a registry"
    return visit.registry


def numbers_of(registry: SchemaRegistry, subject: str) -> tuple[list[int], set[int]]:
    """A subject's versions, and the deleted ones. Raises PageError if there is no such subject."""
    if not subject:
        raise PageError(404, "Which subject?")
    try:
        versions, deleted = version_numbers(registry, subject)
    except RegistryRefused as error:
        if error.status != 404:
            raise
        versions = []
    if not versions:
        raise PageError(404, f"There is no subject {subject}.")
    return versions, deleted


def subject_path(name: str, **query: object) -> str:
    """The page of a subject."""
    return f"/schemas/subject?{urlencode({'name': name, **query})}"


def known(read: Any, *arguments: Any) -> Any:
    """What the registry answers, or why it does not."""
    try:
        return read(*arguments)
    except CliError as error:
        return Unknown(str(error))


def _chosen(visit: Visit, parameter: str, versions: list[int], default: int) -> int:
    number = visit.number(parameter, default)
    if number != default and number not in versions:
        raise PageError(404, f"There is no version {number} of {visit.query.get('name')}.")
    return number


def _difference(
    registry: SchemaRegistry, name: str, older: int, text: str
) -> list[DifferenceLine] | None:
    before = schema_text(registry.version(name, older, deleted=True))
    return difference(before, text)


def _uses(
    visit: Visit, registry: SchemaRegistry, name: str, schema: RegisteredSchema
) -> dict[str, Any]:
    """The topics of the subject, with the ids that their newest records name."""
    record = record_name(schema)
    topics = [each.name or "" for each in visit.client.metadata().topics]
    lines = []
    for use in uses_of(name, record, topics):
        try:
            reads = TopicReads(visit.client, use.topic)
            partitions = newest_partitions(reads, _NEWEST_PARTITIONS)
            wish = PageWish(partitions, _NEWEST_RECORDS, kept_bytes=_KEPT_BYTES)
            seen = seen_ids(read_page(reads, wish).records, use.parts)
        except CliError as error:
            lines.append(UseLine(use, Unknown(str(error))))
            continue
        ids = [
            IdLine(id, count, _places(registry, id, name))
            for id, count in seen.ids.most_common(_MOST_IDS)
        ]
        lines.append(UseLine(use, seen, ids))
    return {"uses": lines, "record_name": record, "is_of_record": record == name}


def _places(registry: SchemaRegistry, id: str, subject: str) -> Known[list[SubjectVersion]]:
    """The versions with an id, the subject's own first; none if the registry has none."""
    if not id.isascii() or not id.isdigit():
        return []
    try:
        found = places_of(registry, int(id), subject)
    except RegistryRefused as error:
        return [] if error.status == 404 else Unknown(str(error))
    except CliError as error:
        return Unknown(str(error))
    return sorted(found, key=lambda each: (each.subject != subject, each))[:_MOST_IDS]


ENTRIES = (Page("/schemas", show), Page("/schemas/subject", one), Page("/schemas/schema", by_id))
