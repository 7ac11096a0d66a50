"""Compatibility levels: which older versions a new schema is compared with, in which directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from wirekafka.schemas.schema import ParsedSchema

_MOST_CHARACTERS = 10 * 1024
"""Of an older schema in a message."""
_OTHER_FORMAT = "Incompatible because of different schema type"


class Level(StrEnum):
    """What a subject promises to readers and to writers."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    """The new schema reads what the latest version wrote."""
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    """The latest version reads what the new schema writes."""
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    """Both. The transitive levels mean all versions, not only the latest."""
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        """Whether all versions count."""
        return self.value.endswith("_TRANSITIVE")

    @property
    def is_backward(self) -> bool:
        """Whether the new schema has to read older data."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        """Whether older schemas have to read new data."""
        return self.value.startswith(("FORWARD", "FULL"))


class CompatibilityPolicy(StrEnum):
    """How strictly a level is taken."""

    STRICT = "STRICT"
    LENIENT = "LENIENT"
    """Optional properties of JSON may be added and removed, whatever the content model."""


@dataclass(frozen=True, slots=True)
class OlderVersion:
    """A version that a new schema may be compared with, which is parsed only then."""

    version: int
    schema: Callable[[], ParsedSchema]


def violations(
    level: Level,
    new: ParsedSchema,
    older: Sequence[OlderVersion],
    policy: CompatibilityPolicy = CompatibilityPolicy.STRICT,
) -> Sequence[str]:
    """Why a level forbids a new schema after older ones, of which the oldest is first, or nothing.

    Only the newest version that it is incompatible with is reported. The last line names the level.
    """
    if level is Level.NONE:
        return []
    compared = older if level.is_transitive else older[-1:]
    for each in reversed(compared):
        found = _violations_of_pair(level, policy, new, each.schema(), each.version)
        if found:
            return [*found, f"{{validateFields: 'false', compatibility: '{level}'}}"]
    return []


def _violations_of_pair(
    level: Level, policy: CompatibilityPolicy, new: ParsedSchema, old: ParsedSchema, version: int
) -> Sequence[str]:
    if new.format != old.format:
        return [_OTHER_FORMAT]
    found: list[str] = []
    if level.is_forward:
        found += [_worded(each, "old", "new") for each in _incompatibilities(old, new, policy)]
    if level.is_backward:
        found += [_worded(each, "new", "old") for each in _incompatibilities(new, old, policy)]
    if not found:
        return []
    text = old.canonical
    quoted = f"'{text}'"
    if len(text) > _MOST_CHARACTERS:
        quoted = f"<truncated> '{text[:_MOST_CHARACTERS]}...'"
    return [*found, f"{{oldSchemaVersion: {version}}}", f"{{oldSchema: {quoted}}}"]


def _incompatibilities(
    reader: ParsedSchema, writer: ParsedSchema, policy: CompatibilityPolicy
) -> Sequence[str]:
    if policy is CompatibilityPolicy.LENIENT:
        return reader.lenient_incompatibilities(writer)
    return reader.incompatibilities(writer)


def _worded(message: str, reader: str, writer: str) -> str:
    return message.replace("{reader}", reader).replace("{writer}", writer)
