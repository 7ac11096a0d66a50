"""The check of a value against a JSON schema, with expressions and references in bounded time."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import referencing.exceptions
from jsonschema import ValidationError

from wirekafka.regex import InvalidRegex
from wirekafka.schemas.json.dialects import Dialect, reason, validator_class_with
from wirekafka.schemas.json.patterns import json_regex
from wirekafka.schemas.schema import ValueMismatch

MAX_STEPS = 10_000
"""References followed and names matched in one check, beside one step for each byte."""

MAX_NESTED = 150
"""Schemas within schemas: each takes up to five of the interpreter's 1,000 frames."""


@dataclass(slots=True)
class _Effort:
    """What the check of a value may still take."""

    steps: int
    nested: int = 0


_effort: ContextVar[_Effort] = ContextVar("effort")


def check_value(value: Any, size_bytes: int, validator: Any) -> None:
    """Raise ValueMismatch, with where and why, if the validator's schema refuses the value."""
    _effort.set(_Effort(MAX_STEPS + size_bytes))
    try:
        error = next(validator.iter_errors(value), None)
    except ValueMismatch:
        raise
    except InvalidRegex as invalid:
        raise ValueMismatch(f"a pattern of the schema cannot be evaluated: {invalid}") from None
    except referencing.exceptions.Unresolvable as missing:
        raise ValueMismatch(f"a reference of the schema cannot be resolved: {missing}") from None
    except RecursionError:
        raise ValueMismatch("the value or its schema is nested too deeply") from None
    except OverflowError as overflow:
        raise ValueMismatch(f"a number is too large: {overflow}") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # A reference may lead to a part of the text that no meta-schema describes.
        raise ValueMismatch(f"the schema cannot be applied: {error}") from None
    if error is not None:
        raise ValueMismatch(reason(error))


@lru_cache(maxsize=8)
def validator_class(dialect: Dialect) -> Any:
    """The library's class with the keywords below in place of its own."""
    own = dialect.validator_class.VALIDATORS
    keywords = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    }
    for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
        if keyword in own:
            keywords[keyword] = _counted(own[keyword])
    if "unevaluatedProperties" in own:
        keywords["unevaluatedProperties"] = _unevaluated_properties
    extended = validator_class_with(dialect, keywords)
    extended.descend = _bounded(extended.descend)
    extended.iter_errors = _bounded(extended.iter_errors)
    return extended


def _bounded(errors_of: Any) -> Any:
    """The library's method, refusing before the interpreter runs out of stack."""

    def errors(*arguments: Any, **keywords: Any) -> Iterator[Any]:
        effort = _effort.get()
        effort.nested += 1
        if effort.nested > MAX_NESTED:
            raise ValueMismatch("the value or its schema is nested too deeply")
        try:
            yield from errors_of(*arguments, **keywords)
        finally:
            effort.nested -= 1

    return errors


def _count_step() -> None:
    effort = _effort.get()
    effort.steps -= 1
    if effort.steps < 0:
        raise ValueMismatch("the schema is too complex for the value")


def _counted(keyword: Any) -> Any:
    def follow(validator: Any, reference: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _count_step()
        yield from keyword(validator, reference, instance, schema) or ()

    return follow


def _is_found(pattern: str, text: str) -> bool:
    _count_step()
    return json_regex(pattern).is_found_in(text)


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and not _is_found(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        for name, value in instance.items():
            if _is_found(pattern, name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, additional: Any, instance: Any, schema: Any
) -> Iterator[Any]:
    if not validator.is_type(instance, "object") or additional is True:
        return
    properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in instance.items():
        if name in properties or any(_is_found(pattern, name) for pattern in patterns):
            continue
        if additional is False:
            yield ValidationError(f"the schema does not allow the property {name!r}")
        else:
            yield from validator.descend(value, additional, path=name)


def _unevaluated_properties(
    validator: Any, unevaluated: Any, instance: Any, schema: Any
) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    evaluated = _evaluated_names(validator, instance, schema)
    for name, value in instance.items():
        if name in evaluated:
            continue
        if next(validator.descend(value, unevaluated, path=name), None) is not None:
            yield ValidationError(f"the schema does not evaluate the property {name!r}")


def _evaluated_names(validator: Any, instance: Any, schema: Any) -> set[str]:
    """The names of the properties that the schema's other keywords have checked."""
    if not isinstance(schema, dict):
        return set()
    _count_step()
    names: set[str] = set(schema.get("properties", {})).intersection(instance)
    for pattern in schema.get("patternProperties", {}):
        names.update(name for name in instance if _is_found(pattern, name))
    if "additionalProperties" in schema:
        return set(instance)
    for reference in ("$ref", "$dynamicRef", "$recursiveRef"):
        if reference in schema:
            found = validator._resolver.lookup(schema[reference])
            inner = validator.evolve(schema=found.contents, _resolver=found.resolver)
            names |= _evaluated_names(inner, instance, found.contents)
    for subschema in _applied(validator, instance, schema):
        names |= _evaluated_names(validator, instance, subschema)
        if isinstance(subschema, dict) and "unevaluatedProperties" in subschema:
            names = set(instance)
    return names


def _applied(validator: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """The schemas within a schema that describe the same value and accept it."""
    for operator in ("allOf", "anyOf", "oneOf"):
        for subschema in schema.get(operator, ()):
            if next(validator.descend(instance, subschema), None) is None:
                yield subschema
    for name, subschema in schema.get("dependentSchemas", {}).items():
        if name in instance:
            yield subschema
    if "if" in schema:
        holds = next(validator.descend(instance, schema["if"]), None) is None
        if holds:
            yield schema["if"]
        branch = "then" if holds else "else"
        if branch in schema:
            yield schema[branch]
