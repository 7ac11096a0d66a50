"""The forms of the schema registry: register, set a compatibility level, delete.

What the registry refuses is shown with its message, above the form as it was entered.
"""

from __future__ import annotations

from collections.abc import Mapping

from wirekafka.client.client import CliError
from wirekafka.client.schema_registry import RegistryRefused, SchemaRegistry, quoted
from wirekafka.console.pages import subjects
from wirekafka.console.pages.page import Change, Page, PageError, PageView, Redirect, Visit
from wirekafka.console.pages.subjects import known, numbers_of, registry_of, subject_path
from wirekafka.console.subject_reads import LEVELS, own_level, schema_text
from wirekafka.schemas.schema import Format, SchemaReference

_MOST_MESSAGES = 100
_MOST_CHARACTERS = 2_000


class BadField(ValueError):
    """A field of a form that cannot be used, with a message for the user."""


def register_form(visit: Visit) -> PageView:
    """The form to register a schema; of a subject that exists, with its newest version."""
    name = visit.query.get("name", "")
    entered = {"name": name, "format": Format.AVRO.value, "schema": "", "references": ""}
    if name:
        latest = registry_of(visit).version(name)
        references = (f"{each.name} {each.subject} {each.version}" for each in latest.references)
        entered |= {
            "format": latest.format.value,
            "schema": schema_text(latest),
            "references": "\n".join(references),
        }
    return _register_view(entered)


def register(visit: Visit) -> PageView | Redirect:
    """Check a schema's compatibility, or register it."""
    registry, form = registry_of(visit), visit.form
    name = form.get("name", "").strip()
    try:
        if not name:
            raise BadField("Enter the name of a subject.")
        format = _format(form.get("format", ""))
        text, references = form.get("schema", ""), _references(form.get("references", ""))
        if form.get("action") == "check":
            found = registry.incompatibilities(name, text, format, references)
            return _register_view(form, verdict=found)
        registry.register(name, text, format, references, normalize="normalize" in form)
    except (BadField, CliError) as error:
        return _register_view(form, problem=error)
    return Redirect(subject_path(name))


def level_form(visit: Visit) -> PageView:
    """The form to set the compatibility level of a subject, or of all."""
    return _level_view(visit, visit.query.get("name", ""))


def set_level(visit: Visit) -> PageView | Redirect:
    """Set a compatibility level, or delete a subject's own."""
    registry, name = registry_of(visit), visit.form.get("name", "")
    path = f"config/{quoted(name)}" if name else "config"
    chosen = visit.form.get("level", "")
    try:
        if visit.form.get("action") == "delete":
            registry.request("DELETE", path)
        else:
            registry.request("PUT", path, {"compatibility": chosen})
    except CliError as error:
        return _level_view(visit, name, chosen, problem=error)
    return Redirect(subject_path(name) if name else "/schemas")


def delete_form(visit: Visit) -> PageView:
    """The form to delete versions of a subject."""
    return _delete_view(registry_of(visit), visit.query.get("name", ""), {})


def delete(visit: Visit) -> PageView | Redirect:
    """Delete a version or a whole subject, whose name was entered once more."""
    registry, form = registry_of(visit), visit.form
    name, version = form.get("name", ""), form.get("version", "")
    try:
        if form.get("confirmed", "") != name:
            raise BadField(f"Nothing was deleted: enter {name} to delete it.")
        if version != "all" and not (version.isascii() and version.isdigit()):
            raise BadField("Choose a version.")
        number = None if version == "all" else int(version)
        registry.delete(name, number, permanent=form.get("permanent") == "yes")
    except (BadField, CliError) as error:
        return _delete_view(registry, name, form, problem=error)
    return Redirect(subject_path(name) if _exists(registry, name) else "/schemas")


def _exists(registry: SchemaRegistry, name: str) -> bool:
    """Whether a subject has versions left, deleted ones included."""
    try:
        numbers_of(registry, name)
    except PageError:
        return False
    return True


def _format(text: str) -> Format:
    try:
        return Format(text)
    except ValueError:
        raise BadField(f"A schema has one of the formats {', '.join(Format)}.") from None


def _references(text: str) -> list[SchemaReference]:
    """The references of lines as `name subject version`."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        words = line.split()
        if len(words) != 3 or not (words[2].isascii() and words[2].isdigit()):
            raise BadField(f"A reference is a name, a subject and a version, not {line!r}.")
        found.append(SchemaReference(words[0], words[1], int(words[2])))
    return found


def _register_view(
    form: Mapping[str, str], *, verdict: list[str] | None = None, problem: Exception | None = None
) -> PageView:
    if verdict is not None:
        verdict = [each[:_MOST_CHARACTERS] for each in verdict[:_MOST_MESSAGES]]
    name = form.get("name", "")
    fields = ("name", "format", "schema", "references", "normalize")
    values = {
        "title": f"Register under {name}" if name else "Register a schema",
        "formats": list(Format),
        "form": {field: form.get(field, "") for field in fields},
        "verdict": verdict,
        "problem": _message(problem),
    }
    return PageView("schema_register.html", values, _status(problem))


def _level_view(
    visit: Visit, name: str, chosen: str = "", problem: Exception | None = None
) -> PageView:
    level = known(own_level, registry_of(visit), name)
    values = {
        "title": f"Compatibility of {name}" if name else "Compatibility of all subjects",
        "name": name,
        "levels": LEVELS,
        "level": level,
        "chosen": chosen or level,
        "problem": _message(problem),
    }
    return PageView("schema_level.html", values, _status(problem))


def _delete_view(
    registry: SchemaRegistry, name: str, form: Mapping[str, str], problem: Exception | None = None
) -> PageView:
    versions, deleted = numbers_of(registry, name)
    values = {
        "title": f"Delete versions of {name}",
        "name": name,
        "live": [each for each in versions[::-1] if each not in deleted],
        "deleted": sorted(deleted, reverse=True),
        "form": {field: form.get(field, "") for field in ("version", "confirmed")},
        "problem": _message(problem),
    }
    return PageView("schema_delete.html", values, _status(problem))


def _message(problem: Exception | None) -> str:
    if isinstance(problem, RegistryRefused):
        return f"{problem.message} (error code {problem.code})"
    return "" if problem is None else str(problem)


def _status(problem: Exception | None) -> int:
    match problem:
        case None:
            return 200
        case RegistryRefused() if 400 <= problem.status < 500 and problem.status != 401:
            return problem.status
        case CliError():
            return 502
        case _:
            return 400


LINK = subjects.LINK
ENTRIES = (
    *subjects.ENTRIES,
    Page("/schemas/register", register_form),
    Change("/schemas/register", register),
    Page("/schemas/level", level_form),
    Change("/schemas/level", set_level),
    Page("/schemas/delete", delete_form),
    Change("/schemas/delete", delete),
)
