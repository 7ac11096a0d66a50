"""How a broker asks the registry beside it about the schemas of records."""

from __future__ import annotations

from pathlib import Path

from wirekafka.config.client_config import ClientConfig
from wirekafka.config.own import RegistryAccess
from wirekafka.security import jaas


def node_access(
    url: str, config: ClientConfig | None, certificate: Path | None = None
) -> RegistryAccess:
    """The registry at a URL, as the user of the registry's own connections to the broker."""
    login = None if config is None else config.sources.text("sasl.jaas.config")
    if login is None:
        return RegistryAccess(url, certificate=certificate)
    options = jaas.parse(login).options
    user, password = options.get("username", ""), options.get("password", "")
    return RegistryAccess(url, user, password, certificate)
