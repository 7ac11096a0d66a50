"""Whether a JSON schema accepts all data of an older one, by the rules of Confluent's registry.

The rules compare shapes keyword by keyword; they do not reason about the values. So they refuse
some changes that would be compatible. They are also looser than JSON Schema in a few places:
keywords without `type` are compared as if they had it, `oneOf` is compared like `anyOf`,
`patternProperties` count only for properties that are added or removed, a default makes a new
required property compatible, and `minContains`, `maxContains` and `format` are not compared.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from itertools import islice

from wirekafka.regex import InvalidRegex, Regex
from wirekafka.schemas.json.differences import INCOMPATIBLE, JsonChange, JsonDifference
from wirekafka.schemas.json.patterns import json_regex
from wirekafka.schemas.json.shapes import (
    Anything,
    ArrayShape,
    Combined,
    Conditional,
    Constant,
    Enumeration,
    Negated,
    Nothing,
    Number,
    NumberShape,
    ObjectShape,
    Operator,
    Referral,
    Shape,
    StringShape,
)
from wirekafka.schemas.schema import SchemaError

MAX_STEPS = 50_000
"""Pairs of schemas that one check compares: about two seconds."""

MAX_NESTED_CHECKS = 50
"""Combined schemas within combined schemas."""

MAX_DIFFERENCES = 1_000

MAX_PATTERNS = 64
"""That one check compiles; what further ones match counts as unknown."""

_LIMIT_NAMES = {
    "maxLength": "MAX_LENGTH",
    "minLength": "MIN_LENGTH",
    "maximum": "MAXIMUM",
    "minimum": "MINIMUM",
    "exclusiveMaximum": "EXCLUSIVE_MAXIMUM",
    "exclusiveMinimum": "EXCLUSIVE_MINIMUM",
    "maxItems": "MAX_ITEMS",
    "minItems": "MIN_ITEMS",
    "maxProperties": "MAX_PROPERTIES",
    "minProperties": "MIN_PROPERTIES",
}


@dataclass(frozen=True, slots=True)
class _Pair:
    """What is still to be compared; None for a keyword that is not there."""

    older: Shape | None
    newer: Shape | None
    path: str


_Steps = Iterator["JsonDifference | _Pair"]


def incompatibilities(
    older: Shape, newer: Shape, allowed: frozenset[JsonChange] = frozenset()
) -> list[JsonDifference]:
    """Why the newer schema may refuse data of the older, without the changes that are allowed.

    Raises SchemaError if the schemas are too complex to compare.
    """
    comparison = JsonComparison(frozenset(INCOMPATIBLE) - allowed)
    found = filter(comparison.counts, comparison.differences(older, newer))
    return list(islice(found, MAX_DIFFERENCES))


class JsonComparison:
    """A check of two schemas, and the verdicts it reached on the schemas within them."""

    def __init__(self, incompatible: Iterable[JsonChange] = INCOMPATIBLE):
        self._incompatible = frozenset(incompatible)
        self._steps = 0
        self._verdicts: dict[tuple[Shape, Shape], bool] = {}
        self._open: dict[tuple[Shape, Shape], int] = {}
        """Pairs whose verdict is being reached, with the number of those around each."""
        self._assumed: float = math.inf
        """The outermost open pair whose verdict was taken for granted since the last one began."""
        self._patterns: dict[str, Regex | None] = {}
        """None for patterns that cannot be evaluated, or are too many."""

    def counts(self, difference: JsonDifference) -> bool:
        """Whether the difference makes the schemas incompatible."""
        return difference.change in self._incompatible

    def differences(self, older: Shape, newer: Shape) -> Iterator[JsonDifference]:
        """All differences in the order of the source, compatible ones too.

        A pair within itself is not compared again, nor is a pair without incompatible differences.
        Raises SchemaError if the schemas are too complex to compare.
        """
        # Without recursion: references may lead through thousands of schemas.
        stack: list[tuple[tuple[Shape, Shape] | None, _Steps]] = []
        stack.append((None, iter([_Pair(older, newer, "#")])))
        visited: set[tuple[Shape, Shape]] = set()
        dirty: set[tuple[Shape, Shape]] = set()
        while stack:
            pair, steps = stack[-1]
            step = next(steps, None)
            if step is None:
                stack.pop()
                if pair in dirty:
                    visited.discard(pair)
                    dirty.discard(pair)
            elif isinstance(step, JsonDifference):
                if self.counts(step):
                    dirty.update(each for each, _ in stack if each is not None)
                yield step
            elif step.older is None or step.newer is None:
                stack.append((None, _presence(step)))
            else:
                next_pair = _resolved(step.older), _resolved(step.newer)
                if next_pair not in visited:
                    self._count_step()
                    visited.add(next_pair)
                    stack.append((next_pair, self._rules(*next_pair, step.path)))

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise SchemaError("the schemas are too complex to compare")

    def _accepts(self, newer: Shape, older: Shape) -> bool:
        """Whether the newer schema is compatible with the older."""
        pair = _resolved(older), _resolved(newer)
        if pair in self._verdicts:
            return self._verdicts[pair]
        if pair in self._open:
            # A recursive schema is compatible if nothing around the recursion is incompatible.
            self._assumed = min(self._assumed, self._open[pair])
            return True
        depth = self._open[pair] = len(self._open)
        if depth >= MAX_NESTED_CHECKS:
            raise SchemaError("the schemas are too complex to compare")
        assumed_before, self._assumed = self._assumed, math.inf
        verdict = not any(self.counts(each) for each in self.differences(*pair))
        del self._open[pair]
        if not verdict:
            self._assumed = math.inf
        if self._assumed >= depth:
            self._verdicts[pair] = verdict
            self._assumed = math.inf
        self._assumed = min(self._assumed, assumed_before)
        return verdict

    def _rules(self, older: Shape, newer: Shape, path: str) -> _Steps:
        if older is newer or isinstance(older, Nothing) or isinstance(newer, Anything):
            return
        match older, newer:
            case (Combined(), _) | (_, Combined()):
                yield from self._combined(older, newer, path)
            case StringShape(), StringShape():
                yield from _limits(older.limits, newer.limits, path)
                yield from _pattern(older, newer, path)
            case NumberShape(), NumberShape():
                yield from _number(older, newer, path)
            case ArrayShape(), ArrayShape():
                yield from self._array(older, newer, path)
            case ObjectShape(), ObjectShape():
                yield from self._object(older, newer, path)
            case Enumeration(), Enumeration():
                yield from _enumeration(older.values, newer.values, f"{path}/enum")
            case Constant(), Constant():
                yield from _enumeration({older.value}, {newer.value}, f"{path}/const")
            case Negated(), Negated():
                accepted = self._accepts(older.part, newer.part)
                change = JsonChange.NOT_TYPE_NARROWED if accepted else JsonChange.NOT_TYPE_EXTENDED
                yield JsonDifference(change, f"{path}/not")
            case Conditional(), Conditional():
                yield from self._conditional(older, newer, path)
            case _ if type(older) is not type(newer):
                yield JsonDifference(JsonChange.TYPE_CHANGED, path)

    def _combined(self, older: Shape, newer: Shape, path: str) -> _Steps:
        match older, newer:
            case Combined(), Combined():
                yield from self._both_combined(older, newer, path)
            case Combined(parts=[part]), _:
                yield _Pair(part, newer, path)
            case _, Combined(parts=[part]):
                yield _Pair(older, part, path)
            case Combined(operator=Operator.ALL), _ if any(
                self._accepts(newer, part) for part in older.parts
            ):
                yield JsonDifference(JsonChange.PRODUCT_TYPE_NARROWED, path)
            case _, Combined(operator=Operator.ANY | Operator.ONE) if any(
                self._accepts(part, older) for part in newer.parts
            ):
                yield JsonDifference(JsonChange.SUM_TYPE_EXTENDED, path)
            case _:
                yield JsonDifference(JsonChange.TYPE_CHANGED, path)

    def _both_combined(self, older: Combined, newer: Combined, path: str) -> _Steps:
        # All operators are the same for a single part.
        old_operator = older.operator if len(older.parts) > 1 else newer.operator
        new_operator = newer.operator if len(newer.parts) > 1 else old_operator
        if old_operator != new_operator:
            if new_operator != Operator.ANY:
                yield JsonDifference(JsonChange.COMBINED_TYPE_CHANGED, path)
                return
            yield JsonDifference(JsonChange.COMBINED_TYPE_EXTENDED, path)
        if len(older.parts) < len(newer.parts):
            is_product = new_operator == Operator.ALL
            yield JsonDifference(
                JsonChange.PRODUCT_TYPE_EXTENDED if is_product else JsonChange.SUM_TYPE_EXTENDED,
                path,
            )
        if len(older.parts) > len(newer.parts):
            is_product = old_operator == Operator.ALL
            yield JsonDifference(
                JsonChange.PRODUCT_TYPE_NARROWED if is_product else JsonChange.SUM_TYPE_NARROWED,
                path,
            )
        accepted = [
            [index for index, part in enumerate(newer.parts) if self._accepts(part, each)]
            for each in older.parts
        ]
        if _most_partners(accepted) < min(len(older.parts), len(newer.parts)):
            yield JsonDifference(JsonChange.COMBINED_TYPE_SUBSCHEMAS_CHANGED, path)

    def _conditional(self, older: Conditional, newer: Conditional, path: str) -> _Steps:
        conditions = older.condition, newer.condition
        if not (self._accepts(*conditions) and self._accepts(*reversed(conditions))):
            yield JsonDifference(JsonChange.TYPE_CHANGED, f"{path}/if")
            return
        yield _Pair(older.consequence, newer.consequence, f"{path}/then")
        yield _Pair(older.alternative, newer.alternative, f"{path}/else")

    def _array(self, older: ArrayShape, newer: ArrayShape, path: str) -> _Steps:
        yield from _limits(older.limits, newer.limits, path)
        if older.are_unique != newer.are_unique:
            added = newer.are_unique
            yield JsonDifference(
                JsonChange.UNIQUE_ITEMS_ADDED if added else JsonChange.UNIQUE_ITEMS_REMOVED,
                f"{path}/uniqueItems",
            )
        if newer.contained is not None and older.contained is None:
            # Even `true` asks for one item.
            yield JsonDifference(JsonChange.SCHEMA_ADDED, f"{path}/contains")
        else:
            yield _Pair(older.contained, newer.contained, f"{path}/contains")
        if not (older.is_tuple or newer.is_tuple):
            yield _Pair(older.rest, newer.rest, f"{path}/items")
            return
        for index in range(max(len(older.leading), len(newer.leading))):
            where = f"{path}/items/{index}"
            if index >= len(older.leading):
                yield self._added_item(older, newer.leading[index], where)
            elif index >= len(newer.leading):
                yield self._removed_item(older.leading[index], newer, where)
            else:
                yield _Pair(older.leading[index], newer.leading[index], where)
        yield from _additional_items(older.rest, newer.rest, f"{path}/additionalItems")

    def _added_item(self, older: ArrayShape, item: Shape, path: str) -> JsonDifference:
        if older.rest is None:
            change = JsonChange.ITEM_ADDED_TO_OPEN_CONTENT_MODEL
            if isinstance(_resolved(item), Anything):
                change = JsonChange.ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL
        elif isinstance(_resolved(older.rest), Nothing):
            change = JsonChange.ITEM_ADDED_TO_CLOSED_CONTENT_MODEL
        elif self._accepts(item, older.rest):
            change = JsonChange.ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
        else:
            change = JsonChange.ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
        return JsonDifference(change, path)

    def _removed_item(self, item: Shape, newer: ArrayShape, path: str) -> JsonDifference:
        if newer.rest is None:
            change = JsonChange.ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL
        elif isinstance(_resolved(newer.rest), Nothing):
            change = JsonChange.ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL
            if isinstance(_resolved(item), Nothing):
                change = JsonChange.ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL
        elif self._accepts(newer.rest, item):
            change = JsonChange.ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
        else:
            change = JsonChange.ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
        return JsonDifference(change, path)

    def _object(self, older: ObjectShape, newer: ObjectShape, path: str) -> _Steps:
        for name in {**older.properties, **newer.properties}:
            where = f"{path}/properties/{name}"
            if name not in older.properties:
                yield from self._added_property(older, newer, name, where)
            elif name not in newer.properties:
                yield self._removed_property(older.properties[name], newer, name, where)
            else:
                yield _Pair(older.properties[name], newer.properties[name], where)
        yield from self._required(older, newer, f"{path}/required")
        yield from _dependencies(older, newer, f"{path}/dependencies")
        yield _Pair(older.names, newer.names, f"{path}/propertyNames")
        yield from _additional_properties(older, newer, f"{path}/additionalProperties")
        yield from _limits(older.limits, newer.limits, path)

    def _added_property(
        self, older: ObjectShape, newer: ObjectShape, name: str, path: str
    ) -> Iterator[JsonDifference]:
        added = newer.properties[name]
        if self._is_open_for(older, name):
            change = JsonChange.PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL
            if isinstance(_resolved(added), Anything):
                change = JsonChange.PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL
            yield JsonDifference(change, path)
            return
        covering = self._covering(older, name, unknown=Anything())
        if any(self._accepts(added, each) for each in covering):
            change = JsonChange.PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
            yield JsonDifference(change, path)
        elif covering:
            change = JsonChange.PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
            yield JsonDifference(change, path)
        if name in newer.required:
            change = JsonChange.REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL
            if added.has_default:
                change = JsonChange.REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL
            yield JsonDifference(change, path)
        elif not covering:
            yield JsonDifference(JsonChange.OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL, path)

    def _removed_property(
        self, removed: Shape, newer: ObjectShape, name: str, path: str
    ) -> JsonDifference:
        covering = self._covering(newer, name, unknown=Nothing())
        if self._is_open_for(newer, name):
            change = JsonChange.PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL
        elif not covering:
            change = JsonChange.PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL
            if isinstance(_resolved(removed), Nothing):
                change = JsonChange.PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL
        elif all(self._accepts(each, removed) for each in covering):
            change = JsonChange.PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
        else:
            change = JsonChange.PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
        return JsonDifference(change, path)

    def _required(
        self, older: ObjectShape, newer: ObjectShape, path: str
    ) -> Iterator[JsonDifference]:
        before, after = set(older.required), set(newer.required)
        for name in older.required:
            if name not in after:
                yield JsonDifference(JsonChange.REQUIRED_ATTRIBUTE_REMOVED, f"{path}/{name}")
        for name in newer.required:
            is_added = name in newer.properties and name not in older.properties
            if name in before or (is_added and not self._is_open_for(older, name)):
                continue
            change = JsonChange.REQUIRED_ATTRIBUTE_ADDED
            if name in newer.properties and newer.properties[name].has_default:
                change = JsonChange.REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED
            yield JsonDifference(change, f"{path}/{name}")

    def _is_open_for(self, shape: ObjectShape, name: str) -> bool:
        """Whether a property without a schema of its own may have any value."""
        is_open = shape.permits_additional and shape.additional is None
        return is_open and not self._covering(shape, name, unknown=Nothing())

    def _covering(self, shape: ObjectShape, name: str, *, unknown: Shape) -> list[Shape]:
        """The schemas that a property without a schema of its own has to match.

        `unknown` stands for the schema of a pattern that cannot be evaluated.
        """
        covering = []
        for pattern, each in shape.patterns.items():
            self._count_step()
            regex = self._regex(pattern)
            if regex is None:
                covering.append(unknown)
            elif regex.is_found_in(name):
                covering.append(each)
        if not covering and shape.additional is not None:
            covering.append(shape.additional)
        return covering

    def _regex(self, pattern: str) -> Regex | None:
        if pattern not in self._patterns and len(self._patterns) < MAX_PATTERNS:
            try:
                self._patterns[pattern] = json_regex(pattern)
            except InvalidRegex:
                self._patterns[pattern] = None
        return self._patterns.get(pattern)


def _resolved(shape: Shape) -> Shape:
    if not isinstance(shape, Referral):
        return shape
    assert shape.target is not None
    return shape.target


def _presence(pair: _Pair) -> _Steps:
    """A schema on one side only. The absence of a schema allows anything, as does `true`."""
    if pair.newer is not None and not isinstance(_resolved(pair.newer), Anything):
        yield JsonDifference(JsonChange.SCHEMA_ADDED, pair.path)
    if pair.older is not None and not isinstance(_resolved(pair.older), Anything):
        yield JsonDifference(JsonChange.SCHEMA_REMOVED, pair.path)


def _most_partners(accepted: Sequence[Sequence[int]]) -> int:
    """How many parts can have a partner of their own among the parts that accept them."""
    holder: dict[int, int] = {}
    partner: dict[int, int] = {}
    for start in range(len(accepted)):
        reached_from: dict[int, int] = {}
        waiting, free = deque([start]), None
        while waiting and free is None:
            part = waiting.popleft()
            for candidate in accepted[part]:
                if candidate in reached_from:
                    continue
                reached_from[candidate] = part
                if candidate not in holder:
                    free = candidate
                    break
                waiting.append(holder[candidate])
        while free is not None:
            part = reached_from[free]
            holder[free], partner[part], free = part, free, partner.get(part)
    return len(partner)


def _limits(
    older: Mapping[str, Number], newer: Mapping[str, Number], path: str
) -> Iterator[JsonDifference]:
    for keyword in {**older, **newer}:
        before, after = older.get(keyword), newer.get(keyword)
        if before == after:
            continue
        if before is None:
            change = "ADDED"
        elif after is None:
            change = "REMOVED"
        else:
            change = "INCREASED" if after > before else "DECREASED"
        yield JsonDifference(JsonChange[f"{_LIMIT_NAMES[keyword]}_{change}"], f"{path}/{keyword}")


def _pattern(older: StringShape, newer: StringShape, path: str) -> Iterator[JsonDifference]:
    if older.pattern == newer.pattern:
        return
    if older.pattern is None:
        change = JsonChange.PATTERN_ADDED
    elif newer.pattern is None:
        change = JsonChange.PATTERN_REMOVED
    else:
        change = JsonChange.PATTERN_CHANGED
    yield JsonDifference(change, f"{path}/pattern")


def _number(older: NumberShape, newer: NumberShape, path: str) -> Iterator[JsonDifference]:
    if older.is_integer != newer.is_integer:
        narrowed = newer.is_integer
        change = JsonChange.TYPE_NARROWED if narrowed else JsonChange.TYPE_EXTENDED
        yield JsonDifference(change, path)
    yield from _limits(older.limits, newer.limits, path)
    before, after = older.multiple_of, newer.multiple_of
    if before == after:
        return
    if before is None:
        change = JsonChange.MULTIPLE_OF_ADDED
    elif after is None:
        change = JsonChange.MULTIPLE_OF_REMOVED
    elif _is_multiple(after, before):
        change = JsonChange.MULTIPLE_OF_EXPANDED
    elif _is_multiple(before, after):
        change = JsonChange.MULTIPLE_OF_REDUCED
    else:
        change = JsonChange.MULTIPLE_OF_CHANGED
    yield JsonDifference(change, f"{path}/multipleOf")


def _is_multiple(number: Number, divisor: Number) -> bool:
    try:
        return Decimal(number) % Decimal(divisor) == 0
    except DecimalException:
        # The quotient has more digits than are calculated, or the divisor is 0.
        return False


def _enumeration(
    older: Iterable[Hashable], newer: Iterable[Hashable], path: str
) -> Iterator[JsonDifference]:
    before, after = set(older), set(newer)
    if before == after:
        return
    if before < after:
        change = JsonChange.ENUM_ARRAY_EXTENDED
    elif before > after:
        change = JsonChange.ENUM_ARRAY_NARROWED
    else:
        change = JsonChange.ENUM_ARRAY_CHANGED
    yield JsonDifference(change, path)


def _additional_items(older: Shape | None, newer: Shape | None, path: str) -> _Steps:
    was_closed = older is not None and isinstance(_resolved(older), Nothing)
    is_closed = newer is not None and isinstance(_resolved(newer), Nothing)
    if was_closed and is_closed:
        return
    if was_closed:
        yield JsonDifference(JsonChange.ADDITIONAL_ITEMS_ADDED, path)
    elif is_closed:
        yield JsonDifference(JsonChange.ADDITIONAL_ITEMS_REMOVED, path)
    elif older is not None and newer is not None:
        yield _Pair(older, newer, path)
    elif older is not None:
        yield JsonDifference(JsonChange.ADDITIONAL_ITEMS_EXTENDED, path)
    elif newer is not None and not isinstance(_resolved(newer), Anything):
        yield JsonDifference(JsonChange.ADDITIONAL_ITEMS_NARROWED, path)


def _additional_properties(older: ObjectShape, newer: ObjectShape, path: str) -> _Steps:
    if older.permits_additional != newer.permits_additional:
        permitted = newer.permits_additional
        yield JsonDifference(
            JsonChange.ADDITIONAL_PROPERTIES_ADDED
            if permitted
            else JsonChange.ADDITIONAL_PROPERTIES_REMOVED,
            path,
        )
    elif older.additional is not None and newer.additional is not None:
        yield _Pair(older.additional, newer.additional, path)
    elif older.additional is not None:
        yield JsonDifference(JsonChange.ADDITIONAL_PROPERTIES_EXTENDED, path)
    elif newer.additional is not None and not isinstance(_resolved(newer.additional), Anything):
        yield JsonDifference(JsonChange.ADDITIONAL_PROPERTIES_NARROWED, path)


def _dependencies(older: ObjectShape, newer: ObjectShape, path: str) -> _Steps:
    for name in {**older.required_by, **newer.required_by}:
        before, after = older.required_by.get(name), newer.required_by.get(name)
        if before == after:
            continue
        if before is None:
            change = JsonChange.DEPENDENCY_ARRAY_ADDED
        elif after is None:
            change = JsonChange.DEPENDENCY_ARRAY_REMOVED
        elif before < after:
            change = JsonChange.DEPENDENCY_ARRAY_EXTENDED
        elif before > after:
            change = JsonChange.DEPENDENCY_ARRAY_NARROWED
        else:
            change = JsonChange.DEPENDENCY_ARRAY_CHANGED
        yield JsonDifference(change, f"{path}/{name}")
    for name in {**older.dependent, **newer.dependent}:
        where = f"{path}/{name}"
        if name not in older.dependent:
            yield JsonDifference(JsonChange.DEPENDENCY_SCHEMA_ADDED, where)
        elif name not in newer.dependent:
            yield JsonDifference(JsonChange.DEPENDENCY_SCHEMA_REMOVED, where)
        else:
            yield _Pair(older.dependent[name], newer.dependent[name], where)
