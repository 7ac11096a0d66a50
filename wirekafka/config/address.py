"""Hosts with ports, in which an IPv6 address is bracketed when it is written."""

from __future__ import annotations

import re
from ipaddress import IPv6Address
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


def java_text(address: str, scope: int = 0) -> str:
    """Write an IP address as Java does: IPv6 in eight groups of digits, such as 0:0:0:0:0:0:0:1.

    Kafka compares hosts of ACLs with this text. `scope` is the number of the interface of a
    link-local address, else 0. Raises ValueError for text with colons that is no address.
    """
    if ":" not in address:
        return address
    known = IPv6Address(address.partition("%")[0])
    if known.ipv4_mapped is not None:
        return str(known.ipv4_mapped)
    text = ":".join(f"{int(group, 16):x}" for group in known.exploded.split(":"))
    return f"{text}%{scope}" if scope else text
