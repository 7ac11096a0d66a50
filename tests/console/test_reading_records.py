"""Pages of records: their order, their transactions, seeking, and what is too large."""

import itertools
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from wirekafka import Broker
from wirekafka.client.client import Client, CliError
from wirekafka.codec.compression import Codec
from wirekafka.console.records.record_pages import (
    PageWish,
    RecordPage,
    newest_partitions,
    read_page,
    read_record,
)
from wirekafka.console.topic_reads import RecordTransaction, Seen, TopicReads
from wirekafka.testing import Record

Reads = Callable[[str], TopicReads]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(log_cleaner_backoff_ms=200) as broker:
        yield broker


@pytest.fixture
def reads(broker: Broker) -> Iterator[Reads]:
    with Client(broker.bootstrap_servers) as client:
        yield lambda topic: TopicReads(client, topic)


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = request.node.originalname + str(next(_numbers))
    broker.create_topic(name, partitions=3, retention_ms=-1)
    return name


_numbers = itertools.count()


def producer(broker: Broker, transactional_id: str, **options: object) -> confluent_kafka.Producer:
    made = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": transactional_id,
            **options,
        }
    )
    made.init_transactions(10)
    return made


def write(made: confluent_kafka.Producer, topic: str, *values: str, partition: int = 0) -> None:
    for value in values:
        made.produce(topic, value, partition=partition)
    assert made.flush(10) == 0


def values(seen: list[Seen]) -> list[str]:
    return [
        each.problem or each.control or (each.value.data.decode() if each.value else "null")
        for each in seen
    ]


def states(seen: list[Seen]) -> list[tuple[str, str]]:
    return list(zip(values(seen), [str(each.transaction) for each in seen], strict=True))


def all_pages(reads: TopicReads, wish: PageWish) -> list[RecordPage]:
    pages = [read_page(reads, wish)]
    while not pages[-1].is_last:
        assert len(pages) < 100
        at = pages[-1].following
        pages.append(read_page(reads, PageWish(wish.partitions, wish.count, wish.newest_first, at)))
    return pages


def spread(broker: Broker, topic: str, count: int) -> list[str]:
    """Write records with rising timestamps to three partitions in turn; returns their values."""
    written = [str(number) for number in range(count)]
    broker.produce(
        topic,
        [
            Record(value, partition=number % 3, timestamp_ms=1_000_000 + number)
            for number, value in enumerate(written)
        ],
    )
    return written


@pytest.mark.parametrize("count", [1, 7, 50, 200])
@pytest.mark.parametrize("newest_first", [True, False])
def test_pages_together_have_every_record_in_order(broker, reads, topic, count, newest_first):
    written = spread(broker, topic, 100)
    pages = all_pages(reads(topic), PageWish((0, 1, 2), count, newest_first))
    found = [value for page in pages for value in values(page.records)]
    assert found == (written[::-1] if newest_first else written)
    assert all(len(page.records) <= count for page in pages)


def test_a_page_of_one_partition_can_begin_anywhere(broker, reads, topic):
    broker.produce(topic, [Record(str(number), partition=1) for number in range(20)])
    forward = read_page(reads(topic), PageWish((1,), 3, False, {1: 7}))
    assert values(forward.records) == ["7", "8", "9"]
    assert forward.following == {1: 10}
    back = read_page(reads(topic), PageWish((1,), 3, True, {1: 7}))
    assert values(back.records) == ["6", "5", "4"]
    assert back.following == {1: 4}


@pytest.mark.parametrize("at", [-5, 1 << 62])
def test_positions_outside_of_the_log_are_moved_into_it(broker, reads, topic, at):
    broker.produce(topic, [Record("a", partition=0), Record("b", partition=0)])
    for newest_first in (True, False):
        page = read_page(reads(topic), PageWish((0,), 5, newest_first, {0: at}))
        assert page.is_last
        assert len(page.records) == (2 if newest_first == (at > 0) else 0)


