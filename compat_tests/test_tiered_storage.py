"""Tiered topics behave as those of Apache Kafka, which reads and writes the same tier."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compat_tests.java_tools import JavaTools
from compat_tests.tiered import tiered_kafka, tiered_kafka_on, tiered_wirekafka
from compat_tests.tiered_topic import RECORDS_PER_BATCH, TieredTopic
from tests import kafka_jars
from tests.config.test_tiered_topic import REFUSED
from tests.eventually import eventually
from wirekafka.tiered.metadata_record import REMOTE_LOG_METADATA_TOPIC, MetadataRecord
from wirekafka.tiered.remote_segment import PartitionDeletion, TieredPartition

_FIRST_MS = 1_700_000_000_000
_BATCHES = 90
_RECORDS = _BATCHES * RECORDS_PER_BATCH
_OFFSETS = (0, 1, 9, 10, 199, 200, 201, 405, 600, 799, 800, 801, 899, 900, 901)


class Pair:
    """The same topic on Apache Kafka and on wirekafka."""

    def __init__(self, kafka: TieredTopic, ours: TieredTopic):
        self.kafka, self.ours = kafka, ours

    def on_both(self, action: Callable[[TieredTopic], Any]) -> None:
        action(self.kafka)
        action(self.ours)

    def agree(self, question: Callable[[TieredTopic], Any]) -> Any:
        """The answer that both give, perhaps after a while."""
        answers: list[Any] = []

        def are_equal() -> bool:
            answers[:] = [question(self.kafka), question(self.ours)]
            return answers[0] == answers[1]

        try:
            eventually(are_equal, timeout_s=20)
        except AssertionError:
            raise AssertionError(f"(theirs, ours) differ: {_differences(*answers)}") from None
        return answers[0]


Both = Callable[..., Pair]

_FORMATTER = (
    "org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde"
    "$RemoteLogMetadataFormatter"
)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> JavaTools:
    return JavaTools(kafka_jars.tools_jars(), tmp_path_factory.mktemp("tools"))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Both brokers; makes a topic on each."""
    scratch = tmp_path_factory.mktemp("tiered")
    with (
        tiered_kafka(scratch / "kafka", scratch / "their-tier") as theirs,
        tiered_wirekafka(scratch / "ours", scratch / "our-tier") as ours,
    ):

        def make(name: str, create: bool = True, **configs: str) -> Pair:
            dotted = {key.replace("_", "."): value for key, value in configs.items()}
            pair = Pair(
                TieredTopic(theirs, scratch / "their-tier", name, dotted),
                TieredTopic(ours, scratch / "our-tier", name, dotted),
            )
            if create:
                pair.on_both(TieredTopic.create)
            return pair

        yield make


def test_offsets_and_records_of_a_tiered_topic_are_those_of_apache_kafka(both: Both) -> None:
    pair = both("plain")
    pair.on_both(lambda topic: topic.produce(_BATCHES, _FIRST_MS))
    pair.on_both(lambda topic: topic.settled(tiered_up_to=600))
    times = [_FIRST_MS + each for each in (-1, 0, 1, 455, 895, 899, 900)]
    found = pair.agree(lambda topic: topic.offsets(times))
    assert found["-4 at isolation 0"][2] > 0, "local segments are gone"
    pair.agree(lambda topic: topic.fetches(_OFFSETS))
    pair.agree(lambda topic: topic.fetches((0, 205), max_bytes=1_000))
    pair.agree(lambda topic: topic.fetches((0, 190), max_bytes=3_000_000))
    pair.agree(TieredTopic.objects)

    # Deleting records reaches into the tier.
    pair.on_both(lambda topic: topic.delete_records(250))
    pair.agree(lambda topic: topic.offsets(times))
    pair.agree(lambda topic: topic.fetches((0, 249, 250, 251)))
    # Kafka counts a segment below the log start until it is deleted, and deletes more by size.
    pair.on_both(lambda topic: eventually(lambda: len(topic.objects()) == 3 * 5))

    # So does the retention by size.
    assert pair.agree(lambda topic: topic.configure(retention_bytes=str(2 << 20))) == ""
    eventually(lambda: pair.ours.offsets()["-2 at isolation 0"][2] == 400)
    pair.agree(lambda topic: topic.offsets(times))
    pair.agree(lambda topic: topic.fetches(_OFFSETS))
    pair.agree(TieredTopic.objects)

    pair.on_both(TieredTopic.delete)
    pair.on_both(lambda topic: eventually(lambda: not topic.objects()))


