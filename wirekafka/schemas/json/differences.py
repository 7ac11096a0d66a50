"""The differences between two JSON schemas, by the names that Confluent's registry has for them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto


class JsonChange(StrEnum):
    """What a newer schema changes; each name says what the newer has, compared to the older."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[str]) -> str:
        return name

    SCHEMA_ADDED = auto()
    SCHEMA_REMOVED = auto()
    TYPE_EXTENDED = auto()
    TYPE_NARROWED = auto()
    TYPE_CHANGED = auto()

    MAX_LENGTH_ADDED = auto()
    MAX_LENGTH_REMOVED = auto()
    MAX_LENGTH_INCREASED = auto()
    MAX_LENGTH_DECREASED = auto()
    MIN_LENGTH_ADDED = auto()
    MIN_LENGTH_REMOVED = auto()
    MIN_LENGTH_INCREASED = auto()
    MIN_LENGTH_DECREASED = auto()
    PATTERN_ADDED = auto()
    PATTERN_REMOVED = auto()
    PATTERN_CHANGED = auto()

    MAXIMUM_ADDED = auto()
    MAXIMUM_REMOVED = auto()
    MAXIMUM_INCREASED = auto()
    MAXIMUM_DECREASED = auto()
    MINIMUM_ADDED = auto()
    MINIMUM_REMOVED = auto()
    MINIMUM_INCREASED = auto()
    MINIMUM_DECREASED = auto()
    EXCLUSIVE_MAXIMUM_ADDED = auto()
    EXCLUSIVE_MAXIMUM_REMOVED = auto()
    EXCLUSIVE_MAXIMUM_INCREASED = auto()
    EXCLUSIVE_MAXIMUM_DECREASED = auto()
    EXCLUSIVE_MINIMUM_ADDED = auto()
    EXCLUSIVE_MINIMUM_REMOVED = auto()
    EXCLUSIVE_MINIMUM_INCREASED = auto()
    EXCLUSIVE_MINIMUM_DECREASED = auto()
    MULTIPLE_OF_ADDED = auto()
    MULTIPLE_OF_REMOVED = auto()
    MULTIPLE_OF_EXPANDED = auto()
    MULTIPLE_OF_REDUCED = auto()
    MULTIPLE_OF_CHANGED = auto()

    REQUIRED_ATTRIBUTE_ADDED = auto()
    REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED = auto()
    REQUIRED_ATTRIBUTE_REMOVED = auto()
    MAX_PROPERTIES_ADDED = auto()
    MAX_PROPERTIES_REMOVED = auto()
    MAX_PROPERTIES_INCREASED = auto()
    MAX_PROPERTIES_DECREASED = auto()
    MIN_PROPERTIES_ADDED = auto()
    MIN_PROPERTIES_REMOVED = auto()
    MIN_PROPERTIES_INCREASED = auto()
    MIN_PROPERTIES_DECREASED = auto()
    ADDITIONAL_PROPERTIES_ADDED = auto()
    ADDITIONAL_PROPERTIES_REMOVED = auto()
    ADDITIONAL_PROPERTIES_EXTENDED = auto()
    ADDITIONAL_PROPERTIES_NARROWED = auto()
    DEPENDENCY_ARRAY_ADDED = auto()
    DEPENDENCY_ARRAY_REMOVED = auto()
    DEPENDENCY_ARRAY_EXTENDED = auto()
    DEPENDENCY_ARRAY_NARROWED = auto()
    DEPENDENCY_ARRAY_CHANGED = auto()
    DEPENDENCY_SCHEMA_ADDED = auto()
    DEPENDENCY_SCHEMA_REMOVED = auto()
    PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL = auto()
    PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL = auto()
    REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL = auto()
    REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL = auto()
    OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL = auto()
    PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL = auto()
    PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL = auto()
    PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL = auto()
    PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = auto()
    PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = auto()
    PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = auto()
    PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = auto()

    MAX_ITEMS_ADDED = auto()
    MAX_ITEMS_REMOVED = auto()
    MAX_ITEMS_INCREASED = auto()
    MAX_ITEMS_DECREASED = auto()
    MIN_ITEMS_ADDED = auto()
    MIN_ITEMS_REMOVED = auto()
    MIN_ITEMS_INCREASED = auto()
    MIN_ITEMS_DECREASED = auto()
    UNIQUE_ITEMS_ADDED = auto()
    UNIQUE_ITEMS_REMOVED = auto()
    ADDITIONAL_ITEMS_ADDED = auto()
    ADDITIONAL_ITEMS_REMOVED = auto()
    ADDITIONAL_ITEMS_EXTENDED = auto()
    ADDITIONAL_ITEMS_NARROWED = auto()
    ITEM_ADDED_TO_OPEN_CONTENT_MODEL = auto()
    ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL = auto()
    ITEM_ADDED_TO_CLOSED_CONTENT_MODEL = auto()
    ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL = auto()
    ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL = auto()
    ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL = auto()
    ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = auto()
    ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = auto()
    ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = auto()
    ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = auto()

    ENUM_ARRAY_EXTENDED = auto()
    ENUM_ARRAY_NARROWED = auto()
    ENUM_ARRAY_CHANGED = auto()
    COMBINED_TYPE_EXTENDED = auto()
    COMBINED_TYPE_CHANGED = auto()
    PRODUCT_TYPE_EXTENDED = auto()
    PRODUCT_TYPE_NARROWED = auto()
    SUM_TYPE_EXTENDED = auto()
    SUM_TYPE_NARROWED = auto()
    COMBINED_TYPE_SUBSCHEMAS_CHANGED = auto()
    NOT_TYPE_EXTENDED = auto()
    NOT_TYPE_NARROWED = auto()


