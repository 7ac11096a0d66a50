"""A broker for each test, without any state of earlier tests."""

import gc
from collections.abc import Iterator

import pytest

from wirekafka import Broker


@pytest.fixture(scope="session")
def _shared() -> Iterator[Broker]:
    # What other tests have left need not be looked at again for each test below.
    gc.collect()
    gc.freeze()
    with Broker() as broker:
        yield broker
    gc.unfreeze()


@pytest.fixture
def broker(_shared: Broker) -> Iterator[Broker]:
    """One broker for all tests of a worker, reset for each."""
    yield _shared
    # A client that is left in a reference cycle would create its topics again.
    gc.collect()
    _shared.reset()
