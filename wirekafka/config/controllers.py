"""The configured addresses of the controllers: the quorum's voters and bootstrap servers."""

from __future__ import annotations

import re
from typing import NamedTuple

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError

_BOOTSTRAP = "controller.quorum.bootstrap.servers"
_VOTERS = "controller.quorum.voters"
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^:/@\[\]\s]+):(?P<port>\d{1,5})")
_LARGEST_PORT = 65535


class Address(NamedTuple):
    """The host and port of another node."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def voters(config: BrokerConfig) -> dict[int, Address]:
    """Return a static quorum's voters by node id; none for a dynamic one. Raises ConfigError."""
    found = {}
    for text in config.controller_quorum_voters:
        id, at, address = text.strip().partition("@")
        if not at or not (id.isascii() and id.isdigit()):
            raise _malformed(_VOTERS, config.controller_quorum_voters, text, "ID@HOST:PORT")
        parsed = _parsed(address)
        if parsed is None:
            raise _malformed(_VOTERS, config.controller_quorum_voters, text, "ID@HOST:PORT")
        found[int(id)] = parsed
    return found


def bootstrap_servers(config: BrokerConfig) -> tuple[Address, ...]:
    """Return the addresses from which the quorum is discovered. Raises ConfigError."""
    texts = config.controller_quorum_bootstrap_servers
    found = []
    for text in texts:
        parsed = _parsed(text.strip())
        if parsed is None:
            raise _malformed(_BOOTSTRAP, texts, text, "HOST:PORT")
        found.append(parsed)
    return tuple(found)


def _parsed(text: str) -> Address | None:
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > _LARGEST_PORT:
        return None
    return Address(match["host"].strip("[]"), int(match["port"]))


def _malformed(option: str, texts: tuple[str, ...], text: str, form: str) -> ConfigError:
    return ConfigError(option, ",".join(texts), f"{text.strip()} is not {form}")
