"""Binds the listeners of a node, and finds the addresses that it advertises."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from wirekafka.apis.shared.host import Host
from wirekafka.config.address import ANYWHERE, Address
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints import listeners as addresses
from wirekafka.config.option import ConfigError
from wirekafka.config.security_protocol import uses_tls
from wirekafka.metadata.controller.registration import SECURITY_PROTOCOLS, Endpoint
from wirekafka.server.background.threads import OwnThread
from wirekafka.server.connections.admission import ConnectionLimits
from wirekafka.server.connections.listener import Encryption, Listener
from wirekafka.server.connections.pipeline import Pipeline
from wirekafka.server.connections.request_memory import RequestMemory
from wirekafka.server.net import Net, Port, SocketOptions

logger = logging.getLogger(__name__)

_DRAIN_S = 3.0
_PROTOCOL_NAMES = {number: name for name, number in SECURITY_PROTOCOLS.items()}


class Binding:
    """The listeners of one host, which share its connection limits; none accepts before `start`."""

    def __init__(self, net: Net, config: BrokerConfig, limits: ConnectionLimits):
        self._net = net
        self._config = config
        self._host: Host | None = None
        self._limits = limits
        self.listeners: list[Listener] = []
        self._endpoints: list[Endpoint] = []
        self.created: Callable[[Listener], None] = lambda listener: None
        """Called with each new listener, before it accepts connections."""
        self._wanted: BrokerConfig | None = None
        """A configuration whose listeners have still to be opened and closed."""
        self._following: asyncio.Task[None] | None = None

    def bind(self, configured: Sequence[addresses.ListenerEndpoint]) -> None:
        """Bind the addresses, so that other nodes can connect, and wait. Raises OSError."""
        for each in configured:
            listener = Listener(each.name, self._listen(each.host, each.port), self._limits)
            self.listeners.append(listener)
            self.created(listener)
            if uses_tls(each.protocol):
                listener.tls = _encryption(listener, each.protocol, self._config)

    async def prepare(self, host: Host) -> None:
        """Refuse settings with which no client could log in. Raises ConfigError."""
        for listener in self.listeners:
            await listener.prepare(host)

    async def start(self, host: Host) -> None:
        """Accept connections, and serve them from `host`. Raises ConfigError."""
        self._host = host
        for listener in self.listeners:
            await listener.start(host)

    def configured(self, config: BrokerConfig) -> None:
        """Open the listeners that a new dynamic configuration adds, close the removed ones.

        A listener that stays keeps its address, as in Kafka. An error is logged.
        """
        wanted = {each.name for each in addresses.listeners(config).bound}
        if self._host is None or wanted == {each.name for each in self.listeners}:
            return
        self._wanted = config
        if self._following is None:
            self._following = asyncio.get_running_loop().create_task(self._follow())

    async def _follow(self) -> None:
        while (config := self._wanted) is not None:
            self._wanted = None
            wanted = {each.name: each for each in addresses.listeners(config).bound}
            for listener in tuple(self.listeners):
                if wanted.pop(listener.name, None) is None:
                    self._close(listener)
            for added in wanted.values():
                try:
                    await self._open(added, config)
                except (OSError, ConfigError) as error:
                    logger.error("Listener %s is not opened: %s", added.name, error)
        self._following = None

    async def _open(self, added: addresses.ListenerEndpoint, config: BrokerConfig) -> None:
        assert self._host is not None, "the host serves clients"
        listener = Listener(added.name, self._listen(added.host, added.port), self._limits)
        try:
            self.created(listener)
            if uses_tls(added.protocol):
                # In a thread, because it reads files that a client has named.
                listener.tls = await asyncio.to_thread(
                    _encryption, listener, added.protocol, config
                )
            await listener.start(self._host)
        except BaseException:
            self._close(listener)
            raise
        self.listeners.append(listener)
        address = Address(*listener.address)
        logger.info("Listener %s accepts connections at %s", listener.name, address)

    def _close(self, listener: Listener) -> None:
        listener.stop_accepting()
        listener.abort()
        self._limits.members.remove(listener)
        if listener in self.listeners:
            self.listeners.remove(listener)
            logger.info("Listener %s is closed", listener.name)

    async def accept_again(self) -> None:
        """Reopen the closed listeners at their previous addresses. Raises OSError."""
        if self._host is None:
            return
        for listener in self.listeners:
            if listener.is_closed:
                await listener.reopen(self._listen(*listener.address), self._host)

    def endpoints(self, advertised: Sequence[addresses.ListenerEndpoint]) -> list[Endpoint]:
        """The advertised addresses: as configured, with the bound port in place of 0, and this
        machine's name in place of a wildcard address."""
        endpoints = []
        for each, listener in zip(advertised, self.listeners, strict=True):
            port = each.port or listener.address[1]
            host = self._net.own_name() if each.host in ANYWHERE else each.host
            endpoints.append(Endpoint(each.name, host, port, SECURITY_PROTOCOLS[each.protocol]))
        self._endpoints = endpoints
        return endpoints

    def described(self) -> list[str]:
        """Each listener with its protocol, its bound address and its advertised address."""
        lines = []
        endpoints = {each.name: each for each in self._endpoints}
        for listener in self.listeners:
            endpoint = endpoints.get(listener.name)
            if endpoint is None:  # Added by a dynamic setting, which advertises nothing.
                continue
            bound, advertised = Address(*listener.address), Address(endpoint.host, endpoint.port)
            protocol = _PROTOCOL_NAMES[endpoint.security_protocol]
            name = listener.name if listener.name == protocol else f"{listener.name} ({protocol})"
            lines.append(f"{name} at {bound}, advertised as {advertised}")
        return lines

    def _listen(self, host: str, port: int) -> Port:
        # A small send buffer stays in the processor's cache: 0.08 ms/MB from file to socket,
        # 0.25 with the system's default of a megabyte.
        config, given = self._config, self._config.sources.static
        options = SocketOptions(send_buffer_bytes=config.socket_send_buffer_bytes)
        # The system adapts receive buffers by itself, and Kafka's backlog of 50 is short.
        if "socket.receive.buffer.bytes" in given:
            size_bytes = config.socket_receive_buffer_bytes
            options = options._replace(receive_buffer_bytes=size_bytes)
        if "socket.listen.backlog.size" in given:
            options = options._replace(backlog=config.socket_listen_backlog_size)
        return self._net.listen(host, port, options)


