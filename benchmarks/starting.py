"""Cases of starting: a new broker, and one that finds many partitions after a clean stop."""

from __future__ import annotations

import time
from contextlib import closing

from benchmarks.driver import (
    LEADER,
    PRODUCE_VERSION,
    Connection,
    RequestFailed,
    batch_of,
    create_topic,
)
from benchmarks.measure import RESIDENT, START, START_CPU, Metrics
from benchmarks.peers import Target
from wirekafka.protocol.produce import ProduceRequest, ProduceResponse

_TOPIC = "many"
_AT_A_TIME = 250
_LIMIT_S = 60


def started(target: Target, seconds: float) -> Metrics:
    """The duration of a start, and the memory after it."""
    return {START: target.start_s, START_CPU: target.cpu_s(), RESIDENT: target.resident_mib()}


def restarted(target: Target, seconds: float, partitions: int) -> Metrics:
    """Stop cleanly and start again, with a record in each of a number of partitions."""
    if create_topic(target.host, target.port, _TOPIC, partitions):
        _write_to_each(target, partitions)
    target.restart()
    return started(target, seconds)


def _write_to_each(target: Target, partitions: int) -> None:
    records = batch_of(1, 200)
    topic = ProduceRequest.TopicProduceData
    deadline = time.monotonic() + _LIMIT_S
    with closing(Connection(target.host, target.port)) as connection:
        for first in range(0, partitions, _AT_A_TIME):
            wanted = range(first, min(first + _AT_A_TIME, partitions))
            request = ProduceRequest(
                acks=LEADER,
                timeout_ms=30_000,
                topic_data=[
                    topic(
                        name=_TOPIC,
                        partition_data=[
                            topic.PartitionProduceData(index=index, records=records)
                            for index in wanted
                        ],
                    )
                ],
            )
            while True:
                response = connection.ask(request, ProduceResponse, PRODUCE_VERSION)
                errors = {each.error_code for each in response.responses[0].partition_responses}
                if errors == {0}:
                    break
                if time.monotonic() > deadline:
                    raise RequestFailed(f"Produce: errors {sorted(errors)}")
                time.sleep(0.1)  # Not all of the partitions have their leader yet.
