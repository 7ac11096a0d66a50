"""Sends raw requests to a broker, and makes its responses comparable with another's."""

from __future__ import annotations

import re
from typing import Any

from tests.raw_client import RawClient, response_class
from wirekafka.codec.frame import decode_response, encode_request
from wirekafka.codec.message import Request

CLOSED = "the connection was closed"
SILENT = "no answer"

VARYING = frozenset(
    {
        "throttle_time_ms",
        "finalized_features_epoch",
        "producer_id",
        "last_timestamp",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
        "log_append_time_ms",
        "replica_directory_id",
        "log_dir",
        "total_bytes",
        "usable_bytes",
        "partition_size",
    }
)
"""Fields that differ between two runs of the same broker."""


class Wire:
    """A connection that is reopened after the broker closed it."""

    def __init__(self, address: tuple[str, int], timeout_s: float = 20, client_id: str = "wire"):
        self._address = address
        self._timeout_s = timeout_s
        self._client_id = client_id
        self._client: RawClient | None = None
        self._correlation_id = 0

    @classmethod
    def to(cls, bootstrap: str) -> Wire:
        """A connection to HOST:PORT."""
        host, _, port = bootstrap.rpartition(":")
        return cls((host, int(port)))

    @property
    def is_open(self) -> bool:
        return self._client is not None

    def ask(self, request: Request, version: int, timeout_s: float | None = None) -> Any:
        """The response message, or CLOSED, or SILENT."""
        self._correlation_id += 1
        frame = encode_request(self._correlation_id, self._client_id, request, version)
        payload = self.exchange(frame, timeout_s)
        if isinstance(payload, str):
            return payload
        answered, message = decode_response(response_class(type(request)), version, payload)
        assert answered == self._correlation_id
        return message

    def exchange(self, frame: bytes, timeout_s: float | None = None) -> bytes | str:
        """A response frame without its size, or CLOSED, or SILENT."""
        if self._client is None:
            host, port = self._address
            self._client = RawClient(port, host, self._timeout_s)
        self._client.socket.settimeout(timeout_s or self._timeout_s)
        try:
            self._client.socket.sendall(frame)
            return self._client.receive_frame()
        except TimeoutError:
            self.close()
            return SILENT
        except (OSError, RawClient.Closed):
            self.close()
            return CLOSED

    def close(self) -> None:
        if self._client is not None:
            self._client.socket.close()
        self._client = None


def comparable(answer: Any, names: dict[Any, str]) -> Any:
    """A response as plain data: `names` replaced, varying fields removed, lists sorted."""
    if isinstance(answer, list | tuple):
        return sorted((comparable(each, names) for each in answer), key=repr)
    if isinstance(answer, memoryview | bytearray):
        answer = bytes(answer)
    if isinstance(answer, str):
        answer = re.sub(r"-?\b[0-9]{13,}\b", "NOW", answer)
        for value, name in names.items():
            if isinstance(value, str) and value:
                answer = answer.replace(value, name)
        return answer
    if not hasattr(answer, "fields"):
        return names.get(answer, answer) if isinstance(answer, bytes | int) else answer
    return {
        field.name: _comparable_field(field.name, getattr(answer, field.name), names)
        for field in answer.fields
        if field.name not in VARYING
    }


def _comparable_field(name: str, value: Any, names: dict[Any, str]) -> Any:
    if name == "topic_id" and value not in names and any(value):
        return "an id"
    return comparable(value, names)
