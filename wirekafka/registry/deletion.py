"""Decisions that delete subjects, versions of subjects, and contexts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wirekafka.registry import errors
from wirekafka.registry.modes import require_writable
from wirekafka.registry.records import (
    ConfigRecord,
    ContextRecord,
    DeleteSubjectRecord,
    ModeRecord,
    RegistryRecord,
    SchemaRecord,
    SchemaTombstone,
    entries,
)
from wirekafka.registry.state import RegistryState
from wirekafka.registry.subjects import DEFAULT_CONTEXT, context_of
from wirekafka.registry.versions import find_version
from wirekafka.registry.writer import Decided, Decision


def delete_version(subject: str, version: str, *, permanent: bool) -> Decision[int]:
    """Delete a version: softly, so that its id stays known, or one so deleted for good."""

    def decide(state: RegistryState) -> Decided[int]:
        record = find_version(state, subject, version, deleted=True)
        if permanent and not record.deleted:
            raise errors.version_not_soft_deleted(subject, record.version)
        if record.deleted and not permanent:
            raise errors.version_soft_deleted(subject, record.version)
        require_writable(state, subject)
        _require_unreferenced(state, [record])
        if permanent:
            tombstone = SchemaTombstone(subject, record.version)
            return Decided(entries([tombstone]), record.version)
        written: list[RegistryRecord] = [replace(record, deleted=True)]
        if len(state.versions(subject)) == 1:
            written += _settings_deleted(state, subject)
        return Decided(entries(written), record.version)

    return decide


def delete_subject(subject: str, *, permanent: bool) -> Decision[Sequence[int]]:
    """Delete all versions of a subject, and its configuration; answers the versions."""

    def decide(state: RegistryState) -> Decided[Sequence[int]]:
        every, live = state.versions(subject, deleted=True), state.versions(subject)
        if not every:
            raise errors.subject_not_found(subject)
        if permanent and live:
            raise errors.subject_not_soft_deleted(subject)
        if not permanent and not live:
            raise errors.subject_soft_deleted(subject)
        require_writable(state, subject)
        _require_unreferenced(state, every if permanent else live)
        if permanent:
            tombstones = [SchemaTombstone(subject, each.version) for each in every]
            return Decided(entries(tombstones), [each.version for each in every])
        written: list[RegistryRecord] = [DeleteSubjectRecord(subject, live[-1].version)]
        written += _settings_deleted(state, subject)
        return Decided(entries(written), [each.version for each in live])

    return decide


def delete_context(context: str) -> Decision[None]:
    """Forget a context that has no subjects."""

    def decide(state: RegistryState) -> Decided[None]:
        if context == DEFAULT_CONTEXT or any(
            context_of(each) == context for each in state.subjects(deleted=True)
        ):
            raise errors.context_not_empty(context)
        if context not in state.contexts():
            return Decided([], None)
        return Decided(entries([ContextRecord(context, exists=False)]), None)

    return decide


def _require_unreferenced(state: RegistryState, versions: Iterable[SchemaRecord]) -> None:
    for each in versions:
        if any(not referrer.deleted for referrer in state.referrers(each.subject, each.version)):
            raise errors.reference_exists(each.subject, each.version)


def _settings_deleted(state: RegistryState, subject: str) -> Iterable[RegistryRecord]:
    if state.mode(subject) is not None:
        yield ModeRecord(subject, None)
    if state.config(subject) is not None:
        yield ConfigRecord(subject, None)
