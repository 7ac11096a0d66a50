"""A controller of the simulation: a process with a disk, whose Raft is driven over the network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.disk import Outcome, SimulatedDisk
from tests.simulation.quorum import serving
from tests.simulation.quorum.checks import LOG_PATH
from tests.simulation.replication.network import Reply
from tests.simulation.replication.schedule import Event, Process
from wirekafka.codec.record import Record, decode_records, encode_batch
from wirekafka.errors import Error, KafkaError
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.protocol.records.control import KRaftVersionRecord
from wirekafka.replication.raft import snapshot_file
from wirekafka.replication.raft.messages import Outgoing, Request
from wirekafka.replication.raft.metadata_log import quorum_records
from wirekafka.replication.raft.parts import RaftOptions, RaftParts
from wirekafka.replication.raft.quorum_log import QuorumLog
from wirekafka.replication.raft.raft import Raft
from wirekafka.replication.raft.snapshot_file import SnapshotId
from wirekafka.replication.raft.voter_set import Voter, VoterSet
from wirekafka.runtime.machine import Producer
from wirekafka.runtime.observation import Committed
from wirekafka.runtime.replicated_log import Buffer

if TYPE_CHECKING:
    from tests.simulation.quorum.world import World

LISTENER = "CONTROLLER"
PATH = "/data"


class Codec:
    """Records are (key, value) of small integers."""

    def encode(self, records: Sequence[Any], now_ms: int, producer: Producer | None) -> bytes:
        return encode_batch(
            [
                Record(at, now_ms, str(key).encode(), str(value).encode(), ())
                for at, (key, value) in enumerate(records)
            ]
        )

    def decode(self, batch: Buffer) -> Iterable[Any]:
        return [
            (int(key or b""), int(value or b"")) for _, _, key, value, _ in decode_records(batch)
        ]


class SimulatedController:
    """One controller over all its restarts. Its disk stays; the rest is new after each start."""

    def __init__(self, world: World, id: int, *, can_vote: bool = True):
        self.world = world
        self.id = id
        self.name = f"controller {id}" if can_vote else f"broker {id}"
        self.can_vote = can_vote
        self.voter = Voter(id, bytes([id]) * 16, ((LISTENER, "host", id),))
        disk = SimulatedDisk(seed=id)
        disk.make_directory(PATH)
        self.disk = disk.copy()
        self.outcome = Outcome.ALL_KEPT
        """What a crash within a disk operation leaves."""
        self.process = Process(world.schedule, self.name)
        self.process.is_dead = True
        self.life = 0
        self.state: dict[int, int] = {}
        self.applied = 0
        self._timer: Event | None = None

    @property
    def is_up(self) -> bool:
        return not self.process.is_dead

    def format(self, voters: VoterSet) -> None:
        """Write the snapshot of a new directory, with the voters of a dynamic quorum."""
        self.disk.make_directory(LOG_PATH)
        quorum = quorum_records(KRaftVersionRecord(kraft_version=1), voters.to_record())
        frame = snapshot_file.Frame(now_ms=0, quorum=quorum)
        data = b"".join(snapshot_file.encode((), Codec(), frame))
        self.disk.write_atomic(f"{LOG_PATH}/{SnapshotId(0, 0).file_name}", data)
        self.disk = self.disk.copy()

    def start(self) -> None:
        assert not self.is_up
        self.process = Process(self.world.schedule, self.name, self.crashed)
        self.disk.now_ms = self.process.now_ms()
        self.disk.crash_at = -1
        self.life += 1
        self.state, self.applied = {}, 0
        self.note("starts")
        self.process.run(self._open)

    def kill(self, outcome: Outcome) -> None:
        """End the process, and leave of the unsynced writes what the outcome says."""
        self.outcome = outcome
        self.crashed()

    def crash_soon(self, operations: int, outcome: Outcome) -> None:
        """Crash within one of the next operations of the disk."""
        self.outcome = outcome
        self.disk.crash_at = self.disk.operations + operations

    def crashed(self) -> None:
        self.note(f"ends: {self.outcome.name}")
        self.process.is_dead = True
        self.world.crashes += 1
        self.disk = self.disk.after_crash(self.outcome, self.world.random.getrandbits(32))

    def note(self, what: str) -> None:
        self.world.trace(f"{self.name} {what}")

    # Its work

    def append(self, key: int, value: int) -> None:
        """Append a record, as the active controller does for a command."""
        if not self.is_up or self.process.is_paused or not self.raft.is_leader:
            return

        def run() -> None:
            batch = Codec().encode([(key, value)], self.process.now_ms(), None)
            base_offset = self.log.end_offset
            try:
                end_offset = self.log.append(batch)
            except KafkaError as error:
                self.note(f"refuses {key}={value}: {error}")
                return
            self.note(f"appends {key}={value} at {base_offset} in epoch {self.log.epoch}")
            self.log.when_committed(
                end_offset, lambda: self.world.acknowledged(self, base_offset, value)
            )
            self.pump()

        self.process.run(run)

    def write_snapshot(self) -> None:
        """Write a snapshot of the committed state."""
        if not self.is_up or self.process.is_paused:
            return

        def run() -> None:
            newest = self.log.newest_snapshot()
            if self.applied > (newest.end_offset if newest else 0):
                records = sorted(self.state.items())
                id = self.log.write_snapshot(records, Codec(), self.applied)
                self.note(f"writes the snapshot {id.file_name}")
                self.world.check(self)

        self.process.run(run)

    def change_voters(self, change: Callable[[Raft, int], Any], what: str) -> None:
        """Have the leader change its voters."""
        if not self.is_up or self.process.is_paused:
            return

        def run() -> None:
            try:
                change(self.raft, self.process.now_ms())
                self.note(what)
            except KafkaError as error:
                self.note(f"does not: {what}: {error.error.name} {error.message}")
            self.pump()

        self.process.run(run)

    def stop(self) -> None:
        """Stop cleanly: resign, and end a little later."""
        if not self.is_up or self.process.is_paused:
            return

        def run() -> None:
            self.note("resigns")
            self.raft.resign(self.process.now_ms())
            self.pump()
            self.process.call_later(300, end)

        def end() -> None:
            self.kill(Outcome.ALL_KEPT)

        self.process.run(run)

    def serve(self, request: Request, reply: Reply) -> None:
        """Serve a request of another node; the response leaves once what it says is durable."""
        serving.serve(self, request, reply)

    def pump(self) -> None:
        """Send what Raft wants to be sent, set its timer, and check it."""
        for outgoing in self.raft.take_outbox():
            self._send(outgoing)
        if self._timer is not None:
            self._timer.cancel()
        deadline = self.raft.deadline()
        if deadline is not None:
            delay_ms = deadline - self.process.now_ms()
            self._timer = self.process.call_later(max(delay_ms, 1), self._tick)
        self.world.check(self)

    def _open(self) -> None:
        directory = LogDirectory(self.disk, PATH)
        log = directory.open_metadata_log(self.world.config, self.process.now_ms())
        self.log = QuorumLog(
            log,
            self.disk,
            self.process,  # type: ignore[arg-type]
            Codec(),
            voters=self.world.static_voters,
            sync=self._sync,
        )
        self.log.observe(self._take, self._broken)
        self.log.load()
        parts = RaftParts(
            voter=self.voter,
            log=self.log,
            random=Random(self.world.random.getrandbits(32)),
            listener=LISTENER,
            options=RaftOptions(),
            can_vote=self.can_vote,
        )
        self.raft = Raft(parts)
        self.raft.load()
        self.world.opened(self)
        self.raft.on_leader = lambda epoch: self.note(f"leads epoch {epoch}")
        self.raft.on_resigned = lambda: self.note("leads no more")
        self.raft.on_output = self.pump
        self.raft.start(self.process.now_ms())
        self.pump()

    def _broken(self, error: Exception) -> None:
        self.world.found(f"OBSERVER {self.name}: {error!r}")

    def _take(self, committed: Committed) -> Iterator[None] | None:
        if committed.is_snapshot:
            self.state = {}
        self.state.update(dict(committed.records))
        self.applied = committed.end_offset
        self.world.check_state(self)
        return None

    def _sync(self, run: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        def finish() -> None:
            try:
                run()
            except OSError as error:
                done(error)
            else:
                done(None)

        self.process.call_later(self.world.sync_ms(), finish)

    def _tick(self) -> None:
        self.raft.tick(self.process.now_ms())
        self.pump()

    def _send(self, outgoing: Outgoing) -> None:
        world = self.world
        if outgoing.endpoint is None:
            others = [each for each in world.controllers.values() if each is not self]
            target = world.random.choice([each for each in others if each.can_vote])
        else:
            target = world.controllers[outgoing.endpoint[1]]
        self.note(f"sends to {target.id}: {serving.shown(outgoing.request)}")
        process = self.process

        def answered(answer: Any) -> None:
            failed = KafkaError(Error.REQUEST_TIMED_OUT)
            if answer is not None:
                self.note(f"receives from {target.id}: {serving.shown(answer)}")
            self.raft.answered(outgoing, failed if answer is None else answer, process.now_ms())
            self.pump()

        world.network.ask(
            process,
            target.process if target.is_up else None,
            lambda reply: target.serve(outgoing.request, reply),
            answered,
            outgoing.timeout_ms,
        )
