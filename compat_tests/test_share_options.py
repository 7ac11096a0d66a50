"""Java's KafkaShareConsumer under the options of its group, and over a kill of the broker."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.java_tools import JavaTools
from compat_tests.mortal_broker import MortalBroker
from compat_tests.share_settings import SHORT_TIMES

_SOURCE = Path(__file__).with_name("java") / "ShareOptions.java"
_EXPECTED = {
    "earliest": "[oldx1, newx1, laterx1]",
    "latest": "[laterx1]",
    "by_duration": "[newx1, laterx1]",
    # Each value with its delivery count: the lock of the record 1 expires.
    "expired": "[0x1, 1x1, 2x1, 1x2]",
    # The lock is renewed for longer than its duration, and then accepted by the same consumer.
    "renewed": "[0x1, 1x1, 2x1, 1x1]",
    # The record 1 is released until it is archived.
    "limited": "[0x1, 1x1, 2x1, 1x2, 1x3, 3x1]",
    "committed": "[committed-0x1, committed-1x1, lastx1]",
    "uncommitted": "[aborted-0x1, aborted-1x1, committed-0x1, committed-1x1, lastx1]",
    # The delivery of the record 3 was not stored before the broker was killed.
    "restarted": "[0x1, 1x1, 2x1, 3x1, 1x2, 3x1]",
}
"""The output, which is the same with Apache Kafka 4.4."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[MortalBroker]:
    broker = MortalBroker(tmp_path / "data", *SHORT_TIMES)
    broker.start()
    yield broker
    broker.stop()


def test_share_consumers_observe_the_options_of_their_group(
    broker: MortalBroker, java_clients: JavaTools, tmp_path: Path
) -> None:
    command = java_clients.command(str(_SOURCE), broker.bootstrap)
    log = tmp_path / "java.log"
    found = {}
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as java,
    ):
        assert java.stdin is not None and java.stdout is not None
        for line in java.stdout:
            if line.strip() == "restart":
                broker.kill()
                broker.start()
                java.stdin.write("restarted\n")
                java.stdin.flush()
                continue
            name, _, seen = line.rstrip("\n").partition("\t")
            found[name] = seen
    assert java.returncode == 0, log.read_text()[-3000:]
    assert found == _EXPECTED
