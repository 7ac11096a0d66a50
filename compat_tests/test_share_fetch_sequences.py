"""Share groups beside Apache Kafka: the same responses to the same requests, the same states."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

from compat_tests import apache_kafka
from compat_tests.share_fetch_pair import (
    EARLIEST,
    INITIAL,
    LOCK_MS,
    SETTINGS,
    Difference,
    SharingBrokers,
    brief,
)
from tests.eventually import eventually
from tests.repetitions import repetitions
from wirekafka.codec.record import Record

_SEQUENCES = repetitions("WIREKAFKA_SHARE_SEQUENCES", usual=4, thorough=10)
"""How many groups are played, some of them at once."""
_AT_ONCE = 30
_FIRST = int(os.environ.get("WIREKAFKA_SHARE_SEED", "0"))
_ROUNDS = 1
_TURNS = 12
"""Steps between two expiries of all locks."""
_MEMBERS = ("m1", "m2", "m3")
_BOOLEANS = ("true", "false")
_RESETS = ("earliest", "latest", "by_duration:PT1H", "by_duration:P10000D")
_DEAD_LETTER_TOPIC = "errors_deadletterqueue_topic_name"
_AGES_MS = (0, 7_200_000)
_producer_ids = itertools.count(1_000_000)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharingBrokers]:
    directory = tmp_path_factory.mktemp("kafka")
    port, command = apache_kafka.prepare(
        directory, apache_kafka.SMALL_JVM, apache_kafka.SMALL_CLEANER + SETTINGS
    )
    with apache_kafka.running(command, directory, port):
        both = SharingBrokers(("127.0.0.1", port), tmp_path_factory.mktemp("ours") / "data")
        yield both
        both.close()


def test_sequences_have_the_same_responses_and_states(both: SharingBrokers) -> None:
    """A sequence that differs is played again before it counts: Kafka expires locks and stores
    states in threads of its own, so a busy machine may change their order. A real difference shows
    again."""
    last = _FIRST + _SEQUENCES
    differences: dict[int, str] = {}
    for first in range(_FIRST, last, _AT_ONCE):
        seeds = range(first, min(first + _AT_ONCE, last))
        differences |= _differences(both, seeds, "shared")
    if differences:
        differences = _differences(both, sorted(differences), "again")
    assert not differences, "\n\n".join(
        f"seed {seed}: {text}" for seed, text in differences.items()
    )[:6000]


def _differences(both: SharingBrokers, seeds: Iterable[int], prefix: str) -> dict[int, str]:
    """Play a sequence for each seed; the first difference of each, by seed."""
    sequences = [GroupSequence(seed, f"{prefix}-{seed}", both) for seed in seeds]
    for sequence in sequences:
        both.configure(sequence.topic, **sequence.options)
    both.create_topics(
        [f"dlq.{sequence.topic}" for sequence in sequences],
        errors_deadletterqueue_group_enable="true",
    )
    both.create({sequence.topic: sequence.start_offset for sequence in sequences})
    differences: dict[int, str] = {}
    for _ in range(_ROUNDS):
        _play(sequences, differences, _TURNS)
        both.wait(LOCK_MS / 1000 + 0.5)  # All locks expire.
    _play(sequences, differences, 2)
    for sequence in sequences:
        if sequence.seed not in differences:
            _compare_states(sequence, differences)
    return differences


def _play(sequences: Sequence[GroupSequence], differences: dict[int, str], turns: int) -> None:
    for _ in range(turns):
        for sequence in sequences:
            if sequence.seed in differences:
                continue
            try:
                sequence.step()
            except Difference as difference:
                past = "\n".join(sequence.past)
                differences[sequence.seed] = f"{past}\n{difference}"


def _compare_states(sequence: GroupSequence, differences: dict[int, str]) -> None:
    """Kafka stores what follows from releases and expired locks a little later."""
    for what, found in (("stored", sequence.stored), ("dead letters", sequence.dead_letters)):
        try:
            eventually(lambda found=found: len(set(map(repr, found()))) == 1, timeout_s=5)
        except AssertionError:
            kafkas, ours = found()
            past = "\n".join(sequence.past)
            differences[sequence.seed] = (
                f"{past}\n{what}, Kafka's: {kafkas}\n{what}, ours:    {ours}"
            )
            return


class GroupSequence:
    """Random requests of three members of a group, for a topic of their own."""

    def __init__(self, seed: int, topic: str, both: SharingBrokers):
        self.seed = seed
        self.topic = topic
        self.past: list[str] = []
        self._random = random.Random(seed)
        self._both = both
        self._epochs = dict.fromkeys(_MEMBERS, 0)
        self._acquired: dict[str, list[tuple[int, int]]] = {name: [] for name in _MEMBERS}
        self._end = 0
        self._is_loaded = False
        self.start_offset = self._random.choice((EARLIEST, INITIAL))
        self._transactions: list[int] = []
        """The producer ids of open transactions."""
        self.options = {
            "share_delivery_count_limit": str(self._random.randint(2, 5)),
            "share_isolation_level": self._random.choice(("read_committed", "read_uncommitted")),
            "share_auto_offset_reset": self._random.choice(_RESETS),
        }
        if self._random.random() < 0.6:
            self.options |= {
                _DEAD_LETTER_TOPIC: f"dlq.{topic}",
                "errors_deadletterqueue_copy_record_enable": self._random.choice(_BOOLEANS),
            }

    def step(self) -> None:
        """One request, or records to be fetched."""
        if not self._is_loaded and self._random.random() < 0.5:
            self._produce()  # Records before and after the start of the group.
        chosen = self._random.choices(
            (
                self._produce,
                self._produce_in_transaction,
                self._end_transaction,
                self._fetch,
                self._acknowledge,
                self._piggyback,
                self._close,
            ),
            (3, 1, 2, 6, 6, 3, 1),
        )[0]
        chosen()
        if self._random.random() < 0.03:
            self._delete_records()
        if self._random.random() < 0.03:
            self._alter_offset()

    def stored(self) -> tuple[Any, Any]:
        return self._both.stored(self.topic)

    def dead_letters(self) -> list[list[Record]]:
        return self._both.dead_letters(f"dlq.{self.topic}")

    def _produce(self) -> None:
        count = self._random.randint(1, 12)
        age_ms = self._random.choice(_AGES_MS)
        self.past.append(f"produce {count}, {age_ms} ms old")
        self._both.produce(self.topic, count, age_ms)
        self._end += count

    def _produce_in_transaction(self) -> None:
        count, producer_id = self._random.randint(1, 5), next(_producer_ids)
        self.past.append(f"produce {count} in transaction {producer_id}")
        self._both.produce_in_transaction(self.topic, count, producer_id)
        self._transactions.append(producer_id)
        self._end += count

    def _end_transaction(self) -> None:
        if not self._transactions:
            return
        producer_id = self._transactions.pop(self._random.randrange(len(self._transactions)))
        committed = self._random.random() < 0.5
        self.past.append(f"end transaction {producer_id}, committed: {committed}")
        self._both.end_transaction(self.topic, producer_id, committed=committed)
        self._end += 1

    def _fetch(self) -> None:
        self._ask_fetch(self._random.choice(_MEMBERS), [])

    def _piggyback(self) -> None:
        member = self._random.choice(_MEMBERS)
        if self._epochs[member] > 0:
            self._ask_fetch(member, self._ranges(member, (0, 1, 3)))

    def _acknowledge(self) -> None:
        member = self._random.choice(_MEMBERS)
        ranges = self._ranges(member, (0, 1, 1, 2, 2, 2, 2, 3, 4))
        epoch = self._epochs[member]
        if self._random.random() < 0.03:
            epoch += 1
        options = {
            "member_id": member,
            "share_session_epoch": epoch,
            "is_renew_ack": any(4 in types for *_, types in ranges),
        }
        self.past.append(f"acknowledge {options} {ranges}")
        response = self._both.acknowledge(self.topic, ranges, **options)
        self.past.append(f"-> {brief(response)}")
        if response.error_code == 0:
            self._epochs[member] += 1
        self._await_dead_letters()

    def _close(self) -> None:
        member = self._random.choice(_MEMBERS)
        if self._epochs[member] == 0:
            return
        self.past.append(f"close {member}")
        self._both.acknowledge(self.topic, [], member_id=member, share_session_epoch=-1)
        self._epochs[member] = 0
        self._acquired[member].clear()
        # Kafka releases the records in the background.
        time.sleep(0.05)

    def _alter_offset(self) -> None:
        offset = self._random.randint(0, self._end)
        self.past.append(f"alter the start offset to {offset}")
        self._both.alter_offset(self.topic, offset)

    def _delete_records(self) -> None:
        offset = self._random.randint(0, self._end)
        self.past.append(f"delete records below {offset}")
        self._both.delete_records(self.topic, offset)

    def _ask_fetch(self, member: str, ranges: list[Any]) -> None:
        options = {
            "member_id": member,
            "share_session_epoch": self._epochs[member],
            # The first fetch makes Kafka load the state, in the background.
            "max_wait_ms": 5 if self._is_loaded else 500,
            "max_records": self._random.choice((1, 3, 10, 500)),
            "batch_size": self._random.choice((1, 5, 500)),
            "share_acquire_mode": self._random.choice((0, 0, 1)),
        }
        self.past.append(f"fetch {options} {ranges}")
        response = self._both.fetch(self.topic, ranges, **options)
        self.past.append(f"-> {brief(response)}")
        self._is_loaded = not any(
            partition.error_code for topic in response.responses for partition in topic.partitions
        )
        if ranges:
            self._await_dead_letters()
        if response.error_code:
            return
        self._epochs[member] += 1
        for topic in response.responses:
            for run in topic.partitions[0].acquired_records:
                self._acquired[member].append((run.first_offset, run.last_offset))

    def _await_dead_letters(self) -> None:
        """Kafka writes them, and archives them then, after its response."""
        if _DEAD_LETTER_TOPIC in self.options:
            with suppress(AssertionError):  # A difference is reported at the end.
                eventually(lambda: len(set(map(repr, self.dead_letters()))) == 1, timeout_s=2)
            with suppress(AssertionError):
                eventually(lambda: len(set(map(repr, self.stored()))) == 1, timeout_s=2)

    def _ranges(self, member: str, types: Sequence[int]) -> list[Any]:
        """Ranges to acknowledge, in order: mostly of what the member has acquired."""
        ranges = []
        own = self._acquired[member]
        for first, last in sorted(own):
            if (ranges and first <= ranges[-1][1]) or self._random.random() < 0.4:
                continue
            own.remove((first, last))
            if self._random.random() < 0.3 and first < last:
                last = self._random.randint(first, last - 1)
            each = [self._random.choice(types) for _ in range(last - first + 1)]
            one = [self._random.choice(types)]
            ranges.append((first, last, one if self._random.random() < 0.6 else each))
        if self._random.random() < 0.08:
            first = self._random.randint(0, self._end + 3)
            ranges = [(first, first + self._random.randint(0, 3), [1])]
        return ranges


def test_dead_letters_have_the_same_keys_values_and_headers(both: SharingBrokers) -> None:
    """Of a rejected, a released and an expired record, in a topic that does not exist before."""
    both.configure(
        "letters",
        share_delivery_count_limit="2",
        errors_deadletterqueue_topic_name="dlq.created",
        errors_deadletterqueue_copy_record_enable="true",
    )
    both.create({"letters": EARLIEST})
    both.produce("letters", 4)
    member = _Member("letters", both)
    member.fetch(max_wait_ms=500)
    member.acknowledge((0, 3, [1, 3, 2, 2]))
    eventually(lambda: _are_equal(both.dead_letters("dlq.created"), 1), timeout_s=20)
    member.fetch()
    member.acknowledge((2, 2, [2]))
    eventually(lambda: _are_equal(both.dead_letters("dlq.created"), 2), timeout_s=20)
    both.wait(LOCK_MS / 1000 + 0.5)
    eventually(lambda: _are_equal(both.dead_letters("dlq.created"), 3), timeout_s=20)
    eventually(lambda: len(set(map(repr, both.stored("letters")))) == 1, timeout_s=5)
    first, *_ = both.dead_letters("dlq.created")[0]
    assert first.value is not None and len(first.headers) == 6


@pytest.mark.parametrize("topic", ["dlq.plain", "unprefixed"])
def test_rejected_records_are_archived_although_the_topic_is_refused(
    both: SharingBrokers, topic: str
) -> None:
    group = f"refused-{topic}"
    if topic == "dlq.plain":
        both.create_topics([topic])
    both.configure(group, errors_deadletterqueue_topic_name=topic)
    both.create({group: EARLIEST})
    both.produce(group, 2)
    member = _Member(group, both)
    member.fetch(max_wait_ms=500)
    member.acknowledge((0, 0, [3]))

    def archived(state: Any) -> bool:
        return [batch.delivery_state for batch in state.state_batches] == [4]

    eventually(lambda: all(archived(each) for each in both.stored(group)), timeout_s=10)
    assert repr(both.stored(group)[0]) == repr(both.stored(group)[1])


class _Member:
    """The only member of a group, with the epoch of its session."""

    def __init__(self, topic: str, both: SharingBrokers):
        self._topic = topic
        self._both = both
        self._epoch = -1

    def fetch(self, **options: Any) -> None:
        self._both.fetch(self._topic, [], **{"max_wait_ms": 50, **options}, **self._session())

    def acknowledge(self, *ranges: Any) -> None:
        self._both.acknowledge(self._topic, list(ranges), **self._session())

    def _session(self) -> dict[str, Any]:
        self._epoch += 1
        return {"member_id": "m1", "share_session_epoch": self._epoch}


def _are_equal(found: list[list[Record]], count: int) -> bool:
    kafkas, ours = found
    return kafkas == ours and len(ours) == count
