"""Metadata and rule sets of schemas: checked, put in order, and merged; clients act on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from wirekafka.registry import errors

Contract: TypeAlias = Mapping[str, Any]
"""Metadata or a rule set in JSON: the properties in Confluent's order, without empty ones."""

_KINDS = ("TRANSFORM", "CONDITION")
_MIGRATIONS = ("UPGRADE", "DOWNGRADE", "UPDOWN")
_MODES = (*_MIGRATIONS, "WRITE", "READ", "WRITEREAD")
_RULES = ("migrationRules", "domainRules", "encodingRules")
_RULE_TEXTS = ("name", "doc", "kind", "mode", "type", "expr", "onSuccess", "onFailure")
_MOST_RULES = 1000
_MOST_NAME_CHARACTERS = 64


def metadata(value: Any) -> Contract | None:
    """Metadata of a request; None if it is empty. Raises RegistryError 42210."""
    if value is None:
        return None
    source = _object(value, "metadata", ("tags", "properties", "sensitive"))
    tags = {
        _text(path, "tags"): sorted(set(_texts(each, f"tags of '{path}'")))
        for path, each in sorted(_object(source.get("tags") or {}, "tags").items())
    }
    properties = {
        name: _text(each, f"property '{name}'")
        for name, each in sorted(_object(source.get("properties") or {}, "properties").items())
    }
    sensitive = sorted(set(_texts(source.get("sensitive") or [], "sensitive")))
    return _without_empty({"tags": tags, "properties": properties, "sensitive": sensitive})


def rule_set(value: Any) -> Contract | None:
    """The rule set of a request; None if it is empty. Raises RegistryError 42210."""
    if value is None:
        return None
    source = _object(value, "ruleSet", (*_RULES, "enableAt"))
    result: dict[str, Any] = {}
    for place in _RULES:
        rules = source.get(place) or []
        if not isinstance(rules, list) or len(rules) > _MOST_RULES:
            raise errors.invalid_rule_set(f"Invalid rule set: {place} is no list of rules")
        result[place] = [_rule(each, place) for each in rules]
        names = [each["name"] for each in result[place]]
        if len(set(names)) < len(names):
            raise errors.invalid_rule_set("Found rule with duplicate name")
    result["enableAt"] = source.get("enableAt")
    return _without_empty(result)


def merged_metadata(older: Contract | None, newer: Contract | None) -> Contract | None:
    """Both together; a property of the newer replaces the older's."""
    if older is None or newer is None:
        return newer if older is None else older
    tags: dict[str, list[str]] = dict(older.get("tags", {}))
    for path, added in newer.get("tags", {}).items():
        tags[path] = sorted({*tags.get(path, ()), *added})
    properties = {**older.get("properties", {}), **newer.get("properties", {})}
    sensitive = {*older.get("sensitive", ()), *newer.get("sensitive", ())}
    return _without_empty(
        {
            "tags": dict(sorted(tags.items())),
            "properties": dict(sorted(properties.items())),
            "sensitive": sorted(sensitive),
        }
    )


def merged_rule_set(older: Contract | None, newer: Contract | None) -> Contract | None:
    """Both together; a rule of the newer replaces the older's of the same name."""
    if older is None or newer is None:
        return newer if older is None else older
    result: dict[str, Any] = {}
    for place in _RULES:
        named = {each["name"]: each for each in newer.get(place, ())}
        kept = [each for each in older.get(place, ()) if each["name"] not in named]
        result[place] = [*kept, *named.values()]
    result["enableAt"] = newer.get("enableAt", older.get("enableAt"))
    return _without_empty(result)


def _rule(value: Any, place: str) -> Contract:
    source = _object(value, "rule", (*_RULE_TEXTS, "tags", "params", "disabled"))
    texts = {
        each: _text(source[each], f"{each} of a rule")
        for each in _RULE_TEXTS
        if source.get(each) is not None
    }
    _require_name(texts.get("name", ""))
    kind, mode = texts.get("kind", _KINDS[0]), texts.get("mode")
    if kind not in _KINDS:
        raise errors.invalid_rule_set(f"Invalid rule kind '{kind}'")
    allowed = _MIGRATIONS if place == "migrationRules" else _MODES[len(_MIGRATIONS) :]
    if mode is not None and mode not in allowed:
        raise errors.invalid_rule_set(f"Invalid rule mode '{mode}' in {place}")
    params = _object(source.get("params") or {}, "params")
    result: dict[str, Any] = {
        "name": texts["name"],
        "doc": texts.get("doc"),
        "kind": texts.get("kind"),
        "mode": mode,
        "type": texts.get("type"),
        "tags": sorted(set(_texts(source.get("tags") or [], "tags of a rule"))),
        "params": {name: _text(each, "params") for name, each in sorted(params.items())},
        "expr": texts.get("expr"),
        "onSuccess": texts.get("onSuccess"),
        "onFailure": texts.get("onFailure"),
    }
    disabled = source.get("disabled") or False
    if not isinstance(disabled, bool):
        raise errors.invalid_rule_set("Invalid rule: disabled is no boolean")
    return {**(_without_empty(result) or {}), "disabled": disabled}


def _require_name(name: str) -> None:
    if not name:
        raise errors.invalid_rule_set("Missing rule name")
    plain = name.replace("-", "_")
    if not plain.isidentifier() or len(name) > _MOST_NAME_CHARACTERS:
        raise errors.invalid_rule_set(f"Invalid rule name '{name}'")


def _object(value: Any, name: str, allowed: Sequence[str] | None = None) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise errors.invalid_rule_set(f"Invalid {name}: not an object")
    for each in value:
        if allowed is not None and each not in allowed:
            raise errors.unprocessable(f"Unrecognized field: {each}")
    return value


def _texts(value: Any, name: str) -> Sequence[str]:
    if not isinstance(value, list):
        raise errors.invalid_rule_set(f"Invalid {name}: not a list")
    return [_text(each, name) for each in value]


def _text(value: Any, name: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise errors.invalid_rule_set(f"Invalid {name}: not a text")
    return str(value)


def _without_empty(value: Mapping[str, Any]) -> Contract | None:
    kept = {name: each for name, each in value.items() if each not in (None, "", [], {})}
    return kept or None
