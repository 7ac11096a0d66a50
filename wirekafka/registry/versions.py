"""Versions in paths: a number, or `latest`."""

from __future__ import annotations

from wirekafka.registry import errors
from wirekafka.registry.records import SchemaRecord
from wirekafka.registry.state import RegistryState

_LATEST = ("latest", "-1")
_MOST_VERSION = (1 << 31) - 1


def find_version(
    state: RegistryState, subject: str, version: str, *, deleted: bool = False
) -> SchemaRecord:
    """A version of a subject. Raises RegistryError 42202, 40401 or 40402."""
    number = None if version in _LATEST else _number(version)
    if not state.versions(subject, deleted=deleted):
        raise errors.subject_not_found(subject)
    if number is None:
        record = state.latest(subject) or state.latest(subject, deleted=deleted)
    else:
        record = state.version(subject, number)
    if record is None or (record.deleted and not deleted):
        raise errors.version_not_found(version)
    return record


def _number(version: str) -> int:
    digits = version.isascii() and version.isdigit() and len(version) <= len(str(_MOST_VERSION))
    number = int(version) if digits else 0
    if not 1 <= number <= _MOST_VERSION:
        raise errors.invalid_version(version)
    return number
