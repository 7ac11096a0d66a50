"""The registry of this package over HTTP, with its records in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from tests.eventually import eventually
from wirekafka.registry.app import create
from wirekafka.registry.faults import RegistryFaults
from wirekafka.registry.writer import MemoryWriter

KEY = "key-of-the-test"


@dataclass(frozen=True)
class Served:
    """A registry that is served, and its faults."""

    url: str
    faults: RegistryFaults


@contextmanager
def served_registry() -> Iterator[Served]:
    """A registry without schemas."""
    faults = RegistryFaults(KEY)
    config = uvicorn.Config(
        faults.around(create(MemoryWriter())), port=0, lifespan="off", log_level="warning"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Served(f"http://127.0.0.1:{port}", faults)
    finally:
        server.should_exit = True
        thread.join()
