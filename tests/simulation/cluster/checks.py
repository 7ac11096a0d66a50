"""What a simulated cluster promises, checked after every step of any node, and at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from tests.simulation.cluster.member import Member
from tests.simulation.disk import SimulatedDisk
from tests.simulation.process import Process
from tests.simulation.quorum.checks import RaftChecks
from tests.simulation.replication.committed import stored
from wirekafka.codec.batch import batches
from wirekafka.log.log import Log
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.replication.raft.messages import Vote, VoteAnswer
from wirekafka.replication.raft.quorum_log import QuorumLog
from wirekafka.replication.raft.raft import Raft

if TYPE_CHECKING:
    from tests.simulation.cluster.simulation import Simulation

_LOG_FILE = re.compile(r"/data/(?P<topic>[^/]+)-(?P<index>\d+)/\d{20}\.log")
_METADATA = "__cluster_metadata"
_IMAGE_EVERY = 20
"""Images are compared at one offset of so many, and at the end: each time, every record of them is
looked at. A difference lasts."""


@dataclass(slots=True)
class _Seen:
    """What was seen of a node at the last check."""

    member: Member
    process: Process | None = None
    log: QuorumLog | None = None
    raft: Raft | None = None
    state: tuple[object, ...] = ()
    leads: int = -1


class Checks(RaftChecks):
    """Checks the nodes of one simulation; `violations` are what was found."""

    def __init__(self, simulation: Simulation):
        super().__init__()
        self.violations: list[str] = []
        self._simulation = simulation
        self._members = simulation.members
        self._seen = [_Seen(member) for member in simulation.members.values()]
        self._images: dict[int, tuple[bytes, str]] = {}
        self._written: dict[tuple[str, int, int], tuple[bytes, str]] = {}
        self._leading: dict[tuple[str, int], str] = {}
        for member in simulation.members.values():
            member.on_append = self.appended

    def trace(self, line: str) -> None:
        self._simulation.note(line)

    def found(self, violation: str) -> None:
        self.trace(f"VIOLATION {violation}")
        self.violations.append(f"{violation} (at {self._simulation.loop.time():.3f} s)")
        self._simulation.give_up()

    def disk_of(self, id: int) -> SimulatedDisk:
        return self._members[id].disk

    def turn(self) -> None:
        """Check each node whose metadata log or role has changed."""
        for seen in self._seen:
            member = seen.member
            process = member.process
            if process is None or not process.has_run:
                continue
            process.has_run = False
            if seen.process is not process:
                log, raft = member.log, member.raft
                if log is None or raft is None:
                    continue
                seen.process, seen.log, seen.raft, seen.leads = process, log, raft, -1
                seen.state = ()
                self.opened(member)
                self._watch_votes(member, raft)
            log = seen.log
            assert log is not None
            files = log._log
            state = (files._generation, files.end_offset, log._committed, log.epoch, log.leader_id)
            if state != seen.state:
                is_further = len(seen.state) < 3 or seen.state[2] != log._committed
                seen.state = state
                self._check_member(seen)
                if is_further:
                    self._check_image(member)

    def appended(self, member: Member, path: str, data: bytes) -> None:
        """Check what a node appends to the log of a partition.

        In each leader epoch only one node appends as leader, and all nodes have the same batches.
        """
        match = _LOG_FILE.fullmatch(path)
        if match is None or match["topic"] == _METADATA:
            return
        where = f"{match['topic']}-{match['index']}"
        for at, header in batches(data):
            key = where, header.leader_epoch, header.base_offset
            batch = data[at : at + header.size_bytes]
            known, writer = self._written.setdefault(key, (batch, member.name))
            if known != batch:
                self.found(f"TWO_BATCHES {key} of {member.name} and {writer}")
            if member.leads(match["topic"], int(match["index"])):
                epoch = header.leader_epoch
                leading = self._leading.setdefault((where, epoch), member.name)
                if leading != member.name:
                    self.found(f"TWO_APPEND {where} in {epoch}: {leading} and {member.name}")

    def at_end(self) -> None:
        """Check that all replicas are equal, and all images are; the cluster is whole."""
        self._compare_images()
        image, _ = next(iter(self._members.values())).image or (None, 0)
        assert image is not None
        for name, topic in image.topics.items():
            for index, partition in topic.partitions.items():
                logs = [
                    (self._members[id].name, self._members[id].broker.partitions[name, index].log)
                    for id in partition.replicas
                ]
                for violation in _differences(f"{name}-{index}", logs):
                    self.found(violation)

    def _watch_votes(self, member: Member, raft: Raft) -> None:
        """Note each vote of a node, once that is durable."""
        vote = raft.vote

        def watched(request: Vote, now_ms: int) -> VoteAnswer:
            answer = vote(request, now_ms)
            if answer.granted and not request.pre_vote:
                raft.when_durable(lambda: self.voted(member, request))
            return answer

        raft.vote = watched  # type: ignore[method-assign]

    def _check_member(self, seen: _Seen) -> None:
        member, raft, log = seen.member, seen.raft, seen.log
        assert raft is not None and log is not None
        if raft.is_leader and seen.leads != log.epoch:
            seen.leads = log.epoch
            self.trace(f"{member.name} leads the quorum in epoch {log.epoch}")
        self.check(member)

    def _check_image(self, member: Member) -> None:
        """Images that were folded up to the same offset are equal."""
        found = member.image
        if found is None or found[1] % _IMAGE_EVERY:
            return
        self._compare_image(member, *found)

    def _compare_images(self) -> None:
        for member in self._members.values():
            if member.image is not None:
                self._compare_image(member, *member.image)

    def _compare_image(self, member: Member, image: MetadataImage, end_offset: int) -> None:
        digest = _digest(image)
        known, name = self._images.setdefault(end_offset, (digest, member.name))
        if known != digest:
            self.found(f"IMAGES of {member.name} and {name} differ at offset {end_offset}")


def _digest(image: MetadataImage) -> bytes:
    found = blake2b(digest_size=16)
    for text in sorted(map(repr, image.snapshot())):
        found.update(text.encode())
    return found.digest()


def _differences(where: str, logs: list[tuple[str, Log]]) -> Iterator[str]:
    """The first difference between the replicas of a partition, above the highest start offset."""
    start = max(log.start_offset for _, log in logs)
    ends = {log.end_offset for _, log in logs}
    if len(ends) > 1:
        yield f"REPLICAS of {where} end at {sorted(ends)}"
    first_name, first = logs[0]
    expected = [data for header, data in stored(first, start, first.end_offset)]
    for name, log in logs[1:]:
        if [data for header, data in stored(log, start, log.end_offset)] != expected:
            yield f"REPLICAS of {where} differ on {first_name} and {name}"
            return
