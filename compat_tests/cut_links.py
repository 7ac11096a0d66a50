"""Connections between nodes of a cluster, which can be cut: nothing sent on them arrives."""

from __future__ import annotations

import asyncio
import re
import struct
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from compat_tests.cluster import HOST, Cluster, Node, Shape
from tests.ports import free_ports

CONTROLLERS, BROKERS, REQUESTS = "controllers", "brokers", "requests"
"""What a broker is cut off from; REQUESTS are those to controllers, except for fetches of metadata.

Without them a broker is fenced, and learns that it is.
"""
_CLIENT = re.compile(r"(raft-client-|broker-)?(\d+)(?:-.*)?")
"""The client ids of nodes, Apache Kafka's and wirekafka's, which have the node's id."""
_PIECE_BYTES = 1 << 16


@dataclass(frozen=True)
class _Ends:
    """The id of the node that connected, -1 if unknown, and the node that it connected to."""

    source: int
    owner: Node
    follows: bool
    """Whether the connection is that of an observer of the metadata."""


class Links:
    """Forwards connections to the nodes' listeners, and knows from the client id whose they are.

    While a node is cut off, its connections stay open and new ones are accepted, but nothing is
    forwarded, as if a switch dropped the packets. Those connections are closed by `heal`.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._cut: dict[int, Collection[str]] = {}
        self._held: set[asyncio.StreamWriter] = set()
        self._servers: list[asyncio.Server] = []

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[Links]:
        links = cls()
        try:
            yield links
        finally:
            asyncio.run_coroutine_threadsafe(links._end(), links._loop).result(30)
            links._loop.call_soon_threadsafe(links._loop.stop)
            links._thread.join()
            links._loop.close()

    def forward(self, node: Node, port: int) -> int:
        """The port at which connections to a port of a node are accepted from now on."""

        async def serve() -> int:
            async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                with suppress(OSError, EOFError):
                    await self._connected((reader, writer), node, port)
                writer.transport.abort()

            server = await asyncio.start_server(connected, HOST, 0)
            self._servers.append(server)
            found: int = server.sockets[0].getsockname()[1]
            return found

        return asyncio.run_coroutine_threadsafe(serve(), self._loop).result(30)

    def cut(self, node: int, kinds: Collection[str]) -> None:
        """Cut a broker off from the controllers, the other brokers, or both.

        A controller that is cut off from the controllers is reached by no broker either.
        """
        self._cut = {**self._cut, node: kinds}

    def heal(self) -> None:
        """Forward everything again; connections that have lost data are closed."""
        self._cut = {}

        def close() -> None:
            held, self._held = self._held, set()
            for writer in held:
                writer.transport.abort()

        self._loop.call_soon_threadsafe(close)

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(
        self, client: tuple[asyncio.StreamReader, asyncio.StreamWriter], owner: Node, port: int
    ) -> None:
        reader, writer = client
        head = await reader.readexactly(14)
        (length,) = struct.unpack_from(">h", head, 12)
        head += await reader.readexactly(max(length, 0))
        named = _CLIENT.fullmatch(head[14:].decode())
        source = int(named[2]) if named else -1
        ends = (_Ends(source, owner, follows=bool(named and named[1] == "raft-client-")), writer)
        if self._is_cut(ends[0]):
            self._held.add(writer)
            while await reader.read(_PIECE_BYTES):
                pass
            return
        node_reader, node_writer = await asyncio.open_connection(HOST, port)
        node_writer.write(head)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pump(reader, node_writer, ends))
                tasks.create_task(self._pump(node_reader, writer, ends))
        except* OSError:
            pass
        finally:
            node_writer.transport.abort()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ends: tuple[_Ends, asyncio.StreamWriter],
    ) -> None:
        """Forward one direction until it ends, and then end the other one."""
        link, client = ends
        while data := await reader.read(_PIECE_BYTES):
            if client in self._held or self._is_cut(link):
                self._held.add(client)
                continue
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError

    def _is_cut(self, link: _Ends) -> bool:
        kinds = self._cut.get(link.source, ())
        if link.owner.is_controller:
            is_cut = CONTROLLERS in kinds or CONTROLLERS in self._cut.get(link.owner.id, ())
            return is_cut or (REQUESTS in kinds and not link.follows)
        return BROKERS in kinds or BROKERS in self._cut.get(link.owner.id, ())


class LinkedCluster(Cluster):
    """A cluster whose nodes reach each other by way of `Links`; clients connect directly.

    Its controllers are nodes of their own.
    """

    def __init__(self, shape: Shape, directory: Path, links: Links):
        assert not shape.is_combined
        self.links = links
        self._ports: dict[int, int] = {}
        super().__init__(shape, directory)

    @classmethod
    @contextmanager
    def linked(cls, shape: Shape, directory: Path, links: Links) -> Iterator[LinkedCluster]:
        """A cluster with every broker in service."""
        cluster = cls(shape, directory, links)
        try:
            cluster.start(*cluster.nodes)
            yield cluster
        finally:
            links.heal()
            cluster.end()

    def _properties(self, node: Node) -> dict[str, str]:
        properties = super()._properties(node)
        voters = [each for each in self.nodes.values() if each.is_controller]
        for each in voters:
            if each.id not in self._ports:
                self._ports[each.id] = self.links.forward(each, each.controller_port)
        properties["controller.quorum.voters"] = ",".join(
            f"{each.id}@{HOST}:{self._ports[each.id]}" for each in voters
        )
        properties["listener.security.protocol.map"] = (
            "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT"
        )
        if node.is_controller:
            advertised = f"CONTROLLER://{HOST}:{self._ports[node.id]}"
        else:
            [inside] = free_ports(1)
            properties["listeners"] += f",INSIDE://{HOST}:{inside}"
            properties["inter.broker.listener.name"] = "INSIDE"
            advertised = (
                f"PLAINTEXT://{HOST}:{node.port},INSIDE://{HOST}:{self.links.forward(node, inside)}"
            )
        properties["advertised.listeners"] = advertised
        return properties
