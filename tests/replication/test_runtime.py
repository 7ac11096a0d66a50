"""The runtime answers when what was decided is committed, and rebuilds what it cannot trust."""

import asyncio
import json
import struct

import pytest

from tests.manual_clock import ManualClock
from tests.memory_log import MemoryLog
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.machine import Outcome, Producer
from wirekafka.replication.record_codec import KeyValueCodec
from wirekafka.replication.runtime import Runtime


class JsonCodec(KeyValueCodec):
    def pack(self, record):
        return json.dumps(record).encode(), None

    def unpack(self, key, value):
        return json.loads(key)


class Doorkeeper:
    """("enter", name) adds a member; ("wait",) parks until somebody enters; members expire."""

    def __init__(self):
        self.members = []
        self.pending = {}
        self.parked = []
        self.expires = None

    def decide(self, command, ticket, now_ms):
        match command:
            case ("enter", name):
                if name in self.members:
                    raise KafkaError(Error.DUPLICATE_RESOURCE)
                released, self.parked = self.parked, []
                self.expires = now_ms + 100
                return Outcome([name], [(ticket, "welcome"), *((t, name) for t in released)])
            case ("enter", name, producer):
                return Outcome([name], [(ticket, "maybe")], producer)
            case ("wait",):
                self.parked.append(ticket)
                return Outcome()
            case ("count",):
                return Outcome.reply(ticket, len(self.members))

    def replay(self, record):
        if record == "-":
            self.members.clear()
        else:
            self.members.append(record)

    def replay_pending(self, record, producer):
        self.pending.setdefault(producer, []).append(record)

    def replay_end_marker(self, producer, committed):
        held = self.pending.pop(producer, [])
        if committed:
            self.members += held

    def deadline(self):
        return self.expires

    def tick(self, now_ms):
        self.expires = None
        return Outcome(["-"])

    def snapshot(self):
        return list(self.members)


class Case:
    def __init__(self):
        self.clock, self.log = ManualClock(), MemoryLog()
        self.runtime = Runtime(Doorkeeper, self.log, JsonCodec(), self.clock)

    @property
    def members(self):
        return self.runtime.machine.members


@pytest.fixture
def case():
    case = Case()
    case.runtime.load()
    return case


