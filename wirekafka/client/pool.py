"""Clients of one user, each lent to one request at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from wirekafka.client.client import Client
from wirekafka.config.client_config import ClientConfig

_MOST_IDLE = 4


class ClientPool:
    """Opens a client for each request that is served at the same time, and keeps a few open."""

    def __init__(self, bootstrap: str, config: ClientConfig | None, client_id: str) -> None:
        self._bootstrap, self._config, self._client_id = bootstrap, config, client_id
        self._idle: list[Client] = []
        self._lock = threading.Lock()
        self._is_closed = False

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client for the caller alone; it is not used again after an exception."""
        client = self._take()
        try:
            yield client
        except BaseException:
            client.close()
            raise
        with self._lock:
            if not self._is_closed and len(self._idle) < _MOST_IDLE:
                self._idle.append(client)
                return
        client.close()

    def close(self) -> None:
        """Close the idle clients, and clients in use once they are returned."""
        with self._lock:
            self._is_closed = True
            idle = self._idle
            self._idle = []
        for client in idle:
            client.close()

    def _take(self) -> Client:
        with self._lock:
            client = self._idle.pop() if self._idle else None
        if client is None:
            return Client(self._bootstrap, self._config, client_id=self._client_id)
        client.drop_unusable()
        return client
