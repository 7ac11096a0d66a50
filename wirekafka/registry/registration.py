"""Decisions about schemas: register one under a subject, look one up, compare one with others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wirekafka.registry import contracts, errors, subjects
from wirekafka.registry.contracts import Contract
from wirekafka.registry.modes import require_writable
from wirekafka.registry.parsing import Parsing, SchemaParser
from wirekafka.registry.records import (
    ContextRecord,
    RegistryRecord,
    SchemaContent,
    SchemaRecord,
    entries,
)
from wirekafka.registry.state import DEFAULT_LEVEL, RegistryState
from wirekafka.registry.subjects import context_of
from wirekafka.registry.writer import Decided, Decision
from wirekafka.schemas.levels import CompatibilityPolicy, Level, OlderVersion, violations
from wirekafka.schemas.schema import ParsedSchema, SchemaReference

_MOST_ID = (1 << 31) - 1
_WITH_IDS = ("IMPORT", "FORWARD")
"""The modes in which others give the ids."""


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """A schema as a client sends it."""

    text: str | None
    """None stands for the text of the latest version."""
    schema_type: str | None = None
    references: tuple[SchemaReference, ...] = ()
    metadata: Contract | None = None
    rule_set: Contract | None = None
    clears_metadata: bool = False
    """Whether no metadata means none, rather than the latest version's."""
    clears_rule_set: bool = False
    id: int | None = None
    version: int | None = None
    normalize: bool = False


def register(subject: str, request: SchemaRequest, parser: SchemaParser) -> Decision[SchemaRecord]:
    """Give a schema a version of a subject, and an id; the existing ones if it has them already."""

    def decide(state: RegistryState) -> Decided[SchemaRecord]:
        subjects.required_valid(subject)
        _require_mode(state, subject, request)
        config = state.config_in_scope(subject)
        wanted = _wanted(state, subject, request, config)
        normalizes = request.normalize or bool(config.get("normalize"))
        parsed = parser.later(state, subject, wanted)()
        content = _canonical(wanted, parsed.normalized() if normalizes else parsed)
        existing = _existing(state, subject, request, content)
        if existing is not None:
            return Decided([], existing)
        if request.id is not None:
            return _written(state, _imported(state, subject, request, content))
        record = _next(state, subject, request, content)
        older = comparable(state, subject, config, content, parser)
        found = violations(_level(config), parsed, older, _policy(config))
        if found:
            raise errors.incompatible(subject, ", ".join(found))
        return _written(state, record)

    return decide


def registered_before(
    state: RegistryState, subject: str, request: SchemaRequest, parser: SchemaParser
) -> SchemaRecord | None:
    """The version that a registration would answer without a change, if nothing need be parsed.

    Clients register at each start what they have registered before.
    """
    subjects.required_valid(subject)
    _require_mode(state, subject, request)
    config = state.config_in_scope(subject)
    if request.normalize or config.get("normalize"):
        return None
    wanted = _wanted(state, subject, request, config)
    existing = _existing(state, subject, request, wanted)
    if existing is not None:
        return existing
    parsed = parser.later(state, subject, wanted).kept()
    if parsed is None:
        return None
    return _existing(state, subject, request, _canonical(wanted, parsed))


@dataclass(frozen=True, slots=True)
class LookUp:
    """A search for the version of a subject that has a schema."""

    candidates: Sequence[SchemaRecord]
    wanted: SchemaContent
    parse: Parsing
    normalize: bool

    def found_at_once(self) -> SchemaRecord | None:
        """The newest version with the schema, if nothing need be parsed."""
        if self.normalize:
            return None
        found = _same(self.candidates, self.wanted)
        parsed = None if found is not None else self.parse.kept()
        if parsed is None:
            return found
        return _same(self.candidates, _canonical(self.wanted, parsed))

    def found(self) -> SchemaRecord | None:
        """The newest version with the schema, which is parsed for it."""
        return _same(self.candidates, self._canonical())

    def _canonical(self) -> SchemaContent:
        parsed = self.parse()
        return _canonical(self.wanted, parsed.normalized() if self.normalize else parsed)


