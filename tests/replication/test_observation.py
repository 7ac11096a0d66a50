"""Observers receive committed batches once, in order, outside of any command."""

import asyncio

import pytest

from tests.in_process import now
from tests.replication.test_runtime import Case, JsonCodec
from wirekafka.runtime.observation import ATTEMPTS


@pytest.fixture
def case():
    case = Case()
    case.runtime.load()
    return case


class Notes:
    """An observer that records its batches, and fails as often as the test says."""

    def __init__(self):
        self.seen = []
        self.failures = 0

    def __call__(self, committed):
        if self.failures:
            self.failures -= 1
            raise RuntimeError("a bug")
        self.seen.append((list(committed.records), committed.end_offset))


def test_batches_are_delivered_once_and_in_order_when_they_are_committed(case):
    notes = Notes()
    observation = case.runtime.observe(notes)
    case.log.commits_at_once = False
    for name in "abc":
        case.runtime.post(("enter", name))
    case.log.commit(2)
    assert notes.seen == [], "nothing is delivered while the log is at work"
    case.clock.advance(0)
    assert notes.seen == [(["a"], 1), (["b"], 2)] and observation.position == 2
    case.log.commit(3)
    case.clock.advance(0)
    assert notes.seen == [(["a"], 1), (["b"], 2), (["c"], 3)]


def test_batches_committed_at_once_are_delivered_before_post_returns(case):
    notes = Notes()
    case.runtime.observe(notes)
    case.runtime.post(("enter", "a"))
    assert notes.seen == [(["a"], 1)]


def test_an_observers_own_command_is_delivered_after_the_batch_that_caused_it(case):
    events = []

    def observer(committed):
        events.append(("begin", *committed.records))
        if committed.records == ["a"]:
            case.runtime.post(("enter", "b"))
        events.append(("end", *committed.records))

    other = Notes()
    case.runtime.observe(observer)
    case.runtime.observe(other)
    case.runtime.post(("enter", "a"))
    assert events == [("begin", "a"), ("end", "a"), ("begin", "b"), ("end", "b")]
    assert other.seen == [(["a"], 1), (["b"], 2)]


def test_the_contents_of_the_log_are_delivered_when_it_is_first_loaded():
    case = Case()
    for name in "ab":
        case.log.append(JsonCodec().encode([name], 0, None))
    notes = Notes()
    observation = case.runtime.observe(notes)
    case.runtime.load()
    case.runtime.load()
    assert [records for records, _ in notes.seen] == [["a"], ["b"]]
    assert observation.position == 2


def test_a_failing_observer_is_offered_the_batch_again_before_any_later_one(case, caplog):
    notes, other = Notes(), Notes()
    notes.failures = 3
    case.runtime.observe(notes)
    case.runtime.observe(other)
    case.runtime.post(("enter", "a"))
    case.runtime.post(("enter", "b"))
    assert notes.seen == [] and len(other.seen) == 2
    case.clock.advance(100 + 200 + 400)
    assert notes.seen[:2] == [(["a"], 1), (["b"], 2)]
    assert "failed; it is retried" in caplog.text


def test_an_observer_that_keeps_failing_is_reported_and_gets_no_further_batches(caplog):
    failures = []
    case = Case(observer_failed=failures.append)
    case.runtime.load()
    notes = Notes()
    notes.failures = ATTEMPTS
    observation = case.runtime.observe(notes)
    case.runtime.post(("enter", "a"))
    case.clock.advance(60_000)
    assert [str(failure) for failure in failures] == ["a bug"]
    assert [record.levelname for record in caplog.records][-1] == "CRITICAL"
    case.runtime.post(("enter", "b"))
    case.clock.advance(60_000)
    assert notes.seen == [] and notes.failures == 0
    with pytest.raises(RuntimeError, match="a bug"):
        now(observation.reached(1))


def test_long_work_yields_between_its_steps(case):
    done = []

    def observer(committed):
        for number in range(3):
            done.append((*committed.records, number))
            yield

    case.runtime.observe(observer)
    case.runtime.post(("enter", "a"))
    case.runtime.post(("enter", "b"))
    assert done == [("a", 0)]
    assert case.runtime.post(("count",)).result() == 2
    case.clock.advance(0)
    assert done == [(name, number) for name in "ab" for number in range(3)]


def test_a_failing_step_restarts_the_batch(case):
    done = []

    def observer(committed):
        done.append("begun")
        yield
        if done == ["begun"]:
            raise RuntimeError("a bug")
        done.append("ended")

    case.runtime.observe(observer)
    case.runtime.post(("enter", "a"))
    case.clock.advance(100)
    assert done[:3] == ["begun", "begun", "ended"]


def test_a_submitter_can_wait_until_an_observer_has_processed_its_batch(case):
    def observer(committed):
        yield

    async def run():
        observation = case.runtime.observe(observer)
        await case.runtime.submit(("enter", "a"))
        reached = asyncio.ensure_future(observation.reached(1))
        await asyncio.sleep(0)
        assert not reached.done()
        case.clock.advance(0)
        await reached
        await observation.reached(1)

    asyncio.run(run())


def test_waiters_for_an_observer_fail_when_it_is_stopped(case):
    case.log.commits_at_once = False

    async def run():
        observation = case.runtime.observe(Notes())
        case.runtime.post(("enter", "a"))
        reached = asyncio.ensure_future(observation.reached(1))
        await asyncio.sleep(0)
        case.runtime.stop()
        with pytest.raises(Exception, match="NOT_COORDINATOR"):
            await reached

    asyncio.run(run())
