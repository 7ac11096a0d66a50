"""Producers with acks=all: idempotent ones, and transactional ones with their coordinator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulation.replication.network import Reply
from tests.simulation.replication.schedule import Process
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.records.control import Marker, encode_marker
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.waiting import Watched

if TYPE_CHECKING:
    from tests.simulation.replication.broker import SimulatedBroker
    from tests.simulation.replication.world import World

_REQUEST_MS = 3_000
_IN_FLIGHT = 5
"""The maximum of batches in flight: as many as a log keeps per producer."""
_MOST_REFUSALS = 50
_TRANSACTIONS_V2 = 2


@dataclass(slots=True, kw_only=True)
class Send:
    """One batch of a producer, and its number among them."""

    number: int
    topic_id: bytes
    producer_id: int
    epoch: int
    sequence: int
    values: list[bytes]
    records: bytes
    is_transactional: bool = False
    offset: int | None = None
    """The base offset it was acknowledged with."""
    acknowledged_at_ms: float = 0.0


class Acknowledgement:
    """An append with acks=all at the leader, until it is committed, as in the Produce API."""

    def __init__(self, broker: SimulatedBroker, topic_id: bytes, reply: Reply):
        self._broker = broker
        self._topic_id = topic_id
        self._reply = reply
        self._end_offset = -1
        self._base_offset = -1

    def begin(self, append: Callable[[Partition], Any]) -> None:
        """Append, and reply once that is committed: the base offset, or an error."""
        try:
            partition = self._broker.replica(self._topic_id)
            appended = append(partition)
        except KafkaError as error:
            self._reply(error.error)
            return
        self._base_offset, self._end_offset = appended.base_offset, appended.end_offset
        if partition.high_watermark >= self._end_offset:
            self._reply(self._base_offset)
            return
        partition.watchers[self] = None
        self._broker.process.call_later(_REQUEST_MS, lambda: self._time_out(partition))

    def look(self, changed: Watched) -> None:
        """Reply if the batch is committed, or cannot be committed by this leader."""
        assert isinstance(changed, Partition)
        leader = changed.leader
        if leader is not None and changed.high_watermark < self._end_offset:
            return
        del changed.watchers[self]
        if leader is None:
            self._reply(Error.NOT_LEADER_OR_FOLLOWER)
        elif leader.lacks_maximal_replicas:
            self._reply(Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        else:
            self._reply(self._base_offset)

    def _time_out(self, partition: Partition) -> None:
        if self in partition.watchers:
            del partition.watchers[self]
            self._reply(Error.REQUEST_TIMED_OUT)


@dataclass(slots=True)
class Transaction:
    """A transaction: open, then ended by the client, then decided by its marker."""

    producer_id: int
    epoch: int
    sends: list[Send] = field(default_factory=list)
    is_commit: bool | None = None
    is_marked: bool = False


class Producer:
    """A client that sends batches to the leader it knows, until each is acknowledged."""

    def __init__(self, world: World, number: int, batches: int):
        self.world = world
        self.name = f"producer {number}"
        self.process = Process(world.schedule, self.name)
        self.producer_id = 1_000 + number
        self._in_flight = world.random.choice((1, _IN_FLIGHT))
        self._refusals = 0
        self.epoch = 0
        self._sequence = 0
        self._serial = 0
        self._left = batches
        self._leader = -1
        self._pending: list[Send] = []
        self.sends: list[Send] = []

    @property
    def is_done(self) -> bool:
        """Whether all is sent and acknowledged."""
        return self._left == 0 and not self._pending

    def start(self) -> None:
        """Send from now on."""
        self.process.call_later(self.world.random.random() * 2_000, self._next)

    def restart(self) -> None:
        """Start again with another producer id, as on a topic that was created again."""
        self._pending.clear()
        self._refusals = 0
        self._sequence = 0
        self.producer_id += 100

    # Sending.

    def _next(self) -> None:
        world = self.world
        if self._left:
            self.process.call_later(world.random.expovariate(1 / world.pause_ms), self._next)
        if self._left and self._may_send() and world.topic_id is not None:
            self._left -= 1
            self._send(self._made(is_transactional=False))

    def _may_send(self) -> bool:
        """Whether one more batch may be in flight.

        A log without state of the producer takes any sequence as its first, and requests overtake
        each other here: so the first batch goes alone, and all do where retention drops states.
        """
        if not self._pending:
            return True
        if self.world.deletes or any(send.sequence == 0 for send in self._pending):
            return False
        return len(self.sends) - self._pending[0].number < self._in_flight

    def _made(self, *, is_transactional: bool) -> Send:
        world, random = self.world, self.world.random
        values, records = [], []
        for _ in range(random.choice((1, 1, 1, 2, 5))):
            value = b"%s:%d" % (self.name.encode(), self._serial)
            self._serial += 1
            values.append(value)
            padding = b" " * random.choice((0, 10, 200))
            key = b"key %d" % random.randrange(world.keys)
            records.append(Record(timestamp=world.now_ms(), key=key, value=value + padding))
        assert world.topic_id is not None
        send = Send(
            number=len(self.sends),
            topic_id=world.topic_id,
            producer_id=self.producer_id,
            epoch=self.epoch,
            sequence=self._sequence,
            values=values,
            records=encode_batch(
                records,
                options=BatchOptions(
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                    base_sequence=self._sequence,
                    is_transactional=is_transactional,
                ),
            ),
            is_transactional=is_transactional,
        )
        self._sequence += len(values)
        self.sends.append(send)
        return send

    def _send(self, send: Send) -> None:
        self._pending.append(send)
        self._try(send)

    def _try(self, send: Send) -> None:
        if send not in self._pending:
            return

        def append(partition: Partition) -> Any:
            leader = partition.leading()
            return leader.append_from_client(send.records, -1, partition.clock.now_ms())

        def answered(answer: int | Error | None) -> None:
            if send not in self._pending:
                return
            if isinstance(answer, Error) or answer is None:
                self._failed(send, answer)
                return
            send.offset, send.acknowledged_at_ms = answer, self.world.schedule.time_ms
            self._pending.remove(send)
            self._refusals = 0
            self.world.trace(f"{self.name} sequence {send.sequence} acknowledged at {answer}")
            self._acknowledged(send)

        self._ask(send.topic_id, append, answered)

    def _failed(self, send: Send, error: Error | None) -> None:
        self.world.trace(f"{self.name} sequence {send.sequence}: {error}")
        if error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER and send is self._pending[0]:
            self._refusals += 1
            if self._refusals > _MOST_REFUSALS and self._in_flight > 1:
                # A clean stop keeps the newest batch of a producer only, as in Kafka: retries of
                # those before it are then refused. The client starts again.
                self.world.trace(f"{self.name} gives up {len(self._pending)} batches")
                self.restart()
                return
        self.process.call_later(100, lambda: self._try(send))

    def _acknowledged(self, send: Send) -> None:
        pass

    def _ask(
        self, topic_id: bytes, append: Callable[[Partition], Any], answered: Callable[[Any], None]
    ) -> None:
        """Request an append of the leader; look for another leader after any error."""
        world = self.world
        broker = world.brokers.get(self._leader)

        def heard(answer: Any) -> None:
            if not isinstance(answer, int) or isinstance(answer, Error):
                self._find_leader()
            answered(answer)

        world.network.ask(
            self.process,
            None if broker is None else broker.process,
            lambda reply: Acknowledgement(broker, topic_id, reply).begin(append),  # type: ignore[arg-type]
            heard,
            _REQUEST_MS + 500 if broker is not None else 100,
        )

    def _find_leader(self) -> None:
        """Metadata of some broker, which may be out of date."""
        world = self.world
        brokers = [each for each in world.brokers.values() if each.is_up and each.image]
        if brokers:
            image = world.random.choice(brokers).image
            if image is not None and image.partition is not None:
                self._leader = image.partition.leader


class TransactionalProducer(Producer):
    """A producer whose batches are all in transactions, of Transactions V2: each bumps the epoch.

    It is its transaction coordinator too, which never fails.
    """

    def __init__(self, world: World, number: int, batches: int):
        super().__init__(world, number, batches)
        self.transactions: list[Transaction] = []
        self._current: Transaction | None = None

    @property
    def is_done(self) -> bool:
        return self._left == 0 and not self._pending and self._current is None

    def restart(self) -> None:
        super().restart()
        if self._current is not None:
            self._current = None
            self.process.call_later(100, self._next)

    def _next(self) -> None:
        """Begin a transaction of a few batches."""
        world = self.world
        if not self._left or self._current is not None:
            return
        if world.topic_id is None:
            self.process.call_later(100, self._next)
            return
        current = self._current = Transaction(self.producer_id, self.epoch)
        self.transactions.append(current)
        self._continue(current)

    def _continue(self, current: Transaction) -> None:
        random = self.world.random
        if self._current is not current:
            return
        if not self._left or (current.sends and random.random() < 0.4):
            self._end(current)
            return
        if self.world.topic_id is None:
            return  # The topic is deleted: `restart` will continue with the next one.
        self._left -= 1
        send = self._made(is_transactional=True)
        current.sends.append(send)
        self._send(send)
        if random.random() < 0.3:
            self.process.call_later(random.random() * 300, lambda: self._abort(current))

    def _acknowledged(self, send: Send) -> None:
        current = self._current
        if current is not None and current.is_commit is None and send in current.sends:
            pause_ms = self.world.random.expovariate(1 / self.world.pause_ms)
            self.process.call_later(pause_ms, lambda: self._resume(current))

    def _resume(self, current: Transaction) -> None:
        if current.is_commit is None and self._current is current and not self._pending:
            self._continue(current)

    def _abort(self, current: Transaction) -> None:
        """Give up, even with batches in flight whose fate is unknown."""
        if self._current is current and current.is_commit is None:
            self._pending.clear()
            self._end(current, may_commit=False)

    def _end(self, current: Transaction, *, may_commit: bool = True) -> None:
        current.is_commit = may_commit and self.world.random.random() < 0.7
        self.epoch += 1
        self._sequence = 0
        self._mark(current)

    def _mark(self, current: Transaction) -> None:
        """WriteTxnMarkers, again and again until the marker is committed."""
        topic_id, epoch = current.sends[0].topic_id, current.epoch + 1
        is_commit = bool(current.is_commit)

        def append(partition: Partition) -> Any:
            marker = Marker(is_commit, 0, partition.clock.now_ms())
            batch = encode_marker(current.producer_id, epoch, marker)
            return partition.leading().append_marker(batch, _TRANSACTIONS_V2)

        def answered(answer: int | Error | None) -> None:
            if self._current is not current:
                return
            if isinstance(answer, Error) or answer is None:
                self.world.trace(f"{self.name} marker of epoch {epoch}: {answer}")
                self.process.call_later(100, lambda: self._mark_again(current))
                return
            self.world.trace(
                f"{self.name} {'commits' if is_commit else 'aborts'} epoch {current.epoch}"
                f" at {answer}"
            )
            current.is_marked = True
            self._current = None
            self._next()

        self._ask(topic_id, append, answered)

    def _mark_again(self, current: Transaction) -> None:
        if self._current is current:
            self._mark(current)
