"""Java's KafkaShareConsumer: implicit and explicit acknowledgement, release and rejection."""

from __future__ import annotations

import subprocess
from pathlib import Path

from compat_tests.conftest import RunningBroker
from tests import kafka_jars

_SOURCE = Path(__file__).with_name("java") / "ShareLife.java"


def test_share_consumers_acknowledge_release_and_reject(broker: RunningBroker) -> None:
    classes = kafka_jars.class_path(kafka_jars.kafka_jars())
    jvm = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    # One source file needs no build: java compiles it as it starts.
    command = [kafka_jars.java(), *jvm, "-cp", classes, str(_SOURCE), broker.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    assert dict(line.split("\t") for line in done.stdout.splitlines() if "\t" in line) == {
        "implicit": "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]",
        # The record 3 is released twice, 5 is rejected; each has its delivery count.
        "explicit": "[0x1, 1x1, 2x1, 3x1, 4x1, 5x1, 6x1, 7x1, 8x1, 9x1, 3x2, 3x3]",
    }
