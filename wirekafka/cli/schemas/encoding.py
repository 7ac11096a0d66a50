"""The schemas that options name, as subjects of a registry or as files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from wirekafka.client.client import CliError
from wirekafka.client.schema_registry import SchemaRegistry, parsed_schema
from wirekafka.client.value_encoder import ValueEncoder
from wirekafka.schemas.schema import Format, SchemaError

_FORMATS = {".avsc": Format.AVRO, ".json": Format.JSON, ".proto": Format.PROTOBUF}
_LARGEST_FILE_BYTES = 16 << 20


class SchemaFile(NamedTuple):
    """The schema in a file."""

    text: str
    format: Format


def encoder_of(
    registry: SchemaRegistry, word: str, subject: str, type_name: str | None
) -> ValueEncoder:
    """The encoder by the latest schema of a subject, or by a file's schema.

    The schema of a file is registered under `subject`. Raises CliError.
    """
    file = schema_file(word, type_name)
    try:
        if file is None:
            return ValueEncoder.of_subject(registry, word)
        schema = parsed_schema(file.format, file.text)
        return ValueEncoder(registry.register(subject, file.text, file.format), schema)
    except SchemaError as error:
        raise CliError(f"{word}: {error}") from None


def schema_file(word: str, type_name: str | None) -> SchemaFile | None:
    """The schema of a file; None if the word is a subject, without the end of a file's name.

    Raises CliError.
    """
    format = _FORMATS.get(Path(word).suffix) if type_name is None else format_named(type_name)
    if format is None:
        return None
    try:
        with Path(word).open("rb") as file:
            data = file.read(_LARGEST_FILE_BYTES + 1)
        if len(data) > _LARGEST_FILE_BYTES:
            raise CliError(f"{word} has more than {_LARGEST_FILE_BYTES >> 20} MiB")
        return SchemaFile(data.decode(), format)
    except OSError as error:
        raise CliError(f"cannot read {word}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CliError(f"{word} is not UTF-8") from None


def format_named(name: str) -> Format:
    """The format of a --schema-type option. Raises CliError."""
    if name.upper() not in Format.__members__:
        raise CliError(f"no schema type {name!r}: avro, json or protobuf")
    return Format[name.upper()]