def test_the_retention_by_time_reaches_into_the_tier_as_in_apache_kafka(both: Both) -> None:
    pair = both("old-and-new", message_timestamp_type="CreateTime")
    now_ms = int(time.time() * 1_000)
    day_ms = 86_400_000
    # A segment has 20 batches. The time of a record decides, not the time of its arrival.
    for age_days in (3, 1, 2, 0):
        pair.on_both(lambda topic, age=age_days: topic.produce(20, now_ms - age * day_ms - 10_000))
    pair.on_both(lambda topic: topic.settled(tiered_up_to=599))
    assert len(pair.agree(TieredTopic.objects)) == 3 * 5

    # The first segment goes; the third one is older than the limit, but the second is not.
    configs = {"retention_ms": str(day_ms * 3 // 2), "local_retention_ms": "-2"}
    assert pair.agree(lambda topic: topic.configure(**configs)) == ""
    eventually(lambda: pair.ours.offsets()["-2 at isolation 0"][2] == 200)
    pair.agree(TieredTopic.offsets)
    pair.agree(lambda topic: topic.fetches((0, 199, 200, 400, 600)))
    pair.agree(TieredTopic.objects)


def test_transactions_in_the_tier_are_those_of_apache_kafka(both: Both) -> None:
    pair = both("transactional")
    transactions = [(2, True), (5, False), (1, True), (4, False), (3, True), (1, False), (4, True)]
    pair.on_both(lambda topic: topic.transact(*transactions))
    pair.on_both(lambda topic: topic.settled(tiered_up_to=10))
    # Markers have the time at which they were written.
    pair.agree(lambda topic: {key: found[2:] for key, found in topic.offsets([_FIRST_MS]).items()})
    pair.agree(lambda topic: topic.fetches(range(28), max_bytes=700_000))
    pair.agree(TieredTopic.objects)


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused_options_are_those_of_apache_kafka(both: Both, number: int) -> None:
    overrides, message = REFUSED[number]
    pair = both("", create=False)
    assert pair.agree(lambda topic: topic.refusal(f"refused-{number}", overrides)) == message


def test_tiering_is_disabled_and_enabled_again_as_by_apache_kafka(both: Both) -> None:
    pair = both("changing", remote_storage_enable="false")
    pair.on_both(lambda topic: topic.produce(50, _FIRST_MS))
    pair.agree(TieredTopic.offsets)
    # What is there already is copied as well.
    assert pair.agree(lambda topic: topic.configure(remote_storage_enable="true")) == ""
    pair.on_both(lambda topic: topic.settled(tiered_up_to=399))
    pair.agree(TieredTopic.offsets)

    # A topic that only reads its remote part keeps new records here.
    read_only = {"remote_log_copy_disable": "true", "local_retention_bytes": "-2"}
    assert pair.agree(lambda topic: topic.configure(**read_only)) == ""
    pair.on_both(lambda topic: topic.produce(50, _FIRST_MS + 500))
    pair.agree(TieredTopic.offsets)
    pair.agree(lambda topic: topic.fetches(range(0, 1_000, 90)))
    pair.agree(TieredTopic.objects)

    refused = pair.agree(lambda topic: topic.configure(remote_storage_enable="false"))
    assert "without deleting remote data" in refused
    disabled = {"remote_storage_enable": "false", "remote_log_delete_on_disable": "true"}
    assert pair.agree(lambda topic: topic.configure(**disabled)) == ""
    pair.on_both(lambda topic: eventually(lambda: not topic.objects()))
    pair.agree(TieredTopic.offsets)
    pair.agree(lambda topic: topic.fetches(range(0, 1_000, 90)))


@pytest.mark.parametrize("when", ["earliest-local", "latest-tiered", "earliest-pending-upload"])
def test_apache_kafkas_tool_prints_the_offsets_of_tiers(
    both: Both, tools: JavaTools, when: str
) -> None:
    pair = both(f"asked-{when}")
    pair.on_both(lambda topic: topic.produce(30, _FIRST_MS))
    pair.on_both(lambda topic: topic.settled(tiered_up_to=199))
    printed = pair.agree(
        lambda topic: tools.run(
            "kafka-get-offsets",
            *("--bootstrap-server", topic.bootstrap, "--topic", topic.name, "--time", when),
        )
    )
    expected = 199 if when == "latest-tiered" else 200
    assert printed == f"asked-{when}:0:{expected}\n"


def test_the_metadata_is_that_of_apache_kafka_and_printed_by_its_consumer(
    both: Both, tools: JavaTools
) -> None:
    pair = both("described", retention_bytes=str(2 << 20))
    pair.on_both(lambda topic: topic.produce(90, _FIRST_MS))
    pair.on_both(lambda topic: topic.settled(tiered_up_to=799))
    # Two segments are too many; all of their records end with a deletion.
    found = pair.agree(lambda topic: sorted(map(_comparable, topic.metadata())))
    assert len(found) == 4 * 2 + 2 * 2

    printed = tools.run(
        "kafka-console-consumer",
        *("--bootstrap-server", pair.ours.bootstrap, "--topic", REMOTE_LOG_METADATA_TOPIC),
        *("--from-beginning", "--timeout-ms", "3000", "--formatter", _FORMATTER),
    )
    lines = [line for line in printed.splitlines() if ":described-0" in line]
    states = Counter(re.findall(r"state=(\w+)", "\n".join(lines)))
    assert states == {
        "COPY_SEGMENT_STARTED": 4,
        "COPY_SEGMENT_FINISHED": 4,
        "DELETE_SEGMENT_STARTED": 2,
        "DELETE_SEGMENT_FINISHED": 2,
    }

    files = sorted(map(str, _our_directory(pair).glob(f"{REMOTE_LOG_METADATA_TOPIC}-*/*.log")))
    dumped = tools.run(
        "kafka-dump-log", "--files", ",".join(files), "--remote-log-metadata-decoder"
    )
    lines = [line for line in dumped.splitlines() if ":described-0" in line]
    assert Counter(re.findall(r"state=(\w+)", "\n".join(lines))) == states


def _our_directory(pair: Pair) -> Path:
    return pair.ours.tier.parent / "ours"


def _comparable(record: MetadataRecord) -> str:
    """A record without ids and times."""
    assert not isinstance(record, PartitionDeletion)
    nowhere = TieredPartition(record.partition.topic, b"", record.partition.number)
    return repr(replace(record, partition=nowhere, id=b"", event_ms=0))


def test_a_tiered_directory_passes_from_apache_kafka_to_us_and_back(tmp_path: Path) -> None:
    tier, data = tmp_path / "tier", tmp_path / "kafka" / "data"

    def grown(bootstrap: str, known: dict[str, Any]) -> dict[str, Any]:
        """Check that all that the previous broker answered is unchanged; append, and tier that."""
        topic = TieredTopic(bootstrap, tier, "t", {})
        if known:
            # Until the metadata has been read, it is REPLICA_NOT_AVAILABLE.
            eventually(lambda: topic.fetches([0])["0 at isolation 0"]["error"] == 0)
            _await_equal(lambda: _stable(topic), known)
            assert topic.configure(segment_bytes="1048576") == ""
        else:
            topic.create()
        end_offset = known.get("records", 0)
        topic.produce(50, _FIRST_MS + end_offset)
        # A segment has 200 records.
        topic.settled(tiered_up_to=(end_offset + 499) // 200 * 200 - 1)
        return _stable(topic)

    with tiered_kafka(tmp_path / "kafka", tier) as theirs:
        known = grown(theirs, {})
    with tiered_wirekafka(data, tier) as ours:
        known = grown(ours, known)
    with tiered_kafka_on([data], tmp_path / "again", tier) as theirs:
        known = grown(theirs, known)
    assert known["records"] == 1_500


def _await_equal(question: Callable[[], dict[str, Any]], known: dict[str, Any]) -> None:
    """Wait until the answer is `known`; AssertionError with the differences."""
    answers: list[dict[str, Any]] = []

    def is_equal() -> bool:
        answers[:] = [question()]
        return answers[0] == known

    try:
        eventually(is_equal, timeout_s=10)
    except AssertionError:
        if not answers:
            raise
        raise AssertionError(f"(before, now) differ: {_differences(known, *answers)}") from None


def _differences(one: Any, other: Any) -> Any:
    if isinstance(one, list):
        counts = Counter(one), Counter(other)
        return counts[0] - counts[1], counts[1] - counts[0]
    if not isinstance(one, dict):
        return one, other
    return {key: _differences(one[key], other[key]) for key in one if one[key] != other[key]}


def _stable(topic: TieredTopic) -> dict[str, Any]:
    """What a change of the broker leaves as it is: all but the leader epoch of the log's end."""
    offsets = topic.offsets([_FIRST_MS, _FIRST_MS + 300, _FIRST_MS + 1_200])
    return {
        **{key: found for key, found in offsets.items() if not key.startswith("-1 ")},
        "fetches": topic.fetches(range(0, offsets["-1 at isolation 0"][2], 70)),
        "objects": topic.objects(),
        "records": topic.read_all(),
    }
