"""A broker for each test, on which nothing of another is left."""

from collections.abc import Iterator

import pytest

from wirekafka import Broker


@pytest.fixture(scope="session")
def _shared() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(_shared: Broker) -> Iterator[Broker]:
    """One broker for all tests of a worker, as new for each."""
    yield _shared
    _shared.reset()
