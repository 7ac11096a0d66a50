"""The answers that were recorded from Apache Kafka: a JSON file for each book.

    {"to a missing topic": [{"kafka": "3.9 4.3 4.4", "versions": "3-12", "answers": {...}}, ...]}

`answers` has the steps of a case in their order; `compat_tests.conformance.record` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from wirekafka.conformance.case import Case
from wirekafka.conformance.plain import Plain

RELEASES = ("3.9", "4.3", "4.4")
"""The releases of Apache Kafka whose answers are recorded, oldest first."""
_LINE = 118

Recorded = dict[str, dict[int, Plain]]
"""The expectations of a case, by release and by version of its API."""


@cache
def _read(name: str) -> dict[str, list[dict[str, Any]]]:
    file = files(__name__) / f"{name}.json"
    if not file.is_file():
        return {}
    found: dict[str, list[dict[str, Any]]] = json.loads(file.read_text())
    return found


def of_case(case: Case) -> Recorded:
    """What Apache Kafka answers in a case; a release that cannot play it is left out."""
    found: Recorded = {}
    for entry in _read(case.file).get(case.title, []):
        for release in entry["kafka"].split():
            for version in numbers(entry["versions"]):
                found.setdefault(release, {})[version] = entry["answers"]
    return found


def text_of(cases: Mapping[str, Recorded]) -> str:
    """The file of one API, from the expectations of its cases by title."""
    lines = []
    for title, recorded in cases.items():
        laid_out = _laid_out([*entries(recorded)], 2)
        lines.append(f"  {json.dumps(title, ensure_ascii=False)}: {laid_out}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def entries(recorded: Recorded) -> list[dict[str, Plain]]:
    """Equal expectations together, with all releases and versions that have them."""
    places: dict[str, dict[int, list[str]]] = {}
    for release in RELEASES:
        for version, answers in recorded.get(release, {}).items():
            text = json.dumps(answers)
            places.setdefault(text, {}).setdefault(version, []).append(release)
    found: list[dict[str, Plain]] = []
    for text, versions in places.items():
        by_releases: dict[str, list[int]] = {}
        for version, releases in versions.items():
            by_releases.setdefault(" ".join(releases), []).append(version)
        for kafka, found_in in by_releases.items():
            entry: dict[str, Plain] = {"kafka": kafka, "versions": ranges(found_in)}
            found.append({**entry, "answers": json.loads(text)})
    return sorted(found, key=lambda each: numbers(str(each["versions"]))[0])


def _laid_out(value: Plain, indent: int) -> str:
    """JSON on one line if it fits, otherwise an element a line."""
    whole = json.dumps(value, ensure_ascii=False)
    if len(whole) + indent <= _LINE or not value or not isinstance(value, dict | list):
        return whole
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        parts = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {_laid_out(each, indent + 2)}"
            for key, each in value.items()
        ]
        return "{\n" + ",\n".join(parts) + "\n" + " " * indent + "}"
    if len(value) == 1:
        return f"[{_laid_out(value[0], indent)}]"
    parts = [inner + _laid_out(each, indent + 2) for each in value]
    return "[\n" + ",\n".join(parts) + "\n" + " " * indent + "]"


def ranges(versions: Iterable[int]) -> str:
    """Numbers as ranges, such as "0-3,5"."""
    parts: list[list[int]] = []
    for each in sorted(versions):
        if parts and parts[-1][1] == each - 1:
            parts[-1][1] = each
        else:
            parts.append([each, each])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)


def numbers(text: str) -> list[int]:
    """The numbers of ranges such as "0-3,5"."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
