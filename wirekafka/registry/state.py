"""All that a registry knows: the machine that is folded over the records of `_schemas`."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wirekafka.registry import records
from wirekafka.registry.entry import Entry
from wirekafka.registry.records import (
    ClearSubjectRecord,
    ConfigRecord,
    ContextRecord,
    DeleteSubjectRecord,
    ModeRecord,
    RegistryRecord,
    SchemaContent,
    SchemaRecord,
    SchemaTombstone,
    UnknownRecord,
)
from wirekafka.registry.subjects import DEFAULT_CONTEXT, QualifiedSubject, context_of, within

_log = logging.getLogger(__name__)

DEFAULT_LEVEL = "BACKWARD"
DEFAULT_MODE = "READWRITE"
_MOST_STAMPED = 1_000
"""The contexts in a header; it must not be as large as a batch."""
READ_ONLY_OVERRIDE = "READONLY_OVERRIDE"

SubjectVersion = tuple[str, int]


@dataclass(slots=True)
class _Context:
    """The schemas of a context, which has ids of its own."""

    by_id: dict[int, dict[SubjectVersion, SchemaRecord]] = field(default_factory=dict)
    """All uses of an id that have not been deleted permanently."""
    ids: dict[str, set[int]] = field(default_factory=dict)
    """The ids of a content, by its GUID: several only if they were imported."""
    by_stored_guid: dict[str, set[int]] = field(default_factory=dict)
    """The ids whose records have another GUID than this registry would give them."""
    max_id: int = 0

    def copy(self) -> _Context:
        """A context that changes by itself, with the same records."""
        return _Context(
            {id: dict(uses) for id, uses in self.by_id.items()},
            {guid: set(ids) for guid, ids in self.ids.items()},
            {guid: set(ids) for guid, ids in self.by_stored_guid.items()},
            self.max_id,
        )

    def guids(self, record: SchemaRecord) -> Iterator[tuple[dict[str, set[int]], str]]:
        """The GUIDs of a record, and where its id is found by each."""
        guid = record.content.guid()
        yield self.ids, guid
        if record.guid != guid:
            yield self.by_stored_guid, record.guid


class RegistryState:
    """Schemas by id, GUID, subject and version; configurations and modes of subjects.

    Nothing here is parsed but JSON: schemas are texts.
    """

    def __init__(self) -> None:
        self.end_offset = 0
        self._contexts: dict[str, _Context] = {DEFAULT_CONTEXT: _Context()}
        self._known_contexts: set[str] = {DEFAULT_CONTEXT}
        self._subjects: dict[str, dict[int, SchemaRecord]] = {}
        self._referrers: dict[SubjectVersion, dict[SubjectVersion, SchemaRecord]] = {}
        self._configs: dict[str | None, Mapping[str, Any]] = {}
        self._modes: dict[str | None, str] = {}

    def copy(self) -> RegistryState:
        """A state that changes by itself, with the same records."""
        made = RegistryState()
        made.end_offset = self.end_offset
        made._contexts = {name: context.copy() for name, context in self._contexts.items()}
        made._known_contexts = set(self._known_contexts)
        made._subjects = {name: dict(versions) for name, versions in self._subjects.items()}
        made._referrers = {each: dict(uses) for each, uses in self._referrers.items()}
        made._configs, made._modes = dict(self._configs), dict(self._modes)
        return made

    # The fold.

    def replay(self, entry: Entry, offset: int, timestamp_ms: int) -> None:
        """Take a record in. Records that cannot be understood are logged and skipped."""
        self.end_offset = offset + 1
        if entry.given_ids is not None:
            self._note_given(entry.given_ids, offset)
        try:
            record = records.decoded(entry, timestamp_ms)
        except UnknownRecord as error:
            _log.warning("Skipped the record of the schema topic at offset %d: %s", offset, error)
            return
        if record is not None:
            self._replay(record)

    def _note_given(self, text: bytes, offset: int) -> None:
        try:
            given = {str(name): int(id) for name, id in json.loads(text).items()}
        except (AttributeError, TypeError, ValueError) as error:
            _log.warning("Skipped a header of the schema topic at offset %d: %s", offset, error)
            return
        for name, id in given.items():
            context = self._contexts.setdefault(name, _Context())
            context.max_id = max(context.max_id, id)

    def stamped(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Records to write, the last one with the highest ids that no record has any more.

        The state has replayed the records. Compaction leaves the end of a topic alone, so that the
        ids are known as long as the newest record has them.
        """
        given = {
            name: each.max_id
            for name, each in self._contexts.items()
            if each.max_id and each.max_id not in each.by_id
        }
        if not given or not entries:
            return entries
        text = json.dumps(dict(list(given.items())[:_MOST_STAMPED]), separators=(",", ":"))
        return [*entries[:-1], replace(entries[-1], given_ids=text.encode())]

    def _replay(self, record: RegistryRecord) -> None:
        match record:
            case SchemaRecord():
                self._put(record)
            case SchemaTombstone(subject, version):
                self._remove(subject, version)
            case ConfigRecord(subject, None):
                self._configs.pop(subject, None)
            case ConfigRecord(subject, dict() as settings):
                self._configs[subject] = settings
            case ModeRecord(subject, None):
                self._modes.pop(subject, None)
            case ModeRecord(subject, str() as mode):
                self._modes[subject] = mode
            case DeleteSubjectRecord(subject, version):
                for each in list(self._subjects.get(subject, {}).values()):
                    if each.version <= version and not each.deleted:
                        self._put(replace(each, deleted=True))
            case ClearSubjectRecord(subject):
                for each in list(self._deleted_in_scope(subject)):
                    self._remove(each.subject, each.version)
            case ContextRecord(context, True):
                self._known_contexts.add(context)
            case ContextRecord(context, False):
                self._known_contexts.discard(context)

    def _deleted_in_scope(self, scope: str | None) -> Iterator[SchemaRecord]:
        for each in self.records_of_scope(scope):
            if each.deleted:
                yield each

    def _put(self, record: SchemaRecord) -> None:
        self._remove(record.subject, record.version)
        name = context_of(record.subject)
        context = self._contexts.setdefault(name, _Context())
        self._known_contexts.add(name)
        use = (record.subject, record.version)
        self._subjects.setdefault(record.subject, {})[record.version] = record
        context.by_id.setdefault(record.id, {})[use] = record
        for ids, guid in context.guids(record):
            ids.setdefault(guid, set()).add(record.id)
        context.max_id = max(context.max_id, record.id)
        for reference in record.content.references:
            target = (within(name, reference.subject), reference.version)
            self._referrers.setdefault(target, {})[use] = record

    def _remove(self, subject: str, version: int) -> None:
        versions = self._subjects.get(subject, {})
        record = versions.pop(version, None)
        if record is None:
            return
        if not versions:
            del self._subjects[subject]
        name = context_of(subject)
        context = self._contexts[name]
        uses = context.by_id[record.id]
        del uses[subject, version]
        kept = {guid for each in uses.values() for _, guid in context.guids(each)}
        for ids, guid in context.guids(record):
            if guid not in kept:
                ids[guid].discard(record.id)
                if not ids[guid]:
                    del ids[guid]
        if not uses:
            del context.by_id[record.id]
        for reference in record.content.references:
            target = (within(name, reference.subject), reference.version)
            referrers = self._referrers.get(target, {})
            referrers.pop((subject, version), None)
            if not referrers:
                self._referrers.pop(target, None)

    # Schemas.

    def contexts(self) -> Sequence[str]:
        """All contexts, the default one first."""
        return sorted(self._known_contexts, key=lambda each: (each != DEFAULT_CONTEXT, each))

    def subjects(self, *, deleted: bool = False) -> Sequence[str]:
        """Subjects that have versions, in order; those with soft-deleted ones only if wanted."""
        return sorted(
            subject
            for subject, versions in self._subjects.items()
            if deleted or any(not each.deleted for each in versions.values())
        )

    def versions(self, subject: str, *, deleted: bool = False) -> Sequence[SchemaRecord]:
        """The versions of a subject, the oldest first."""
        found = sorted(self._subjects.get(subject, {}).items())
        return [each for _, each in found if deleted or not each.deleted]

    def version(self, subject: str, version: int) -> SchemaRecord | None:
        """A version of a subject, which may be soft-deleted."""
        return self._subjects.get(subject, {}).get(version)

    def latest(self, subject: str, *, deleted: bool = False) -> SchemaRecord | None:
        """The newest version of a subject."""
        versions = self._subjects.get(subject, {}).values()
        kept = [each for each in versions if deleted or not each.deleted]
        return max(kept, key=lambda each: each.version, default=None)

    def records_of_scope(self, scope: str | None) -> Iterator[SchemaRecord]:
        """All versions of a subject, of a context (`:.context:`), or of the default context."""
        subject = str(QualifiedSubject(DEFAULT_CONTEXT, "")) if scope is None else scope
        yield from self._subjects.get(subject, {}).values()
        if scope is None or (scope.startswith(":.") and scope.endswith(":")):
            context = DEFAULT_CONTEXT if scope is None else context_of(scope)
            for uses in self._contexts.get(context, _Context()).by_id.values():
                yield from uses.values()

    def uses(self, context: str, id: int) -> Iterable[SchemaRecord]:
        """The versions that have an id in a context, in the order of their subjects."""
        found = self._contexts.get(context, _Context()).by_id.get(id, {})
        return [each for _, each in sorted(found.items())]

    def ids_of(self, context: str, content: SchemaContent) -> Iterator[int]:
        """The ids that a content has in a context, the lowest first."""
        found = self._contexts.get(context, _Context())
        for id in sorted(found.ids.get(content.guid(), ())):
            # Schemas of two formats may have one text, and one GUID then.
            if any(each.content == content for each in found.by_id[id].values()):
                yield id

    def of_guid(self, guid: str) -> Sequence[SchemaRecord]:
        """A version for each id and context that has the GUID, in the order of the contexts."""
        found = []
        for name in self.contexts():
            context = self._contexts.get(name, _Context())
            ids = {*context.ids.get(guid, ()), *context.by_stored_guid.get(guid, ())}
            found += [next(iter(context.by_id[id].values())) for id in sorted(ids)]
        return found

    def max_id(self, context: str) -> int:
        """The highest id that has been given in a context."""
        return self._contexts.get(context, _Context()).max_id

    def referrers(self, subject: str, version: int) -> Iterable[SchemaRecord]:
        """The versions whose schemas refer to one, deleted ones too."""
        return self._referrers.get((subject, version), {}).values()

    # Settings.

    def config(self, scope: str | None) -> Mapping[str, Any] | None:
        """The configuration of a subject, of a context, or of the registry, if it has one."""
        return self._configs.get(scope)

    def config_in_scope(self, subject: str | None) -> Mapping[str, Any]:
        """What applies to a subject: its own settings over the context's over the registry's."""
        merged: dict[str, Any] = {"compatibilityLevel": DEFAULT_LEVEL}
        for scope in reversed(_scopes(subject)):
            settings = self._configs.get(scope, {})
            merged |= {name: each for name, each in settings.items() if name != "alias"}
        own = self._configs.get(subject, {}).get("alias")
        return merged if own is None else {**merged, "alias": own}

    def mode(self, scope: str | None) -> str | None:
        """The mode of a subject, of a context, or of the registry, if it has one."""
        return self._modes.get(scope)

    def mode_in_scope(self, subject: str | None) -> str:
        """The mode that applies to a subject."""
        if self._modes.get(None) == READ_ONLY_OVERRIDE:
            return READ_ONLY_OVERRIDE
        for scope in _scopes(subject):
            if scope in self._modes:
                return self._modes[scope]
        return DEFAULT_MODE


def _scopes(subject: str | None) -> Sequence[str | None]:
    """The scopes whose settings apply to a subject, the narrowest first."""
    if subject is None:
        return [None]
    context = context_of(subject)
    whole = [] if context == DEFAULT_CONTEXT else [str(QualifiedSubject(context, ""))]
    return list(dict.fromkeys([subject, *whole, None]))