def step(coroutine):
    """Run a coroutine that must not suspend."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it suspended")


def test_a_reply_to_what_is_committed_comes_without_suspending(case):
    assert step(case.runtime.submit(("enter", "a"))) == "welcome"
    assert case.members == ["a"]


def test_a_reply_waits_until_its_records_are_committed(case):
    case.log.commits_at_once = False

    async def run():
        task = asyncio.ensure_future(case.runtime.submit(("enter", "a")))
        await asyncio.sleep(0)
        assert not task.done() and case.members == ["a"]
        case.log.commit(1)
        assert await task == "welcome"

    asyncio.run(run())


def test_a_read_of_uncommitted_state_waits_for_it_to_be_committed(case):
    case.log.commits_at_once = False
    entering = case.runtime.post(("enter", "a"))
    counting = case.runtime.post(("count",))
    refused = case.runtime.post(("enter", "a"))
    assert not entering.done and not counting.done and not refused.done
    case.log.commit(1)
    assert counting.result() == 1
    with pytest.raises(KafkaError, match="DUPLICATE"):
        refused.result()


def test_a_parked_submitter_is_released_by_anothers_command(case):
    async def run():
        waiting = asyncio.ensure_future(case.runtime.submit(("wait",)))
        await asyncio.sleep(0)
        await case.runtime.submit(("enter", "a"))
        assert await waiting == "a"

    asyncio.run(run())


def test_a_refusal_is_raised_and_nothing_is_appended(case):
    step(case.runtime.submit(("enter", "a")))
    with pytest.raises(KafkaError) as caught:
        step(case.runtime.submit(("enter", "a")))
    assert caught.value.error is Error.DUPLICATE_RESOURCE
    assert case.log.end_offset == 1


def test_loading_replays_the_log(case):
    for name in "abc":
        step(case.runtime.submit(("enter", name)))
    case.runtime.load()
    assert case.members == ["a", "b", "c"]


def test_commands_fail_while_the_machine_is_loading():
    case = Case()
    case.log.append(JsonCodec().encode(["a"], 0, None))
    steps = case.runtime.load_steps()
    next(steps)
    with pytest.raises(KafkaError) as caught:
        step(case.runtime.submit(("count",)))
    assert caught.value.error is Error.COORDINATOR_LOAD_IN_PROGRESS
    assert list(steps) == []
    assert step(case.runtime.submit(("count",))) == 1


def test_a_failed_append_is_told_and_the_machine_is_rebuilt(case):
    step(case.runtime.submit(("enter", "a")))
    case.log.failure = KafkaError(Error.KAFKA_STORAGE_ERROR)
    before = case.runtime.machine

    async def run():
        parked = asyncio.ensure_future(case.runtime.submit(("wait",)))
        await asyncio.sleep(0)
        with pytest.raises(KafkaError) as caught:
            await case.runtime.submit(("enter", "b"))
        assert caught.value.error is Error.KAFKA_STORAGE_ERROR
        with pytest.raises(KafkaError) as lost:
            await parked
        assert lost.value.error is Error.NOT_COORDINATOR

    asyncio.run(run())
    assert case.runtime.machine is not before
    assert case.members == ["a"]


def test_lost_leadership_fails_every_outstanding_reply(case):
    async def run():
        parked = asyncio.ensure_future(case.runtime.submit(("wait",)))
        await asyncio.sleep(0)
        case.runtime.stop()
        with pytest.raises(KafkaError) as caught:
            await parked
        assert caught.value.error is Error.NOT_COORDINATOR

    asyncio.run(run())
    with pytest.raises(KafkaError) as caught:
        step(case.runtime.submit(("count",)))
    assert caught.value.error is Error.NOT_COORDINATOR


def test_outstanding_replies_fail_in_the_order_they_were_asked_for(case):
    async def run():
        told = []
        for name in range(100):
            parked = asyncio.ensure_future(case.runtime.submit(("wait",)))
            parked.add_done_callback(lambda done, name=name: told.append((name, done.exception())))
        await asyncio.sleep(0)
        case.runtime.stop()
        while len(told) < 100:
            await asyncio.sleep(0)
        assert [name for name, _ in told] == list(range(100))

    asyncio.run(run())


def test_a_deadline_ticks_the_machine(case):
    step(case.runtime.submit(("enter", "a")))
    case.clock.advance(99)
    assert case.members == ["a"]
    case.clock.advance(1)
    assert case.members == []


def test_a_deadline_that_moved_back_is_not_ticked_early(case):
    step(case.runtime.submit(("enter", "a")))
    case.clock.advance(60)
    step(case.runtime.submit(("enter", "b")))
    case.clock.advance(60)
    assert case.members == ["a", "b"]
    case.clock.advance(40)
    assert case.members == []


def test_committed_records_are_told_in_order_before_the_replies(case):
    told = []
    case.runtime.on_commit = lambda records: told.append(list(records))
    case.log.commits_at_once = False
    ticket = case.runtime.post(("enter", "a"))
    case.runtime.post(("enter", "b"))
    assert told == []
    case.log.commit(1)
    assert told == [["a"]] and ticket.done
    case.log.commit(2)
    assert told == [["a"], ["b"]]


def marker(producer, kind):
    record = Record(0, 0, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0), ())
    return encode_batch([record], options=BatchOptions(
        producer_id=producer.id, producer_epoch=producer.epoch, is_transactional=True,
        is_control=True))


@pytest.mark.parametrize(("kind", "members"), [(0, []), (1, ["a"])])
def test_records_of_a_transaction_count_once_its_marker_commits_them(case, kind, members):
    producer = Producer(7, 1)
    step(case.runtime.submit(("enter", "a", producer)))
    assert case.members == []
    case.log.append(marker(producer, kind))
    case.runtime.replay_end_marker(producer, kind == 1)
    assert case.members == members
    case.runtime.load()
    assert case.members == members