def test_a_page_names_the_partition_that_its_leader_leaves_out(broker, reads, topic, monkeypatch):
    broker.produce(topic, [Record(f"v{index}", partition=index) for index in range(3)])
    reading = reads(topic)
    listed = reading.offsets
    monkeypatch.setattr(
        reading,
        "offsets",
        lambda *wanted: {index: at for index, at in listed(*wanted).items() if index != 1},
    )
    page = read_page(reading, PageWish((0, 1, 2)))
    assert sorted(values(page.records)) == ["v0", "v2"]
    assert page.failed == {1: "its leader has left it out"}


def test_a_time_is_an_offset_to_begin_with(broker, reads, topic):
    spread(broker, topic, 9)
    assert reads(topic).offsets([0, 1, 2], 1_000_004) == {0: 2, 1: 1, 2: 1}
    assert reads(topic).offsets([0, 1, 2], 1_000_008) == {0: -1, 1: -1, 2: 2}


def test_records_have_all_that_was_sent(broker, reads, topic):
    broker.produce(
        topic, [Record(None, key=b"k", headers=(("h", b"v"), ("n", None)), timestamp_ms=77)]
    )
    [seen] = read_page(reads(topic), PageWish((0, 1, 2), kept_bytes=1 << 20)).records
    assert (seen.value, seen.timestamp) == (None, 77)
    assert seen.key is not None and seen.key.data == b"k"
    assert [(name, value and value.data) for name, value in seen.headers] == [
        ("h", b"v"),
        ("n", None),
    ]
    assert seen.transaction is RecordTransaction.NONE


def test_transactions_have_their_state(broker, reads, topic):
    first, second = (producer(broker, f"{topic}-{name}") for name in "ab")
    first.begin_transaction()
    write(first, topic, "a1", "a2")
    first.commit_transaction(10)
    second.begin_transaction()
    write(second, topic, "b1")
    second.abort_transaction(10)
    broker.produce(topic, [Record("plain", partition=0)])
    second.begin_transaction()
    write(second, topic, "b2")
    wanted = [
        ("a1", "committed"),
        ("a2", "committed"),
        ("commit", ""),
        ("b1", "aborted"),
        ("abort", ""),
        ("plain", ""),
        ("b2", "open"),
    ]
    for count in (1, 2, 50):
        pages = all_pages(reads(topic), PageWish((0,), count, False))
        assert [each for page in pages for each in states(page.records)] == wanted
        pages = all_pages(reads(topic), PageWish((0,), count, True))
        assert [each for page in pages for each in states(page.records)] == wanted[::-1]
    second.abort_transaction(10)


def test_ended_transactions_behind_an_open_one_have_their_state(broker, reads, topic):
    """The lists of aborted transactions end where the oldest open transaction begins."""
    hanging, other = (producer(broker, f"{topic}-{name}") for name in "ab")
    hanging.begin_transaction()
    write(hanging, topic, "open")
    for end in (other.abort_transaction, other.commit_transaction):
        other.begin_transaction()
        write(other, topic, end.__name__)
        end(10)
    other.begin_transaction()
    write(other, topic, "also open")
    wanted = [
        ("open", "open"),
        ("abort_transaction", "aborted"),
        ("abort", ""),
        ("commit_transaction", "committed"),
        ("commit", ""),
        ("also open", "open"),
    ]
    for count in (1, 50):
        pages = all_pages(reads(topic), PageWish((0,), count, False))
        assert [each for page in pages for each in states(page.records)] == wanted
    [aborted] = [read_record(reads(topic), 0, 1, 100)]
    assert aborted is not None and aborted.transaction is RecordTransaction.ABORTED
    hanging.abort_transaction(10)
    other.abort_transaction(10)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_of_any_compression_are_read(broker, reads, topic, compression):
    made = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "compression.type": compression,
            "linger.ms": 100,
        }
    )
    write(made, topic, *(f"value {number}" for number in range(100)))
    page = read_page(reads(topic), PageWish((0,), 5))
    assert values(page.records) == [f"value {number}" for number in range(99, 94, -1)]
    assert {each.batch.compression for each in page.records} == {Codec[compression.upper()]}


