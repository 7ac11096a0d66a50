"""Fetch sessions (KIP-227): epochs, omitted partitions, and eviction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from wirekafka.errors import Error, KafkaError
from wirekafka.replication.fetching import fetch_sessions
from wirekafka.replication.fetching.fetch_session import FetchTarget, Key, Wanted
from wirekafka.replication.fetching.fetch_sessions import FetchContext, FetchSessions

NOW = 1_000_000


@dataclass
class Result:
    """One partition's response."""

    high_watermark: int
    start_offset: int
    has_records: bool = False
    has_error: bool = False
    is_notable: bool = False
    is_denied: bool = False
    is_unknown: bool = False


def wanted(*indexes: int, topic: str | bytes = "t", offset: int = 0) -> list[Wanted]:
    return [Wanted(topic, index, fetch_offset=offset, max_bytes=1000) for index in indexes]


def target(
    session_id: int,
    epoch: int,
    partitions: list[Wanted] | None = None,
    forgotten: list[Key] | None = None,
    **options: Any,
) -> FetchTarget:
    uses_ids = options.pop("uses_topic_ids", False)
    return FetchTarget(
        session_id=session_id,
        epoch=epoch,
        wanted=partitions or [],
        forgotten=forgotten or [],
        uses_topic_ids=uses_ids,
        **options,
    )


def settle(
    context: FetchContext, results: dict[int, Result] | None = None, now_ms: int = NOW
) -> tuple[int, list[int]]:
    """The session id, and the partitions that are in the response."""
    results = results or {}
    answers = [(each, results.get(each.partition, Result(0, 0))) for each in context.wanted]
    session_id, unchanged = context.settle(answers, now_ms)
    return session_id, [each.partition for each, _ in answers if each.key not in unchanged]


def opened(sessions: FetchSessions, *indexes: int, now_ms: int = NOW, follower_id: int = -1) -> int:
    context = sessions.open(target(0, 0, wanted(*indexes), follower_id=follower_id), now_ms)
    return settle(context, now_ms=now_ms)[0]


def refusal(sessions: FetchSessions, asked: FetchTarget) -> Error:
    with pytest.raises(KafkaError) as caught:
        sessions.open(asked, NOW)
    return caught.value.error


def test_a_fetch_with_the_final_epoch_has_no_session() -> None:
    sessions = FetchSessions(10)
    assert settle(sessions.open(target(0, -1, wanted(0, 1)), NOW)) == (0, [0, 1])
    assert len(sessions) == 0


def test_a_full_fetch_opens_a_session_and_gets_every_partition() -> None:
    sessions = FetchSessions(10)
    session_id, included = settle(sessions.open(target(0, 0, wanted(0, 1)), NOW))
    assert session_id > 0
    assert included == [0, 1]


def test_unchanged_partitions_are_omitted() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0, 1, 2)
    assert settle(sessions.open(target(session_id, 1), NOW)) == (session_id, [])


@pytest.mark.parametrize(
    "change",
    [
        Result(5, 0),
        Result(0, 3),
        Result(0, 0, has_records=True),
        Result(0, 0, is_notable=True),
        Result(0, 0, has_error=True),
    ],
    ids=["high watermark", "log start", "records", "divergence", "error"],
)
def test_a_changed_partition_is_included(change: Result) -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0, 1, 2)
    context = sessions.open(target(session_id, 1), NOW)
    assert settle(context, {1: change}) == (session_id, [1])


def test_recovery_from_an_error_is_included_too() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0)
    settle(sessions.open(target(session_id, 1), NOW), {0: Result(-1, -1, has_error=True)})
    assert settle(sessions.open(target(session_id, 2), NOW)) == (session_id, [0])
    assert settle(sessions.open(target(session_id, 3), NOW)) == (session_id, [])


def test_partitions_are_added_changed_and_forgotten() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0, 1)
    context = sessions.open(
        target(session_id, 1, wanted(2) + wanted(0, offset=50), [("t", 1)]), NOW
    )
    assert {each.partition: each.fetch_offset for each in context.wanted} == {0: 50, 2: 0}


def test_a_partition_with_records_is_moved_to_the_end() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0, 1, 2)
    settle(sessions.open(target(session_id, 1), NOW), {0: Result(9, 0, has_records=True)})
    context = sessions.open(target(session_id, 2), NOW)
    assert [each.partition for each in context.wanted] == [1, 2, 0]


def test_an_unknown_session_is_fetch_session_id_not_found_70() -> None:
    assert refusal(FetchSessions(10), target(99, 1)) == 70


def test_a_wrong_epoch_is_invalid_fetch_session_epoch_71() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0)
    assert refusal(sessions, target(session_id, 2)) == 71
    settle(sessions.open(target(session_id, 1), NOW))
    assert refusal(sessions, target(session_id, 1)) == 71


def test_going_from_names_to_ids_is_fetch_session_topic_id_error_106() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0)
    assert refusal(sessions, target(session_id, 1, uses_topic_ids=True)) == 106


