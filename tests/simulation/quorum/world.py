"""The state that the parts of one simulated quorum share, and what is checked at every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from tests.simulation.disk import SimulatedDisk
from tests.simulation.quorum.checks import RaftChecks
from tests.simulation.quorum.controller import SimulatedController
from tests.simulation.quorum.network import RepeatingNetwork
from tests.simulation.replication.schedule import Schedule
from tests.simulation.trace import Trace
from wirekafka.codec.record import decode_records
from wirekafka.config.topic_config import TopicConfig
from wirekafka.replication.raft.messages import NO_DIRECTORY, Vote
from wirekafka.replication.raft.voter_set import Voter, VoterSet


class World(RaftChecks):
    """One history. `violations` are breaches of Raft's guarantees."""

    def __init__(self, seed: int, *, keeps_trace: bool):
        super().__init__()
        self.random = random = Random(seed)
        self._trace = Trace(keeps=keeps_trace)
        self.violations: list[str] = []
        self.crashes = 0
        self.schedule = Schedule()
        self.network = RepeatingNetwork(self.schedule, random)
        self.max_bytes = random.choice((300, 1 << 20))
        self.slow_sync = random.choice((0.0, 0.0, 0.05, 0.3))
        self.has_many_segments = random.random() < 0.6
        self.config = TopicConfig(
            segment_bytes=random.choice((400, 1_000)) if self.has_many_segments else 1 << 20,
            segment_ms=1 << 40,
            retention_ms=-1,
            retention_bytes=-1,
            file_delete_delay_ms=random.choice((0, 1_000)),
        )
        self.is_dynamic = random.random() < 0.6
        size = random.choice((3, 3, 3, 5))
        others = random.choice((0, 1, 2)) if self.is_dynamic else 0
        self.controllers = {id: SimulatedController(self, id) for id in range(1, size + others + 1)}
        first = [each.voter for each in list(self.controllers.values())[:size]]
        self.first_voters = VoterSet.of(first)
        self.static_voters = VoterSet()
        if not self.is_dynamic:
            self.static_voters = VoterSet.of(
                [Voter(each.id, NO_DIRECTORY, each.endpoints) for each in first]
            )
        if random.random() < 0.5:
            self.controllers[101] = SimulatedController(self, 101, can_vote=False)
        self._last_vote: dict[int, Vote] = {}
        self.has_voted: Callable[[SimulatedController], None] = lambda node: None
        """Called when a node has granted its vote."""
        self._states: dict[int, dict[int, int]] = {}

    def trace(self, line: str) -> None:
        self._trace.now_s = self.schedule.time_ms / 1_000
        self._trace.note(line)

    def digest(self) -> str:
        return self._trace.digest()

    @property
    def lines(self) -> list[str] | None:
        return self._trace.lines

    def found(self, violation: str) -> None:
        self.trace(f"VIOLATION {violation}")
        self.violations.append(f"{violation} (at {self.schedule.time_ms / 1_000:.3f} s)")

    def disk_of(self, id: int) -> SimulatedDisk:
        return self.controllers[id].disk

    def sync_ms(self) -> float:
        """How long the next sync takes."""
        if self.random.random() < self.slow_sync:
            return self.random.random() * 2_000
        return self.random.expovariate(0.5)

    def acknowledged(self, node: SimulatedController, offset: int, value: int) -> None:
        """An append was reported as committed: that record must be at that offset."""
        self.check(node)
        batch = self.committed_at.get(offset)
        if batch is None:
            self.found(f"ACKNOWLEDGED {node.name}: {value} at {offset} is not committed")
        elif decode_records(batch.data)[0].value != str(value).encode():
            self.found(f"ACKNOWLEDGED {node.name}: another record than {value} is at {offset}")

    def voted(self, node: SimulatedController, request: Vote) -> None:
        super().voted(node, request)
        self._last_vote[node.id] = request
        self.has_voted(node)

    def another_candidate(self, node: SimulatedController) -> Vote | None:
        """A request for a second vote in the epoch of the node's last one."""
        vote = self._last_vote.get(node.id)
        others = [id for id in self.first_voters.ids if id != node.id]
        if vote is None:
            return None
        candidate = self.controllers[self.random.choice(others)].voter.key
        return replace(vote, candidate=candidate, end_offset=1 << 30)

    def check_state(self, node: SimulatedController) -> None:
        """States that were built from the log up to the same offset are equal."""
        expected = self._states.setdefault(node.applied, dict(node.state))
        if expected != node.state:
            self.found(f"STATE {node.name} at {node.applied}: {node.state}, not {expected}")
