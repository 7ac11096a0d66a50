"""The runtime replies once records are committed; a refused append fails only its command."""

import asyncio
import errno
import json
import struct
from functools import partial

import pytest

from tests.in_process import now
from tests.manual_clock import ManualClock
from tests.memory_log import MemoryLog
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_batch
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Outcome, Producer
from wirekafka.runtime.record_codec import KeyValueCodec
from wirekafka.runtime.runtime import Runtime
from wirekafka.runtime.timers import Timers


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
        self.timers = Timers()

    def decide(self, command, ticket, now_ms):
        match command:
            case ("enter", name):
                if name in self.members:
                    raise KafkaError(Error.DUPLICATE_RESOURCE)
                replies = [(ticket, "welcome"), *((parked, name) for parked in self.parked)]
                outcome = Outcome([name], replies)
                outcome.then(self.parked.clear)
                outcome.schedule("expiry", now_ms + 100)
                return outcome
            case ("enter", name, producer):
                return Outcome([name], [(ticket, "maybe")], producer)
            case ("wait",):
                outcome = Outcome()
                outcome.then(partial(self.parked.append, ticket))
                return outcome
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

    def loaded(self, now_ms):
        self.loaded_ms = now_ms

    def tick(self, key, now_ms):
        return Outcome(["-"])

    def snapshot(self):
        return list(self.members)


class Case:
    def __init__(self, machine=Doorkeeper, log=None, **options):
        self.clock, self.log = ManualClock(), log or MemoryLog()
        self.runtime = Runtime(machine, self.log, JsonCodec(), self.clock, **options)

    @property
    def members(self):
        return self.runtime.machine.members


@pytest.fixture
def case():
    case = Case()
    case.runtime.load()
    return case


def test_a_reply_to_what_is_committed_comes_without_suspending(case):
    assert now(case.runtime.submit(("enter", "a"))) == "welcome"
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
    now(case.runtime.submit(("enter", "a")))
    with pytest.raises(KafkaError) as caught:
        now(case.runtime.submit(("enter", "a")))
    assert caught.value.error is Error.DUPLICATE_RESOURCE
    assert case.log.end_offset == 1


def test_loading_replays_the_log(case):
    for name in "abc":
        now(case.runtime.submit(("enter", name)))
    case.runtime.load()
    assert case.members == ["a", "b", "c"]


def test_commands_fail_while_the_machine_is_loading():
    case = Case()
    case.log.append(JsonCodec().encode(["a"], 0, None))
    steps = case.runtime.load_steps()
    next(steps)
    with pytest.raises(KafkaError) as caught:
        now(case.runtime.submit(("count",)))
    assert caught.value.error is Error.COORDINATOR_LOAD_IN_PROGRESS
    assert list(steps) == []
    assert now(case.runtime.submit(("count",))) == 1


async def refused(case, command):
    with pytest.raises(KafkaError) as caught:
        await case.runtime.submit(command)
    return caught.value.error


def test_a_refused_append_fails_only_its_command(case):
    now(case.runtime.submit(("enter", "a")))
    before = case.runtime.machine

    async def run():
        parked = asyncio.ensure_future(case.runtime.submit(("wait",)))
        await asyncio.sleep(0)
        case.log.failure = KafkaError(Error.NOT_ENOUGH_REPLICAS)
        assert await refused(case, ("enter", "b")) is Error.NOT_ENOUGH_REPLICAS
        assert not parked.done() and case.members == ["a"]
        case.log.failure = None
        await case.runtime.submit(("enter", "b"))
        assert await parked == "b"

    case.log.reads = 0
    asyncio.run(run())
    assert case.runtime.machine is before and case.log.reads == 0


def test_a_refused_append_moves_no_timer(case):
    now(case.runtime.submit(("enter", "a")))
    case.clock.advance(50)
    case.log.failure = KafkaError(Error.NOT_ENOUGH_REPLICAS)
    asyncio.run(refused(case, ("enter", "b")))
    assert case.runtime.machine.timers.deadline() == case.clock.now_ms() + 50


def test_a_timer_whose_append_is_refused_fires_again_a_second_later(case):
    now(case.runtime.submit(("enter", "a")))
    case.log.failure = KafkaError(Error.NOT_ENOUGH_REPLICAS)
    case.clock.advance(100)
    case.log.failure = None
    case.clock.advance(999)
    assert case.members == ["a"]
    case.clock.advance(1)
    assert case.members == []


class ManyTimers(Doorkeeper):
    """Every timer writes its own name."""

    def loaded(self, now_ms):
        for name in ("a", "b", "c"):
            self.timers.schedule(name, now_ms + 10)

    def tick(self, key, now_ms):
        if key == "bug":
            raise ZeroDivisionError
        return Outcome([key])


