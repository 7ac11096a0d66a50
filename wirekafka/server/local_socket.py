"""Unix sockets in the first log directory, for commands that ask a node on the same machine.

These are `wirekafka clients`, `groups lag`, `mirror status` and `snapshot`.

Kafka's protocol has no request for what they report, and an extra API would let clients
distinguish this broker from Apache Kafka. Only the owner of the log directory can open them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from socket import AF_UNIX, socket
from typing import TYPE_CHECKING, Any

from wirekafka.errors import KafkaError
from wirekafka.replication.reader_names import reader_name
from wirekafka.snapshot.socket_name import SNAPSHOT_SOCKET

if TYPE_CHECKING:
    from wirekafka.broker import Broker
    from wirekafka.replication.fetching.fetch_session import Key
    from wirekafka.replication.partition.partition import Partition
    from wirekafka.server.monitoring.lag import LagTracker

logger = logging.getLogger(__name__)

SOCKET = "control.sock"
"""The socket's file name in the log directory, where Kafka ignores all but directories."""


class LocalSocket:
    """Sends one JSON document to each connection: lists of `clients` and `quotas`.

    With a tracker, it has the `lag` of groups and readers too, and their `history`; with `more`,
    the lists that this returns. Beside it is the socket for snapshots.
    """

    def __init__(
        self,
        broker: Broker,
        lag: LagTracker | None = None,
        more: Callable[[], dict[str, Any]] | None = None,
    ):
        self._more = more
        self._broker = broker
        self._lag = lag
        self._path = os.path.join(broker.directories[0].path, SOCKET)
        self._snapshot_path = os.path.join(broker.directories[0].path, SNAPSHOT_SOCKET)
        self._servers: dict[str, asyncio.AbstractServer] = {}

    async def start(self) -> None:
        """Listen; if impossible, as at a path that is too long, log the reason."""
        try:
            bound = _bind(self._path)
            for_snapshots = _bind(self._snapshot_path)
        except OSError as error:
            logger.info(
                "`wirekafka clients` and `snapshot` are not available, cannot listen at %s: %s",
                self._path,
                error,
            )
            return
        start = asyncio.start_unix_server
        self._servers[self._path] = await start(self._answer, sock=bound)
        self._servers[self._snapshot_path] = await start(self._snapshot, sock=for_snapshots)

    def stop(self) -> None:
        for path, server in self._servers.items():
            server.close()
            with suppress(FileNotFoundError):
                os.unlink(path)

    async def _snapshot(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Imported only now: it costs memory and time.
        from wirekafka.server.snapshots.holding import report

        try:
            await report(self._broker, reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            report = {"clients": self._clients(), "quotas": self._quotas()}
            if self._lag is not None:
                report |= {"lag": _lag(self._lag), "history": _history(self._lag)}
                report["members"] = [{"name": name} for name in _members(self._lag)]
            if self._more is not None:
                report |= self._more()
            writer.write(json.dumps(report).encode())
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    def _clients(self) -> list[dict[str, Any]]:
        now_ms = self._broker.clock.now_ms()
        return [
            {
                "client": each.name,
                "host": each.host,
                "topic": each.topic,
                "partition": each.partition,
                "last_fetched": each.last_offset,
                "end": each.end_offset,
                "lag": each.lag,
                "idle_s": max(now_ms - each.at_ms, 0) // 1000,
                "is_query": each.is_query,
            }
            for each in self._broker.readers.fetched(self._partition, now_ms)
        ]

    def _quotas(self) -> list[dict[str, Any]]:
        quotas = self._broker.quotas
        now_ms = self._broker.clock.now_ms()
        return [
            {
                "client": each.client_id,
                "user": each.user,
                "quota": each.quota,
                "limit": each.limit,
                "rate": round(each.per_second, 3),
                "throttled_s": each.throttled_ms / 1000,
            }
            for each in (quotas.usage(now_ms) if quotas is not None else ())
        ]

    def _partition(self, key: Key) -> Partition | None:
        topic, index = key
        try:
            if isinstance(topic, bytes):
                return self._broker.partition_by_id(topic, index)
            return self._broker.partitions.get((topic, index))
        except KafkaError:
            return None


def _lag(tracker: LagTracker) -> list[dict[str, Any]]:
    return [
        {
            "kind": row.kind,
            "name": row.name,
            "topic": row.topic,
            "partition": row.partition,
            "position": row.behind.position,
            "end": row.behind.end_offset,
            "lag": row.behind.lag,
            "behind_s": None if row.behind.behind_ms is None else row.behind.behind_ms / 1000,
            "idle_s": row.idle_ms // 1000,
        }
        for row in tracker.rows()
        if row is not None
    ]


def _members(tracker: LagTracker) -> list[str]:
    """The names under which members of groups would be readers, here or at another broker."""
    return sorted({reader_name(client_id) for client_id, _ in tracker.member_clients()})


def _history(tracker: LagTracker) -> list[dict[str, Any]]:
    return [
        {
            "kind": kind,
            "name": name,
            "at_ms": sample.at_ms,
            "lag": sample.lag,
            "behind_s": None if sample.behind_ms < 0 else sample.behind_ms / 1000,
        }
        for (kind, name), history in tracker.histories.items()
        for sample in history.samples()
    ]


def _bind(path: str) -> socket:
    """A socket that does not listen yet: its mode is set before anybody can connect.

    Raises OSError.
    """
    with suppress(FileNotFoundError):
        os.unlink(path)  # Left by a killed broker: this one holds the directory's lock.
    bound = socket(AF_UNIX)
    try:
        bound.bind(path)
        os.chmod(path, 0o600)
    except BaseException:
        bound.close()
        raise
    return bound