def look_up(
    state: RegistryState,
    subject: str,
    request: SchemaRequest,
    parser: SchemaParser,
    *,
    deleted: bool,
) -> LookUp:
    """Begin to look for a schema under a subject. Raises RegistryError 40401 without versions."""
    candidates = state.versions(subject, deleted=deleted)
    if not candidates:
        raise errors.subject_not_found(subject)
    config = state.config_in_scope(subject)
    wanted = SchemaContent(
        request.schema_type or "AVRO",
        request.text or "",
        request.references,
        request.metadata,
        request.rule_set,
    )
    parse = parser.later(state, subject, wanted)
    return LookUp(candidates, wanted, parse, request.normalize or bool(config.get("normalize")))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A check of a schema against versions of a subject."""

    level: Level
    policy: CompatibilityPolicy
    parse: Parsing
    older: Sequence[OlderVersion]
    normalize: bool

    def messages(self) -> Sequence[str]:
        """Why it is not compatible; empty if it is. Parses schemas."""
        parsed = self.parse()
        wanted = parsed.normalized() if self.normalize else parsed
        return violations(self.level, wanted, self.older, self.policy)


def compare(
    state: RegistryState,
    subject: str,
    request: SchemaRequest,
    parser: SchemaParser,
    version: SchemaRecord | None,
) -> Comparison:
    """Begin to compare a schema with a version, or with all that the subject's level names."""
    config = state.config_in_scope(subject)
    wanted = _wanted(state, subject, request, config)
    parse = parser.later(state, subject, wanted)
    if version is None:
        older = comparable(state, subject, config, wanted, parser)
    else:
        older = _older(state, [version], parser)
    return Comparison(_level(config), _policy(config), parse, older, request.normalize)


def comparable(
    state: RegistryState,
    subject: str,
    config: Mapping[str, Any],
    content: SchemaContent,
    parser: SchemaParser,
) -> Sequence[OlderVersion]:
    """The versions of a subject that a schema has to be compatible with, the oldest first.

    With a compatibility group, those with the same value of that property of the metadata.
    """
    versions: Iterable[SchemaRecord] = state.versions(subject)
    group = config.get("compatibilityGroup")
    if group:
        own = _property(content, group)
        versions = [each for each in versions if _property(each.content, group) == own]
    return _older(state, versions, parser)


def _older(
    state: RegistryState, versions: Iterable[SchemaRecord], parser: SchemaParser
) -> Sequence[OlderVersion]:
    return [OlderVersion(each.version, parser.stored_later(state, each)) for each in versions]


def _require_mode(state: RegistryState, subject: str, request: SchemaRequest) -> None:
    require_writable(state, subject)
    mode, where = (
        state.mode_in_scope(subject),
        f"Subject {subject} in context {context_of(subject)}",
    )
    if request.id is not None and mode not in _WITH_IDS:
        raise errors.not_permitted(f"{where} is not in import mode")
    if request.id is None and mode in _WITH_IDS:
        raise errors.not_permitted(f"{where} is not in read-write mode")


def _wanted(
    state: RegistryState, subject: str, request: SchemaRequest, config: Mapping[str, Any]
) -> SchemaContent:
    """The schema with what it has from the latest version, and from the configuration."""
    latest = state.latest(subject)
    before = None if latest is None else latest.content
    if not request.text:
        if before is None or request.schema_type not in (None, before.schema_type):
            raise errors.invalid_schema("Empty schema")
        content = before
    else:
        content = SchemaContent(request.schema_type or "AVRO", request.text, request.references)
    metadata, rule_set = request.metadata, request.rule_set
    if metadata is None and not request.clears_metadata and before is not None:
        metadata = before.metadata
    if rule_set is None and not request.clears_rule_set and before is not None:
        rule_set = before.rule_set
    merge, merge_rules = contracts.merged_metadata, contracts.merged_rule_set
    metadata = merge(config.get("defaultMetadata"), metadata)
    rule_set = merge_rules(config.get("defaultRuleSet"), rule_set)
    return replace(
        content,
        metadata=merge(metadata, config.get("overrideMetadata")),
        rule_set=merge_rules(rule_set, config.get("overrideRuleSet")),
    )


