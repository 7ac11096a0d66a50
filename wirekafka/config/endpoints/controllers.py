"""The configured addresses of the controllers: the quorum's voters and bootstrap servers."""

from __future__ import annotations

from wirekafka.config.address import Address
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError

_BOOTSTRAP = "controller.quorum.bootstrap.servers"
_VOTERS = "controller.quorum.voters"

_NOWHERE = "0.0.0.0"  # noqa: S104 (refused here, not bound)


def voters(config: BrokerConfig) -> dict[int, Address]:
    """Return a static quorum's voters by node id; none for a dynamic one. Raises ConfigError."""
    texts = config.controller_quorum_voters
    found = {}
    for text in texts:
        id, at, address = text.strip().partition("@")
        if not at or not (id.isascii() and id.isdigit()):
            raise _malformed(_VOTERS, texts, text, "ID@HOST:PORT")
        try:
            found[int(id)] = Address.parse(address)
        except ValueError:
            raise _malformed(_VOTERS, texts, text, "ID@HOST:PORT") from None
        if found[int(id)].host == _NOWHERE:
            raise ConfigError(_VOTERS, ",".join(texts), "Host string (0.0.0.0) is not routeable")
    return found


def bootstrap_servers(config: BrokerConfig) -> tuple[Address, ...]:
    """Return the addresses from which the quorum is discovered. Raises ConfigError."""
    texts = config.controller_quorum_bootstrap_servers
    found = []
    for text in texts:
        try:
            found.append(Address.parse(text))
        except ValueError:
            raise _malformed(_BOOTSTRAP, texts, text, "HOST:PORT") from None
    return tuple(found)


def addresses(config: BrokerConfig) -> tuple[Address, ...]:
    """The addresses at which the quorum's leader can be found. Raises ConfigError."""
    return bootstrap_servers(config) or tuple(voters(config).values())


def is_alone(config: BrokerConfig) -> bool:
    """Whether no other controller than this node is configured. Raises ConfigError."""
    if not config.has_own_controller or bootstrap_servers(config):
        return False
    return voters(config).keys() <= {config.node_id}


def _malformed(option: str, texts: tuple[str, ...], text: str, form: str) -> ConfigError:
    return ConfigError(option, ",".join(texts), f"{text.strip()} is not {form}")