def test_the_epoch_after_the_last_one_is_1() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0)
    sessions._sessions[session_id].epoch = 0x7FFFFFFF
    settle(sessions.open(target(session_id, 0x7FFFFFFF), NOW))
    settle(sessions.open(target(session_id, 1), NOW))


def test_a_session_used_while_its_fetch_waits_refuses_the_older_one() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0)
    older = sessions.open(target(session_id, 1), NOW)
    sessions.open(target(session_id, 2), NOW)
    with pytest.raises(KafkaError) as caught:
        settle(older)
    assert caught.value.error is Error.INVALID_FETCH_SESSION_EPOCH


def test_forgetting_the_last_partition_ends_the_session() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0)
    context = sessions.open(target(session_id, 1, forgotten=[("t", 0)]), NOW)
    assert settle(context) == (0, [])
    assert refusal(sessions, target(session_id, 2)) == 70


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_or_final_fetch_ends_the_session_it_names(epoch: int) -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0)
    new_id, included = settle(sessions.open(target(session_id, epoch, wanted(0)), NOW))
    assert included == [0]
    assert new_id != session_id
    assert refusal(sessions, target(session_id, 1)) == 70


def test_without_a_free_slot_a_fetch_gets_no_session() -> None:
    sessions = FetchSessions(1)
    assert opened(sessions, 0) > 0
    assert opened(sessions, 0, 1) == 0
    assert opened(FetchSessions(0), 0) == 0


def test_a_session_unused_for_two_minutes_is_evicted() -> None:
    sessions = FetchSessions(2)
    first, second = opened(sessions, 0), opened(sessions, 0)
    settle(sessions.open(target(first, 1), NOW + 100_000), now_ms=NOW + 100_000)
    assert opened(sessions, 0, now_ms=NOW + 120_001) > 0
    assert refusal(sessions, target(second, 1)) == 70
    assert first in sessions._sessions
    assert sessions.evictions == 1


def test_a_larger_session_evicts_a_smaller_one_of_some_age() -> None:
    sessions = FetchSessions(1)
    small = opened(sessions, 0)
    later = NOW + 120_001
    settle(sessions.open(target(small, 1), later), now_ms=later)
    assert opened(sessions, now_ms=later) == 0
    assert opened(sessions, 0, 1, now_ms=later) > 0


def test_a_follower_evicts_a_consumer_at_once() -> None:
    sessions = FetchSessions(1)
    consumer = opened(sessions, 0, 1, 2)
    assert opened(sessions, 0, follower_id=2) > 0
    assert refusal(sessions, target(consumer, 1)) == 70


def test_a_refused_partition_leaves_no_session() -> None:
    sessions = FetchSessions(10)
    refused = Result(-1, -1, has_error=True, is_denied=True)
    context = sessions.open(target(0, 0, wanted(0, 1)), NOW)
    assert settle(context, {1: refused})[0] == 0 and len(sessions) == 0
    session_id = opened(sessions, 0)
    context = sessions.open(target(session_id, 1, wanted(1)), NOW)
    assert settle(context, {1: refused}) == (session_id, [1]), "the error is reported once more"
    assert len(sessions) == 0


@pytest.mark.parametrize("follower_id", [-1, 2])
def test_a_session_outlives_a_partition_that_is_not_known_yet(follower_id: int) -> None:
    sessions = FetchSessions(10)
    unknown = Result(-1, -1, has_error=True, is_unknown=True)
    context = sessions.open(target(0, 0, wanted(0, 1), follower_id=follower_id), NOW)
    assert settle(context, {1: unknown})[0] > 0 and len(sessions) == 1


def test_an_unknown_name_that_is_too_long_for_a_topic_leaves_no_session() -> None:
    sessions = FetchSessions(10)
    unknown = Result(-1, -1, has_error=True, is_unknown=True)
    long = wanted(0, topic="t" * 250)
    assert settle(sessions.open(target(0, 0, long), NOW), {0: unknown})[0] == 0


def test_the_sessions_of_a_consumer_end_with_its_connection() -> None:
    sessions = FetchSessions(10)
    for connection_id in ("one", "one", "other"):
        context = sessions.open(target(0, 0, wanted(0), connection_id=connection_id), NOW)
        assert settle(context)[0] > 0
    sessions.disconnected("one")
    assert len(sessions) == 1
    sessions.disconnected("other")
    assert len(sessions) == 0 and sessions._partitions == 0 and not sessions._of_connections


def test_the_partitions_of_all_consumers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 4)
    sessions = FetchSessions(10)
    first = opened(sessions, 0, 1, 2)
    assert opened(sessions, 0, 1) == 0, "it goes on without a session"
    assert opened(sessions, *range(5)) == 0
    assert refusal(sessions, target(first, 1, wanted(3, 4))) is Error.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0 and sessions._partitions == 0
    opened(sessions, 0, 1, 2)
    assert opened(sessions, 0, 1, now_ms=NOW + 120_001) > 0, "an unused one makes room"
    assert opened(sessions, *range(9), follower_id=2) > 0, "followers are not bounded"
