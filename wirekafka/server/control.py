"""What only the broker's own machine may ask: a socket in the first log directory.

Kafka's protocol has no request for it, and a broker that answered one of its own would be told
from Kafka. Whoever can open the socket, its owner, may read the logs beside it as well.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wirekafka.errors import KafkaError

if TYPE_CHECKING:
    from wirekafka.broker import Broker
    from wirekafka.replication.fetch_sessions import Key
    from wirekafka.replication.partition import Partition

logger = logging.getLogger(__name__)

SOCKET = "control.sock"
"""Its name in the log directory, which Kafka ignores there: it is no directory."""


class Control:
    """Whoever connects is sent one JSON document: `{"clients": [...]}`."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self._path = os.path.join(broker.directories[0].path, SOCKET)
        self._server: asyncio.AbstractServer | None = None

    async def start(self) -> None:
        """Listen, where the system has such sockets and takes a path of that length."""
        with suppress(FileNotFoundError):
            os.unlink(self._path)  # Of a run that was killed: the directory is locked by us.
        try:
            self._server = await asyncio.start_unix_server(self._answer, self._path)
            os.chmod(self._path, 0o600)
        except (OSError, NotImplementedError) as error:
            logger.info("`wirekafka clients` is not served, no %s: %s", self._path, error)

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            with suppress(FileNotFoundError):
                os.unlink(self._path)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(json.dumps({"clients": self._clients()}).encode())
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    def _clients(self) -> list[dict[str, Any]]:
        now_ms = self._broker.clock.now_ms()
        return [
            {"client": each.client_id, "host": each.host, "topic": each.topic,
             "partition": each.partition, "last_fetched": each.last_offset,
             "end": each.end_offset, "lag": each.lag,
             "idle_s": max(now_ms - each.at_ms, 0) // 1000}
            for each in self._broker.readers.fetched(self._partition)
        ]

    def _partition(self, key: Key) -> Partition | None:
        topic, index = key
        try:
            if isinstance(topic, bytes):
                return self._broker.partition_by_id(topic, index)
            return self._broker.partitions.get((topic, index))
        except KafkaError:
            return None
