"""The transactional producer of wirekafka's client, with the broker under test and with Kafka's."""

from __future__ import annotations

import pytest

from compat_tests.conftest import RunningBroker
from tests.client import transaction_cases as cases


@pytest.fixture(params=["broker", "apache_kafka"])
def either(request: pytest.FixtureRequest) -> RunningBroker:
    found: RunningBroker = request.getfixturevalue(request.param)
    return found


def test_transactions_are_seen_whole_or_not_at_all(either: RunningBroker) -> None:
    cases.transactions_are_seen_whole_or_not_at_all(either.bootstrap)


def test_a_second_producer_fences_the_first(either: RunningBroker) -> None:
    cases.a_second_producer_fences_the_first(either.bootstrap)
