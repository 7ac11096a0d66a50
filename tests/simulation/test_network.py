"""The simulated network: addresses, order, cuts, and real nodes connected by it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any, cast

import pytest

from tests.simulation.network import Network, NetworkFaults
from tests.simulation.node import SimulatedNode, new_loop
from tests.simulation.trace import Trace
from tests.simulation.wire import GROUP, Coordinator, Leader, Lost, Wire
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.describe_cluster import DescribeClusterRequest


class Peer(asyncio.Protocol):
    """Records the data that it receives."""

    def __init__(self, heard: list[bytes]) -> None:
        self.heard = heard
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


class TwoHosts:
    """Two hosts, "here" and "there", without faults by default."""

    def __init__(self, seed: int = 0, faults: NetworkFaults | None = None):
        self.loop = new_loop()
        self.network = Network(self.loop, Random(seed), Trace(keeps=True))
        self.network.faults = faults or NetworkFaults(slow=0, torn=0)
        self.here, self.there = self.network.host("here"), self.network.host("there")
        self.heard: list[bytes] = []
        self.answers: list[bytes] = []
        self.accepted: list[Peer] = []

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        self.loop.run_until_complete(scenario)
        self.loop.close()

    async def listen(self) -> None:
        def new() -> Peer:
            self.accepted.append(Peer(self.heard))
            return self.accepted[-1]

        await self.there.listen("there", 9).accept(new)

    async def connect(self) -> Peer:
        _, peer = await self.here.connect("there", 9, lambda: Peer(self.answers))
        assert isinstance(peer, Peer)
        return peer


def test_a_connection_is_accepted_at_its_address() -> None:
    hosts = TwoHosts()

    async def scenario() -> None:
        await hosts.listen()
        peer = await hosts.connect()
        peer.transport.write(b"hello")
        await asyncio.sleep(1)
        [accepted] = hosts.accepted
        accepted.transport.write(b"good day")
        await asyncio.sleep(1)
        assert (hosts.heard, hosts.answers) == ([b"hello"], [b"good day"])
        assert accepted.transport.get_extra_info("peername")[0] == hosts.here.address
        peer.transport.close()
        await asyncio.sleep(1)
        assert accepted.is_lost and peer.is_lost
        assert not hosts.network.links

    hosts.run(scenario())


def test_a_connection_to_an_unused_address_is_refused() -> None:
    hosts = TwoHosts()

    async def scenario() -> None:
        with pytest.raises(ConnectionRefusedError):
            await hosts.connect()
        with pytest.raises(OSError, match="no such host"):
            await hosts.here.connect("nowhere", 9, asyncio.Protocol)
        assert not hosts.network.links

    hosts.run(scenario())


def test_a_connection_to_a_port_that_does_not_accept_yet_waits() -> None:
    hosts = TwoHosts()

    async def scenario() -> None:
        port = hosts.there.listen("there", 9)
        connecting = asyncio.ensure_future(hosts.connect())
        await asyncio.sleep(1)
        assert not connecting.done()
        await port.accept(lambda: Peer(hosts.heard))
        (await connecting).transport.write(b"at last")
        await asyncio.sleep(1)
        assert hosts.heard == [b"at last"]

    hosts.run(scenario())


def test_an_address_in_use_is_not_assigned_again() -> None:
    hosts = TwoHosts()
    port = hosts.there.listen("there", 9)
    with pytest.raises(OSError, match="cannot listen at there:9"):
        hosts.there.listen("there", 9)
    assert hosts.there.listen("there", 0).address != port.address
    port.close()
    hosts.there.listen("there", 9)


def test_a_one_way_cut_delays_one_direction_and_mending_delivers_in_order() -> None:
    hosts = TwoHosts()

    async def scenario() -> None:
        await hosts.listen()
        peer = await hosts.connect()
        await asyncio.sleep(1)
        hosts.network.cut("here", "there")
        for piece in (b"1", b"2", b"3"):
            peer.transport.write(piece)
        hosts.accepted[0].transport.write(b"the other way")
        await asyncio.sleep(100)
        assert (hosts.heard, hosts.answers) == ([], [b"the other way"])
        hosts.network.mend("here", "there")
        peer.transport.write(b"4")
        await asyncio.sleep(1)
        assert hosts.heard == [b"1", b"2", b"3", b"4"]

    hosts.run(scenario())


def test_parted_hosts_reach_each_other_in_neither_direction() -> None:
    hosts = TwoHosts()

    async def scenario() -> None:
        await hosts.listen()
        third = hosts.network.host("third")
        hosts.network.part(["here"], ["there", "third"])
        with pytest.raises(TimeoutError):
            await hosts.connect()
        _, peer = await third.connect("there", 9, lambda: Peer([]))
        assert not peer.transport.is_closing()
        hosts.network.heal()
        await hosts.connect()

    hosts.run(scenario())


def test_the_end_of_a_connection_is_not_noticed_through_a_cut() -> None:
    hosts = TwoHosts()

    async def scenario() -> None:
        await hosts.listen()
        peer = await hosts.connect()
        await asyncio.sleep(1)
        hosts.network.cut("there", "here")
        hosts.accepted[0].transport.abort()
        await asyncio.sleep(100)
        assert hosts.accepted[0].is_lost and not peer.is_lost
        hosts.network.mend("there", "here")
        await asyncio.sleep(1)
        assert peer.is_lost

    hosts.run(scenario())


def test_order_is_kept_within_a_connection_and_not_across_two() -> None:
    overtaken = 0
    for seed in range(20):
        hosts = TwoHosts(seed, NetworkFaults(slow=0.3, torn=0))

        async def scenario(hosts: TwoHosts = hosts) -> None:
            await hosts.listen()
            one, other = await hosts.connect(), await hosts.connect()
            for number in b"0123456789":
                one.transport.write(bytes([number]))
                other.transport.write(bytes([number]))
            await asyncio.sleep(100)

        hosts.run(scenario())
        arrived = [line.split()[1:] for line in hosts.network.trace.lines or ()]
        for name in ("1>", "2>"):
            assert [data for link, data in arrived if link == name] == [
                f"{number:x}" for number in b"0123456789"
            ]
        numbers = [data for _, data in arrived]
        overtaken += numbers != sorted(numbers)
    assert overtaken


def test_the_same_seed_delivers_at_the_same_moments() -> None:
    def digest(seed: int) -> str:
        hosts = TwoHosts(seed, NetworkFaults(slow=0.3, torn=0.3))

        async def scenario() -> None:
            await hosts.listen()
            peer = await hosts.connect()
            for number in range(20):
                peer.transport.write(b"piece %d" % number)
            await asyncio.sleep(100)

        hosts.run(scenario())
        return hosts.network.trace.digest()

    assert digest(1) == digest(1) != digest(2)


class Pair:
    """Two real nodes, each a cluster of its own, and a client that knows both."""

    def __init__(self) -> None:
        self.loop = new_loop()
        self.network = Network(self.loop, Random(3), Trace())
        self.network.faults = NetworkFaults(slow=0, torn=0)
        self.nodes = [
            SimulatedNode(self.network, name, Random(name), {"node.id": name[-1]})
            for name in ("node-1", "node-2")
        ]
        self.wires = [
            Wire(self.network, f"client-{node.name}", [node.address], may_linger=False)
            for node in self.nodes
        ]

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        """Play the scenario with both nodes up."""

        async def with_nodes() -> None:
            for node in self.nodes:
                await node.start()
            await scenario
            for node in self.nodes:
                await node.stop()

        self.loop.run_until_complete(with_nodes())
        self.loop.close()


def test_two_nodes_serve_on_one_network_at_their_own_addresses() -> None:
    pair = Pair()

    async def scenario() -> None:
        hosts = []
        for wire in pair.wires:
            answer = await wire.ask(DescribeClusterRequest(), 1)
            hosts.append([(each.broker_id, each.host) for each in answer.brokers])
        assert hosts == [[(1, "node-1")], [(2, "node-2")]]

    pair.run(scenario())


def test_a_node_that_is_cut_off_is_unreachable_and_the_other_is_not() -> None:
    pair = Pair()

    async def scenario() -> None:
        first, second = pair.wires
        names = [wire.name for wire in pair.wires]
        pair.network.part(["node-1"], names)
        with pytest.raises(Lost):
            await first.ask(DescribeClusterRequest(), 1)
        await second.ask(DescribeClusterRequest(), 1)
        pair.network.heal()
        await first.ask(DescribeClusterRequest(), 1)

    pair.run(scenario())


def test_clients_find_leaders_and_coordinators_by_asking() -> None:
    pair = Pair()

    async def scenario() -> None:
        wire = pair.wires[1]
        kind = CreateTopicsRequest.CreatableTopic
        await wire.ask(
            CreateTopicsRequest(topics=[kind(name="t", num_partitions=2, replication_factor=1)]), 7
        )
        assert await wire.find(Leader("t", 1)) == pair.nodes[1].address
        assert await wire.find(Coordinator(GROUP, "g")) == pair.nodes[1].address
        with pytest.raises(Lost):
            await wire.find(Leader("t", 2))

    pair.run(scenario())
