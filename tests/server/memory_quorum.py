"""Several nodes of a quorum in one process: the real driver, handlers and log, without sockets.

Time is virtual, and requests travel as bytes, in 1 ms.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

from tests.simulation.disk import Outcome, SimulatedDisk
from tests.simulation.loop import NodeClock, VirtualLoop
from wirekafka.apis.shared import registry
from wirekafka.apis.shared.call import ControllerCall
from wirekafka.codec.message import Request
from wirekafka.config.address import Address
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wirekafka.protocol.records.metadata import TopicRecord
from wirekafka.replication.raft.messages import ReplicaKey
from wirekafka.replication.raft.metadata_log import sync_inline
from wirekafka.replication.raft.parts import RaftOptions, RaftParts
from wirekafka.replication.raft.quorum_log import QuorumLog
from wirekafka.replication.raft.raft import Raft
from wirekafka.replication.raft.voter_set import Voter, VoterSet
from wirekafka.replication.raft.wire import QuorumWire
from wirekafka.runtime.observation import Committed
from wirekafka.server.controllers.quorum_driver import DriverParts, QuorumDriver

LISTENER = "CONTROLLER"
PORT = 9093
TRAVEL_MS = 1
_VERSIONS = ApiVersionsResponse(
    supported_features=[
        ApiVersionsResponse.SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    ]
)


@dataclass
class Run:
    """One start of a node."""

    raft: Raft
    driver: QuorumDriver
    clock: NodeClock
    directory: LogDirectory
    topics: list[str] = field(default_factory=list)
    """The names of the topics whose records were committed."""


class Member:
    """A node of the quorum, which keeps its disk while it is down."""

    def __init__(self, quorum: MemoryQuorum, id: int, *, can_vote: bool = True):
        self.id = id
        self.key = ReplicaKey(id, bytes([id]) * 16)
        self.endpoints = ((LISTENER, f"host{id}", PORT),)
        self.can_vote = can_vote
        self.failures: list[Exception] = []
        self.run: Run | None = None
        self._quorum = quorum
        self._disk = SimulatedDisk(id)
        self._starts = 0

    @property
    def raft(self) -> Raft:
        assert self.run is not None, "the node is down"
        return self.run.raft

    @property
    def topics(self) -> list[str]:
        assert self.run is not None, "the node is down"
        return self.run.topics

    def start(self) -> None:
        self._starts += 1
        quorum, config = self._quorum, self._quorum.config
        clock = NodeClock(quorum.loop)
        directory = LogDirectory(self._disk, "/data")
        log = QuorumLog(
            directory.open_metadata_log(config.metadata_topic_config, clock.now_ms()),
            self._disk,
            clock,
            MetadataCodec(),
            voters=quorum.static_voters,
            sync=sync_inline,
        )
        topics: list[str] = []

        def note(committed: Committed) -> None:
            names = [each.name for each in committed.records if isinstance(each, TopicRecord)]
            topics[:] = names if committed.is_snapshot else topics + names

        log.observe(note, self.failures.append)
        log.load()
        raft = Raft(
            RaftParts(
                voter=Voter(*self.key, self.endpoints),
                log=log,
                random=Random(f"{self.id} {self._starts}"),
                listener=LISTENER,
                options=RaftOptions(),
                can_vote=self.can_vote,
            )
        )
        raft.load()
        parts = DriverParts(
            clock=clock,
            wire=QuorumWire(cluster_id="cluster", listener=LISTENER, config=config),
            connect=self._connect,
            servers=quorum.servers,
            failed=self.failures.append,
        )
        self.run = Run(raft, QuorumDriver(raft, parts), clock, directory, topics)
        self.run.driver.start()

    async def stop(self) -> None:
        """Stop cleanly."""
        assert self.run is not None
        await self.run.driver.stop()
        self.raft.log.close()
        self.run.directory.release()
        self._end(self.run)

    def crash(self, outcome: Outcome = Outcome.UNSYNCED_LOST) -> None:
        """Lose the process, and what was not synced."""
        assert self.run is not None
        self.run.driver.abort()
        self._disk = self._disk.after_crash(outcome, self._starts)
        self._end(self.run)

    def lose_disk(self) -> None:
        """Begin again with an empty disk; the node must be down."""
        assert self.run is None
        self._disk = SimulatedDisk(self.id)

    def _end(self, run: Run) -> None:
        run.clock.is_dead = True
        self.run = None

    async def append(self, name: str) -> None:
        """Append a record as leader, and wait until it is committed."""
        log = self.raft.log
        record = TopicRecord(name=name, topic_id=name.encode().ljust(16))
        log.append(MetadataCodec().encode([record], 0, None))
        await self._quorum.until(lambda: name in self.topics)

    def _connect(self, host: str, port: int) -> Any:
        assert port == PORT
        return _Connection(self._quorum, self.id, int(host.removeprefix("host")))

    async def serve(self, request: Request, version: int) -> Any:
        """Handle a request as on the controller's listener."""
        run = self.run
        assert run is not None
        if isinstance(request, ApiVersionsRequest):
            return _VERSIONS
        controller: Any = SimpleNamespace(
            raft=run.raft,
            cluster_id="cluster",
            node_id=self.id,
            clock=run.clock,
            config=self._quorum.config,
            authorizer=None,
        )
        call = ControllerCall(controller, version)
        call.listener = LISTENER
        declared = registry.declared_by(type(request))
        assert declared.decide is not None
        try:
            response = declared.decide(request, call)
            return await response if inspect.isawaitable(response) else response
        except KafkaError as error:
            return declared.failure(request, error, call)


