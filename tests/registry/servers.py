"""Registries with an HTTP server in this process, and requests to them."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from typing import Any, NamedTuple

from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.registry.instance.service import RegistrySettings, registry_server, url_of

TYPE = "application/vnd.schemaregistry.v1+json"


class Answer(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]


def ask(
    url: str,
    method: str,
    path: str,
    body: Any = None,
    *,
    login: tuple[str, str] | None = None,
    **headers: str,
) -> Answer:
    """Send a request; the answer's body is decoded."""
    data = None if body is None else json.dumps(body).encode()
    named = {"Content-Type": TYPE, **{k.replace("_", "-"): v for k, v in headers.items()}}
    if login is not None:
        named["Authorization"] = "Basic " + base64.b64encode(":".join(login).encode()).decode()
    request = urllib.request.Request(url + path, data, named, method=method)
    try:
        with urllib.request.urlopen(request, timeout=40) as response:
            return Answer(response.status, json.load(response), _lower(response.headers))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, json.load(error), _lower(error.headers))


@contextmanager
def registry(bootstrap: str, config: ClientConfig | None = None, **more: Any) -> Iterator[str]:
    """A registry that serves; its URL."""
    settings = RegistrySettings(
        bootstrap=bootstrap,
        address=Address("127.0.0.1", 0),
        config=config,
        session_timeout_ms=6_000,
        **more,
    )
    server = registry_server(settings)
    server.start()
    try:
        server.wait_until_open()
        yield url_of(server, settings)
    finally:
        server.stop()


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
