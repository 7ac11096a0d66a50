"""An in-process broker for tests of APIs that read and write partitions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    broker = InProcessBroker(tmp_path / "data", manual_clock)
    yield broker
    broker.stop()
