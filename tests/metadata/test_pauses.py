"""How long one step of processing metadata blocks the event loop."""

from __future__ import annotations

import gc
import time

import pytest

from tests.metadata.cluster import Cluster
from wirekafka.metadata.controller.topics import (
    CreatePartitions,
    DeleteTopics,
    Growth,
    TopicReference,
)
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.replication.raft.snapshot_file import Frame, encode

PARTITIONS = 5_000
LONGEST_S = 0.16
"""Of the processor's time: four times what is needed, for slow machines that are shared."""
SHARED_S = 0.04
FENCING_S = 0.02


@pytest.fixture(autouse=True)
def no_collector():
    """Without garbage collection, which is rare in a broker, whose heap is also smaller."""
    gc.disable()
    yield
    gc.enable()


class Stopwatch:
    """The longest time that one callback of a cluster's clock, or one call, has taken.

    The clock advances with the thread's processor time, since turns end by the clock.
    """

    def __init__(self, cluster: Cluster):
        self.longest_s = 0.0
        now_ms = cluster.clock.now_ms
        cluster.clock.now_ms = lambda: now_ms() + int(time.thread_time() * 1000)
        call_later = cluster.clock.call_later
        cluster.clock.call_later = lambda delay_ms, callback: call_later(
            delay_ms, lambda: self.run(callback)
        )

    def run(self, callback):
        start = time.thread_time()
        try:
            return callback()
        finally:
            self.longest_s = max(self.longest_s, time.thread_time() - start)


def test_thousands_of_partitions_are_decided_and_followed_in_short_steps():
    cluster = Cluster()
    cluster.create("warm", num_partitions=2)
    watch = Stopwatch(cluster)
    watch.run(lambda: cluster.create("many", num_partitions=PARTITIONS))
    cluster.clock.advance(0)
    grow = CreatePartitions([Growth("many", 2 * PARTITIONS)])
    watch.run(lambda: cluster.controller.post(grow))
    cluster.clock.advance(0)
    watch.run(lambda: cluster.controller.post(DeleteTopics([TopicReference("many")])))
    cluster.clock.advance(0)
    assert cluster.host.done.count(("place", "many", 0, 0)) == 1
    assert sum(each[:2] == ("drop", "many") for each in cluster.host.done) == 2 * PARTITIONS
    assert watch.longest_s < LONGEST_S


def test_a_broker_with_thousands_of_partitions_is_fenced_in_short_steps():
    cluster = Cluster(1, 2, 3)
    cluster.create("many", assignments=[(index, [2, 3, 1]) for index in range(3_300)])
    watch = Stopwatch(cluster)
    watch.run(lambda: cluster.beat(2, wants_fence=True))
    cluster.clock.advance(1)
    assert cluster.image.brokers[2].fenced
    assert cluster.image.topics["many"].partitions[3_299].leader == 3
    assert watch.longest_s < 4 * FENCING_S


def test_a_snapshot_blocks_the_loop_only_while_the_image_is_frozen():
    cluster = Cluster()
    cluster.create("many", num_partitions=PARTITIONS)
    watch = Stopwatch(cluster)
    frozen = watch.run(cluster.image.frozen)
    assert watch.longest_s < SHARED_S
    codec = MetadataCodec()
    assert len(list(encode(frozen.snapshot(), codec, Frame(now_ms=1)))) > 2