def test_large_values_are_shortened(broker, reads, topic):
    broker.produce(topic, [Record("x" * 500_000, partition=0)])
    [seen] = read_page(reads(topic), PageWish((0,), kept_bytes=10)).records
    assert seen.value == (b"x" * 10, 500_000)
    whole = read_record(reads(topic), 0, 0, 1 << 30)
    assert whole is not None and whole.value == (b"x" * 500_000, 500_000)


def test_pages_of_large_records_are_read_with_few_bytes(broker, reads, topic):
    broker.produce(
        topic, [Record(f"{number}" + "x" * 900_000, partition=0) for number in range(30)]
    )
    reading = reads(topic)
    page = read_page(reading, PageWish((0,), 4, kept_bytes=2))
    assert values(page.records) == ["29", "28", "27", "26"]
    assert reading.fetched_bytes < 15_000_000


def test_a_bomb_is_refused_and_the_other_records_are_shown(broker, reads, topic, monkeypatch):
    monkeypatch.setattr("wirekafka.console.topic_reads.INFLATED_BYTES", 1_000_000)
    bomb = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "compression.type": "gzip",
            "message.max.bytes": 20_000_000,
        }
    )
    broker.produce(topic, [Record("before", partition=0)])
    write(bomb, topic, "0" * 5_000_000)
    broker.produce(topic, [Record("after", partition=0)])
    problem = (
        "The batch of offset 1 cannot be shown: Compressed records inflate to more than"
        " 1000000 bytes"
    )
    for newest_first, wanted in ((False, ["before", problem, "after"]), (True, None)):
        for count in (1, 50):
            pages = all_pages(reads(topic), PageWish((0,), count, newest_first))
            found = [value for page in pages for value in values(page.records)]
            assert found == (wanted or ["after", problem, "before"])


def test_gaps_of_compaction_are_skipped(broker, reads):
    name = "compacted"
    broker.create_topic(
        name,
        config={
            "cleanup.policy": "compact",
            "segment.bytes": 1 << 20,
            "min.cleanable.dirty.ratio": 0.01,
            "min.compaction.lag.ms": 0,
        },
    )
    broker.produce(name, [Record("first", key="once")])
    for _ in range(6):
        broker.produce(name, [Record("x" * 3000, key="again") for _ in range(500)])
    with Client(broker.bootstrap_servers) as client:

        def is_compacted() -> bool:
            page = read_page(TopicReads(client, name), PageWish((0,), 3, False))
            return page.records[1].offset > 100

        broker.wait_for(is_compacted, timeout_s=30)
        pages = all_pages(TopicReads(client, name), PageWish((0,), 50, True))
    found = [each for page in pages for each in page.records]
    assert values(found)[-1] == "first"
    offsets = [each.offset for each in found]
    assert offsets == sorted(set(offsets), reverse=True)


def test_partitions_with_the_newest_records_are_chosen(broker, reads):
    broker.create_topic("wide", partitions=60, retention_ms=-1)
    assert len(newest_partitions(reads("wide"))) == 50
    broker.produce(
        "wide", [Record("x", partition=n, timestamp_ms=1000 + n % 30) for n in range(60)]
    )
    assert newest_partitions(reads("wide"), 4) == (28, 29, 58, 59)


def test_an_unknown_topic_is_an_error(reads):
    with pytest.raises(CliError, match="no topic missing"):
        reads("missing")


def test_a_record_that_is_not_there_is_none(broker, reads, topic):
    broker.produce(topic, [Record("a", partition=0)])
    assert read_record(reads(topic), 0, 5, 100) is None
    assert read_record(reads(topic), 9, 0, 100) is None
