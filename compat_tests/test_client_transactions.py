"""The transactional producer of wirekafka's client, with the broker under test and with Kafka's."""

from __future__ import annotations

import pytest

from compat_tests.conftest import RunningBroker
from tests.client import transaction_cases as cases
from wirekafka.client.client import BrokerConnection


@pytest.fixture(params=["broker", "apache_kafka"])
def either(request: pytest.FixtureRequest) -> RunningBroker:
    found: RunningBroker = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=[2, 0], ids=["transactions 2", "transactions 0"], autouse=True)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The level of transactions that the client sees; brokers serve older clients, too."""
    if request.param == 0:
        monkeypatch.setattr(BrokerConnection, "finalized_level", lambda *_: 0)


def test_transactions_are_seen_whole_or_not_at_all(either: RunningBroker) -> None:
    cases.transactions_are_seen_whole_or_not_at_all(either.bootstrap)


def test_a_second_producer_fences_the_first(either: RunningBroker) -> None:
    cases.a_second_producer_fences_the_first(either.bootstrap)
