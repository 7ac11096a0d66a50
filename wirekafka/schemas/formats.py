"""The parser of each schema format, imported when a schema of the format is parsed first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from wirekafka.schemas.schema import Dependency, Format, ParsedSchema, Parser


def parse(format: Format, text: str, dependencies: Sequence[Dependency] = ()) -> ParsedSchema:
    """The schema of a text, and of all texts that it refers to, the innermost first.

    Raises SchemaError.
    """
    return _parser(format)(text, dependencies)


def parse_stored(
    format: Format, text: str, dependencies: Sequence[Dependency] = ()
) -> ParsedSchema:
    """The schema of a text that a registry holds, which may be older than a rule of its format.

    Raises SchemaError.
    """
    if format is Format.AVRO:
        from wirekafka.schemas.avro import schema as avro_schema

        return avro_schema.parse_stored(text, dependencies)
    return parse(format, text, dependencies)


def _parser(format: Format) -> Parser:
    match format:
        case Format.AVRO:
            from wirekafka.schemas.avro import schema as avro_schema

            return avro_schema.parse
        case Format.JSON:
            from wirekafka.schemas.json import schema as json_schema

            return json_schema.parse
        case Format.PROTOBUF:
            from wirekafka.schemas.protobuf import schema as protobuf_schema

            return protobuf_schema.parse
    assert_never(format)
