"""Following the controllers' log: the observer's requests, and how it applies the responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.eventually import eventually_async
from tests.server.other_node import Asked, OtherNode
from wirekafka.codec.batch import with_prefix
from wirekafka.config.address import Address
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error
from wirekafka.log.directories.log_directory import (
    METADATA_TOPIC_ID,
    LogDirectory,
    UnusableDirectory,
)
from wirekafka.log.files import RealDisk
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from wirekafka.protocol.fetch import FetchRequest, FetchResponse
from wirekafka.protocol.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from wirekafka.protocol.node_endpoints import NodeEndpoint
from wirekafka.protocol.records.metadata import TopicRecord
from wirekafka.replication.raft import snapshot_file
from wirekafka.replication.raft.parts import RaftParts
from wirekafka.replication.raft.quorum_log import QuorumLog
from wirekafka.replication.raft.raft import Raft
from wirekafka.replication.raft.voter_set import Voter
from wirekafka.replication.raft.wire import QuorumWire
from wirekafka.runtime.observation import Committed
from wirekafka.server.clock import LoopClock
from wirekafka.server.controllers.controller_search import ControllerSearch, Quorum
from wirekafka.server.controllers.quorum_driver import DriverParts, QuorumDriver
from wirekafka.server.net import SocketNet
from wirekafka.server.peers.peer import Peer, PeerOptions

_Topic = FetchResponse.FetchableTopicResponse
_Partition = _Topic.PartitionData
_DIRECTORY = b"d" * 16


class Controller(OtherNode):
    """A controller with a scripted log; a fetch at its end waits for `append` or `change`."""

    def __init__(self, id: int) -> None:
        super().__init__()
        self.id = id
        self.leader_id, self.epoch = id, 1
        self.batches: list[bytes] = []
        self.start = self.end = 0
        self.snapshot: tuple[int, int, bytes] | None = None
        self.error = Error.NONE
        self.others: list[Controller] = []
        self._parked: list[Asked] = []
        self.answers[FetchRequest] = self._fetch
        self.answers[FetchSnapshotRequest] = self._piece

    def append(self, *names: str) -> None:
        records = [TopicRecord(name=name, topic_id=name.encode().ljust(16)) for name in names]
        batch = MetadataCodec().encode(records, 5, None)
        self.batches.append(b"".join(with_prefix(batch, self.end, self.epoch)))
        self.end += len(names)
        self.change()

    def change(self) -> None:
        parked, self._parked = self._parked, []
        for asked in parked:
            self._fetch(asked)

    def _fetch(self, asked: Asked) -> None:
        [topic] = asked.request.topics
        [wanted] = topic.partitions
        partition = _Partition(partition_index=0, high_watermark=self.end)
        partition.current_leader = _Partition.LeaderIdAndEpoch(
            leader_id=self.leader_id, leader_epoch=self.epoch
        )
        if self.leader_id != self.id:
            partition.error_code = Error.NOT_LEADER_OR_FOLLOWER
        elif wanted.current_leader_epoch < self.epoch:
            partition.error_code = Error.FENCED_LEADER_EPOCH
        elif wanted.fetch_offset < self.start and self.snapshot is not None:
            partition.snapshot_id = _Partition.SnapshotId(
                end_offset=self.snapshot[0], epoch=self.snapshot[1]
            )
        elif (
            not self.error and wanted.fetch_offset >= self.end and wanted.high_watermark == self.end
        ):
            self._parked.append(asked)
            return
        else:
            at = [int.from_bytes(batch[:8], "big") for batch in self.batches]
            partition.records = b"".join(
                batch
                for offset, batch in zip(at, self.batches, strict=True)
                if offset >= wanted.fetch_offset
            )
        asked.answer(
            FetchResponse(
                error_code=self.error,
                responses=[_Topic(topic_id=topic.topic_id, partitions=[partition])],
                node_endpoints=[
                    NodeEndpoint(node_id=each.id, host=each.address[0], port=each.address[1])
                    for each in (self, *self.others)
                ],
            )
        )

    def _piece(self, asked: Asked) -> None:
        assert self.snapshot is not None
        end_offset, epoch, data = self.snapshot
        [topic] = asked.request.topics
        [wanted] = topic.partitions
        kind = FetchSnapshotResponse.TopicSnapshot
        partition = kind.PartitionSnapshot(
            index=0,
            snapshot_id=kind.PartitionSnapshot.SnapshotId(end_offset=end_offset, epoch=epoch),
            current_leader=kind.PartitionSnapshot.LeaderIdAndEpoch(
                leader_id=self.leader_id, leader_epoch=self.epoch
            ),
            size=len(data),
            position=wanted.position,
            unaligned_records=data[wanted.position : wanted.position + asked.request.max_bytes],
        )
        asked.answer(FetchSnapshotResponse(topics=[kind(name=topic.name, partitions=[partition])]))

    def fetches(self) -> list[Any]:
        return [asked.request for asked in self.history if isinstance(asked.request, FetchRequest)]


class Stage:
    """An observer that follows controllers 3000, 3001, ..."""

    def __init__(self, path: Path, controllers: list[Controller]) -> None:
        self.controllers = controllers
        self.topics: list[str] = []
        self.failures: list[Exception] = []
        self.directory = LogDirectory(RealDisk(), str(path))
        config = BrokerConfig.of(
            {"node.id": "7", "controller.quorum.fetch.snapshot.max.bytes": "50"}
        )
        clock = LoopClock(asyncio.get_running_loop())
        log = self.directory.open_metadata_log(config.metadata_topic_config, clock.now_ms())
        self.observer = QuorumLog(log, RealDisk(), clock, MetadataCodec())
        self.observer.observe(self._note, self.failures.append)
        self.observer.load()

        def connect(host: str, port: int) -> Peer:
            return Peer(SocketNet(), clock, PeerOptions(host, port, "raft-client-7"))

        servers = [Address(*each.address[:2]) for each in controllers]
        self.search = ControllerSearch(Quorum(voters={}, bootstrap=servers), connect)
        raft = Raft(
            RaftParts(
                voter=Voter(7, _DIRECTORY), log=self.observer, random=Random(7), can_vote=False
            )
        )
        raft.load()
        raft.on_leader_changed = partial(self.search.elected, listener="CONTROLLER")
        self.driver = QuorumDriver(
            raft,
            DriverParts(
                clock=clock,
                wire=QuorumWire(cluster_id="c", listener="CONTROLLER", config=config),
                connect=connect,
                servers=servers,
                failed=self.failures.append,
            ),
        )

    def lead(self, index: int) -> None:
        """Let every controller report this one as the leader."""
        for each in self.controllers:
            each.answers[DescribeClusterRequest] = DescribeClusterResponse(
                endpoint_type=2,
                cluster_id="c",
                controller_id=3000 + index,
                brokers=[
                    DescribeClusterResponse.Broker(
                        broker_id=other.id, host=other.address[0], port=other.address[1]
                    )
                    for other in self.controllers
                ],
            )

    def _note(self, committed: Committed) -> None:
        if committed.is_snapshot:
            self.topics.append("snapshot")
        self.topics += [each.name for each in committed.records if isinstance(each, TopicRecord)]

    async def has(self, *topics: str) -> None:
        await eventually_async(lambda: self.topics == list(topics))


def run(path: Path, count: int, test: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    async def staged() -> None:
        async with stage_of(path, [Controller(3000 + index) for index in range(count)]) as stage:
            await test(stage)

    asyncio.run(staged())


@asynccontextmanager
async def stage_of(path: Path, controllers: list[Controller]) -> AsyncIterator[Stage]:
    [first, *others] = controllers
    async with first.listening():
        if others:
            async with others[0].listening():
                yield await _opened(path, controllers)
        else:
            yield await _opened(path, controllers)


async def _opened(path: Path, controllers: list[Controller]) -> Stage:
    stage = Stage(path, controllers)
    stage.lead(0)
    return stage


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_the_log_is_fetched_as_an_observer_does(path: Path) -> None:
    async def test(stage: Stage) -> None:
        [controller] = stage.controllers
        controller.epoch = 4
        controller.append("a", "b")
        stage.driver.start()
        await stage.driver.caught_up()
        await stage.has("a", "b")
        controller.append("c")
        await stage.has("a", "b", "c")
        first, second = controller.fetches()[:2]
        assert controller.history[1].client_id == "raft-client-7"
        assert (first.cluster_id, first.max_wait_ms, first.min_bytes) == ("c", 500, 0)
        assert (first.session_id, first.session_epoch) == (0, -1)
        assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (7, -1)
        [topic] = first.topics
        [partition] = topic.partitions
        assert topic.topic_id == METADATA_TOPIC_ID
        assert partition.replica_directory_id == _DIRECTORY
        assert (partition.current_leader_epoch, partition.fetch_offset) == (0, 0)
        assert second.topics[0].partitions[0].current_leader_epoch == 4
        stage.driver.abort()
        assert not stage.failures

    run(path, 1, test)


def test_another_leader_is_followed_where_the_response_says_it_is(path: Path) -> None:
    async def test(stage: Stage) -> None:
        old, new = stage.controllers
        old.append("a")
        stage.driver.start()
        await stage.has("a")
        new.batches, new.end, new.epoch = list(old.batches), old.end, 2
        new.append("b")
        old.leader_id, old.epoch, old.others = new.id, 2, [new]
        old.answers[DescribeClusterRequest] = lambda asked: None  # Not called.
        old.change()
        await stage.has("a", "b")
        assert (stage.observer.leader_id, stage.observer.epoch) == (3001, 2)
        assert stage.search.active is not None and stage.search.active.node_id == 3001
        stage.driver.abort()

    run(path, 2, test)


def test_another_leader_is_searched_when_the_leader_is_unreachable(path: Path) -> None:
    async def test(stage: Stage) -> None:
        old, new = stage.controllers
        old.append("a")
        stage.driver.start()
        await stage.has("a")
        new.batches, new.end, new.epoch = list(old.batches), old.end, 2
        new.append("b")
        stage.lead(1)
        old.hang_up()
        await stage.has("a", "b")
        stage.driver.abort()

    run(path, 2, test)


def test_leader_that_leaves_the_quorum_is_replaced_without_an_end_of_the_node(path: Path) -> None:
    """KAFKA-17608: after its removal the leader resigns, and for a while there is none."""

    async def test(stage: Stage) -> None:
        old, new = stage.controllers
        old.append("a")
        stage.driver.start()
        await stage.has("a")
        new.batches, new.end = list(old.batches), old.end
        for each in (old, new):
            each.leader_id, each.epoch = -1, 2
        old.change()
        await eventually_async(lambda: stage.observer.epoch == 2)
        assert stage.observer.leader_id == -1
        new.leader_id, new.epoch = new.id, 3
        new.append("b")
        stage.lead(1)
        await stage.has("a", "b")
        assert (stage.observer.leader_id, stage.observer.epoch) == (3001, 3)
        assert not stage.failures
        stage.driver.abort()

    run(path, 2, test)


def test_observer_never_asks_to_become_a_voter(path: Path) -> None:
    """KAFKA-19850: a node that was removed from the voters would join them again at once."""

    async def test(stage: Stage) -> None:
        old, new = stage.controllers
        old.append("a")
        stage.driver.start()
        await stage.has("a")
        new.batches, new.end, new.epoch = list(old.batches), old.end, 2
        new.append("b")
        stage.lead(1)
        old.hang_up()
        await stage.has("a", "b")
        kinds = {type(asked.request) for each in stage.controllers for asked in each.history}
        assert kinds <= {ApiVersionsRequest, DescribeClusterRequest, FetchRequest}
        assert all(each.replica_state.replica_id == 7 for each in new.fetches())
        stage.driver.abort()

    run(path, 2, test)


def test_a_snapshot_is_fetched_in_pieces_and_the_log_after_it(path: Path) -> None:
    async def test(stage: Stage) -> None:
        [controller] = stage.controllers
        records = [TopicRecord(name=name, topic_id=name.encode() * 16) for name in "xyz"]
        data = snapshot_file.encode(records, MetadataCodec(), snapshot_file.Frame(now_ms=5))
        controller.epoch = 4
        controller.snapshot = 9, 3, b"".join(data)
        controller.start = controller.end = 9
        controller.append("after")
        stage.driver.start()
        await stage.has("snapshot", "x", "y", "z", "after")
        pieces = [
            asked.request.topics[0].partitions[0].position
            for asked in controller.history
            if isinstance(asked.request, FetchSnapshotRequest)
        ]
        assert pieces == list(range(0, len(controller.snapshot[2]), 50))
        stage.driver.abort()

    run(path, 1, test)


def test_the_metadata_of_another_cluster_ends_the_start(path: Path) -> None:
    async def test(stage: Stage) -> None:
        [controller] = stage.controllers
        controller.error = Error.INCONSISTENT_CLUSTER_ID
        stage.driver.start()
        with pytest.raises(UnusableDirectory, match="another cluster"):
            await stage.driver.caught_up()
        assert not stage.failures, "the start has failed, nothing is to be stopped"

    run(path, 1, test)


def test_a_leader_that_turns_out_to_be_of_another_cluster_stops_the_node(path: Path) -> None:
    async def test(stage: Stage) -> None:
        [controller] = stage.controllers
        controller.append("a")
        stage.driver.start()
        await stage.has("a")
        controller.error = Error.INCONSISTENT_CLUSTER_ID
        controller.change()
        await eventually_async(lambda: len(stage.failures) == 1)

    run(path, 1, test)