def test_a_refused_timer_does_not_delay_others():
    case = Case(ManyTimers)
    case.runtime.load()
    case.log.refuses = lambda batch: b'"a"' in batch
    case.clock.advance(10)
    assert case.members == ["b", "c"]
    case.log.refuses = None
    case.clock.advance(1000)
    assert case.members == ["b", "c", "a"]


def test_a_failing_timer_does_not_delay_others(caplog):
    case = Case(ManyTimers)
    case.runtime.load()
    case.runtime.machine.timers.schedule("bug", case.clock.now_ms())
    case.clock.advance(10)
    assert case.members == ["a", "b", "c"]
    assert "timer bug" in caplog.text


class HalfWritten(MemoryLog):
    """Writes the batch, and then fails, as when a sync fails."""

    def append(self, batch):
        end_offset = super().append(batch)
        if self.fails_late:
            raise KafkaError(Error.KAFKA_STORAGE_ERROR)
        return end_offset

    fails_late = False


def test_a_partly_failed_append_rebuilds_the_machine_in_steps():
    case = Case(log=HalfWritten())
    case.runtime.load()
    for number in range(1200):
        case.runtime.post(("enter", number))
    before = case.runtime.machine
    case.log.fails_late = True

    async def run():
        parked = asyncio.ensure_future(case.runtime.submit(("wait",)))
        await asyncio.sleep(0)
        assert await refused(case, ("enter", "b")) is Error.KAFKA_STORAGE_ERROR
        with pytest.raises(KafkaError) as lost:
            await parked
        assert lost.value.error is Error.NOT_COORDINATOR
        assert await refused(case, ("count",)) is Error.COORDINATOR_LOAD_IN_PROGRESS

    asyncio.run(run())
    case.clock.advance(1)
    assert case.runtime.machine is not before
    assert case.members == [*range(1200), "b"]


def test_a_machine_that_cannot_be_rebuilt_refuses_commands(caplog):
    case = Case(log=HalfWritten())
    case.runtime.load()
    case.log.fails_late = True
    case.log.batches.append(b"\xff" * 80)
    asyncio.run(refused(case, ("enter", "b")))
    case.clock.advance(1)
    assert asyncio.run(refused(case, ("count",))) is Error.NOT_COORDINATOR
    assert "cannot be rebuilt" in caplog.text


def test_a_reply_that_is_not_committed_in_time_fails_and_the_state_is_kept():
    case = Case(write_timeout_ms=50)
    case.runtime.load()
    case.log.commits_at_once = False
    ticket, other = case.runtime.post(("enter", "a")), case.runtime.post(("enter", "b"))
    case.clock.advance(49)
    case.log.commit(1)
    assert ticket.result() == "welcome" and not other.done
    case.clock.advance(1)
    with pytest.raises(KafkaError) as caught:
        other.result()
    assert caught.value.error is Error.REQUEST_TIMED_OUT
    case.log.commit(2)
    assert case.members == ["a", "b"]


def test_a_reply_that_is_committed_at_once_needs_no_timer():
    case = Case(write_timeout_ms=5_000)
    case.runtime.load()
    case.runtime.post(("enter", "a"))
    assert [timer for _, _, timer in case.clock._timers if timer.callback] == [
        timer for _, _, timer in case.clock._timers if timer is case.runtime._timer
    ]


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
        now(case.runtime.submit(("count",)))
    assert caught.value.error is Error.NOT_COORDINATOR


def test_outstanding_replies_fail_in_the_order_of_their_commands(case):
    async def run():
        replies = []
        for name in range(100):
            parked = asyncio.ensure_future(case.runtime.submit(("wait",)))
            parked.add_done_callback(
                lambda done, name=name: replies.append((name, done.exception()))
            )
        await asyncio.sleep(0)
        case.runtime.stop()
        while len(replies) < 100:
            await asyncio.sleep(0)
        assert [name for name, _ in replies] == list(range(100))

    asyncio.run(run())


def test_a_deadline_ticks_the_machine(case):
    now(case.runtime.submit(("enter", "a")))
    case.clock.advance(99)
    assert case.members == ["a"]
    case.clock.advance(1)
    assert case.members == []


def test_a_deadline_that_moved_back_is_not_ticked_early(case):
    now(case.runtime.submit(("enter", "a")))
    case.clock.advance(60)
    now(case.runtime.submit(("enter", "b")))
    case.clock.advance(60)
    assert case.members == ["a", "b"]
    case.clock.advance(40)
    assert case.members == []


def marker(producer, kind):
    record = Record(0, 0, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0), ())
    return encode_batch(
        [record],
        options=BatchOptions(
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            is_transactional=True,
            is_control=True,
        ),
    )


@pytest.mark.parametrize(("kind", "members"), [(0, []), (1, ["a"])])
def test_records_of_a_transaction_apply_once_its_marker_commits_them(case, kind, members):
    producer = Producer(7, 1)
    now(case.runtime.submit(("enter", "a", producer)))
    assert case.members == []
    case.log.append(marker(producer, kind))
    case.runtime.replay_end_marker(producer, kind == 1)
    assert case.members == members
    case.runtime.load()
    assert case.members == members


