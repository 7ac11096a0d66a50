"""How exactly `producer_byte_rate` is kept, with three client libraries and up to 100 producers.

A campaign: `pytest -m campaign compat_tests/test_quota_rates.py -s` takes 9 minutes and prints the
rates, `--reference` those of Apache Kafka. Whole turns of the windows are measured, after the burst
that the first turn allows. Consumers that are faster than their quota have no steady rate: they get
what ten windows allow at once, and nothing until these have passed, as from Apache Kafka.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.driver import create_topic
from compat_tests.conftest import RunningBroker
from compat_tests.java_lines import JavaLines
from compat_tests.test_client_quotas import Client

LIMIT = 1_000_000
TOLERANCE = 0.05
WARM_UP_S, MEASURED_S = 22, 33
VALUE_BYTES = {1: 16_000, 10: 16_000, 100: 4_000}
"""By the count of clients: all have requests under way when the first is throttled."""
_JAVA = Path(__file__).with_name("java") / "QuotaClients.java"


class Lines:
    """A process that prints the bytes so far, with the time when they were read."""

    def __init__(self, read: Iterator[str]):
        self._read = read

    def at(self, seconds: float) -> tuple[float, int]:
        """The first count that is printed after a time, by the monotonic clock, and its time."""
        while True:
            count = int(next(self._read))
            if (now_s := time.monotonic()) >= seconds:
                return now_s, count


@contextmanager
def running(library: str, line: str) -> Iterator[Lines]:
    """Clients of a library, described by a line."""
    if library == "java":
        with JavaLines.running(_JAVA) as java:
            java.send(line)
            yield Lines(iter(java.next_line, None))
        return
    command = [sys.executable, "-m", "compat_tests.quota_clients", library]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line)
            process.stdin.flush()
            yield Lines(process.stdout)
        finally:
            process.kill()


@pytest.mark.campaign
@pytest.mark.parametrize("clients", [1, 10, 100])
@pytest.mark.parametrize("library", ["librdkafka", "kafka-python", "java"])
def test_producers_get_what_their_quota_allows(
    broker: RunningBroker, library: str, clients: int
) -> None:
    admin = Client(broker.address)
    admin.set_quota(LIMIT, "producer_byte_rate")
    topic = f"written-{secrets.token_hex(4)}"
    create_topic(*broker.address, topic)
    described = (broker.bootstrap, topic, admin.name, clients, VALUE_BYTES[clients])
    with running(library, "\t".join(map(str, described)) + "\n") as lines:
        begun_s, before = lines.at(time.monotonic() + WARM_UP_S)
        ended_s, after = lines.at(begun_s + MEASURED_S)
    rate = (after - before) / (ended_s - begun_s)
    print(f"\n{library}, {clients} clients: {rate / LIMIT - 1:+.1%} of the quota")
    assert rate == pytest.approx(LIMIT, rel=TOLERANCE)
