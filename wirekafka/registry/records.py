"""The records of the topic `_schemas`: keys and values in JSON, as Confluent's registry has them.

Keys are compared by their bytes when the topic is compacted, so their properties have one order.
A registry of another version may have written a value: unknown properties are skipped.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from wirekafka.registry.contracts import Contract
from wirekafka.registry.entry import Entry
from wirekafka.schemas.schema import SchemaReference

_TENANT = "default"
_AVRO = "AVRO"
_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*\\u00)([01][0-9a-f])")


@dataclass(frozen=True, slots=True)
class SchemaContent:
    """What identifies a schema: its text, its references, its metadata and its rules."""

    schema_type: str
    text: str
    references: tuple[SchemaReference, ...] = ()
    metadata: Contract | None = None
    rule_set: Contract | None = None

    def guid(self) -> str:
        """The identifier that is the same in all registries: the MD5 of all parts, as a UUID."""
        digest = hashlib.md5(self.text.encode(), usedforsecurity=False)
        for each in self.references:
            digest.update(f"{each.name}{each.subject}".encode())
            digest.update(each.version.to_bytes(4, "big", signed=True))
        for contract in (self.metadata, self.rule_set):
            if contract is not None:
                digest.update(_json(contract))
        text = digest.hexdigest()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@dataclass(frozen=True, slots=True)
class SchemaRecord:
    """A version of a subject."""

    subject: str
    version: int
    id: int
    guid: str
    content: SchemaContent
    deleted: bool = False
    timestamp_ms: int | None = None
    """When it was written to the topic; not part of the value."""

    def entry(self) -> Entry:
        """The record to write."""
        content = self.content
        value = {
            "subject": self.subject,
            "version": self.version,
            "id": self.id,
            "guid": self.guid,
            "schemaType": None if content.schema_type == _AVRO else content.schema_type,
            "references": references_json(content.references),
            "metadata": content.metadata,
            "ruleSet": content.rule_set,
            "schema": content.text,
        }
        present = {name: each for name, each in value.items() if each}
        return Entry(
            schema_key(self.subject, self.version), _json({**present, "deleted": self.deleted})
        )


@dataclass(frozen=True, slots=True)
class SchemaTombstone:
    """A version that was deleted permanently."""

    subject: str
    version: int

    def entry(self) -> Entry:
        """The record to write."""
        return Entry(schema_key(self.subject, self.version), None)


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """The configuration of a subject, of a context (`:.context:`), or of the registry."""

    subject: str | None
    settings: Mapping[str, Any] | None
    """None deletes it."""

    def entry(self) -> Entry:
        """The record to write."""
        key = _json({"keytype": "CONFIG", "subject": self.subject, "magic": 0})
        return Entry(key, _of_subject(self.subject, self.settings))


@dataclass(frozen=True, slots=True)
class ModeRecord:
    """The mode of a subject, of a context (`:.context:`), or of the registry."""

    subject: str | None
    mode: str | None
    """None deletes it."""

    def entry(self) -> Entry:
        """The record to write."""
        key = _json({"keytype": "MODE", "subject": self.subject, "magic": 0})
        settings = None if self.mode is None else {"mode": self.mode}
        return Entry(key, _of_subject(self.subject, settings))


@dataclass(frozen=True, slots=True)
class DeleteSubjectRecord:
    """The soft deletion of all versions of a subject up to one."""

    subject: str
    version: int

    def entry(self) -> Entry:
        """The record to write."""
        key = _json({"keytype": "DELETE_SUBJECT", "subject": self.subject, "magic": 0})
        return Entry(key, _json({"subject": self.subject, "version": self.version}))


@dataclass(frozen=True, slots=True)
class ClearSubjectRecord:
    """The permanent deletion of the soft-deleted versions of a subject, or of a context."""

    subject: str | None

    def entry(self) -> Entry:
        """The record to write."""
        key = _json({"keytype": "CLEAR_SUBJECT", "subject": self.subject, "magic": 0})
        return Entry(key, _of_subject(self.subject, {}))


@dataclass(frozen=True, slots=True)
class ContextRecord:
    """A context that exists, or no longer does."""

    context: str
    exists: bool = True

    def entry(self) -> Entry:
        """The record to write."""
        name = {"tenant": _TENANT, "context": self.context}
        key = _json({"keytype": "CONTEXT", **name, "magic": 0})
        return Entry(key, _json(name) if self.exists else None)


RegistryRecord: TypeAlias = (
    SchemaRecord
    | SchemaTombstone
    | ConfigRecord
    | ModeRecord
    | DeleteSubjectRecord
    | ClearSubjectRecord
    | ContextRecord
)


class UnknownRecord(ValueError):
    """A record that is damaged, or of a kind that this registry does not know."""


NOOP = Entry(b'{"keytype":"NOOP","magic":0}', None)
"""A record that changes nothing: a leader writes one to learn where the topic ends."""


def entries(records: Iterable[RegistryRecord]) -> Sequence[Entry]:
    """The records to write."""
    return [each.entry() for each in records]


def decoded(entry: Entry, timestamp_ms: int | None = None) -> RegistryRecord | None:
    """What a record of the topic says; None if it changes nothing. Raises UnknownRecord."""
    try:
        key = json.loads(entry.key.decode())
        value = None if entry.value is None else json.loads(entry.value.decode())
        return _record(key, value, timestamp_ms)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnknownRecord(f"{type(error).__name__}: {error}") from error


def schema_key(subject: str, version: int) -> bytes:
    """The key of a version of a subject."""
    return _json({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})


def references_json(references: Iterable[SchemaReference]) -> Sequence[Mapping[str, Any]]:
    """References in JSON."""
    return [
        {"name": each.name, "subject": each.subject, "version": each.version} for each in references
    ]


def _record(key: Mapping[str, Any], value: Any, timestamp_ms: int | None) -> RegistryRecord | None:
    match key["keytype"]:
        case "SCHEMA":
            subject, version = _text(key["subject"]), _number(key["version"])
            if value is None:
                return SchemaTombstone(subject, version)
            return _schema(subject, version, value, timestamp_ms)
        case "CONFIG":
            return ConfigRecord(_subject(key), None if value is None else _settings(value))
        case "MODE":
            return ModeRecord(_subject(key), None if value is None else _text(value["mode"]))
        case "DELETE_SUBJECT":
            if value is None:
                return None
            return DeleteSubjectRecord(_text(key["subject"]), _number(value["version"]))
        case "CLEAR_SUBJECT":
            return None if value is None else ClearSubjectRecord(_subject(key))
        case "CONTEXT":
            return ContextRecord(_text(key["context"]), value is not None)
        case "NOOP":
            return None
    raise UnknownRecord(f"key type {key['keytype']!r}")


def _schema(
    subject: str, version: int, value: Mapping[str, Any], timestamp_ms: int | None
) -> SchemaRecord:
    content = SchemaContent(
        value.get("schemaType") or _AVRO,
        _text(value["schema"]),
        tuple(
            SchemaReference(_text(each["name"]), _text(each["subject"]), _number(each["version"]))
            for each in value.get("references") or ()
        ),
        value.get("metadata") or None,
        value.get("ruleSet") or None,
    )
    guid = _text(value["guid"]).lower() if value.get("guid") else content.guid()
    id, deleted = _number(value["id"]), bool(value.get("deleted"))
    return SchemaRecord(subject, version, id, guid, content, deleted, timestamp_ms)


def _settings(value: Mapping[str, Any]) -> Mapping[str, Any]:
    settings = dict(value)
    for each in ("subject", "offset", "ts"):
        settings.pop(each, None)
    return settings


def _subject(key: Mapping[str, Any]) -> str | None:
    subject = key.get("subject")
    return None if subject is None else _text(subject)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise UnknownRecord(f"{value!r} is no text")
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UnknownRecord(f"{value!r} is no number")
    return value


def _of_subject(subject: str | None, settings: Mapping[str, Any] | None) -> bytes | None:
    if settings is None:
        return None
    return _json(settings if subject is None else {"subject": subject, **settings})


def _json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if "\\u00" in text:  # Java writes the digits of control characters as capitals.
        text = _ESCAPE.sub(lambda found: found[1] + found[2].upper(), text)
    return text.encode()
