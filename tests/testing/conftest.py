"""A broker for each test, without any state of earlier tests."""

from collections.abc import Iterator

import pytest

from wirekafka import Broker


@pytest.fixture(scope="session")
def _shared() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(_shared: Broker) -> Iterator[Broker]:
    """One broker for all tests of a worker, reset for each."""
    yield _shared
    _shared.reset()
