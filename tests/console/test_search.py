"""Searching a whole topic: what is found, progress, limits and cancellation."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator

import confluent_kafka
import pytest

from wirekafka import Broker
from wirekafka.client.client import Client
from wirekafka.console.records.search import (
    BadQuery,
    FieldQuery,
    Query,
    Search,
    SearchProgress,
    SearchWish,
    TextQuery,
)
from wirekafka.console.topic_reads import Positions, TopicReads
from wirekafka.testing import Record

Find = Callable[..., list[SearchProgress]]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"searched{next(_numbers)}"
    broker.create_topic(name, partitions=3)
    return name


@pytest.fixture
def find(broker: Broker, topic: str) -> Iterator[Find]:
    with Client(broker.bootstrap_servers) as client:

        def find(query: Query, **wish: object) -> list[SearchProgress]:
            search = Search(TopicReads(client, topic), query, SearchWish((0, 1, 2), **wish))
            return list(search.run())

        yield find


@pytest.fixture
def omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partition 1 is in no response with offsets."""
    listed = TopicReads.offsets

    def offsets(self: TopicReads, partitions: Iterable[int], timestamp: int) -> Positions:
        return {
            index: at for index, at in listed(self, partitions, timestamp).items() if index != 1
        }

    monkeypatch.setattr(TopicReads, "offsets", offsets)


def found(reports: list[SearchProgress]) -> list[str]:
    return sorted(
        each.value.data.decode() if each.value else each.problem
        for report in reports
        for each in report.matches
    )


def test_a_text_is_found_in_keys_values_and_headers(broker, topic, find):
    broker.produce(
        topic,
        [
            Record("in its key", key=b"a needle b", partition=0),
            Record("needle in the value", partition=1),
            Record("header value", headers=(("h", b"needle"), ("none", None)), partition=2),
            Record("header name", headers=(("needle", None),), partition=2),
            Record("nothing", partition=0),
            Record("Needle", partition=0),
            Record(None, partition=0),
        ],
    )
    exact = ["header name", "header value", "in its key", "needle in the value"]
    assert found(find(TextQuery("needle"))) == exact
    assert found(find(TextQuery("nEEdle", ignores_case=True))) == ["Needle", *exact]


@pytest.mark.parametrize(
    ("path", "value", "matches"),
    [
        ("id", "7", ["number", "text"]),
        ("id", '"7"', ["text"]),
        ("user.name", "Zoë", ["nested"]),
        ("$.user.tags.1", "b", ["nested"]),
        ("user.tags", '["a", "b"]', ["nested"]),
        ("flag", "true", ["flag"]),
        ("flag", "1", []),
        ("none", "null", ["none"]),
        ("absent", "null", []),
        ("esc/aped", "x", ["escaped"]),
        ("id", "7.0", ["number"]),
    ],
)
def test_a_field_is_compared_as_json(broker, topic, find, path, value, matches):
    documents = [
        '{"id": 7, "it": "number"}',
        '{"id": "7", "it": "text"}',
        '{"it": "nested", "user": {"name": "Zo\\u00eb", "tags": ["a", "b"]}}',
        '{"flag": true, "it": "flag"}',
        '{"none": null, "it": "none"}',
        '{"esc\\/aped": "x", "it": "escaped"}',
        "not JSON: id 7",
        "[" * 100_000,
    ]
    broker.produce(topic, [Record(each) for each in documents])
    texts = found(find(FieldQuery(path, value)))
    assert sorted(json.loads(text)["it"] for text in texts) == matches


def test_empty_queries_are_refused():
    for make in (lambda: TextQuery(""), lambda: FieldQuery("", "x"), lambda: FieldQuery("$.", "x")):
        with pytest.raises(BadQuery):
            make()


def test_progress_ends_with_everything_read(broker, topic, find):
    for _ in range(12):
        broker.produce(topic, [Record("x" * 700_000, partition=0)])
    broker.produce(topic, [Record("y" * 10, partition=1)])
    reports = find(TextQuery("y"))
    assert len(reports) > 2
    percents = [each.percent for each in reports]
    assert percents == sorted(percents) and percents[-1] == 100
    assert (reports[-1].end, reports[-1].read_records) == ("complete", 13)
    assert [each.end for each in reports[:-1]] == [""] * (len(reports) - 1)


