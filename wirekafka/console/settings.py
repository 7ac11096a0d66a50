"""The settings of a console: its cluster, its address, and its users."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path

from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.table_place import TablePlace

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class Prices:
    """What a GB costs in a month, in any currency; None if it is not known."""

    disk: float | None = None
    tier: float | None = None


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The settings of one console.

    `config` has the settings of connections to brokers. If it asks for SASL without credentials,
    each visitor logs in. Otherwise all visitors act as the user of `config`.
    """

    bootstrap: str
    address: Address
    config: ClientConfig | None = None
    allow_changes: bool = False
    hosts: frozenset[str] = frozenset()
    """Names in Host headers that are accepted besides the loopback's names and `address`."""
    prices: Prices = Prices()
    """Of storage, for the cost of tiered topics."""
    schema_registry: str | None = None
    """The URL of a schema registry, or of several instances with commas between."""
    registry_certificate: Path | None = None
    """The certificate of a registry in this process, which is trusted whatever its name is."""
    tables: TablePlace | None = None
    """Where the Iceberg tables of topics are; None: the console does not show them."""
    mirrors: bool = False
    """Whether the broker in this process copies topics of another cluster."""
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """Signs the tokens of forms; new at each start."""

    cluster: str = ""
    """The name of the cluster, by which its paths begin, where the console has several."""
    clusters: tuple[str, ...] = ()
    """The names of all clusters, if the console has several."""

    @property
    def root(self) -> str:
        """What all paths of the cluster begin with; empty where the console has only one."""
        return f"/c/{self.cluster}" if self.cluster else ""

    def of_cluster(self, name: str, names: tuple[str, ...]) -> ConsoleSettings:
        """The settings as one of several clusters, which has a secret of its own."""
        return replace(self, cluster=name, clusters=names, secret=secrets.token_bytes(32))

    @property
    def cookie(self) -> str:
        """The name of the cookie of a session.

        A console with one cluster has another name for it, whose cookie is sent to all paths.
        """
        return f"wirekafka_console-{self.cluster}" if self.cluster else "wirekafka_console"

    @property
    def asks_for_login(self) -> bool:
        """Whether each visitor logs in with a name and a password of the brokers'."""
        config = self.config
        return (
            config is not None
            and config.logs_in
            and config.sources.text("sasl.jaas.config") is None
        )
