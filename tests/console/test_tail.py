"""Following the end of a topic: what is new, within limits, and on a page while it is open."""

import itertools
import threading
from collections.abc import Iterator

import pytest

from tests.eventually import eventually
from wirekafka import Broker
from wirekafka.client.client import Client
from wirekafka.client.topic_changes import grow_topic
from wirekafka.console.pages import tailing
from wirekafka.console.records import tail as tails
from wirekafka.console.records.search import TextQuery
from wirekafka.console.records.tail import Tail, TailStep
from wirekafka.console.topic_reads import Chunk, TopicReads
from wirekafka.testing import Record

_numbers = itertools.count()


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"followed{next(_numbers)}"
    broker.create_topic(name, partitions=3)
    broker.produce(name, [Record(f"old {n}", partition=n) for n in range(3)])
    return name


@pytest.fixture
def reads(broker: Broker, topic: str) -> Iterator[TopicReads]:
    with Client(broker.bootstrap_servers) as client:
        yield TopicReads(client, topic)


def values(step: TailStep) -> list[str]:
    return [each.value.data.decode() for each in step.records if each.value is not None]


def test_only_records_after_the_beginning_are_returned_each_once(broker, topic, reads):
    tail = Tail(reads, ())
    assert tail.step() == TailStep()
    for n in range(3):
        broker.produce(topic, [Record(f"new {n}", partition=n)])
    step = tail.step()
    assert values(step) == ["new 0", "new 1", "new 2"] and step.matching == 3
    assert tail.step() == TailStep()
    assert tail.positions == {0: 2, 1: 2, 2: 2}


def test_a_filter_and_partitions_choose_records(broker, topic, reads):
    tail = Tail(reads, (1,), TextQuery("yes"))
    broker.produce(topic, [Record("yes", partition=0), Record("no", partition=1)])
    broker.produce(topic, [Record("yes 1", partition=1)])
    assert values(tail.step()) == ["yes 1"]


def test_a_tail_goes_on_from_positions(broker, topic, reads):
    assert values(Tail(reads, (), positions={1: 0, 7: 0, 2: 99}).step()) == ["old 1"]


def test_of_too_many_records_the_newest_are_returned_and_the_others_counted(broker, topic, reads):
    tail = Tail(reads, ())
    broker.produce(topic, [Record(f"{n}", partition=0) for n in range(100)])
    step = tail.step()
    assert values(step) == [f"{n}" for n in range(100 - tails.MOST_ROWS, 100)]
    assert step.matching == 100 and step.skipped == 0


def test_a_tail_that_is_far_behind_goes_on_at_the_end(broker, topic, reads, monkeypatch):
    monkeypatch.setattr(tails, "MOST_BEHIND", 50)
    monkeypatch.setattr(tails, "_STEP_S", -1.0)
    tail = Tail(reads, (0,))
    broker.produce(topic, [Record(f"{n}", partition=0) for n in range(100)])
    step = tail.step()
    assert values(step) == ["0"], "one record is examined at least"
    assert step.skipped == 99
    assert tail.positions == {0: 101}


def test_a_step_ends_after_its_time_and_the_next_goes_on(broker, topic, reads, monkeypatch):
    monkeypatch.setattr(tails, "_STEP_S", -1.0)
    tail = Tail(reads, (0,))
    broker.produce(topic, [Record(f"{n}", partition=0) for n in range(3)])
    assert [values(tail.step()) for _ in range(4)] == [["0"], ["1"], ["2"], []]


def test_partitions_that_are_added_are_followed_from_their_start(broker, topic, reads):
    clock = [0.0]
    tail = Tail(reads, (), now_s=lambda: clock[0])
    with Client(broker.bootstrap_servers) as client:
        grow_topic(client, topic, 4)
    broker.produce(topic, [Record("added", partition=3)])
    assert tail.step() == TailStep()
    clock[0] = 11.0
    assert values(tail.step()) == ["added"]