class Bindings:
    """All listeners of a node, of its broker and of its controller."""

    def __init__(self, net: Net):
        self._net = net
        self._bindings: list[Binding] = []
        # One at a time: large requests take memory and, with the event loop, the interpreter.
        self._thread = OwnThread("large requests")

    def add(self, config: BrokerConfig, pipeline: Pipeline) -> Binding:
        """Return new listeners, as yet none, whose requests go through `pipeline`."""
        limits = ConnectionLimits(pipeline, RequestMemory.of(config))
        binding = Binding(self._net, config, limits)
        self._bindings.append(binding)
        pipeline.run_apart = self._thread.run
        return binding

    def start_thread(self) -> None:
        """Decode large requests in a thread from now on, and encode their responses there."""
        self._thread.start()

    def stop_thread(self) -> None:
        """Drop the requests that wait for the thread, whose connections are closed."""
        self._thread.stop()

    @property
    def listeners(self) -> list[Listener]:
        """All listeners, in the order in which they were added and bound."""
        return [listener for binding in self._bindings for listener in binding.listeners]

    def described(self) -> list[str]:
        """Each listener with its advertised address; call it once all are started."""
        return [line for binding in self._bindings for line in binding.described()]

    async def check(self, config: BrokerConfig) -> None:
        """Raise ConfigError if a new configuration cannot be used."""
        for listener in self.listeners:
            if listener.tls is not None:
                await asyncio.to_thread(listener.tls.check, config)

    def configured(self, clients: Binding, config: BrokerConfig) -> None:
        """Use the listeners of clients, and the certificates, of a new dynamic configuration."""
        clients.configured(config)
        for listener in self.listeners:
            if listener.tls is not None and listener.broker is not None:
                listener.tls.configured(config)

    def stop_accepting(self) -> None:
        """Close the listeners; established connections stay open."""
        for listener in self.listeners:
            listener.stop_accepting()

    async def accept_again(self) -> None:
        """Reopen the closed listeners at their previous addresses. Raises OSError."""
        for binding in self._bindings:
            await binding.accept_again()

    def cut_connections(self) -> None:
        """Close every connection at once; the listeners keep accepting."""
        for listener in self.listeners:
            listener.abort()

    async def drain(self) -> None:
        """Finish the current requests, for at most `_DRAIN_S` seconds, and close connections."""
        for listener in self.listeners:
            listener.drain()
        if any(listener.connections for listener in self.listeners):
            with suppress(TimeoutError):
                async with asyncio.timeout(_DRAIN_S):
                    for listener in self.listeners:
                        await listener.drained()
        self.cut_connections()


def _encryption(listener: Listener, protocol: str, config: BrokerConfig) -> Encryption:
    from wirekafka.server.tls.listener_tls import ListenerTls

    return ListenerTls(listener, protocol, config)
