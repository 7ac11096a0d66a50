"""Decisions about the modes of subjects, of contexts and of the registry."""

from __future__ import annotations

from wirekafka.registry import errors
from wirekafka.registry.records import ClearSubjectRecord, ModeRecord, RegistryRecord, entries
from wirekafka.registry.state import DEFAULT_MODE, READ_ONLY_OVERRIDE, RegistryState
from wirekafka.registry.subjects import DEFAULT_CONTEXT, context_of
from wirekafka.registry.writer import Decided, Decision

_MODES = (DEFAULT_MODE, "READONLY", READ_ONLY_OVERRIDE, "IMPORT", "FORWARD")


def require_writable(state: RegistryState, subject: str | None) -> None:
    """Raise RegistryError 42205 if a subject, or the registry, may only be read."""
    if state.mode_in_scope(subject) in ("READONLY", READ_ONLY_OVERRIDE):
        raise errors.not_permitted(f"{_described(subject)} is in read-only mode")


def set_mode(scope: str | None, mode: str, *, force: bool) -> Decision[str]:
    """Set the mode of a subject, of a context, or of the registry.

    Ids and versions are imported into a scope without schemas only, unless forced.
    """

    def decide(state: RegistryState) -> Decided[str]:
        wanted = mode.upper()
        if wanted not in _MODES:
            raise errors.invalid_mode()
        written: list[RegistryRecord] = [ModeRecord(scope, wanted)]
        if wanted == "IMPORT" and state.mode(scope) != "IMPORT" and not force:
            if any(not each.deleted for each in state.records_of_scope(scope)):
                raise errors.not_permitted("Cannot import since found existing subjects")
            written.insert(0, ClearSubjectRecord(scope))
        return Decided(entries(written), wanted)

    return decide


def delete_mode(scope: str | None) -> Decision[str]:
    """Let the mode of the next wider scope apply; answers the mode that was deleted."""

    def decide(state: RegistryState) -> Decided[str]:
        mode = state.mode(scope)
        if mode is None and scope is not None:
            raise errors.subject_not_found(scope)
        if mode is None:
            return Decided([], DEFAULT_MODE)
        return Decided(entries([ModeRecord(scope, None)]), mode)

    return decide


def _described(subject: str | None) -> str:
    context = DEFAULT_CONTEXT if subject is None else context_of(subject)
    return f"Subject {'null' if subject is None else subject} in context {context}"
