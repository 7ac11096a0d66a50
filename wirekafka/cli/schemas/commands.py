"""The subjects of a schema registry: list, show, register, check, delete."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from wirekafka.cli.output import CommandConfig, note, show_json, show_line, show_table
from wirekafka.cli.schemas.access import RegistryUrl, SchemaType, opened_registry
from wirekafka.cli.schemas.encoding import SchemaFile, schema_file
from wirekafka.client.client import CliError
from wirekafka.client.schema_registry import RegisteredSchema, SchemaRegistry
from wirekafka.schemas.schema import SchemaReference
from wirekafka.visible_text import visible

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_REFERENCE = re.compile(r"(?P<name>.+?)=(?P<subject>.+):(?P<version>\d{1,9})")

Subject = Annotated[str, typer.Argument(metavar="SUBJECT", help="Such as TOPIC-value.")]
SchemaPath = Annotated[
    str, typer.Argument(metavar="FILE", help="The schema: an .avsc, .json or .proto file.")
]
Deleted = Annotated[bool, typer.Option("--deleted", help="Include what was deleted.")]
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        "-r",
        metavar="NAME=SUBJECT:VERSION",
        help="A schema that this schema refers to by NAME: a type, a URI, or an import's path.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts to read.")]


@dataclass(frozen=True, slots=True)
class _Given:
    """The schema of a command line."""

    file: SchemaFile
    references: tuple[SchemaReference, ...]


@app.command("list")
def list_subjects(
    prefix: Annotated[str, typer.Argument(help="Only subjects that begin with this.")] = "",
    *,
    schema_registry: RegistryUrl = None,
    command_config: CommandConfig = None,
    deleted: Deleted = False,
    as_json: AsJson = False,
) -> None:
    """Print the names of subjects."""
    with opened_registry(schema_registry, command_config) as registry:
        names = registry.subjects(prefix, deleted=deleted)
    if as_json:
        show_json(names)
        return
    for name in names:
        show_line(name)


@app.command()
def show(
    subject: Subject,
    *,
    version: Annotated[
        str, typer.Option("--version", "-v", help="A number, latest, or all for a table.")
    ] = "latest",
    schema_registry: RegistryUrl = None,
    command_config: CommandConfig = None,
    deleted: Deleted = False,
    as_json: AsJson = False,
) -> None:
    """Print a schema of a subject, or a table of its versions."""
    with opened_registry(schema_registry, command_config) as registry:
        if version == "all":
            _show_all(registry, subject, deleted, as_json)
            return
        found = registry.version(subject, _number_or_latest(version), deleted=deleted)
    if as_json:
        show_json(_fields(found))
    else:
        print(visible(found.text))


@app.command()
def register(
    subject: Subject,
    file: SchemaPath,
    *,
    reference: References = None,
    schema_type: SchemaType = None,
    normalize: Annotated[
        bool, typer.Option("--normalize", help="Register the normalized form of the schema.")
    ] = False,
    schema_registry: RegistryUrl = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Register a file's schema under a subject, and print its id."""
    given = _given(file, schema_type, reference)
    with opened_registry(schema_registry, command_config) as registry:
        id = registry.register(
            subject, given.file.text, given.file.format, given.references, normalize
        )
    if as_json:
        show_json({"subject": subject, "id": id})
    else:
        show_line(str(id))


@app.command()
def check(
    subject: Subject,
    file: SchemaPath,
    *,
    reference: References = None,
    schema_type: SchemaType = None,
    version: Annotated[
        str | None,
        typer.Option(
            "--version", "-v", help="Compare with this version, or latest, whatever the level."
        ),
    ] = None,
    schema_registry: RegistryUrl = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Check whether a file's schema may be registered: exit status 1, and why, if not."""
    given = _given(file, schema_type, reference)
    with opened_registry(schema_registry, command_config) as registry:
        reasons = registry.incompatibilities(
            subject,
            given.file.text,
            given.file.format,
            given.references,
            None if version is None else _number_or_latest(version),
        )
    if as_json:
        show_json({"subject": subject, "is_compatible": not reasons, "messages": reasons})
    else:
        for reason in reasons:
            show_line(reason)
    if reasons:
        raise typer.Exit(1)
    note(f"the schema is compatible with {subject}")


@app.command()
def delete(
    subject: Subject,
    *,
    version: Annotated[
        str | None, typer.Option("--version", "-v", help="Only this version, or latest.")
    ] = None,
    permanent: Annotated[
        bool, typer.Option("--permanent", help="Remove for good what was deleted before.")
    ] = False,
    schema_registry: RegistryUrl = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Delete a subject, or a version of it; its schemas stay readable by their ids."""
    wanted = None if version is None else _number_or_latest(version)
    with opened_registry(schema_registry, command_config) as registry:
        versions = registry.delete(subject, wanted, permanent=permanent)
    if as_json:
        show_json({"subject": subject, "versions": versions})
    else:
        note(f"deleted {subject}: version {', '.join(map(str, versions))}")


def _show_all(registry: SchemaRegistry, subject: str, deleted: bool, as_json: bool) -> None:
    found = [
        registry.version(subject, number, deleted=deleted)
        for number in registry.versions(subject, deleted=deleted)
    ]
    if as_json:
        show_json([_fields(each) for each in found])
        return
    rows = [(each.version, each.id, each.format.value, len(each.references)) for each in found]
    show_table(["version", "id", "type", "references"], rows)


def _fields(schema: RegisteredSchema) -> dict[str, Any]:
    return {
        "subject": schema.subject,
        "version": schema.version,
        "id": schema.id,
        "guid": None if schema.guid is None else str(schema.guid),
        "type": schema.format.value,
        "references": [
            {"name": each.name, "subject": each.subject, "version": each.version}
            for each in schema.references
        ],
        "schema": schema.text,
    }


def _given(path: str, type_name: str | None, references: list[str] | None) -> _Given:
    file = schema_file(path, type_name)
    if file is None:
        raise CliError(f"{path} does not end in .avsc, .json or .proto: give --schema-type")
    return _Given(file, tuple(map(_reference, references or ())))


def _reference(text: str) -> SchemaReference:
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise CliError(f"bad --reference {text!r}: NAME=SUBJECT:VERSION")
    return SchemaReference(match["name"], match["subject"], int(match["version"]))


def _number_or_latest(word: str) -> int | str:
    if word == "latest":
        return word
    if not (word.isascii() and word.isdigit()):
        raise CliError(f"bad --version {word!r}: a number or latest")
    return int(word)
