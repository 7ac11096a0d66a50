"""Queues of requests to other brokers: a broken response fails its items, and no others."""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.coordinator.transactions.broker_queues import BrokerQueues, Queued
from wirekafka.errors import Error, KafkaError


def test_a_response_without_all_results_fails_its_items_and_the_next_request_is_sent() -> None:
    answers = [[], ["b"]]

    async def send(broker_id: int, items: Sequence[str]) -> Sequence[str]:
        return answers.pop(0)

    queues: BrokerQueues[str, str] = BrokerQueues(send)
    answered: list[str | KafkaError] = []
    queues.add(2, Queued("a", answered.append))
    queues.add(2, Queued("b", answered.append))
    failed, result = answered
    assert isinstance(failed, KafkaError) and failed.error is Error.UNKNOWN_SERVER_ERROR
    assert result == "b"