def test_of_many_partitions_those_with_new_records_are_read_in_turn(
    broker, topic, reads, monkeypatch
):
    monkeypatch.setattr(tails, "MOST_FETCHED", 1)
    asked: list[set[int]] = []
    fetch = reads.fetch

    def noted(positions: dict[int, int], *limits: int) -> list[Chunk]:
        asked.append(set(positions))
        return fetch(positions, *limits)

    monkeypatch.setattr(reads, "fetch", noted)
    tail = Tail(reads, ())
    assert tail.step() == TailStep() and asked == []
    broker.produce(topic, [Record(f"{n}", partition=n) for n in (0, 0, 2)])
    assert [values(tail.step()) for _ in range(3)] == [["0", "0"], ["2"], []]
    assert asked == [{0}, {2}]


def test_the_rate_is_that_of_the_last_seconds(broker, topic, reads):
    clock = [0.0]
    tail = Tail(reads, (), now_s=lambda: clock[0])
    assert tail.records_per_s() is None
    for clock[0] in (1.0, 2.0):
        broker.produce(topic, [Record("x", partition=0) for _ in range(30)])
        tail.step()
    assert tail.records_per_s() == 30.0
    for clock[0] in (3.0, 4.0, 5.0, 6.0, 7.0, 8.0):
        tail.step()
    assert tail.records_per_s() == 0.0


def test_deleted_records_do_not_stop_a_tail(broker, topic, reads):
    tail = Tail(reads, (0,), positions={0: 0})
    tail.positions[0] = 99
    assert tail.step().failed == {0: "OFFSET_OUT_OF_RANGE"}
    broker.produce(topic, [Record("after", partition=0)])
    assert values(tail.step()) == ["after"]


def test_new_records_appear_on_an_open_page(broker, site, topic):
    page = site.get(f"/topics/{topic}/live", text="wanted", columns="offset,value")
    assert page.words("nav.tabs a[aria-current]") == "Live"
    live = page.soup.select_one("[data-live]")["data-live"]
    events = site.events(live)
    assert next(events)[0] == "at"
    broker.produce(topic, [Record("<b>wanted</b>", partition=2), Record("other", partition=2)])
    html = next(html for kind, html in events if kind == "row")
    assert "&lt;b&gt;wanted&lt;/b&gt;" in html and html.count("<td") == 2
    at = next(html for kind, html in events if kind == "at")
    assert at == "0:1,1:1,2:3"
    status = next(html for kind, html in events if kind == "status")
    assert "1 new that pass the filter" in status
    events.close()
    resumed = site.events(f"{live}&at=0:1,1:1,2:1")
    assert next(resumed)[0] == "row"
    resumed.close()


def test_only_a_few_pages_follow_topics_at_a_time(broker, site, topic, monkeypatch):
    monkeypatch.setattr(tailing, "_tails", threading.BoundedSemaphore(1))
    first = site.events(f"/topics/{topic}/live/events")
    assert next(first)[0] == "at"
    refused = dict(site.events(f"/topics/{topic}/live/events"))
    assert "close one of them" in refused["failed"]
    first.close()

    def is_free() -> bool:
        events = site.events(f"/topics/{topic}/live/events")
        kind, _ = next(events)
        events.close()
        return kind == "at"

    eventually(is_free)


def test_nothing_is_read_once_the_page_was_closed(broker, site, topic, monkeypatch):
    steps: list[float] = []
    step = Tail.step
    monkeypatch.setattr(Tail, "step", lambda self: (steps.append(1.0), step(self))[1])
    ended = threading.Event()
    slot = tailing._slot

    class Noted:
        def __init__(self) -> None:
            self.slot = slot()

        def __enter__(self) -> None:
            self.slot.__enter__()

        def __exit__(self, *error: object) -> None:
            self.slot.__exit__(*error)
            ended.set()

    monkeypatch.setattr(tailing, "_slot", Noted)
    events = site.events(f"/topics/{topic}/live/events")
    assert next(events)[0] == "at"
    events.close()
    assert ended.wait(10)
    assert steps


def test_a_page_without_a_topic_or_with_an_unusable_filter_is_an_error(site, topic):
    assert site.get("/topics/missing/live").status == 404
    assert site.get(f"/topics/{topic}/live", partition="9").status == 404
    assert site.get(f"/topics/{topic}/live", key_form="x").status == 400