# Lingering


@pytest.fixture
def lingering():
    case = Case(linger_ms=5)
    case.runtime.load()
    return case


def keys(batch):
    return [json.loads(record.key) for record in decode_records(batch)]


def test_lingering_records_of_several_commands_are_one_batch(lingering):
    first = lingering.runtime.post(("enter", "a"))
    lingering.clock.advance(2)
    second = lingering.runtime.post(("enter", "b"))
    counted = lingering.runtime.post(("count",))
    assert lingering.members == ["a", "b"], "decisions see what lingers"
    assert not lingering.log.batches
    assert not first.done and not second.done and not counted.done
    lingering.clock.advance(3)
    [batch] = lingering.log.batches
    assert keys(batch) == ["a", "b"]
    times = [record.timestamp for record in decode_records(batch)]
    assert times[1] - times[0] == 2
    assert first.result() == second.result() == "welcome" and counted.result() == 2


def test_lingering_batches_are_counted_from_their_first_record(lingering):
    lingering.runtime.post(("enter", "a"))
    lingering.clock.advance(5)
    lingering.runtime.post(("enter", "b"))
    lingering.clock.advance(4)
    assert len(lingering.log.batches) == 1
    lingering.clock.advance(1)
    assert [keys(batch) for batch in lingering.log.batches] == [["a"], ["b"]]


def test_records_of_a_transaction_do_not_linger_but_follow_those_that_do(lingering):
    lingering.runtime.post(("enter", "a"))
    lingering.runtime.post(("enter", "b", Producer(1, 0)))
    assert [keys(batch) for batch in lingering.log.batches] == [["a"], ["b"]]
    lingering.runtime.post(("enter", "c"))
    lingering.runtime.write_collected()
    assert len(lingering.log.batches) == 3
    assert lingering.runtime.end_offset == 3


def test_a_batch_that_would_become_too_large_is_written_first(lingering):
    lingering.runtime.post(("enter", "a" * 300_000))
    lingering.runtime.post(("enter", "b" * 300_000))
    assert [keys(batch)[0][0] for batch in lingering.log.batches] == ["a"]
    lingering.clock.advance(5)
    assert len(lingering.log.batches) == 2


def test_commands_whose_lingering_records_are_refused_fail_and_leave_no_trace(lingering):
    lingering.runtime.post(("enter", "a"))
    lingering.clock.advance(5)

    async def run():
        lost = asyncio.ensure_future(lingering.runtime.submit(("enter", "b")))
        await asyncio.sleep(0)
        lingering.log.failure = KafkaError(Error.NOT_ENOUGH_REPLICAS)
        lingering.clock.advance(5)
        with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
            await lost

    asyncio.run(run())
    assert lingering.members == ["a"], "the machine was rebuilt from its log"
    lingering.log.failure = None
    lingering.runtime.post(("enter", "b"))
    lingering.clock.advance(5)
    assert [keys(batch) for batch in lingering.log.batches] == [["a"], ["b"]]


def test_a_command_fails_with_the_lingering_records_that_it_follows(lingering):
    seen = []
    lingering.runtime.observe(lambda batch: seen.extend(batch.records))
    lingering.runtime.post(("enter", "a"))
    lingering.log.failure = KafkaError(Error.NOT_ENOUGH_REPLICAS)
    ticket = lingering.runtime.post(("enter", "b", Producer(1, 0)))
    with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
        ticket.result()
    lingering.clock.advance(0)
    assert lingering.members == [] and not lingering.log.batches and not seen


def test_lingering_records_are_lost_with_the_leadership(lingering):
    lingering.runtime.post(("enter", "a"))
    lingering.runtime.stop()
    lingering.clock.advance(5)
    assert not lingering.log.batches


def test_observers_see_lingering_records_once_they_are_committed(lingering):
    seen = []
    lingering.runtime.observe(lambda batch: seen.append((batch.records, batch.end_offset)))
    lingering.runtime.post(("enter", "a"))
    lingering.runtime.post(("enter", "b"))
    assert not seen
    lingering.clock.advance(5)
    lingering.clock.advance(0)
    assert [each for each in seen if each[0]] == [(["a"], 1), (["b"], 2)]


def test_a_log_that_cannot_be_read_for_lack_of_descriptors_is_loaded_later():
    class Exhausted(MemoryLog):
        is_exhausted = True

        def read_batches(self):
            if self.is_exhausted:
                raise OSError(errno.EMFILE, "Too many open files", "/data/t-0/0.log")
            yield from super().read_batches()

    case, finished = Case(log=Exhausted()), []
    case.log.append(JsonCodec().encode(["a"], 0, None))
    case.runtime.load_gradually(finished.append)
    case.clock.advance(2_000)
    assert finished == []
    case.log.is_exhausted = False
    case.clock.advance(1_000)
    assert finished == [None] and case.members == ["a"]
