"""Parsed schemas of a registry: their references resolved, their size bounded, the latest kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wirekafka.registry import errors
from wirekafka.registry.errors import RegistryError
from wirekafka.registry.records import SchemaContent, SchemaRecord
from wirekafka.registry.state import RegistryState
from wirekafka.registry.subjects import context_of, within
from wirekafka.schemas import formats
from wirekafka.schemas.schema import Dependency, Format, ParsedSchema, SchemaError, SchemaReference

MOST_SCHEMA_CHARACTERS = 1 << 20
_MOST_DEPENDENCIES = 1000
_MOST_STEPS = 100
"""From a schema to the innermost schema that it needs: each refers to the next."""
_MOST_DEPENDENCY_CHARACTERS = 8 << 20
_LATEST = -1


Key = tuple[str, ...]
"""A format, a text, and the texts that it refers to."""
_Parse = Callable[[Format, str, Sequence[Dependency]], ParsedSchema]


@dataclass(frozen=True, slots=True)
class _Source:
    """All that it takes to parse a schema."""

    subject: str
    content: SchemaContent
    format: Format
    needed: Sequence[Dependency]


class SchemaParser:
    """Parses the schemas of a registry, in any thread, and keeps those used last.

    A schema is compared with older ones at each registration: these must not be parsed each time.
    """

    def __init__(self, most_characters: int = 2 << 20) -> None:
        self._most_characters = most_characters
        self._lock = threading.Lock()
        self._parsed: OrderedDict[Key, ParsedSchema] = OrderedDict()
        self._characters = 0

    def later(self, state: RegistryState, subject: str, content: SchemaContent) -> Parsing:
        """Read all that a new schema needs from the state now, to be parsed in any thread.

        Raises RegistryError 42201 for an unknown format or reference, 42209 if it is too large.
        """
        return Parsing(self, formats.parse, _source(state, subject, content))

    def stored_later(self, state: RegistryState, record: SchemaRecord) -> Parsing:
        """The same for a schema that is registered."""
        source = _source(state, record.subject, record.content)
        return Parsing(self, formats.parse_stored, source)

    def kept(self, key: Key) -> ParsedSchema | None:
        """A schema that has been parsed lately."""
        with self._lock:
            parsed = self._parsed.get(key)
            if parsed is not None:
                self._parsed.move_to_end(key)
            return parsed

    def keep(self, key: Key, parsed: ParsedSchema) -> None:
        """Keep a schema, and forget the longest unused ones for it."""
        with self._lock:
            if key not in self._parsed:
                self._parsed[key] = parsed
                self._characters += _characters(key)
            while self._characters > self._most_characters:
                dropped, _ = self._parsed.popitem(last=False)
                self._characters -= _characters(dropped)


@dataclass(frozen=True, slots=True)
class Parsing:
    """A schema that can be parsed: nothing of the state is needed for it any more."""

    parser: SchemaParser
    parse: _Parse
    source: _Source

    def __call__(self) -> ParsedSchema:
        """The parsed schema. Raises RegistryError 42201."""
        return self.kept() or self._parsed()

    def kept(self) -> ParsedSchema | None:
        """The parsed schema if it has been parsed lately: it costs nothing then."""
        return self.parser.kept(self._key())

    def _key(self) -> Key:
        source = self.source
        parts = (part for each in source.needed for part in (each.name, each.text))
        return (self.parse.__name__, source.format.value, source.content.text, *parts)

    def _parsed(self) -> ParsedSchema:
        source = self.source
        try:
            parsed = self.parse(source.format, source.content.text, source.needed)
        except SchemaError as error:
            raise _invalid(source.subject, source.content, str(error)) from error
        except RecursionError as error:
            raise _invalid(source.subject, source.content, "it is nested too deep") from error
        self.parser.keep(self._key(), parsed)
        return parsed


def _source(state: RegistryState, subject: str, content: SchemaContent) -> _Source:
    try:
        format = Format(content.schema_type)
    except ValueError:
        raise errors.invalid_schema(f"Invalid schema type {content.schema_type}") from None
    if len(content.text) > MOST_SCHEMA_CHARACTERS:
        raise errors.schema_too_large("Write failed because schema is too large")
    try:
        needed = dependencies(state, subject, content.references)
    except SchemaError as error:
        raise _invalid(subject, content, str(error)) from error
    return _Source(subject, content, format, needed)


def dependencies(
    state: RegistryState, subject: str, references: Sequence[SchemaReference]
) -> Sequence[Dependency]:
    """The schemas that references name and need themselves, the innermost first.

    Raises SchemaError for an unknown reference, RegistryError 42209 for too many.
    """
    collection = _Dependencies(state)
    collection.add(subject, references)
    return list(collection.found.values())


def referenced(state: RegistryState, subject: str, reference: SchemaReference) -> SchemaRecord:
    """The version that a schema of a subject refers to. Raises SchemaError if there is none."""
    target = within(context_of(subject), reference.subject)
    if reference.version == _LATEST:
        record = state.latest(target)
    else:
        record = state.version(target, reference.version)
    if record is None:
        raise SchemaError(
            f'No schema reference found for subject "{reference.subject}" '
            f"and version {reference.version}"
        )
    return record


@dataclass(slots=True)
class _Dependencies:
    """The schemas found so far, by their names, the innermost first."""

    state: RegistryState
    found: dict[str, Dependency] = field(default_factory=dict)
    open_names: set[str] = field(default_factory=set)
    characters: int = 0

    def add(self, subject: str, references: Sequence[SchemaReference], steps: int = 1) -> None:
        for each in references:
            if each.name in self.found or each.name in self.open_names:
                continue
            record = referenced(self.state, subject, each)
            self.open_names.add(each.name)
            self.characters += len(record.content.text)
            if (
                len(self.open_names) > _MOST_DEPENDENCIES
                or self.characters > _MOST_DEPENDENCY_CHARACTERS
                or steps > _MOST_STEPS
            ):
                raise errors.schema_too_large("The schemas that it refers to are too large")
            self.add(record.subject, record.content.references, steps + 1)
            self.found[each.name] = Dependency(each.name, record.content.text)


def _invalid(subject: str, content: SchemaContent, details: str) -> RegistryError:
    """As Confluent describes a schema that it does not accept."""
    references = ", ".join(
        f"{{name='{each.name}', subject='{each.subject}', version={each.version}}}"
        for each in content.references
    )
    return errors.invalid_schema(
        f"Invalid schema {{subject={subject},version=0,id=-1,schemaType={content.schema_type},"
        f"references=[{references}],metadata={_shown(content.metadata)},"
        f"ruleSet={_shown(content.rule_set)},schema={content.text}}} with refs [{references}] "
        f"of type {content.schema_type}, details: {details}"
    )


def _shown(value: object) -> str:
    return "null" if value is None else str(value)


def _characters(key: Key) -> int:
    return sum(len(each) for each in key)