class MemoryQuorum:
    """Members with the ids 1, 2, ...; with `static`, these are the voters."""

    def __init__(self, loop: VirtualLoop, size: int, *, static: bool = True):
        registry.load()
        self.loop = loop
        self.config = BrokerConfig.of()
        self.members = {id: Member(self, id) for id in range(1, size + 1)}
        self.cuts: set[tuple[int, int]] = set()
        """(from, to): what is sent between these is lost."""
        endpoints = {id: each.endpoints for id, each in self.members.items()}
        self.static_voters = VoterSet.of(
            [Voter(id, endpoints=endpoints[id]) for id in endpoints] if static else []
        )
        self.servers = [Address(f"host{id}", PORT) for id in self.members]

    def add(self, id: int, *, can_vote: bool = True) -> Member:
        """One more node, which is no voter."""
        self.members[id] = Member(self, id, can_vote=can_vote)
        return self.members[id]

    @property
    def running(self) -> list[Member]:
        return [member for member in self.members.values() if member.run is not None]

    def isolate(self, id: int) -> None:
        """Lose all that a member sends or is sent, until `heal`."""
        self.cuts |= {(id, other) for other in self.members} | {
            (other, id) for other in self.members
        }

    def heal(self) -> None:
        self.cuts.clear()

    async def until(self, condition: Callable[[], Any], *, within_ms: int = 30_000) -> Any:
        """The first true value of `condition`, in virtual time."""
        end_s = self.loop.time() + within_ms / 1000
        while not (value := condition()):
            assert self.loop.time() < end_s, "not in time"
            await asyncio.sleep(0.005)
        return value

    async def leader(self, *, other_than: int = 0, within_ms: int = 30_000) -> Member:
        """The leader that a majority of the voters follows."""

        def found() -> Member | None:
            known = [member.raft.leadership[:2] for member in self.running]
            for member in self.running:
                own = member.raft.leadership[:2]
                majority = member.raft.voters.majority
                if (
                    member.id != other_than
                    and member.raft.is_leader
                    and member.raft.log.committed_offset > 0
                    and known.count(own) >= majority
                ):
                    return member
            return None

        leader: Member = await self.until(found, within_ms=within_ms)
        return leader


class _Connection:
    """A `Peer` from one member to another."""

    def __init__(self, quorum: MemoryQuorum, source: int, target: int):
        self._quorum = quorum
        self._source = source
        self._target = target
        self._is_closed = False

    async def send(self, request: Request, version: int | None = None, *, timeout_ms: int) -> Any:
        kind = type(request)
        version = kind.versions.last if version is None else version
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                sent = kind.decode(request.encode(version), version)
                response = await self._exchange(sent, version)
        except TimeoutError:
            raise KafkaError(Error.REQUEST_TIMED_OUT) from None
        if self._is_closed:
            raise KafkaError(Error.NETWORK_EXCEPTION)
        return type(response).decode(response.encode(version), version)

    async def _exchange(self, request: Request, version: int) -> Any:
        await self._travel(self._source, self._target)
        target = self._quorum.members.get(self._target)
        if target is None or target.run is None:
            raise KafkaError(Error.NETWORK_EXCEPTION, "refused")
        run = target.run
        response = await target.serve(request, version)
        if target.run is not run:
            raise KafkaError(Error.NETWORK_EXCEPTION, "lost")
        await self._travel(self._target, self._source)
        return response

    async def _travel(self, source: int, target: int) -> None:
        await asyncio.sleep(TRAVEL_MS / 1000)
        if (source, target) in self._quorum.cuts:
            await asyncio.Event().wait()

    def close(self) -> None:
        self._is_closed = True


def play(size: int, story: Callable[[MemoryQuorum], Awaitable[None]], **options: Any) -> None:
    """Run a story of a quorum of `size` members, which are started, in virtual time."""
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    try:

        async def run() -> None:
            quorum = MemoryQuorum(loop, size, **options)
            for member in quorum.members.values():
                member.start()
            await story(quorum)
            assert not any(member.failures for member in quorum.members.values())

        loop.run_until_complete(run())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
