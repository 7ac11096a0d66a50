"""Writes a row of docs/reference/conformance-results.md from a report of `wirekafka conformance`.

python -m compat_tests.conformance.results REPORT.json --broker NAME --version VERSION
    [--cluster "one node, plain"]
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "conformance-results.md"
_START, _END = "<!-- results: ", "<!-- end of results -->"
_LEVELS = ("core client", "transactions", "admin", "groups of Kafka 4", "security", "complete")
_KEY = (0, 2, 3)
"""The columns by which a row is replaced: broker, cluster and release."""


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("report", type=Path, help="what --json has printed")
    parser.add_argument("--broker", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--cluster", default="one node, plain")
    options = parser.parse_args(words)
    report = json.loads(options.report.read_text())
    row = row_of(report, options.broker, options.version, options.cluster)
    PAGE.write_text(with_row(PAGE.read_text(), row))


def row_of(report: Mapping[str, Any], broker: str, version: str, cluster: str) -> list[str]:
    """The cells of one row."""
    levels = {each["level"]: each for each in report["levels"]}
    counts = [f"{levels[name]['same']} of {levels[name]['cases']}" for name in _LEVELS]
    shown = ["-" if each == "0 of 0" else each for each in counts]
    return [broker, version, cluster, report["kafka"], report["started"][:10], *shown]


def with_row(page: str, row: Sequence[str]) -> str:
    """The page with a row, in place of an older row of the same cluster, sorted by broker."""
    before, start, rest = page.partition(_START)
    table, end, after = rest.partition(_END)
    assert start and end, "the page has no table of results"
    lines = table.split("\n")
    heads = [each for each in lines if each.startswith("|")][:2]
    rows = [_cells(each) for each in lines if each.startswith("|")][2:]
    kept = [each for each in rows if [each[at] for at in _KEY] != [row[at] for at in _KEY]]
    written = sorted([*kept, [re.sub(r"[|\n]", " ", each) for each in row]])
    body = [f"| {' | '.join(each)} |" for each in written]
    return before + start + "\n".join([lines[0], "", *heads, *body, "", ""]) + end + after


def _cells(line: str) -> list[str]:
    return [each.strip() for each in line.strip().strip("|").split("|")]


if __name__ == "__main__":
    main()
