"""Random requests of transactions, right and wrong, one after the other: the same every time."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from wirekafka.codec.message import Request
from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.transactions.producer import ScriptedProducer
from wirekafka.conformance.cases.transactions.views import committed, log, positions
from wirekafka.conformance.stage import Stage
from wirekafka.errors import Error
from wirekafka.protocol.end_txn import EndTxnRequest

BOOK = Book(EndTxnRequest, "transactions", ConformanceLevel.TRANSACTIONS, "KIP-890")

_SEEDS = 24
_PARTITIONS = 2
_FOREIGN = 2**40
_LAGS = (0, 0, 0, 0, 0, 1, -1)


class MixedSequence:
    """The requests of one seed, each made of what the producer knows by then."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage, self._chance = stage, random.Random(seed)  # noqa: S311
        self._topic = stage.create(partitions=_PARTITIONS)
        self._group = stage.name("g")
        self._producer = ScriptedProducer(stage)

    def play(self) -> None:
        """Send the requests, and note what they leave behind."""
        steps: list[Callable[[], None]] = [
            *(self._start, self._add, self._add, self._produce, self._produce, self._produce),
            *(self._end, self._end, self._offsets),
        ]
        for _ in range(self._chance.randint(5, 15)):
            self._chance.choice(steps)()
            self._producer.settle()
        self._stage.note("the transaction", self._producer.described())
        self._producer.leave()
        for partition in range(_PARTITIONS):
            self._stage.note("a log", log(self._stage, self._topic, partition))
            self._stage.note("its positions", positions(self._stage, self._topic, partition))
        self._stage.note("offsets", committed(self._stage, self._group, self._topic, 0, 1))

    def _start(self) -> None:
        identity = self._identity()
        timeout_ms = self._chance.choice([60_000, 60_000, 60_000, 0, 900_001])
        resumes = self._chance.random() < 0.4
        version = self._chance.choice([3, 4, 5] if resumes else [0, 1, 2, 3, 4, 5])
        id = identity["producer_id"] or self._producer.producer_id
        epoch = max(self._producer.epoch - identity["lag"], 0)
        request = (
            self._producer.init_request(producer_id=id, epoch=epoch, timeout_ms=timeout_ms)
            if resumes
            else self._producer.init_request(timeout_ms=timeout_ms)
        )
        answer = self._ask(request, version)
        if answer.error_code == Error.CONCURRENT_TRANSACTIONS:
            self._producer.settle()
            answer = self._ask(request, version)
        if not answer.error_code:
            self._producer.adopt(answer.producer_id, answer.producer_epoch)

    def _add(self) -> None:
        topics = {self._topic: [self._partition()]}
        if self._chance.random() < 0.1:
            topics[self._stage.missing] = [0]
        request = self._producer.add_request(topics, **self._identity())
        self._ask(request, self._chance.choice([0, 1, 2, 3]))

    def _produce(self) -> None:
        partition, skip = self._partition(), self._chance.choice([0, 0, 0, 0, 1])
        is_anonymous = self._chance.random() < 0.05
        request = self._producer.produce_request(
            self._topic,
            partition=partition,
            skip=skip,
            transactional_id=None if is_anonymous else "",
            **self._identity(),
        )
        answer = self._ask(request, self._chance.choice([11, 12, 13]))
        if not answer.responses[0].partition_responses[0].error_code:
            self._producer.sent(self._topic, partition=partition, count=1 + skip)

    def _end(self) -> None:
        is_committed = self._chance.random() < 0.6
        request = self._producer.end_request(committed=is_committed, **self._identity())
        version = self._chance.choice([0, 1, 2, 3, 4, 5, 5, 5, 5])
        answer = self._ask(request, version)
        if version >= 5 and not answer.error_code:
            self._producer.adopt(answer.producer_id, answer.producer_epoch)

    def _offsets(self) -> None:
        identity = self._identity()
        version = self._chance.choice([4, 5, 6])
        if version < 5:
            self._ask(self._producer.add_offsets_request(self._group, **identity), 3)
        offsets = {self._topic: {self._partition(): self._chance.randrange(9)}}
        self._ask(self._producer.offsets_request(self._group, offsets, **identity), version)

    def _ask(self, request: Request, version: int) -> Any:
        return self._stage.ask(request, version)

    def _partition(self) -> int:
        return self._chance.randrange(_PARTITIONS)

    def _identity(self) -> dict[str, Any]:
        """The epoch and the producer id to use: mostly the right, sometimes wrong ones."""
        lag, is_foreign = self._chance.choice(_LAGS), self._chance.random() < 0.05
        return {"lag": lag, "producer_id": _FOREIGN if is_foreign else None}


for _seed in range(_SEEDS):

    @BOOK.play(f"a mixed sequence, number {_seed + 1}", versions="5")
    def _mixed(stage: Stage, seed: int = _seed) -> None:
        """Stale epochs, foreign ids, lost sequences and bad states in any order."""
        MixedSequence(stage, seed).play()
