"""A transactional producer of either protocol, which also reads and commits offsets."""

from __future__ import annotations

from typing import Any

from tests.histories.history import OffsetCommit, Operation, Place, Send, Verdict
from tests.simulation.producer import Batch, outcome
from tests.simulation.reader import Reader
from tests.simulation.wire import (
    BUSY,
    GROUP,
    TRANSACTION,
    Coordinator,
    Leader,
    Lost,
    Refused,
    Whom,
    Wire,
)
from tests.simulation.world import PLACES, World, ask_until_not_busy, sleep
from wirekafka.errors import Error
from wirekafka.protocol.add_offsets_to_txn import AddOffsetsToTxnRequest
from wirekafka.protocol.add_partitions_to_txn import AddPartitionsToTxnRequest, Topic
from wirekafka.protocol.end_txn import EndTxnRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest

_ABORTS = 0.1
TIMEOUT_MS = 20_000


class TransactionalProducer:
    """Runs `count` transactions under an id, which another may use at the same time.

    The second generation (`is_second`) leaves adding partitions to the broker and moves its epoch
    on with every transaction (KIP-890).
    """

    def __init__(self, world: World, name: str, transactional_id: str, *, is_second: bool):
        self._world = world
        self._name = name
        self._id = transactional_id
        self._is_second = is_second
        # A late EndTxn of the first generation can hit the next transaction, in Kafka too.
        self._wire: Wire = world.wire(name, may_linger=is_second)
        self._produce_version = world.random.choice([12, 13]) if is_second else 11
        self._producer_id = self._epoch = -1
        self._sequences: dict[Place, int] = {}
        self._added: set[Place | str] = set()
        self._coordinator = Coordinator(TRANSACTION, transactional_id)
        self._offset = 0
        self._incarnation = 0
        self.is_alone = True
        """Whether no other producer uses the id, so that being fenced is unexpected."""

    async def run(self, count: int) -> None:
        """Run the transactions, starting again whenever this producer is fenced."""
        await self._start()
        for _ in range(count):
            operation = self._world.history.begin(
                f"{self._name}.{self._incarnation}", is_transaction=True
            )
            try:
                await self._transaction(operation)
            except Refused as refused:
                self._fenced(operation, refused)
                await sleep(self._world, 0.5)
                await self._start()
            await sleep(self._world, 0.1)
        self._wire.close()

    async def _start(self) -> None:
        answer = await ask_until_not_busy(
            self._wire,
            InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=TIMEOUT_MS),
            5 if self._is_second else 4,
            lambda answer: answer.error_code,
            self._coordinator,
        )
        if answer.error_code:
            raise AssertionError(f"{self._name} cannot start: {Error(answer.error_code).name}")
        self._adopt(answer)
        self._incarnation += 1
        self._reader = Reader(self._wire, self._world.topic_ids, committed=True, by_id=True)
        self._reader.seek(dict.fromkeys([self._world.a_place()], 0))

    def _adopt(self, answer: Any) -> None:
        if (answer.producer_id, answer.producer_epoch) != (self._producer_id, self._epoch):
            self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()

    def _fenced(self, operation: Operation, refused: Refused) -> None:
        history = self._world.history
        history.end(operation, Verdict.UNDONE if operation.decided is None else Verdict.UNKNOWN)
        if self.is_alone and not self._is_second:
            self._world.surprises.append(f"{self._name} is alone, but got the error {refused}")

    async def _transaction(self, operation: Operation) -> None:
        self._added.clear()
        random = self._world.random
        for _ in range(random.randint(1, 4)):
            step = random.choice([self._write, self._write, self._commit_offset, self._read])
            await step(operation)
        commits = random.random() >= _ABORTS
        if not self._added:
            self._world.history.end(operation, Verdict.DONE if commits else Verdict.UNDONE)
            return
        if commits:
            operation.decided = self._world.history.tick()
        answer = await self._ask(
            EndTxnRequest(transactional_id=self._id, committed=commits, **self._identity()),
            5 if self._is_second else 4,
            lambda answer: answer.error_code,
        )
        if self._is_second:
            self._adopt(answer)
        self._world.history.end(operation, Verdict.DONE if commits else Verdict.UNDONE)

    async def _write(self, operation: Operation) -> None:
        world = self._world
        place = world.a_place()
        if not self._is_second:
            await self._add(place)
        self._added.add(place)
        sends = [Send(place, world.new_value()) for _ in range(world.random.randint(1, 2))]
        operation.steps += sends
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + len(sends)
        batch = Batch(
            place=place,
            sends=sends,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            transactional_id=self._id,
        )
        request: ProduceRequest = batch.request(world.topic_ids[place[0]])
        answer = await self._ask(
            request,
            self._produce_version,
            lambda answer: outcome(answer).error_code,
            Leader(*place),
        )
        if Error(outcome(answer).error_code) is Error.NONE:
            batch.acknowledged(outcome(answer).base_offset)

    async def _add(self, place: Place) -> None:
        if place in self._added:
            return
        name, index = place
        await self._ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=self._producer_id,
                v3_and_below_producer_epoch=self._epoch,
                v3_and_below_topics=[Topic(name=name, partitions=[index])],
            ),
            3,
            lambda answer: (
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            ),
        )

    async def _commit_offset(self, operation: Operation) -> None:
        group, place = f"copies-{self._name}", PLACES[0]
        if not self._is_second and group not in self._added:
            await self._ask(
                AddOffsetsToTxnRequest(
                    transactional_id=self._id, group_id=group, **self._identity()
                ),
                3,
                lambda answer: answer.error_code,
            )
        self._added.add(group)
        self._offset += 1
        operation.steps.append(OffsetCommit(group, place, self._offset))
        kind = TxnOffsetCommitRequest.Topic
        await self._ask(
            TxnOffsetCommitRequest(
                transactional_id=self._id,
                group_id=group,
                **self._identity(),
                topics=[
                    kind(
                        name=place[0],
                        partitions=[
                            kind.Partition(partition_index=place[1], committed_offset=self._offset)
                        ],
                    )
                ],
            ),
            5 if self._is_second else 3,
            lambda answer: answer.topics[0].partitions[0].error_code,
            Coordinator(GROUP, group),
        )

    async def _read(self, operation: Operation) -> None:
        try:
            read = await self._reader.poll(20)
        except Lost:
            return
        read.ended = self._world.history.tick()
        operation.steps.append(read)

    async def _ask(self, request: Any, version: int, code_of: Any, whom: Whom = None) -> Any:
        """Send a request until it gets a response, to the transaction's coordinator by default.

        Raises Refused for errors that are not retriable.
        """
        while True:
            try:
                answer = await self._wire.ask(request, version, whom or self._coordinator)
            except Lost:
                await self._wire.pause()
                continue
            error = Error(code_of(answer))
            if error is Error.NONE or error is Error.DUPLICATE_SEQUENCE_NUMBER:
                return answer
            if error not in BUSY:
                raise Refused(error, type(request).__name__)
            await self._wire.pause(0.1)

    def _identity(self) -> dict[str, int]:
        return {"producer_id": self._producer_id, "producer_epoch": self._epoch}
