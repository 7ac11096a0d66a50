"""Fixtures that tests of several packages share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import kafka_jars
from tests.manual_clock import ManualClock


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock that moves only when the test says so."""
    return ManualClock()


@pytest.fixture(scope="session")
def kafka_schemas() -> Callable[[str], Path]:
    """Kafka's own JSON schemas, by folder: `kafka_schemas("message")` and `("metadata")`."""
    return kafka_jars.kafka_schemas
