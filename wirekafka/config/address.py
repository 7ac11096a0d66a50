"""Hosts with ports, in which an IPv6 address is bracketed when it is written."""

from __future__ import annotations

import re
from typing import NamedTuple

HOST = r"\[[0-9a-zA-Z:.%_-]+\]|[^/@\[\]\s]+"
"""The pattern of a host: a bracketed IPv6 address, any other address, or a name."""

_ADDRESS = re.compile(rf"(?P<host>{HOST}):(?P<port>[0-9]{{1,5}})")
LARGEST_PORT = 65535

ANYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 (compared, not bound)
"""The hosts that stand for every address of a machine."""


class Address(NamedTuple):
    """The host and port of a node; written as HOST:PORT, with an IPv6 address in brackets."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read HOST:PORT, where HOST may be a bracketed IPv6 address. Raises ValueError."""
        match = _ADDRESS.fullmatch(text.strip())
        if match is None or int(match["port"]) > LARGEST_PORT:
            raise ValueError(f"{text.strip()} is not HOST:PORT")
        return cls(match["host"].strip("[]"), int(match["port"]))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
