"""What the three schema formats have in common: a parsed schema, its references, its errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class SchemaError(ValueError):
    """A schema that its format does not allow; the text is the reason, as the parser gives it."""


class ValueMismatch(ValueError):
    """A value that its schema does not describe; the text says where and why."""


class Format(StrEnum):
    """The formats, by the names that registries use for them."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """The use of a version of another subject, under a name: a type, a URI or an import path."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Dependency:
    """A referenced schema: its name in the schemas that refer to it, and its own text."""

    name: str
    text: str


class ParsedSchema(Protocol):
    """A schema of one format. Two schemas are equal if their canonical texts are."""

    @property
    def format(self) -> Format:
        """The format of its text."""

    @property
    def canonical(self) -> str:
        """The text that a registry stores and returns, as Confluent's `canonicalString`."""

    def normalized(self) -> ParsedSchema:
        """The schema that stands for all with the same meaning, as of `normalize=true`."""

    def incompatibilities(self, older: ParsedSchema) -> Sequence[str]:
        """Why data written with `older` cannot be read by this schema; empty if it can.

        Each reason is a message as Confluent's registry words it, in which `{reader}` stands for
        the name of this schema and `{writer}` for the name of `older`: whoever compares two
        versions in both directions names them "new" and "old". `older` has the same format.
        """

    def lenient_incompatibilities(self, older: ParsedSchema) -> Sequence[str]:
        """The same by the policy LENIENT, by which only JSON Schema allows more."""

    def name(self) -> str | None:
        """The full name of the record or message that it describes; None if it has none."""

    def decoded(self, payload: bytes) -> Any:
        """The value of a payload without its prefix, of types that JSON has.

        A Protobuf payload begins with the indexes of its message. Raises ValueMismatch.
        """

    def encoded(self, value: Any) -> bytes:
        """The payload of such a value, without the prefix of its id. Raises ValueMismatch."""


class Parser(Protocol):
    """A format's function that parses schemas."""

    def __call__(self, text: str, dependencies: Sequence[Dependency] = ()) -> ParsedSchema:
        """The schema of a text, and of all texts that it refers to, the innermost first.

        Raises SchemaError.
        """
