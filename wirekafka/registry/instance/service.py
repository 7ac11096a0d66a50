"""An instance of a registry: its topic, its part in the election, and its HTTP server."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from starlette.types import ASGIApp

from wirekafka.client.client import Client, CliError
from wirekafka.config.address import ANYWHERE, Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.registry import app
from wirekafka.registry.instance.broker_access import BrokerAccess, require_passwords
from wirekafka.registry.instance.election import (
    SESSION_TIMEOUT_MS,
    ElectionResult,
    InstanceIdentity,
    RegistryElection,
)
from wirekafka.registry.instance.forwarding import Forwarding, RegistryLeadership
from wirekafka.registry.instance.topic import TopicFollower
from wirekafka.registry.instance.topic_writer import TopicWriter
from wirekafka.registry.names import CLIENT_ID, GROUP, TOPIC, TRANSACTIONAL_ID
from wirekafka.web.connection import HttpConnection
from wirekafka.web.web_server import Service, WebServer

logger = logging.getLogger(__name__)

_NAME = "the schema registry"
_LOAD_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """The settings of one instance."""

    bootstrap: str
    address: Address
    config: ClientConfig | None = None
    """Of the registry's own connections; with SASL, visitors log in as users of the brokers."""
    advertised: InstanceIdentity | None = None
    """How other instances reach it; None is where it listens."""
    tls: ssl.SSLContext | None = None
    """Of its listener."""
    leader_tls: ssl.SSLContext | None = None
    """Of connections to the leader, if it has TLS."""
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    around: Callable[[ASGIApp, ASGIApp], ASGIApp] = lambda app, unrestricted: app
    """The application that is served, around the registry's and around an unrestricted one."""
    waits_for_brokers: bool = False
    """Whether it starts once the brokers are ready for it, rather than fails."""

    def open_client(self) -> Client:
        """A client of the registry itself."""
        return Client(self.bootstrap, self.config, client_id=CLIENT_ID)


class RegistryConnection(HttpConnection):
    """A connection of an application: one machine may run many of them."""

    most_connections = 1024
    most_of_address = 512


def registry_server(settings: RegistrySettings) -> WebServer:
    """A registry that listens at its address, and serves once it has read its topic.

    Raises OSError, and CliError for a mechanism by which users cannot log in.
    """
    if settings.config is not None:
        require_passwords(settings.config)

    @asynccontextmanager
    async def application() -> AsyncIterator[ASGIApp]:
        follower = TopicFollower(settings.open_client, TOPIC)
        await _load(follower, settings.waits_for_brokers)
        cluster_id = await asyncio.to_thread(_cluster_id, settings)
        follower.start()
        own = settings.advertised or _reached_at(server.address, settings.tls is not None)
        writer = TopicWriter(follower, settings.open_client, TRANSACTIONAL_ID)
        leadership = RegistryLeadership()

        def elected(result: ElectionResult) -> None:
            if result.is_self:
                writer.lead()  # Before requests are served here.
            leadership.set(result)
            if not result.is_self:
                writer.follow()

        election = RegistryElection(
            settings.open_client, own, elected, session_timeout_ms=settings.session_timeout_ms
        )
        election.start()
        access = _access(settings)
        forwarding = Forwarding(
            app.create(writer, access, cluster_id=cluster_id, group_id=GROUP),
            leadership,
            None if access is None else access.authenticate,
            settings.leader_tls,
        )
        try:
            yield settings.around(forwarding, app.create(writer))
        finally:
            forwarding.close()
            await asyncio.to_thread(election.stop)
            await asyncio.to_thread(writer.close)
            follower.stop()
            if access is not None:
                access.close()

    server = WebServer(
        settings.address,
        Service(
            name=_NAME, application=application, connection=RegistryConnection, tls=settings.tls
        ),
    )
    return server


async def _load(follower: TopicFollower, waits_for_brokers: bool) -> None:
    while True:
        try:
            await asyncio.to_thread(follower.load)
            return
        except CliError as error:
            if not waits_for_brokers:
                raise
            logger.warning("The schema registry has to wait: %s", error)
            await asyncio.sleep(_LOAD_EVERY_S)


def url_of(server: WebServer, settings: RegistrySettings) -> str:
    """Where a client on this machine reaches a server."""
    reached = _reached_at(server.address, settings.tls is not None)
    host = "127.0.0.1" if server.address.host in ANYWHERE else server.address.host
    return replace(reached, host=host).url


def _cluster_id(settings: RegistrySettings) -> str:
    with settings.open_client() as client:
        return client.metadata([]).cluster_id or ""


def _access(settings: RegistrySettings) -> BrokerAccess | None:
    config = settings.config
    if config is None or not config.logs_in:
        return None
    return BrokerAccess(settings.bootstrap, config)


def _reached_at(address: Address, has_tls: bool) -> InstanceIdentity:
    host = socket.gethostname() if address.host in ANYWHERE else address.host
    return InstanceIdentity("https" if has_tls else "http", host, address.port)
