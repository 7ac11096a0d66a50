"""Nodes of a quorum in one process, whose messages a test delivers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from tests.manual_clock import ManualClock
from tests.simulation.disk import Outcome, SimulatedDisk
from tests.simulation.quorum.controller import LISTENER, LOG_PATH, PATH, Codec
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import KafkaError
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.protocol.records.control import KRaftVersionRecord
from wirekafka.replication.raft import snapshot_file
from wirekafka.replication.raft.messages import (
    NO_DIRECTORY,
    AddVoter,
    BeginEpoch,
    ChangeAnswer,
    EndEpoch,
    EpochAnswer,
    FetchAnswer,
    FetchPosition,
    FetchSnapshot,
    SnapshotAnswer,
    SupportedVersions,
    VersionRange,
    VersionsAnswer,
    Vote,
    VoteAnswer,
)
from wirekafka.replication.raft.metadata_log import quorum_records
from wirekafka.replication.raft.parts import RaftOptions, RaftParts
from wirekafka.replication.raft.quorum_log import QuorumLog
from wirekafka.replication.raft.raft import Raft
from wirekafka.replication.raft.roles import Follower, Unattached
from wirekafka.replication.raft.snapshot_file import SnapshotId
from wirekafka.replication.raft.voter_set import Voter, VoterSet


class Syncs:
    """A `Sync` that a test lets run when it wants; at once, unless `waits`."""

    def __init__(self):
        self.waits = False
        self._pending = []

    def __call__(self, run, done):
        self._pending.append((run, done))
        if not self.waits:
            self.finish()

    def finish(self):
        while self._pending:
            run, done = self._pending.pop(0)
            run()
            done(None)


class Node:
    """One node over its restarts."""

    def __init__(self, quorum, id, *, options=None, can_vote=True):
        self.quorum = quorum
        self.voter = Voter(id, bytes([id]) * 16, ((LISTENER, "host", id),))
        self.options = options or RaftOptions()
        self.can_vote = can_vote
        disk = SimulatedDisk(seed=id)
        disk.make_directory(LOG_PATH)
        if quorum.is_dynamic:
            records = quorum_records(KRaftVersionRecord(kraft_version=1), quorum.first.to_record())
            frame = snapshot_file.Frame(now_ms=0, quorum=records)
            data = b"".join(snapshot_file.encode((), Codec(), frame))
            disk.write_atomic(f"{LOG_PATH}/{SnapshotId(0, 0).file_name}", data)
        self.disk = disk.copy()
        self.syncs = Syncs()
        self.events = []
        self.delivered = []

    @property
    def id(self):
        return self.voter.id

    @property
    def key(self):
        return self.voter.key

    def start(self):
        self.delivered = []
        log = LogDirectory(self.disk, PATH).open_metadata_log(TopicConfig(), 0)
        static = VoterSet() if self.quorum.is_dynamic else self.quorum.first
        clock = self.quorum.clock
        self.log = QuorumLog(log, self.disk, clock, Codec(), voters=static, sync=self.syncs)
        self.log.observe(self._note, self.events.append)
        self.log.load()
        random = Random(self.id)
        self.raft = Raft(
            RaftParts(
                voter=self.voter,
                log=self.log,
                random=random,
                options=self.options,
                can_vote=self.can_vote,
            )
        )
        self.raft.load()
        self.raft.on_leader = lambda epoch: self.events.append(("leads", epoch))
        self.raft.on_resigned = lambda: self.events.append("resigned")
        self.raft.start(self.now)
        return self

    def restart(self, outcome=Outcome.UNSYNCED_LOST):
        self.disk = self.disk.after_crash(outcome, 0)
        self.syncs = Syncs()
        return self.start()

    def append(self, *values):
        batch = Codec().encode([(0, value) for value in values], 0, None)
        return self.log.append(batch)

    @property
    def now(self):
        return self.quorum.clock.now_ms()

    def vote(self, candidate, epoch, last_epoch=0, end_offset=0, **fields):
        request = Vote(
            voter=self.key,
            candidate=candidate.key,
            epoch=epoch,
            last_epoch=last_epoch,
            end_offset=end_offset,
            **fields,
        )
        return self.raft.vote(request, self.now)

    def fetch(self, replica, offset, last_epoch=None, epoch=None):
        """Have another replica fetch from this one."""
        position = FetchPosition(
            replica=replica.key,
            leader_epoch=self.log.epoch if epoch is None else epoch,
            offset=offset,
            last_fetched_epoch=self.log.last_epoch if last_epoch is None else last_epoch,
        )
        return self.raft.fetched(position, 1 << 20, self.now)

    def serve(self, request):
        raft, now = self.raft, self.now
        served: dict[type[Any], tuple[Callable[..., Any], type[Any]]] = {
            Vote: (raft.vote, VoteAnswer),
            BeginEpoch: (raft.begin_epoch, EpochAnswer),
            EndEpoch: (raft.end_epoch, EpochAnswer),
        }
        try:
            if type(request) in served:
                return served[type(request)][0](request, now)
            if isinstance(request, SupportedVersions):
                return VersionsAnswer(versions=VersionRange())
            if isinstance(request, FetchSnapshot):
                return raft.fetched_snapshot(request, 100, now)
            if isinstance(request, FetchPosition):
                answer = raft.fetched(request, 1 << 20, now)
                records = answer.records
                if not isinstance(records, bytes):
                    records = b"".join(bytes(each) for each in records.buffers())
                return replace(answer, records=records)
            change = raft.add_voter if isinstance(request, AddVoter) else raft.update_voter
            change(request, now)
            return ChangeAnswer(leadership=raft.leadership)
        except KafkaError as error:
            kind = served.get(type(request), (None, ChangeAnswer))[1]
            if isinstance(request, FetchPosition | FetchSnapshot):
                kind = FetchAnswer if isinstance(request, FetchPosition) else SnapshotAnswer
            return kind(leadership=raft.leadership, error=error.error)

    def _note(self, committed):
        if committed.is_snapshot:
            self.delivered = []
        self.delivered += [value for _, value in committed.records]


class Quorum:
    """Voters with the ids from 1 on, of a static quorum unless `dynamic`."""

    def __init__(self, size=3, *, dynamic=False, options=None):
        self.clock = ManualClock()
        self.is_dynamic = dynamic
        voters = [Voter(id, bytes([id]) * 16, ((LISTENER, "host", id),)) for id in _ids(size)]
        if not dynamic:
            voters = [replace(voter, directory_id=NO_DIRECTORY) for voter in voters]
        self.first = VoterSet.of(voters)
        self.nodes = {id: Node(self, id, options=options) for id in _ids(size)}
        self.lost = set()
        """The ids of nodes that no message reaches and that send none."""
        for node in self.nodes.values():
            node.start()

    def __getitem__(self, id):
        return self.nodes[id]

    def add(self, id, **options):
        """Start a further node, which is an observer."""
        self.nodes[id] = Node(self, id, **options).start()
        return self.nodes[id]

    def elect(self, id):
        """Have a node be elected, and the others follow it."""
        node = self.nodes[id]
        for other in self.nodes.values():
            role = other.raft._role
            if isinstance(role, Unattached):
                role.election_at_ms = node.now + 60_000
            elif isinstance(role, Follower):
                role.fetch_by_ms, role.has_fetched = node.now + 60_000, False
        node.raft._become_prospective(0, node.now)
        node.raft.tick(node.now)
        self.deliver()
        assert node.raft.is_leader, node.raft.role
        return node

    def advance(self, ms):
        """Let time pass for all nodes, a little at a time."""
        for _ in range(ms // 50):
            self.clock.advance(50)
            for node in self.nodes.values():
                if node.id not in self.lost:
                    node.raft.tick(node.now)
            self.deliver()

    def deliver(self, rounds=12):
        """Deliver requests and responses, until nodes only repeat themselves."""
        for _ in range(rounds):
            for node in self.nodes.values():
                for outgoing in node.raft.take_outbox():
                    self._pass_on(node, outgoing)

    def deliver_from(self, *ids):
        """Deliver the requests of some nodes, once."""
        for id in ids:
            for outgoing in self[id].raft.take_outbox():
                self._pass_on(self[id], outgoing)

    def _pass_on(self, node, outgoing):
        if outgoing.to is None:
            reachable = [id for id in self.nodes if id not in (node.id, *self.lost)]
            target = self.nodes[reachable[0]] if reachable else None
        else:
            target = self.nodes.get(outgoing.endpoint[1])
        if target is None or target.id in self.lost or node.id in self.lost:
            return
        node.raft.answered(outgoing, target.serve(outgoing.request), node.now)


def _ids(size):
    return range(1, size + 1)
