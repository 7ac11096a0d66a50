"""ListTransactions by pattern; error codes as Kafka 4.4.0 gave them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.in_process import InProcessBroker
from wirekafka.errors import Error
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.list_transactions import ListTransactionsRequest

IDS = ("orders-1", "orders-2", "a" * 249)


@pytest.fixture
def kafka(kafka: InProcessBroker) -> InProcessBroker:
    kafka.create("__transaction_state", 1)
    for name in IDS:
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        assert kafka.call(request, 5).error_code == 0
    return kafka


def listing(pattern: str | None, states: tuple[str, ...] = ()) -> ListTransactionsRequest:
    return ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=[], transactional_id_pattern=pattern
    )


def names(response: Any) -> list[str]:
    return sorted(each.transactional_id for each in response.transaction_states)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [(None, IDS), ("", IDS), ("orders-.*", IDS[:2]), ("orders", ()), (r"\pL+-(1|9)", IDS[:1])],
)
def test_ids_that_match_as_a_whole_are_listed(
    kafka: InProcessBroker, pattern: str | None, expected: tuple[str, ...]
) -> None:
    assert names(kafka.call(listing(pattern), 2)) == sorted(expected)


def test_an_expression_with_many_ways_to_match_takes_no_time(kafka: InProcessBroker) -> None:
    before_s = time.process_time()
    assert names(kafka.call(listing("(.|.)*!"), 2)) == []
    assert time.process_time() - before_s < 0.5


@pytest.mark.parametrize(
    "pattern",
    ["[", "(?=a)b", r"(a)\1", "a++", "a{1001}", "(" * 15_000 + ")" * 15_000, "a{99999999999}"],
    ids=lambda pattern: pattern[:10],
)
def test_an_invalid_expression_is_refused(kafka: InProcessBroker, pattern: str) -> None:
    for states in ((), ("Unheard",)):
        response = kafka.call(listing(pattern, states), 2)
        assert response.error_code == Error.INVALID_REGULAR_EXPRESSION


def test_an_unknown_state_alone_lists_nothing(kafka: InProcessBroker) -> None:
    response = kafka.call(listing(None, ("Unheard",)), 2)
    assert response.unknown_state_filters == ["Unheard"]
    assert names(response) == []


def test_matching_with_a_large_program_pauses(kafka: InProcessBroker) -> None:
    async def scenario() -> Any:
        exchange = kafka.begin(listing(r"(?:\w?b?c?){600}"), 2)
        assert not exchange.is_done
        while not exchange.is_done:
            kafka.clock.advance(0)
            await asyncio.sleep(0)
        return exchange.response

    assert names(asyncio.run(scenario())) == sorted(IDS[2:])
