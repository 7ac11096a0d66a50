"""The state that the parts of one simulation share: time, network, controller, brokers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.simulation.replication.broker import SimulatedBroker
from tests.simulation.replication.committed import Committed, ObservedPartition
from tests.simulation.replication.controller import MIN_ISR, Controller
from tests.simulation.replication.network import Network
from tests.simulation.replication.schedule import Schedule
from tests.simulation.trace import Trace
from wirekafka.config.topic_config import TopicConfig

BROKERS = (1, 2, 3, 4)
REPLICAS = (1, 2, 3)


class World:
    """One history. `violations` are differences from Kafka's guarantees."""

    def __init__(self, seed: int, *, keeps_trace: bool):
        self.random = random = Random(seed)
        self.keeps_trace = keeps_trace
        self._trace = Trace(keeps=keeps_trace)
        self.violations: list[str] = []
        self.schedule = Schedule()
        self.network = Network(self.schedule, random)
        self.max_lag_ms = random.choice((3_000, 10_000, 30_000))
        self.pause_ms = random.choice((100, 400, 1_500))
        self.keys = random.choice((3, 20))
        self.is_compacted = random.random() < 0.25
        self.deletes = not self.is_compacted and random.random() < 0.3
        self.config = self._config()
        self.controller = Controller(self.schedule, random, self.max_lag_ms)
        self.controller.noted = self.trace
        self.committed: dict[bytes, Committed] = {}
        self.topic_id: bytes | None = None
        self.crashed: Callable[[SimulatedBroker], None] = lambda broker: None
        """Called when a broker has crashed within a disk operation."""
        self.log_lost: Callable[[SimulatedBroker, str], None] = lambda broker, reason: None
        """Called when a broker finds its log broken."""
        self.brokers = {broker_id: SimulatedBroker(self, broker_id) for broker_id in BROKERS}

    def now_ms(self) -> int:
        return self.controller.process.now_ms()

    def trace(self, line: str) -> None:
        """Add a line to the trace."""
        self._trace.now_s = self.schedule.time_ms / 1_000
        self._trace.note(line)

    def digest(self) -> str:
        return self._trace.digest()

    @property
    def lines(self) -> list[str] | None:
        return self._trace.lines

    def found(self, violation: str) -> None:
        """Record a violation."""
        self.trace(f"VIOLATION {violation}")
        self.violations.append(f"{violation} (at {self.schedule.time_ms / 1_000:.3f} s)")

    def create_topic(self) -> None:
        """Create the topic with a new id."""
        self.topic_id = topic_id = bytes([len(self.committed) + 1]) * 16
        self.committed[topic_id] = Committed(topic_id, self.found, is_compacted=self.is_compacted)
        self.controller.create(topic_id, REPLICAS)

    def delete_topic(self) -> None:
        """Delete the topic; its producers have to start again."""
        self.topic_id = None
        self.controller.delete()

    def advanced(self, broker: SimulatedBroker, partition: ObservedPartition) -> None:
        """Check a replica whose high watermark was set; a follower's after it has taken all else.

        Its log start follows its high watermark, and what is below need not be the leader's.
        """
        if partition.leader is not None:
            self._check(broker, partition)
        else:
            self.schedule.after(0, lambda: self._check(broker, partition))

    def _check(self, broker: SimulatedBroker, partition: ObservedPartition) -> None:
        if not broker.is_up or broker.partition is not partition:
            return
        committed = self.committed[partition.topic_id]
        high_watermark, log = partition.high_watermark, partition.log
        if not log.start_offset <= high_watermark <= log.end_offset:
            self.found(
                f"OUTSIDE_LOG {broker.name}: {high_watermark} is not within"
                f" {log.start_offset} to {log.end_offset}"
            )
            return
        if partition.leader is not None and high_watermark < partition.checked_offset:
            self.found(
                f"WENT_BACK {broker.name} from {partition.checked_offset} to {high_watermark}"
            )
        known = min(high_watermark, committed.end_offset)
        committed.check(broker.name, log, partition.checked_offset, known)
        if high_watermark > committed.end_offset:
            if partition.leader is None:
                self.found(
                    f"AHEAD {broker.name} follows with {high_watermark}, where the leaders have"
                    f" committed {committed.end_offset}"
                )
            else:
                committed.extend(broker.name, log, high_watermark)
                self._check_in_sync(broker, partition)
        partition.checked_offset = high_watermark
        committed.start_offset = max(committed.start_offset, log.start_offset)
        self._check_stable(broker, partition, committed)

    def _check_stable(
        self, broker: SimulatedBroker, partition: ObservedPartition, committed: Committed
    ) -> None:
        """The last stable offset is the start of the first transaction without committed marker.

        As in Kafka, a replica that has loaded its producers forgets which of the transactions that
        it has markers of are not committed. Their fate is decided, so that does no harm.
        """
        high_watermark = partition.high_watermark
        if high_watermark != committed.end_offset or self.deletes or self.is_compacted:
            return
        producers = partition.log.producers
        open_offsets = {
            offset
            for producer_id, offset in committed.open_offsets.items()
            if producers is partition.first_producers
            or (producer := producers.get(producer_id)) is None
            or producer.transaction_offset == offset
        }
        stable = min(open_offsets, default=high_watermark)
        least = min(committed.open_offsets.values(), default=high_watermark)
        if not least <= partition.last_stable_offset <= stable:
            self.found(
                f"UNSTABLE {broker.name}: last stable offset"
                f" {partition.last_stable_offset}, not {stable}"
            )

    def _check_in_sync(self, broker: SimulatedBroker, partition: ObservedPartition) -> None:
        """Whoever may be elected has what the leader has just committed."""
        state = self.controller.partition
        if (
            state is None
            or state.topic_id != partition.topic_id
            or (state.leader, state.leader_epoch) != (broker.id, partition.leader_epoch)
        ):
            return
        for member in (*state.isr, *state.elr):
            other = self.brokers[member].partition
            if not self.brokers[member].is_up or other is None:
                continue
            if (
                other.topic_id == partition.topic_id
                and other.log.end_offset < partition.high_watermark
            ):
                self.found(
                    f"NOT_IN_SYNC {broker.name} commits {partition.high_watermark}, but broker"
                    f" {member} may be elected with {other.log.end_offset}"
                )

    def _config(self) -> TopicConfig:
        random = self.random
        options: dict[str, object] = {
            "min_insync_replicas": MIN_ISR,
            "segment_bytes": random.choice((1_500, 3_000, 9_000, 1 << 20)),
            "segment_ms": random.choice((5_000, 1 << 40)),
            "file_delete_delay_ms": random.choice((0, 1_000, 30_000)),
            "index_interval_bytes": random.choice((100, 4_096)),
            "flush_messages": random.choice((3, (1 << 63) - 1, (1 << 63) - 1)),
        }
        if self.is_compacted:
            options["cleanup_policy"] = ("compact",)
            options["delete_retention_ms"] = random.choice((1_000, 60_000))
        if self.deletes:
            options["retention_bytes"] = random.choice((2_000, -1))
            options["retention_ms"] = random.choice((15_000, 60_000))
        return TopicConfig(**options)  # type: ignore[arg-type]
