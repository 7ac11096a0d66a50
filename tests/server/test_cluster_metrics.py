"""Metrics of a controller of its own and of two brokers, while replicas fall behind and return."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from operator import gt
from pathlib import Path
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from tests.eventually import eventually_async
from tests.in_process import batch
from tests.server.test_measured_pipeline import produce_request
from tests.server.test_quorum_of_nodes import CLUSTER_ID, HOST, QUICK, configs
from wirekafka.apis.shared.call import Call
from wirekafka.config.address import Address
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.metadata.controller.topics import CreateTopics, NewTopic
from wirekafka.replication.fetching.fetching import NO_FETCHING
from wirekafka.server.controller_node import ControllerNode
from wirekafka.server.monitoring.service import Monitoring
from wirekafka.server.node import Node, Platform

CONTROLLER = "kafka_controller_kafkacontroller_"
REPLICAS = "kafka_server_replicamanager_"
RAFT = "kafka_server_raftmetrics_"
SESSION = {"broker.session.timeout.ms": "5000"}
"""Long enough for a busy machine: a fenced broker leaves the ISR by no change of the leader."""
Values = dict[str, float]


class Monitored:
    """A node with its metrics listener."""

    def __init__(self, config: BrokerConfig):
        self.monitoring = Monitoring(Address(HOST, 0))
        platform = Platform(
            recover=None,
            cluster_id=CLUSTER_ID,
            measures=self.monitoring.measures,
            sync=self.monitoring.timed(Platform().sync),
        )
        has_broker = "broker" in config.process_roles
        self.node = Node(config, platform) if has_broker else ControllerNode(config, platform)

    async def start(self) -> None:
        self.monitoring.start()
        await self.node.start()
        self.monitoring.serving(self.node)

    def abort(self) -> None:
        self.monitoring.stopping()
        self.monitoring.stop()
        self.node.abort()

    async def scrape(self) -> Values:
        """Each sample by its name, with its labels if they are not those of a topic."""

        def text() -> str:
            with urlopen(f"http://{self.monitoring.address}/metrics", timeout=20) as answer:
                return str(answer.read().decode())

        found: Values = {}
        for family in text_string_to_metric_families(await asyncio.to_thread(text)):
            for sample in family.samples:
                place = [
                    sample.labels[key]
                    for key in ("topic", "partition", "broker")
                    if key in sample.labels
                ]
                found[" ".join([sample.name, *place])] = sample.value
                if "current_state" in sample.labels:
                    found[f"{sample.name} {sample.labels['current_state']}"] = sample.value
        return found

    async def until(self, *expected: tuple[str, float]) -> Values:
        """Scrape until these samples have these values."""
        wanted, found = dict(expected), {}
        try:
            async with asyncio.timeout(30):
                while True:
                    found = await self.scrape()
                    if wanted == {name: found.get(name) for name in wanted}:
                        return found
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError({name: found.get(name) for name in wanted}) from None

    async def until_true(self, condition: Callable[[Values], bool]) -> None:
        """Scrape until the values satisfy the condition."""

        async def is_true() -> bool:
            return condition(await self.scrape())

        await eventually_async(is_true, every_s=0.05)


def broker_config(path: Path, id: int, voter: BrokerConfig) -> BrokerConfig:
    return BrokerConfig.of(
        QUICK
        | SESSION
        | {
            "process.roles": "broker",
            "node.id": str(id),
            "log.dirs": str(path / str(id)),
            "controller.quorum.voters": voter.sources.text("controller.quorum.voters") or "",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{HOST}:0",
            "replica.lag.time.max.ms": "1000",
        }
    )


def channel(values: Values) -> list[float]:
    """Requests and bytes sent to the quorum, and responses and bytes received from it."""
    names = ("request", "outgoing_byte", "response", "incoming_byte")
    return [values[f"kafka_server_raftchannelmetrics_{name}_total"] for name in names]


def gauges(prefix: str, **values: float) -> list[tuple[str, float]]:
    return [(prefix + name, value) for name, value in values.items()]


def test_a_controller_and_brokers_report_the_state_of_the_cluster(tmp_path: Path) -> None:
    async def scenario() -> None:
        [voter] = configs(tmp_path, "controller", 1, **SESSION)
        controller = Monitored(voter)
        first, second = (Monitored(broker_config(tmp_path, id, voter)) for id in (11, 12))
        for each in (controller, first, second):
            await each.start()
        try:
            await play(controller, first, second)
        finally:
            for each in (first, second, controller):
                each.abort()

    asyncio.run(asyncio.wait_for(scenario(), 120))


async def play(controller: Monitored, first: Monitored, second: Monitored) -> None:
    assert isinstance(first.node, Node) and isinstance(second.node, Node)
    topics = [
        NewTopic(name="both", assignments=[(0, [11, 12]), (1, [12, 11])]),
        NewTopic(name="second", assignments=[(0, [12])]),
    ]
    await controller.node.source.controller.submit(CreateTopics(topics))
    found = await controller.until(
        *gauges(
            CONTROLLER,
            activecontrollercount=1,
            activebrokercount=2,
            fencedbrokercount=0,
            globaltopiccount=2,
            globalpartitioncount=3,
            offlinepartitionscount=0,
            preferredreplicaimbalancecount=0,
            controlledshutdownbrokercount=0,
        ),
        (CONTROLLER + "brokerregistrationstate 11", 30),
        (CONTROLLER + "brokerregistrationstate 12", 30),
        ("kafka_server_metadataloader_currentcontrollerid", 1),
        *gauges(RAFT, current_leader=1, current_vote=1),
        (RAFT + "current_state leader", 1),
    )
    quorum = controller.node.source.log
    assert found[RAFT + "current_epoch"] == quorum.epoch
    assert found[CONTROLLER + "lastappliedrecordoffset"] <= quorum.committed_offset - 1
    healthy = gauges(REPLICAS, underreplicatedpartitions=0, isrshrinks_total=0)
    await first.until(*gauges(REPLICAS, partitioncount=2, leadercount=1), *healthy)
    seen = await second.until(*gauges(REPLICAS, partitioncount=3, leadercount=2), *healthy)
    assert (seen[RAFT + "current_state observer"], seen[RAFT + "current_leader"]) == (1, 1)
    assert "kafka_controller_kafkacontroller_activecontrollercount" not in seen

    # Observers fetch from the leader, which sends them nothing.
    assert channel(found) == [0, 0, 0, 0]
    for observer in (first, second):
        before = channel(await observer.scrape())
        assert min(before) > 0
        await observer.until_true(
            lambda values, before=before: all(map(gt, channel(values), before))
        )

    # A follower has fetched all.
    request = produce_request(batch(*[b"x"] * 5), "both")
    await produced(first.node, request)
    lag = "kafka_server_fetcherlagmetrics_consumerlag both 0"
    await second.until((lag, 0), ("kafka_log_log_logendoffset both 0", 5))
    await second.until(("kafka_server_replicafetchermanager_maxlag", 0))

    # A follower that does not fetch leaves the ISR, and returns.
    follower = second.node.broker
    fetching, follower.fetching = follower.fetching, NO_FETCHING
    fetching.forget(follower.partitions["both", 0])
    await produced(first.node, request)
    shrunk = gauges(REPLICAS, underreplicatedpartitions=1, isrshrinks_total=1, isrexpands_total=0)
    await first.until(*shrunk, ("kafka_cluster_partition_insyncreplicascount both 0", 1))
    follower.fetching = fetching
    fetching.follow(follower.partitions["both", 0])
    grown = gauges(REPLICAS, underreplicatedpartitions=0, isrshrinks_total=1, isrexpands_total=1)
    await first.until(*grown, ("kafka_cluster_partition_insyncreplicascount both 0", 2))

    # A broker that is gone is fenced, and its partitions move or are offline.
    second.node.abort()
    await controller.until(
        *gauges(
            CONTROLLER,
            activebrokercount=1,
            fencedbrokercount=1,
            offlinepartitionscount=1,
            preferredreplicaimbalancecount=2,
        ),
        (CONTROLLER + "brokerregistrationstate 11", 30),
        (CONTROLLER + "brokerregistrationstate 12", 10),
    )
    await first.until(*gauges(REPLICAS, leadercount=2, underreplicatedpartitions=2))


async def produced(node: Node, request: object) -> None:
    """Write to a partition that the node leads."""
    from wirekafka.apis.produce import produce

    call = Call(node.broker)
    call.version = 9
    response = produce(request, call)
    if asyncio.iscoroutine(response):
        response = await response
    assert response.responses[0].partition_responses[0].error_code == 0
