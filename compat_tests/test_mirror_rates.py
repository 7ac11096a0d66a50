"""The rate and the processor time of a mirror beside MirrorMaker 2's, in one run.

Run with `-m campaign -s`; WIREKAFKA_MIRROR_RATE_RECORDS sets how many records are copied.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from confluent_kafka import Producer

from compat_tests.java_tools import JavaTools
from compat_tests.mirror_stage import REFRESH, MortalKafka, offsets_of
from compat_tests.mortal_broker import MortalBroker
from compat_tests.test_connect import MIRROR_MAKER, MIRRORED_CLUSTERS
from compat_tests.test_mirror import create
from tests import kafka_jars
from tests.eventually import eventually
from tests.repetitions import repetitions
from wirekafka.client.client import CliError

_RECORDS = repetitions("WIREKAFKA_MIRROR_RATE_RECORDS", usual=1_000_000, thorough=5_000_000)
_PARTITIONS, _VALUE = 4, b"0123456789" * 40
_TOPIC = "copied"
_HEAP = "-Xmx1g"
_PROPERTIES = (
    MIRRORED_CLUSTERS
    + """topics={topic}
emit.checkpoints.enabled=false
emit.heartbeats.enabled=false
refresh.topics.interval.seconds=1
tasks.max=2
"""
)


class Measured(NamedTuple):
    """A whole copy, from the first record in the target to the last."""

    seconds: float
    cpu_s: float

    def __str__(self) -> str:
        rate = _RECORDS / self.seconds
        return f"{self.seconds:.1f} s, {rate:,.0f} records/s, {self.cpu_s:.1f} s of CPU"


def measured(processes: Sequence[psutil.Process], end: Callable[[], int]) -> Measured:
    """Wait for a copy: the time and the CPU from the first record on, so without the start."""
    eventually(lambda: end() > 0, timeout_s=180)
    first, began, cpu_s = end(), time.monotonic(), _cpu_s(processes)
    eventually(lambda: end() >= _RECORDS, timeout_s=900)
    share = _RECORDS / (_RECORDS - first) if first < _RECORDS else 1.0
    return Measured((time.monotonic() - began) * share, (_cpu_s(processes) - cpu_s) * share)


def _cpu_s(processes: Sequence[psutil.Process]) -> float:
    return sum(each.cpu_times().user + each.cpu_times().system for each in processes)


def _end(bootstrap: str, topic: str) -> int:
    try:
        return sum(offsets_of(bootstrap, topic, index)[1] for index in range(_PARTITIONS))
    except CliError:
        return 0


@pytest.mark.campaign
@pytest.mark.timeout(2_400)
def test_a_mirror_is_as_fast_as_mirror_maker_at_a_third_of_its_cpu(tmp_path: Path) -> None:
    source = MortalKafka(tmp_path / "source")
    target = MortalKafka(tmp_path / "target")
    source.start()
    try:
        create(source.bootstrap, _TOPIC, _PARTITIONS)
        _fill(source.bootstrap)
        mirror = MortalBroker(
            tmp_path / "mirror", *REFRESH, f"wirekafka.mirror.bootstrap.servers={source.bootstrap}"
        )
        mirror.start()
        assert mirror._process is not None
        ours = measured(
            [psutil.Process(mirror._process.pid)], lambda: _end(mirror.bootstrap, _TOPIC)
        )
        mirror.stop()
        target.start()
        assert target._process is not None
        tools = JavaTools(kafka_jars.connect_jars(), tmp_path)
        properties = tmp_path / "maker.properties"
        properties.write_text(
            _PROPERTIES.format(east=source.bootstrap, west=target.bootstrap, topic=_TOPIC)
        )
        command = tools.command(MIRROR_MAKER, str(properties))
        command = [_HEAP if word.startswith("-Xmx") else word for word in command]
        with (tmp_path / "maker.log").open("w") as log:
            maker = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            both = [psutil.Process(maker.pid), psutil.Process(target._process.pid)]
            alone = _cpu_s(both[:1])
            theirs = measured(both, lambda: _end(target.bootstrap, f"east.{_TOPIC}"))
            alone = _cpu_s(both[:1]) - alone
        finally:
            maker.kill()
            maker.wait()
    finally:
        source.stop()
        target.stop()
    print(f"\n{_RECORDS:,} records of {len(_VALUE)} bytes")
    print(f"wirekafka mirror, as one process: {ours}")
    print(f"MirrorMaker 2 and its target broker: {theirs}")
    print(f"MirrorMaker 2 alone, with its start: {alone:.1f} s of CPU")
    assert ours.seconds <= theirs.seconds
    assert ours.cpu_s <= 0.3 * theirs.cpu_s


def _fill(bootstrap: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.size": 65536,
            "queue.buffering.max.messages": 200_000,
        }
    )
    for number in range(_RECORDS):
        while True:
            try:
                producer.produce(_TOPIC, _VALUE, partition=number % _PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0