_KEYWORD = "The keyword at path '@' in the {reader} schema is not present in the {writer} schema"
_LESS = "The value at path '@' in the {reader} schema is less than its value in the {writer} schema"
_MORE = "The value at path '@' in the {reader} schema is more than its value in the {writer} schema"
_VALUE = "The value at path '@' is different between the {reader} schema and the {writer} schema"
_TYPE = "A type at path '@' is different between the {reader} schema and the {writer} schema"
_FEWER = (
    "An array or combined type at path '@' has fewer elements in the {reader} schema "
    "than the {writer} schema"
)
_MORE_ELEMENTS = (
    "An array or combined type at path '@' has more elements in the {reader} schema "
    "than the {writer} schema"
)
_ADDED_TO_OPEN = (
    "The {reader} schema has an open content model and has a property or item at path '@' "
    "which is missing in the {writer} schema"
)
_REMOVED_FROM_CLOSED = (
    "The {reader} has a closed content model and is missing a property or item present "
    "at path '@' in the {writer} schema"
)
_ADDED_NOT_COVERED = (
    "The {reader} schema has a property or item at path '@' which is not covered by the partially "
    "open content model of the {writer} schema"
)
_REMOVED_NOT_COVERED = (
    "The {reader} schema has a partially open content model which does not cover the property "
    "or item at path '@' in the {writer} schema"
)

