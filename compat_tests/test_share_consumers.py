"""Java's KafkaShareConsumer: implicit and explicit acknowledgement, release and rejection."""

from __future__ import annotations

from pathlib import Path

from compat_tests.conftest import RunningBroker
from compat_tests.java_tools import JavaTools

_SOURCE = Path(__file__).with_name("java") / "ShareLife.java"


def test_share_consumers_acknowledge_release_and_reject(
    broker: RunningBroker, java_clients: JavaTools
) -> None:
    printed = java_clients.run(str(_SOURCE), broker.bootstrap)
    assert dict(line.split("\t") for line in printed.splitlines() if "\t" in line) == {
        "implicit": "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]",
        # The record 3 is released twice, 5 is rejected; each has its delivery count.
        "explicit": "[0x1, 1x1, 2x1, 3x1, 4x1, 5x1, 6x1, 7x1, 8x1, 9x1, 3x2, 3x3]",
    }
