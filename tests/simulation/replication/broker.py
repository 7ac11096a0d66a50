"""A broker of the simulation: a process with a log directory, which leads or follows."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from tests.log.cleaning import BROKER, swap_in
from tests.simulation.disk import Crash, Outcome, SimulatedDisk
from tests.simulation.replication.committed import ObservedPartition
from tests.simulation.replication.controller import Image, PartitionState
from tests.simulation.replication.fetching import Following
from tests.simulation.replication.isr import IsrKeeper
from tests.simulation.replication.schedule import Process
from wirekafka.errors import Error, KafkaError
from wirekafka.log.compaction.cleanable import CleaningProgress, cleanable, job_for
from wirekafka.log.compaction.cleaner import Cleaner
from wirekafka.log.directories.log_directory import DirectoryIdentity, LogDirectory, NewLog
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.replica import NO_EPOCH, PartitionIdentity

if TYPE_CHECKING:
    from tests.simulation.replication.world import World

TOPIC = "topic"
KEY = TOPIC, 0
_PATH = "/data"
_HEARTBEAT_MS = 2_000
_SHUTDOWN_MS = 20_000
_POLL_MS = 1_500


class SimulatedBroker:
    """One broker over all its restarts. Its disk stays; the rest is new after each start."""

    def __init__(self, world: World, broker_id: int):
        self.world = world
        self.id = broker_id
        self.name = f"broker {broker_id}"
        self.disk = SimulatedDisk(seed=broker_id)
        self.process = Process(world.schedule, self.name)
        self.process.is_dead = True
        self.outcome = Outcome.ALL_KEPT
        """What a crash within a disk operation leaves."""
        self.epoch = NO_EPOCH
        self.partition: ObservedPartition | None = None
        self.image: Image | None = None
        self.is_stopping = False

    @property
    def is_up(self) -> bool:
        return not self.process.is_dead

    def start(self) -> None:
        """Start: recover the logs, and register."""
        assert not self.is_up
        self.process = process = Process(self.world.schedule, self.name, self._crashed)
        self.disk.now_ms = process.now_ms()
        self.epoch, self.partition, self.image = NO_EPOCH, None, None
        self.is_stopping = False
        self.following, self.isr = Following(self), IsrKeeper(self)
        process.run(self._open)

    def kill(self, outcome: Outcome) -> None:
        """Crash now, leaving on the disk what a crash leaves."""
        self.note(f"is killed: {outcome.name}")
        self.process.is_dead = True
        self.disk.crash_at = -1
        if self.partition is not None:
            self.partition.watchers.clear()
        self.disk = self.disk.after_crash(outcome, self.world.random.randrange(1 << 30))

    def crash_soon(self, operations: int, outcome: Outcome) -> None:
        """Crash after this number of disk operations, possibly within a write."""
        self.outcome = outcome
        self.disk.crash_at = self.disk.operations + operations

    def replace_disk(self) -> None:
        """Start over with an empty disk at the next start."""
        assert not self.is_up
        self.note("gets a new disk")
        self.disk = SimulatedDisk(seed=self.id)

    def stop(self) -> None:
        """A controlled shutdown, after at most 20 seconds without the controller."""
        self.note("stops")
        self.is_stopping = True
        process = self.process
        process.call_later(_SHUTDOWN_MS, self._close)
        self._heartbeat()

    def note(self, what: str) -> None:
        """Add to the trace."""
        self.world.trace(f"{self.name} {what}")

    # Requests of other brokers.

    def replica(self, topic_id: bytes) -> Partition:
        """The replica of a topic. Raises KafkaError."""
        partition = self.partition
        if partition is None or partition.topic_id != topic_id:
            raise KafkaError(Error.UNKNOWN_TOPIC_ID)
        return partition

    # Membership.

    def _open(self) -> None:
        process = self.process
        self.directory = LogDirectory(self.disk, _PATH, threads=1)
        self._previous_epoch = self.directory.broker_epoch if self.directory.is_clean else NO_EPOCH
        self.directory.claim(DirectoryIdentity("cluster", self.id, bytes([self.id]) * 16))
        self.directory.load(lambda _: self.world.config, process.now_ms())
        self.note(
            f"starts{' clean' if self.directory.is_clean else ''}: "
            + "".join(
                f"offsets {log.start_offset} to {log.end_offset}"
                for log in self.directory.logs.values()
            )
        )
        if self.directory.offline:
            self.world.log_lost(self, self.directory.offline[KEY])
            raise Crash("its log is broken")
        self._register()
        process.every(_HEARTBEAT_MS, self._heartbeat)
        process.every(5_000, self._checkpoint)
        process.every(1_000, self._sync)
        process.every(self.world.max_lag_ms / 2, self.isr.check)
        process.every(7_000, self._keep_house)

    def _register(self) -> None:
        controller, life = self.world.controller, self.process

        def answered(answer: int | Error | None) -> None:
            if isinstance(answer, Error) or answer is None:
                life.call_later(1_000, self._register)
                return
            self.epoch = answer
            self._poll(0)

        self.world.network.ask(
            life,
            controller.process,
            lambda reply: reply(controller.register(self.id, life, self._previous_epoch)),
            answered,
        )

    def _heartbeat(self) -> None:
        if self.epoch == NO_EPOCH:
            return
        controller, wants_stop, epoch = self.world.controller, self.is_stopping, self.epoch
        applied = self.image.offset if self.image is not None else 0

        def answered(answer: str | None) -> None:
            if answer == "stop":
                self._close()
            elif wants_stop:
                self.process.call_later(100, self._heartbeat)

        self.world.network.ask(
            self.process,
            controller.process,
            lambda reply: reply(controller.heartbeat(self.id, epoch, applied, wants_stop)),
            answered,
            1_000,
        )

    def _poll(self, offset: int) -> None:
        controller = self.world.controller

        def answered(image: Image | None) -> None:
            if image is not None:
                self._apply(image)
            self._poll(offset if image is None else image.offset)

        self.world.network.ask(
            self.process,
            controller.process,
            lambda reply: controller.poll(offset, reply),
            answered,
            _POLL_MS,
        )

    # Metadata.

    def _apply(self, image: Image) -> None:
        is_first, self.image = self.image is None, image
        state = image.partition
        is_mine = state is not None and self.id in state.replicas
        if self.partition is not None and (
            not is_mine or state is None or state.topic_id != self.partition.topic_id
        ):
            self._drop(self.partition)
        if is_mine:
            assert state is not None
            self._place(state, image)
        elif is_first and KEY in self.directory.logs:
            self.directory.set_aside_stray(KEY)
        self.following.follow(self.partition)
        if is_first:
            self._heartbeat()  # Or it would stay fenced for two more seconds.

    def _place(self, state: PartitionState, image: Image) -> None:
        if self.partition is None:
            self.partition = self._made(state.topic_id)
        partition = self.partition
        partition.brokers = image
        before = partition.leader_id, partition.leader_epoch
        take_role = partition.lead if state.leader == self.id else partition.follow
        take_role(state.leadership())
        if before != (partition.leader_id, partition.leader_epoch):
            role = "leads" if partition.is_leader else f"follows {partition.leader_id}"
            self.note(f"{role} in epoch {partition.leader_epoch}, {self._offsets()}")
        self.watch()

    def _made(self, topic_id: bytes) -> ObservedPartition:
        directory = self.directory
        if KEY in directory.logs:
            found_id = directory.topic_ids.get(KEY)
            if found_id is None:
                directory.adopt(KEY, topic_id)
            elif found_id != topic_id:
                directory.set_aside_stray(KEY)
        if KEY not in directory.logs:
            directory.create(
                NewLog(topic=TOPIC, topic_id=topic_id, partition=0, config=self.world.config),
                self.process.now_ms(),
            )
        identity = PartitionIdentity(TOPIC, topic_id, 0)
        partition = ObservedPartition(identity, directory.logs[KEY], self.id, self.process)
        partition.changed = lambda changed: self.world.advanced(self, changed)
        partition.truncated = lambda: directory.checkpoint_truncation(KEY)
        partition.restore_high_watermark(directory.high_watermarks.get(KEY, 0))
        directory.high_watermarks.clear()
        return partition

    def _drop(self, partition: Partition) -> None:
        self.note(f"deletes its replica, {self._offsets()}")
        self.partition = None
        if partition.leader_id == self.id or partition.leader is not None:
            partition.follow(replace(partition.leadership, leader_id=-1))
        self.following.follow(None)
        self.directory.delete(KEY, self.process.now_ms())

    def watch(self) -> None:
        """Note this replica's offsets in the trace."""
        if self.world.keeps_trace and self.partition is not None:
            self.note(self._offsets())

    def _offsets(self) -> str:
        partition = self.partition
        if partition is None:
            return "no replica"
        log = partition.log
        return f"log {log.start_offset} to {log.end_offset}, committed {partition.high_watermark}"

    # Housekeeping.

    def _high_watermarks(self) -> dict[tuple[str, int], int]:
        return {} if self.partition is None else {KEY: self.partition.high_watermark}

    def _checkpoint(self) -> None:
        self.directory.checkpoint(self._high_watermarks())

    def _sync(self) -> None:
        if self.partition is not None:
            log = self.partition.log
            if log.recovery_point < log.segments.active.base_offset:
                log.flush()
                self.partition.synced()

    def _keep_house(self) -> None:
        now_ms = self.process.now_ms()
        partition = self.partition
        if partition is not None:
            log = partition.log
            before = log.start_offset
            log.delete_old_segments(now_ms, partition.high_watermark)
            if log.start_offset != before:
                self.note(f"retention from {before} to {log.start_offset}")
            if log.config.is_compacted:
                self._compact(partition, now_ms)
        self.directory.remove_deleted(now_ms)

    def _compact(self, partition: Partition, now_ms: int) -> None:
        log, offsets = partition.log, self.directory.cleaner_offsets
        found = cleanable(
            log, CleaningProgress(offsets.get(KEY), partition.last_stable_offset, now_ms)
        )
        if found is None or not found.dirty_bytes:
            return
        job = job_for(log, found, BROKER, now_ms)
        cleaner = Cleaner(self.disk, job)
        for cleaned in cleaner.groups():
            swap_in(self.disk, log, job, cleaned)
        self.disk.fsync_directory(log.directory)
        offsets[KEY] = cleaner.cleaned_end_offset
        self.directory.write_cleaner_offsets()
        self.note(f"compacted up to {cleaner.cleaned_end_offset}")

    def _close(self) -> None:
        self.note(f"closes, {self._offsets()}")
        self.directory.close_cleanly(self._high_watermarks(), self.epoch)
        self.process.is_dead = True
        self.disk.crash_at = -1
        if self.partition is not None:
            self.partition.watchers.clear()

    def _crashed(self) -> None:
        self.kill(self.outcome)
        self.world.crashed(self)


def lossy(random: Random) -> Outcome:
    """What a power cut may leave."""
    return random.choice([each for each in Outcome if each is not Outcome.ALL_KEPT])
