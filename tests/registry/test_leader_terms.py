"""Who may write the topic of schemas: one leader, even if an old one wakes up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

import wirekafka
from tests.eventually import eventually
from tests.registry.instances import ID, Instance, following, instance, register, term
from wirekafka.client.client import Client, CliError
from wirekafka.client.transactions import TransactionalProducer
from wirekafka.codec.record import Record
from wirekafka.registry.errors import RegistryError
from wirekafka.registry.instance.leader_term import Submission, Submissions, Written
from wirekafka.registry.instance.topic import TOPIC
from wirekafka.registry.state import RegistryState
from wirekafka.registry.writer import Decided


@pytest.fixture(scope="module")
def broker() -> Iterator[wirekafka.Broker]:
    with wirekafka.Broker() as broker:
        yield broker


@pytest.fixture
def follower(broker: wirekafka.Broker) -> Iterator[Instance]:
    """The reader of an instance, of a new topic."""
    if TOPIC in broker.topics():
        broker.delete_topic(TOPIC)
    with following(broker.bootstrap_servers) as follower:
        yield follower


@pytest.fixture
def submissions() -> Submissions:
    return Submissions()


def submitted(submissions: Submissions, subject: str) -> Future[Written]:
    submission = Submission(register(subject))
    submissions.add(submission)
    return submission.result


def test_an_old_leader_that_wakes_up_gives_no_ids(
    broker: wirekafka.Broker, follower: Instance, submissions: Submissions
) -> None:
    old = term(follower, submissions)
    assert submitted(submissions, "a").result(20).answer == 1
    asleep, may_wake = threading.Event(), threading.Event()

    def slow(state: RegistryState) -> Decided[int]:
        asleep.set()
        assert may_wake.wait(20)
        return register("b")(state)

    late = Submission(slow)
    submissions.add(late)
    assert asleep.wait(20)
    others = Submissions()
    new = term(follower, others)
    assert submitted(others, "c").result(20).answer == 2
    may_wake.set()
    eventually(lambda: not old.is_alive)
    # Nothing of it was written: the next term of the instance tries it again.
    assert not late.result.done()
    again = term(follower, submissions)
    assert late.result.result(20).answer == 3
    eventually(lambda: not new.is_alive or submitted(others, "d"))
    again.stop()
    new.stop()


def test_decisions_that_have_missed_a_record_are_not_committed(
    broker: wirekafka.Broker, follower: Instance, submissions: Submissions
) -> None:
    leader = term(follower, submissions)
    assert submitted(submissions, "a").result(20).answer == 1
    broker.produce(TOPIC, [(b'{"keytype":"NOOP","magic":0}', None)])
    late = submitted(submissions, "b")
    eventually(lambda: not leader.is_alive)
    assert leader.failure is not None and "another writer" in str(leader.failure)
    assert not late.done()
    again = term(follower, submissions)
    assert late.result(20).answer == 2
    again.stop()


def test_a_write_that_may_be_lost_is_an_error(
    broker: wirekafka.Broker, follower: Instance, submissions: Submissions
) -> None:
    leader = term(follower, submissions)
    assert submitted(submissions, "a").result(20).answer == 1
    with broker.fail("EndTxn", error="INVALID_TXN_STATE"):
        failed = submitted(submissions, "b")
        with pytest.raises(RegistryError, match="while writing to the Kafka store") as caught:
            failed.result(20)
        assert caught.value.code == 50001
    again = term(follower, submissions)
    assert submitted(submissions, "c").result(20).answer == 2
    leader.stop()
    again.stop()


def test_records_that_the_broker_refuses_are_not_tried_again(
    broker: wirekafka.Broker, follower: Instance, submissions: Submissions
) -> None:
    term(follower, submissions)
    assert submitted(submissions, "a").result(20).answer == 1
    with broker.fail("Produce", error="MESSAGE_TOO_LARGE", topic=TOPIC):
        failed = submitted(submissions, "b")
        with pytest.raises(RegistryError, match="MESSAGE_TOO_LARGE"):
            failed.result(20)
    again = term(follower, submissions)
    assert submitted(submissions, "c").result(20).answer == 2
    again.stop()


def test_a_transaction_of_a_dead_leader_is_aborted(
    broker: wirekafka.Broker, follower: Instance, submissions: Submissions
) -> None:
    with Client(broker.bootstrap_servers) as client:
        dead = TransactionalProducer(client, ID)
        dead.init()
        [entry] = register("never")(RegistryState()).entries
        dead.send(TOPIC, 0, [Record(key=entry.key, value=entry.value)])
        leader = term(follower, submissions)
        assert submitted(submissions, "a").result(20).answer == 1
        leader.stop()

    async def subjects() -> list[str]:
        async with instance(broker.bootstrap_servers, leads=False) as follower:
            return follower.subjects()

    assert asyncio.run(subjects()) == ["a"]


def test_refusals_and_failures_of_decisions_end_no_term(
    broker: wirekafka.Broker, follower: Instance, submissions: Submissions
) -> None:
    leader = term(follower, submissions)

    def refuse(state: RegistryState) -> Decided[int]:
        raise RegistryError(409, 409, "incompatible")

    def fail(state: RegistryState) -> Decided[int]:
        raise ZeroDivisionError

    refused, broken = Submission(refuse), Submission(fail)
    large = Submission(register("large", "x" * 950_000))
    for each in (refused, broken, large):
        submissions.add(each)
    kept = submitted(submissions, "kept")
    with pytest.raises(RegistryError, match="incompatible"):
        refused.result.result(20)
    with pytest.raises(ZeroDivisionError):
        broken.result.result(20)
    with pytest.raises(RegistryError, match="too large"):
        large.result.result(20)
    assert kept.result(20).answer == 1
    assert leader.is_alive
    leader.stop()


def test_large_schemas_are_several_batches(
    broker: wirekafka.Broker, follower: Instance, submissions: Submissions
) -> None:
    large = [Submission(register(f"s{n}", "x" * 300_000)) for n in range(8)]
    for each in large:
        submissions.add(each)
    leader = term(follower, submissions)
    assert [each.result.result(20).answer for each in large] == list(range(1, 9))
    leader.stop()


def test_a_reader_that_is_ahead_of_the_topic_reads_it_again(
    broker: wirekafka.Broker, follower: Instance, submissions: Submissions
) -> None:
    """As after an unclean election, which loses records that it has read."""
    leader = term(follower, submissions)
    assert submitted(submissions, "a").result(20).answer == 1
    leader.stop()
    reader = follower.follower
    eventually(lambda: follower.subjects() == ["a"])
    former = reader.state
    with follower.client() as client, pytest.raises(CliError, match="was read up to"):
        reader.copied_at(1, client.topic(TOPIC).topic_id)
    eventually(lambda: reader.state is not former and follower.subjects() == ["a"])
    again = term(follower, submissions)
    assert submitted(submissions, "b").result(20).answer == 2
    again.stop()


def test_a_copied_state_changes_by_itself() -> None:
    state = RegistryState()
    for number, subject in enumerate("abc"):
        [entry] = register(subject)(state).entries
        state.replay(entry, number, 0)
    copied = state.copy()
    [entry] = register("a", "other")(copied).entries
    copied.replay(entry, 3, 0)
    assert [len(each.versions("a")) for each in (state, copied)] == [1, 2]
    assert [each.max_id(".") for each in (state, copied)] == [3, 4]
    assert [each.end_offset for each in (state, copied)] == [3, 4]