def _existing(
    state: RegistryState, subject: str, request: SchemaRequest, content: SchemaContent
) -> SchemaRecord | None:
    """The version that has the schema, and the id and version that the request asks for."""
    for each in reversed(state.versions(subject)):
        if (
            each.content == content
            and request.id in (None, each.id)
            and (request.id is None or request.version in (None, each.version))
        ):
            return each
    return None


def _same(candidates: Sequence[SchemaRecord], wanted: SchemaContent) -> SchemaRecord | None:
    """The newest candidate with a schema; metadata and rules count if they are asked for."""
    for each in reversed(candidates):
        content = each.content
        if wanted.metadata is None and wanted.rule_set is None:
            content = replace(content, metadata=None, rule_set=None)
        if content == wanted:
            return each
    return None


def _canonical(wanted: SchemaContent, parsed: ParsedSchema) -> SchemaContent:
    return replace(wanted, text=parsed.canonical)


def _next(
    state: RegistryState, subject: str, request: SchemaRequest, content: SchemaContent
) -> SchemaRecord:
    """The next version, with the id that the schema has in other subjects, or a new one."""
    version = _next_version(state, subject)
    if request.version is not None and request.version not in (0, version):
        raise errors.invalid_schema("Version is not one more than previous version")
    context = context_of(subject)
    id = next(state.ids_of(context, content), state.max_id(context) + 1)
    if id > _MOST_ID:
        raise errors.id_mismatch("All ids are in use")
    return SchemaRecord(subject, version, id, content.guid(), content)


def _imported(
    state: RegistryState, subject: str, request: SchemaRequest, content: SchemaContent
) -> SchemaRecord:
    """The version with the id that the request gives: an id stays with its schema."""
    assert request.id is not None
    if any(each.content != content for each in state.uses(context_of(subject), request.id)):
        message = f"Overwrite new schema with id {request.id} is not permitted."
        raise errors.not_permitted(message)
    version = request.version or _next_version(state, subject)
    present = state.version(subject, version)
    if present is not None and not present.deleted and present.content != content:
        message = f"Overwrite new schema with version {version} is not permitted."
        raise errors.not_permitted(message)
    return SchemaRecord(subject, version, request.id, content.guid(), content)


def _next_version(state: RegistryState, subject: str) -> int:
    latest = state.latest(subject, deleted=True)
    return 1 if latest is None else latest.version + 1


def _written(state: RegistryState, record: SchemaRecord) -> Decided[SchemaRecord]:
    context = context_of(record.subject)
    written: list[RegistryRecord] = [record]
    if context not in state.contexts():
        written.insert(0, ContextRecord(context))
    return Decided(entries(written), record)


def _property(content: SchemaContent, name: str) -> str | None:
    properties: Mapping[str, str] = (content.metadata or {}).get("properties", {})
    return properties.get(name)


def _level(config: Mapping[str, Any]) -> Level:
    try:
        return Level(config["compatibilityLevel"])
    except ValueError:  # Another registry wrote it.
        return Level(DEFAULT_LEVEL)


def _policy(config: Mapping[str, Any]) -> CompatibilityPolicy:
    try:
        return CompatibilityPolicy(config.get("compatibilityPolicy") or CompatibilityPolicy.STRICT)
    except ValueError:  # Another registry wrote it.
        return CompatibilityPolicy.STRICT