def test_an_empty_topic_is_searched_at_once(find):
    [report] = find(TextQuery("x"))
    assert (report.percent, report.end) == (100, "complete")


def test_a_search_goes_on_within_a_batch_whose_records_take_long(broker, topic, find, monkeypatch):
    """Each step reports progress, and no record is found twice or left out."""
    monkeypatch.setattr("wirekafka.console.records.search._STEP_S", 0)
    broker.produce(topic, [Record(f"x{number}", partition=0) for number in range(8)])
    reports = find(TextQuery("x"))
    assert found(reports) == [f"x{number}" for number in range(8)]
    assert len(reports) >= 4
    percents = [each.percent for each in reports]
    assert percents == sorted(percents) and percents[-1] == 100
    assert (reports[-1].end, reports[-1].read_records) == ("complete", 8)


def test_matches_are_limited(broker, topic, find):
    broker.produce(topic, [Record(f"x{number}") for number in range(100)])
    reports = find(TextQuery("x"), most=7)
    assert (len(found(reports)), reports[-1].end) == (7, "enough")
    assert reports[-1].done_offsets == 7, "another search goes on behind the last match"


def test_a_search_can_begin_at_offsets(broker, topic, find):
    broker.produce(topic, [Record(f"x{number}", partition=0) for number in range(10)])
    assert found(find(TextQuery("x"), starts={0: 8})) == ["x8", "x9"]


def test_records_written_meanwhile_do_not_prolong_a_search(broker, topic):
    for _ in range(4):
        broker.produce(topic, [Record("x" * 700_000, partition=0)])
    with Client(broker.bootstrap_servers) as client:
        search = Search(TopicReads(client, topic), TextQuery("x"), SearchWish((0,)))
        count = 0
        for report in search.run():
            count += len(report.matches)
            broker.produce(topic, [Record("x" * 700_000, partition=0)])
    assert (count, report.end, report.all_offsets) == (4, "complete", 4)


def test_a_partition_that_its_leader_leaves_out_is_no_end_of_a_search(broker, topic, find, omitted):
    broker.produce(topic, [Record(f"v{index}", partition=index) for index in range(3)])
    reports = find(TextQuery("v"))
    assert found(reports) == ["v0", "v2"]
    assert reports[-1].failed == {1: "its leader has left it out"}


def test_a_search_can_be_cancelled(broker, topic):
    for _ in range(12):
        broker.produce(topic, [Record("x" * 700_000, partition=0)])
    with Client(broker.bootstrap_servers) as client:
        search = Search(TopicReads(client, topic), TextQuery("z"), SearchWish((0,)))
        reports = []
        for report in search.run():
            reports.append(report)
            search.cancel()
    assert len(reports) == 2
    assert reports[-1].end == "cancelled" and reports[-1].percent < 50


def test_bombs_are_counted_and_passed(broker, topic, find, monkeypatch):
    monkeypatch.setattr("wirekafka.console.records.search.INFLATED_BYTES", 100_000)
    made = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "compression.type": "zstd"}
    )
    for _ in range(2):
        made.produce(topic, "0" * 900_000, partition=1)
        assert made.flush(10) == 0
    broker.produce(topic, [Record("a 0", partition=1)])
    reports = find(TextQuery("0"))
    assert reports[-1].unreadable == 2
    texts = found(reports)
    assert texts[1:] == ["a 0"] and texts[0].startswith("The batch of offset 0 cannot be shown")


def test_aborted_records_are_found_with_their_state(broker, topic, find):
    made = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic}
    )
    made.init_transactions(10)
    for end in (made.abort_transaction, made.commit_transaction):
        made.begin_transaction()
        made.produce(topic, f"x {end.__name__}", partition=0)
        assert made.flush(10) == 0
        end(10)
    assert [
        (each.value.data.decode(), str(each.transaction))
        for report in find(TextQuery("x "))
        for each in report.matches
    ] == [("x abort_transaction", "aborted"), ("x commit_transaction", "committed")]
