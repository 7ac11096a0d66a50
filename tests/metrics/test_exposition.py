"""The text of tables, as the parsers of prometheus_client read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from wirekafka.metrics.exposition import COUNTER, GAUGE, INFO, SUMMARY, Column, Summary, Table

Parse = Callable[[Table], dict[str, Metric]]


def _prometheus(table: Table) -> dict[str, Metric]:
    text = "".join(table.texts())
    return {family.name: family for family in text_string_to_metric_families(text)}


def _openmetrics(table: Table) -> dict[str, Metric]:
    text = "".join(table.texts(openmetrics=True)) + "# EOF\n"
    families: Iterable[Metric] = openmetrics.text_string_to_metric_families(text)
    return {family.name: family for family in families}


each_format = pytest.mark.parametrize("parse", [_prometheus, _openmetrics])


def _table() -> Table:
    return Table(
        ["topic", "partition"],
        [Column("size", GAUGE, "Its size."), Column("bytes_total", COUNTER, 'Of "it".')],
    )


@each_format
def test_rows_are_samples_of_each_column(parse: Parse) -> None:
    table = _table()
    table.fill([(("a", "0"), (1, 10)), (("a", "1"), (2.5, 20))])
    found = parse(table)
    assert [(s.labels, s.value) for s in found["size"].samples] == [
        ({"topic": "a", "partition": "0"}, 1),
        ({"topic": "a", "partition": "1"}, 2.5),
    ]
    assert [s.name for s in found["bytes"].samples] == ["bytes_total"] * 2
    assert (found["size"].type, found["bytes"].type) == ("gauge", "counter")
    assert found["bytes"].documentation == 'Of "it".'


@each_format
def test_a_changed_value_changes_and_a_row_that_is_not_put_again_is_dropped(parse: Parse) -> None:
    table = _table()
    table.fill([(("a", "0"), (1, 10)), (("a", "1"), (2, 20))])
    parse(table)
    table.fill([(("a", "1"), (3, 20))])
    assert [s.value for s in parse(table)["size"].samples] == [3]


@each_format
def test_labels_are_escaped_and_empty_ones_left_out(parse: Parse) -> None:
    table = _table()
    table.fill([(('a"\\\nb', ""), (1, 2))])
    assert [s.labels for s in parse(table)["size"].samples] == [{"topic": 'a"\\\nb'}]


@each_format
def test_none_is_no_sample_and_a_column_without_samples_is_left_out(parse: Parse) -> None:
    table = _table()
    table.fill([(("a", "0"), (None, 1))])
    assert set(parse(table)) == {"bytes"}
    table.fill([])
    assert parse(table) == {}


@each_format
def test_a_summary_has_percentiles_and_a_count(parse: Parse) -> None:
    table = Table(["request"], [Column("times", SUMMARY, "Times.")])
    table.fill([(("Fetch",), (Summary({"0.50": 1.5, "0.99": 3.0}, 7),))])
    samples = parse(table)["times"].samples
    assert [(s.name, s.labels, s.value) for s in samples] == [
        ("times", {"request": "Fetch", "quantile": "0.50"}, 1.5),
        ("times", {"request": "Fetch", "quantile": "0.99"}, 3.0),
        ("times_count", {"request": "Fetch"}, 7),
    ]


@each_format
def test_tables_without_labels_and_of_unknown_type(parse: Parse) -> None:
    table = Table([], [Column("state", INFO, "S."), Column("all", SUMMARY, "A.")])
    table.fill([((), (float("inf"), Summary({"0.50": 0.0}, 0)))])
    found = parse(table)
    assert found["state"].samples[0].value == float("inf")
    assert found["all"].samples[1].name == "all_count"
