"""The page of Spark queries: what their sinks have committed, what their sources have not read."""

import pytest

from tests.eventually import eventually
from tests.sink_markers import commit_markers, marker
from wirekafka.client.client import Client
from wirekafka.client.sink_marker import SINK_PREFIX
from wirekafka.console.source import GroupLag
from wirekafka.console.spark_queries import QueryProgress, query_progress, sink_markers

QUERY = "560117a8-6201-4c93-bcf8-cd62720e56d4"
CHECKPOINT = "file:/tmp/sinkc/tmpiox_gvt2/ck"
SPARKS_NAME = "spark-kafka-source--659219240"
"""The name that Spark 4.0 has given to the first source of a query with this checkpoint."""


def reader(name: str, lag: int, behind_ms: int | None = 0) -> GroupLag:
    return GroupLag(name, "reader", "", lag, behind_ms, 2, None, 500, is_query=True)


@pytest.fixture(scope="module")
def sinks(broker):
    broker.create_topic("results", partitions=3)
    flights = [marker(QUERY, batch, checkpoint=CHECKPOINT, total=9000) for batch in (6, 7)]
    for name, metadata in (
        ("flights", flights),
        ("<b>weather</b>", [marker(QUERY, 2)]),
        ("strange", ["", "{not JSON", '{"query": 5, "batch": "x"}']),
    ):
        commit_markers(broker.bootstrap_servers, name, "results", *metadata)


def test_the_newest_marker_of_each_sink_is_read(broker, sinks):
    with Client(broker.bootstrap_servers) as client:
        markers, problems = sink_markers(client)
    assert not problems
    assert {name: each.batch for name, each in markers.items()} == {
        "flights": 7,
        "<b>weather</b>": 2,
    }
    flights = markers["flights"]
    assert (flights.query, flights.records, flights.at_ms) == (QUERY, 1200, 7000)


def test_the_page_shows_the_last_batch_of_each_sink_of_any_cluster(sinks, site):
    page = site.get("/queries", sort="name")
    weather, flights = page.rows("#queries")
    assert flights[0] == f"flights {QUERY} {CHECKPOINT}"
    assert flights[4:7] == ["7", "1 200", "9 000"] and flights[7].endswith(" ago")
    assert weather[0].startswith("<b>weather</b>") and weather[4:7] == ["2", "1 200", "1 200"]
    assert flights[1:4] == weather[1:4] == ["–", "–", "–"]
    assert "Only a wirekafka broker knows this" in page.words(".unknown")
    assert page.soup.select_one("#page")["data-refresh"] == "10"


def test_a_query_is_found_by_its_id_and_by_its_checkpoint(sinks, site):
    for text in ("tmpiox", QUERY[:8] + "-6201-4c93-bcf8-cd62720e56d4", "flights"):
        names = [row[0].split()[0] for row in site.get("/queries", q=text).rows("#queries")]
        assert "flights" in names


def test_the_name_of_a_query_leads_to_the_group_of_its_sink(sinks, site):
    link = site.get("/queries", q="flights").soup.select_one("#queries tbody a")
    page = eventually(lambda: site.get(str(link["href"])))
    assert page.words("h1") == f"Group {SINK_PREFIX}flights"


def test_a_source_belongs_to_the_sink_with_its_checkpoint_or_query_id():
    markers = {"flights": marker(QUERY, 7, checkpoint=CHECKPOINT), "weather": marker("another", 1)}
    readers = [
        reader(SPARKS_NAME, 5, 4000),
        reader(f"wirekafka-source-{QUERY}", 7, 9000),
        reader("spark-kafka-source-17", 3),
        GroupLag("assigned", "reader", "", 9, 0, 1, None),
    ]
    first, second, third = query_progress(markers, readers)
    assert [each.name for each in (first, second, third)] == [
        "flights",
        "weather",
        "spark-kafka-source-17",
    ]
    assert (first.lag, first.behind_ms, len(first.sources)) == (12, 9000, 2)
    assert (second.lag, second.behind_ms, second.idle_ms) == (None, None, None)
    assert (third.lag, third.marker) == (3, None)


def test_seconds_behind_are_unknown_if_one_source_does_not_know_them():
    assert QueryProgress(None, None, [reader("a", 1, 5), reader("b", 1, None)]).behind_ms is None
