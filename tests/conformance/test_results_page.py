"""The table of results is written from reports."""

from __future__ import annotations

import json

from compat_tests.conformance.results import PAGE, row_of, with_row
from tests.conformance.invented import various
from wirekafka.conformance.reports.json_document import as_json


def test_a_report_becomes_a_row() -> None:
    row = row_of(json.loads(as_json(various())), "kfake", "1.2", "one node, plain")
    assert row == [
        *("kfake", "1.2", "one node, plain", "4.4", "2026-01-02"),
        *("31 of 35", "-", "-", "0 of 2", "1 of 2", "32 of 39"),
    ]


def test_a_row_replaces_the_older_row_of_the_same_cluster() -> None:
    page = PAGE.read_text()
    before = page.count("\n| ")
    row = row_of(json.loads(as_json(various())), "a broker", "1.2", "one node, plain")
    first = with_row(page, row)
    assert first.count("\n| ") == before + 1
    row[1] = "1.3"
    second = with_row(first, row)
    assert second == first.replace("| 1.2 | one", "| 1.3 | one")
    row[2] = "three nodes, plain"
    assert with_row(second, row).count("\n| ") == before + 2
    assert first.endswith(page.partition("<!-- end of results -->")[2])
