"""The `Host` headers that an HTTP server answers, so that web pages cannot reach it.

A page of another site can have its site's name resolved to this machine (DNS rebinding): the
browser then sends requests with that name. Requests to an address cannot be abused so.
"""

from __future__ import annotations

from collections.abc import Container
from ipaddress import ip_address

_LOOPBACK = "localhost"


def is_served(header: str | None, names: Container[str]) -> bool:
    """Whether a `Host` header is an address, a name of the loopback or one of `names`.

    So is a request without one: every browser sends it. `names` are in lower case.
    """
    if header is None:
        return True
    host = _without_port(header.strip()).lower().removesuffix(".")
    if host in names or host == _LOOPBACK or host.endswith(f".{_LOOPBACK}"):
        return True
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _without_port(header: str) -> str:
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0] if ":" in header else header