INCOMPATIBLE = {
    JsonChange.SCHEMA_ADDED: _KEYWORD,
    JsonChange.TYPE_NARROWED: _TYPE,
    JsonChange.TYPE_CHANGED: _TYPE,
    JsonChange.MAX_LENGTH_ADDED: _KEYWORD,
    JsonChange.MAX_LENGTH_DECREASED: _LESS,
    JsonChange.MIN_LENGTH_ADDED: _KEYWORD,
    JsonChange.MIN_LENGTH_INCREASED: _MORE,
    JsonChange.PATTERN_ADDED: _KEYWORD,
    JsonChange.PATTERN_CHANGED: _VALUE,
    JsonChange.MAXIMUM_ADDED: _KEYWORD,
    JsonChange.MAXIMUM_DECREASED: _LESS,
    JsonChange.MINIMUM_ADDED: _KEYWORD,
    JsonChange.MINIMUM_INCREASED: _MORE,
    JsonChange.EXCLUSIVE_MAXIMUM_ADDED: _KEYWORD,
    JsonChange.EXCLUSIVE_MAXIMUM_DECREASED: _LESS,
    JsonChange.EXCLUSIVE_MINIMUM_ADDED: _KEYWORD,
    JsonChange.EXCLUSIVE_MINIMUM_INCREASED: _MORE,
    JsonChange.MULTIPLE_OF_ADDED: _KEYWORD,
    JsonChange.MULTIPLE_OF_EXPANDED: _MORE,
    JsonChange.MULTIPLE_OF_CHANGED: _VALUE,
    JsonChange.REQUIRED_ATTRIBUTE_ADDED: _KEYWORD,
    JsonChange.MAX_PROPERTIES_ADDED: _KEYWORD,
    JsonChange.MAX_PROPERTIES_DECREASED: _LESS,
    JsonChange.MIN_PROPERTIES_ADDED: _KEYWORD,
    JsonChange.MIN_PROPERTIES_INCREASED: _MORE,
    JsonChange.ADDITIONAL_PROPERTIES_REMOVED: _KEYWORD,
    JsonChange.ADDITIONAL_PROPERTIES_NARROWED: _FEWER,
    JsonChange.DEPENDENCY_ARRAY_ADDED: _KEYWORD,
    JsonChange.DEPENDENCY_ARRAY_EXTENDED: _MORE_ELEMENTS,
    JsonChange.DEPENDENCY_ARRAY_CHANGED: _VALUE,
    JsonChange.DEPENDENCY_SCHEMA_ADDED: _KEYWORD,
    JsonChange.PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL: _ADDED_TO_OPEN,
    JsonChange.REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL: (
        "The {reader} schema has an unopen content model and has a required property at path '@' "
        "which is missing in the {writer} schema"
    ),
    JsonChange.PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL: _REMOVED_FROM_CLOSED,
    JsonChange.PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL: _ADDED_NOT_COVERED,
    JsonChange.PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL: _REMOVED_NOT_COVERED,
    JsonChange.MAX_ITEMS_ADDED: _KEYWORD,
    JsonChange.MAX_ITEMS_DECREASED: _LESS,
    JsonChange.MIN_ITEMS_ADDED: _KEYWORD,
    JsonChange.MIN_ITEMS_INCREASED: _MORE,
    JsonChange.UNIQUE_ITEMS_ADDED: _KEYWORD,
    JsonChange.ADDITIONAL_ITEMS_REMOVED: _KEYWORD,
    JsonChange.ADDITIONAL_ITEMS_NARROWED: _FEWER,
    JsonChange.ITEM_ADDED_TO_OPEN_CONTENT_MODEL: _ADDED_TO_OPEN,
    JsonChange.ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL: _REMOVED_FROM_CLOSED,
    JsonChange.ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL: _ADDED_NOT_COVERED,
    JsonChange.ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL: _REMOVED_NOT_COVERED,
    JsonChange.ENUM_ARRAY_NARROWED: _FEWER,
    JsonChange.ENUM_ARRAY_CHANGED: _TYPE,
    JsonChange.COMBINED_TYPE_CHANGED: _TYPE,
    JsonChange.PRODUCT_TYPE_EXTENDED: _MORE_ELEMENTS,
    JsonChange.SUM_TYPE_NARROWED: _FEWER,
    JsonChange.COMBINED_TYPE_SUBSCHEMAS_CHANGED: _TYPE,
    JsonChange.NOT_TYPE_EXTENDED: _MORE_ELEMENTS,
}
"""The changes after which data of the writer may not be read, each with its description."""

LENIENT = frozenset(
    {
        JsonChange.ADDITIONAL_PROPERTIES_REMOVED,
        JsonChange.ADDITIONAL_PROPERTIES_NARROWED,
        JsonChange.PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL,
        JsonChange.PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL,
        JsonChange.PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
        JsonChange.PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
    }
)
"""The changes that the policy LENIENT allows: it takes writers to be closed and readers open."""


@dataclass(frozen=True, slots=True)
class JsonDifference:
    """A change and the path to it from the root of the newer schema: `#/properties/a/maxLength`."""

    change: JsonChange
    path: str

    def message(self) -> str:
        """As Confluent's registry has it, with its apostrophe at the end.

        `{reader}` and `{writer}` stand for "new" and "old", or the reverse for a check FORWARD.
        """
        description = INCOMPATIBLE[self.change].replace("@", self.path, 1)
        return f'{{errorType:"{self.change}", description:"{description}\'}}'
