"""Decisions about the configurations of subjects, of contexts and of the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wirekafka.registry import errors
from wirekafka.registry.contracts import metadata, rule_set
from wirekafka.registry.modes import require_writable
from wirekafka.registry.records import ConfigRecord, entries
from wirekafka.registry.state import DEFAULT_LEVEL, RegistryState
from wirekafka.registry.writer import Decided, Decision
from wirekafka.schemas.levels import CompatibilityPolicy, Level

Settings = Mapping[str, Any]

_ORDER = (
    "alias",
    "normalize",
    "validateFields",
    "validateRules",
    "compatibilityLevel",
    "compatibilityPolicy",
    "compatibilityGroup",
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
)
"""The settings, in the order in which records have them."""
_BOOLEANS = ("normalize", "validateFields", "validateRules")
_ONLY: Mapping[str, Any] = {"validateFields": False}
"""Checks that this registry does not make: to accept them would promise what it does not keep."""
_TEXTS = ("alias", "compatibilityGroup")


def required_settings(body: Mapping[str, Any], *, accepts_unknown: bool) -> Settings:
    """The settings of a request; None for those to delete. Raises RegistryError."""
    settings: dict[str, Any] = {}
    for name, value in body.items():
        if value and _ONLY.get(name, value) != value:
            raise errors.unprocessable(f"This registry has {name} {_ONLY[name]} only")
        match name:
            case "compatibility" | "compatibilityLevel":
                settings["compatibilityLevel"] = None if value is None else _level(value)
            case "compatibilityPolicy":
                settings[name] = None if value is None else _policy(value)
            case "defaultMetadata" | "overrideMetadata":
                settings[name] = metadata(value)
            case "defaultRuleSet" | "overrideRuleSet":
                settings[name] = rule_set(value)
            case _ if name in _BOOLEANS and (value is None or isinstance(value, bool)):
                settings[name] = value
            case _ if name in _TEXTS and (value is None or isinstance(value, str)):
                settings[name] = value
            case _ if name in _ORDER:
                raise errors.malformed(f"Invalid value of {name}")
            case _ if not accepts_unknown:
                raise errors.unprocessable(f"Unrecognized field: {name}")
    return settings


def set_config(scope: str | None, update: Settings) -> Decision[Settings]:
    """Change some settings of a scope; answers them. The others stay as they are."""

    def decide(state: RegistryState) -> Decided[Settings]:
        require_writable(state, scope)
        merged = {**(state.config(scope) or {}), **update}
        known = {name: merged[name] for name in _ORDER if merged.get(name) is not None}
        others = {name: each for name, each in merged.items() if name not in _ORDER}
        return Decided(entries([ConfigRecord(scope, {**known, **others})]), update)

    return decide


def delete_config(scope: str | None) -> Decision[Settings]:
    """Let the settings of the next wider scope apply; answers the settings that were deleted."""

    def decide(state: RegistryState) -> Decided[Settings]:
        require_writable(state, scope)
        settings = state.config(scope)
        if settings is None and scope is not None:
            raise errors.subject_not_found(scope)
        if settings is None:
            return Decided([], {"compatibilityLevel": DEFAULT_LEVEL})
        return Decided(entries([ConfigRecord(scope, None)]), settings)

    return decide


def _policy(value: Any) -> str:
    try:
        return CompatibilityPolicy(str(value).upper()).value
    except ValueError:
        raise errors.unprocessable(
            "Invalid compatibility policy. Valid values are strict and lenient"
        ) from None


def _level(value: Any) -> str:
    try:
        return Level(str(value).upper()).value
    except ValueError:
        raise errors.invalid_level() from None
