"""Compatibility levels: which versions are compared, in which directions, and the messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from wirekafka.schemas.levels import Level, OlderVersion, violations
from wirekafka.schemas.schema import Format, ParsedSchema


@dataclass(frozen=True)
class Numbered:
    """A schema that reads what schemas of the same or lower numbers wrote."""

    canonical: str
    format: Format = Format.AVRO

    def normalized(self) -> ParsedSchema:
        return self

    def incompatibilities(self, older: ParsedSchema) -> Sequence[str]:
        if int(self.canonical) >= int(older.canonical):
            return []
        return [f"{self.canonical} cannot read {older.canonical}"]

    def lenient_incompatibilities(self, older: ParsedSchema) -> Sequence[str]:
        return self.incompatibilities(older)

    def name(self) -> str | None:
        return None

    def decoded(self, payload: bytes) -> Any:
        raise NotImplementedError

    def encoded(self, value: Any) -> bytes:
        raise NotImplementedError


def found(level: Level, new: int, *older: int) -> list[str]:
    versions = [
        OlderVersion(number, lambda each=each: Numbered(str(each)))  # type: ignore[misc]
        for number, each in enumerate(older, 1)
    ]
    return list(violations(level, Numbered(str(new)), versions))


@pytest.mark.parametrize(
    ("level", "verdicts"),
    [
        # New schemas 1 to 4 after versions 3 and 2.
        (Level.NONE, "++++"),
        (Level.BACKWARD, "-+++"),
        (Level.BACKWARD_TRANSITIVE, "--++"),
        (Level.FORWARD, "++--"),
        (Level.FORWARD_TRANSITIVE, "++--"),
        (Level.FULL, "-+--"),
        (Level.FULL_TRANSITIVE, "----"),
    ],
)
def test_a_level_names_the_versions_and_the_directions(level: Level, verdicts: str) -> None:
    answers = ("-" if found(level, new, 3, 2) else "+" for new in (1, 2, 3, 4))
    assert "".join(answers) == verdicts


def test_messages_name_the_newest_version_that_differs() -> None:
    assert found(Level.BACKWARD_TRANSITIVE, 1, 3, 2) == [
        "1 cannot read 2",
        "{oldSchemaVersion: 2}",
        "{oldSchema: '2'}",
        "{validateFields: 'false', compatibility: 'BACKWARD_TRANSITIVE'}",
    ]
    assert found(Level.BACKWARD_TRANSITIVE, 1, 3, 1)[:2] == [
        "1 cannot read 3",
        "{oldSchemaVersion: 1}",
    ]


def test_nothing_is_parsed_that_is_not_compared() -> None:
    def parse() -> ParsedSchema:
        raise AssertionError

    new, latest = Numbered("1"), OlderVersion(2, lambda: Numbered("1"))
    assert violations(Level.BACKWARD, new, [OlderVersion(1, parse), latest]) == []
    assert violations(Level.NONE, new, [OlderVersion(1, parse)]) == []


def test_another_format_is_incompatible() -> None:
    older = [OlderVersion(1, lambda: Numbered("1", Format.JSON))]
    assert violations(Level.BACKWARD, Numbered("1"), older) == [
        "Incompatible because of different schema type",
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    ]


def test_a_long_schema_is_cut_in_the_message() -> None:
    older = [OlderVersion(1, lambda: Numbered("9" + " " * 12_000))]
    message = violations(Level.BACKWARD, Numbered("1"), older)
    assert message[2].startswith("{oldSchema: <truncated> '9 ")
    assert len(message[2]) < 11_000
